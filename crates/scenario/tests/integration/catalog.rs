//! The catalogue is whole, and everything in it can run.

use std::path::{Path, PathBuf};

use narrows_scenario::{Campaign, Cell, EcnMode, FileKind, Loaded, catalog};

fn campaign(name: &str) -> Campaign {
    let entry = catalog::entry(name).expect("an entry");
    let (file, shelf) = (entry.file(), entry.shelf());
    match Campaign::read(&file, entry.text.as_bytes(), &shelf, &[]) {
        Ok(campaign) => campaign,
        Err(refusal) => panic!("{}", refusal.to_line()),
    }
}

fn cell<'a>(campaign: &'a Campaign, name: &str) -> &'a Cell {
    let cell = campaign.cells.iter().find(|c| c.name == name);
    cell.unwrap_or_else(|| panic!("no cell {name}"))
}

fn words(cell: &Cell) -> Vec<String> {
    let elements = cell.plan.elements();
    elements
        .map(|e| format!("{}: {}", e.name, e.spec))
        .collect()
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn the_binary_holds_every_file_of_the_catalogue() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
    let mut files = Vec::new();
    files_below(&root, &mut files);
    let mut names: Vec<String> = files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "toml"))
        .map(|f| {
            let below = f.strip_prefix(&root).expect("below the catalogue");
            below.with_extension("").display().to_string()
        })
        .collect();
    names.sort();
    let embedded: Vec<&str> = catalog::entries().map(|e| e.name).collect();
    assert_eq!(embedded, names);
}

#[test]
fn every_entry_can_run_and_says_what_it_is_and_where_it_is_from() {
    for entry in catalog::entries() {
        let what = ["# What:", "# Topology:", "# Expected:", "# Source:"];
        for part in what {
            assert!(entry.text.contains(part), "{}: {part}", entry.name);
        }
        let loaded = Loaded::from(entry);
        let heading = loaded.heading().expect("a heading");
        let (name, title, source, parts) = match heading.kind {
            FileKind::Campaign => {
                let all = campaign(entry.name);
                (all.name, all.title, all.source, all.cells.len())
            }
            FileKind::Collection => {
                let all = loaded.collection().expect("a collection");
                (all.name, all.title, all.source, all.campaigns.len())
            }
            FileKind::Scenario => match loaded.draft().and_then(|d| d.check()) {
                Ok(plan) => (plan.name, plan.title, plan.source, 1),
                Err(refusal) => panic!("{}", refusal.to_line()),
            },
        };
        assert_eq!(name, entry.name);
        assert!(title.is_some(), "{name}");
        // The heading is the same, though it is read without checking a cell.
        let listed = (heading.title, heading.source, heading.parts);
        assert_eq!(listed, (title, source, parts), "{name}");
    }
}

#[test]
fn the_risk_is_of_all_campaigns_of_the_l4s_tests_each_with_its_findings() {
    let entry = catalog::entry("l4s-tests/risk").expect("an entry");
    let loaded = Loaded::from(entry);
    let mut named = loaded.collection().expect("a collection").campaigns;
    for name in &named {
        let campaign = loaded.beside(name).and_then(|file| file.campaign(&[]));
        let campaign = campaign.unwrap_or_else(|refusal| panic!("{}", refusal.to_line()));
        assert!(!campaign.key_findings.is_empty(), "{name}");
    }
    let all = catalog::entries().map(|e| e.name);
    let all = all.filter(|name| name.starts_with("l4s-tests/") && *name != entry.name);
    named.sort();
    assert_eq!(named, all.collect::<Vec<_>>());
}

#[test]
fn s1_has_its_192_cells_and_96_published_ones() {
    let s1 = campaign("l4s-tests/s1");
    assert_eq!(s1.cells.len(), 192);
    let published = |c: &&Cell| c.published.iter().any(Option::is_some);
    assert_eq!(s1.cells.iter().filter(published).count(), 96);
    let named: Vec<&str> = s1.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(named, ["rate1_mbit", "rate2_mbit", "share1_pct", "jain"]);

    let cell = cell(&s1, "50Mbit/160-10/dualpi2/prague-cubic");
    assert_eq!(cell.at, ["50Mbit", "160-10", "dualpi2", "prague-cubic"]);
    // The table: prague at 160 ms 10.13, cubic at 10 ms 37.28, Jain 0.753.
    assert_eq!(cell.published[0], Some(10.13));
    assert_eq!(cell.published[1], Some(37.28));
    let share = cell.published[2].expect("worked out");
    assert!((share - 100.0 * 10.13 / 47.41).abs() < 1e-9);
    assert_eq!(cell.published[3], Some(0.753));

    let plan = &cell.plan;
    assert_eq!(plan.duration.as_nanos(), 180_000_000_000);
    assert_eq!(plan.measure.to_string(), "118s..178s");
    let [first, second] = plan.flows.as_slice() else {
        panic!("two flows");
    };
    assert_eq!(first.transport.control_words(), "prague variant 2020");
    assert_eq!(second.transport.control_words(), "cubic");
    assert!(
        plan.flows
            .iter()
            .all(|f| f.transport.ecn() == EcnMode::AccEcn)
    );
    assert!(plan.flows.iter().all(|f| f.start.as_nanos() == 0));
    assert_eq!((first.dscp, second.dscp), (19, 35));
    let delay = "by dscp 19 (netem delay 80ms limit 1000000) 35 (netem delay 5ms limit 1000000)";
    let bottleneck = "rate 50Mbit shaper queue dualpi2 variant linux-2020";
    assert_eq!(
        words(cell),
        [
            format!("link/access/up/delay: {delay}"),
            format!("link/access/up/bottleneck: {bottleneck}"),
            format!("link/access/down/delay: {delay}"),
            format!("link/access/down/bottleneck: {bottleneck}"),
        ]
    );
}

#[test]
fn s1_depends_on_the_rate_where_it_should() {
    let s1 = campaign("l4s-tests/s1");
    let slow = words(cell(&s1, "10Mbit/20-20/pfifo/cubic-cubic")).join("\n");
    let fast = words(cell(&s1, "50Mbit/20-20/pfifo/cubic-cubic")).join("\n");
    assert!(
        slow.contains("rate 10Mbit shaper queue pfifo limit 200"),
        "{slow}"
    );
    assert!(fast.contains("rate 50Mbit shaper queue pfifo"), "{fast}");
    assert!(!fast.contains("limit 200"), "{fast}");
}

#[test]
fn s1_is_picked_as_its_cells_are_called() {
    let pick = |pattern: &str| {
        let mut s1 = campaign("l4s-tests/s1");
        s1.only(&[pattern.to_owned()]).map(|()| s1.cells.len())
    };
    assert_eq!(pick("50Mbit/*").ok(), Some(96));
    assert_eq!(pick("50Mbit/*/pfifo/*").ok(), Some(24));
    assert_eq!(pick("*/{20-20,10-10}/dualpi2/*").ok(), Some(16));
    assert!(pick("100Mbit/*").is_err());
}

#[test]
fn s1_asks_for_what_its_bands_say() {
    let s1 = campaign("l4s-tests/s1");
    let asked: Vec<String> = s1
        .tolerances
        .iter()
        .map(|t| format!("{}: {} {:?}", t.name, t.bands_in_words(), t.at_least))
        .collect();
    assert_eq!(
        asked,
        [
            "dualpi2 at 50 Mbit/s: ±5 and odds 1.6× (21, 24)",
            "fq_codel at 50 Mbit/s: ±3 (22, 24)",
            "cnq_codel_af at 50 Mbit/s: ±5 (21, 24)",
            "pfifo at 50 Mbit/s: ±15 (19, 24)",
        ]
    );
}

#[test]
fn equal_shares_everywhere_fail_s1() {
    // The null model: an answer of 50 % does not depend on the queues.
    let s1 = campaign("l4s-tests/s1");
    let share = s1.metric("share1_pct").expect("a metric");
    let fails = |name: &str| {
        let tolerance = s1.tolerances.iter().find(|t| t.name.starts_with(name));
        let cells = s1
            .cells
            .iter()
            .map(|c| (c.name.as_str(), c.published[share], Some(50.0)));
        !tolerance.expect("a tolerance").judge(cells).holds()
    };
    assert!(fails("dualpi2"));
    assert!(fails("pfifo"));
    assert!(fails("cnq_codel_af"));
}

#[test]
fn s6_has_its_24_cells_and_16_published_ratios() {
    let s6 = campaign("l4s-tests/s6");
    assert_eq!(s6.cells.len(), 24);
    let ratio = s6.metric("ratio").expect("a metric");
    let published = s6.cells.iter().filter(|c| c.published[ratio].is_some());
    assert_eq!(published.count(), 16);
    let noecn = cell(&s6, "fq_codel(1q)/prague-cubic-noecn");
    assert_eq!(noecn.published[ratio], Some(25.0));
    assert_eq!(noecn.plan.flows[1].dscp, 35);
    assert_eq!(cell(&s6, "pie/prague-reno-ecn").plan.flows[1].dscp, 0);
    assert_eq!(noecn.plan.measure.to_string(), "18s..58s");
    assert_eq!(
        words(noecn),
        [
            "link/access/up/delay: netem delay 10ms limit 1000000",
            "link/access/up/bleach: remark if dscp 35 ecn not-ect",
            "link/access/up/bottleneck: rate 50Mbit shaper queue fq_codel flows 1",
            "link/access/down/delay: netem delay 10ms limit 1000000",
            "link/access/down/bottleneck: rate 50Mbit shaper queue fq_codel flows 1",
        ]
    );
    let needs: Vec<_> = s6.tolerances.iter().map(|t| t.at_least).collect();
    assert_eq!(needs, [(14, 16), (16, 16)]);
}

#[test]
fn a_word_of_a_cell_may_be_a_list() {
    let base = campaign("efm/base");
    let expected = |name| cell(&base, name).plan.expected.clone();
    assert_eq!(expected("default/from-5s"), ["idle-bottleneck"]);
    assert!(expected("default/whole").is_empty());
}

#[test]
fn tunnels_are_around_the_bottleneck_of_s5_and_the_queue_that_overtakes() {
    let s5 = campaign("l4s-tests/s5");
    assert_eq!(s5.cells.len(), 6);
    let words = words(cell(&s5, "fou-auto/prague-reno"));
    assert_eq!(
        words[..5],
        [
            "link/access/up/bleach: remark if dscp 35 ecn not-ect",
            "link/access/vpn-near: tunnel fou sport auto mtu 1472",
            "link/access/up/netem: netem delay 10ms limit 1000000",
            "link/access/up/bottleneck: rate 50Mbit shaper queue fq_codel",
            "link/access/vpn-far: tunnel fou sport auto mtu 1472",
        ]
    );
    let replay = campaign("l4s-tests/tunnel-replay");
    let names: Vec<&str> = replay.cells.iter().map(|c| c.name.as_str()).collect();
    // The source's 11, and a power of two that is wide enough at 20 Mbit/s.
    let at = |rate: &str| names.iter().filter(|n| n.starts_with(rate)).count();
    assert_eq!((at("10Mbit"), at("20Mbit"), at("100Mbit")), (3, 4, 5));
}
