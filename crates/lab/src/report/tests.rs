//! What holds for every page.

use super::*;
use crate::results::RunResult;

/// A page without the parts that only scripts and eyes read.
fn structure(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    let cuts = [
        ("<style>", "</style>"),
        ("<script", "</script>"),
        ("<svg viewBox", "</svg>"),
    ];
    loop {
        let next = cuts
            .iter()
            .filter_map(|(from, to)| rest.find(from).map(|at| (at, *to)))
            .min();
        let Some((at, to)) = next else { break };
        text += &rest[..at];
        text += "[…]";
        let after = &rest[at..];
        rest = after.find(to).map_or("", |end| &after[end + to.len()..]);
    }
    text += rest;
    // The version is not structure.
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    text.replace('>', ">\n")
}

fn shared() -> RunPage {
    cell_page("l4s-tests/s1", &[], "a/b", "cells/a/b")
}

/// A run whose every name is an attempt to leave its place.
fn hostile() -> RunResult {
    let nasty = "</script><script>alert(1)</script>\"'&<b>";
    let mut run = samples::run();
    run.summary.name = nasty.into();
    run.summary.title = Some(nasty.into());
    run.record.scenario = serde_json::json!({ "name": nasty });
    let entity = format!("flow/{nasty}");
    for track in &mut run.series.tracks {
        if track.entity == "flow/prague" {
            track.entity.clone_from(&entity);
        }
    }
    run.summary.flows[0].name = entity;
    run.summary.queues[0].words = nasty.into();
    run.summary.topology.hosts[0].name = nasty.into();
    run.summary.topology.links[0].ends.0 = nasty.into();
    run.summary.topology.links[0].up[0].words = nasty.into();
    run.record.verdict.findings[0].line = nasty.into();
    run
}

#[test]
fn the_structure_of_a_run_page() {
    insta::assert_snapshot!(structure(&run_html(&samples::run(), &shared())));
}

#[test]
fn the_structure_of_a_campaign_page() {
    let mut folder = samples::campaign();
    // One rate and one pair of RTTs: the rest repeats itself.
    folder
        .result
        .cells
        .retain(|cell| cell.name.starts_with("50Mbit/10-10"));
    let library = Library::Shared(script::SHARED.into());
    insta::assert_snapshot!(structure(&campaign_html(&folder, &library)));
}

#[test]
fn names_cannot_leave_their_place() {
    let page = run_html(&hostile(), &shared());
    let harmless = run_html(&samples::run(), &shared());
    let tags = |page: &str, tag: &str| page.matches(tag).count();
    for tag in ["<script", "</script", "<b>"] {
        assert_eq!(tags(&page, tag), tags(&harmless, tag), "{tag}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
    // Inside the data of charts, too, where plotly.js would read tags.
    assert!(page.contains("\"name\":\"&lt;/script&gt;"));
}

#[test]
fn a_page_asks_nothing_of_the_network() {
    let campaign = campaign_html(
        &samples::campaign(),
        &Library::Shared(script::SHARED.into()),
    );
    let alone = run_html(&samples::run(), &RunPage::default());
    for page in [alone, run_html(&samples::run(), &shared()), campaign] {
        for scheme in [
            "http://",
            "https://",
            "src=\"//",
            "href=\"//",
            "url(",
            "@import",
        ] {
            assert!(!page.contains(scheme), "{scheme}");
        }
        for (before, _) in page.match_indices("src=\"") {
            assert!(
                page[before..].starts_with("src=\"../../../assets/")
                    || page[before..].starts_with("src=\"assets/")
            );
        }
    }
}

#[test]
fn pages_are_small() {
    // A page that stands alone holds the script, 1.9 MB packed.
    let alone = run_html(&samples::run(), &RunPage::default());
    assert!(alone.len() < 2_500_000, "{}", alone.len());
    let cell = run_html(&samples::run(), &shared());
    assert!(cell.len() < 350_000, "{}", cell.len());
    // A tenfold length of the run adds no more than what thinning leaves.
    let mut long = samples::run();
    for track in &mut long.series.tracks {
        let values = track.value.repeat(10);
        track.t_s = (1..=values.len()).map(|i| i as f64 * 0.05).collect();
        track.value = values;
    }
    long.summary.duration_s = 1800.0;
    assert!(run_html(&long, &shared()).len() < 700_000);
}

#[test]
fn the_same_data_give_the_same_page() {
    let page = |about: &RunPage| run_html(&samples::run(), about);
    assert!(page(&RunPage::default()) == page(&RunPage::default()));
}

#[test]
fn every_figure_speaks_and_every_table_scrolls() {
    let page = run_html(&samples::run(), &shared());
    let figures = page.matches("<figure class=\"chart").count();
    assert!(figures >= 6);
    assert_eq!(
        page.matches("class=\"plot\" role=\"img\" aria-label=\"")
            .count(),
        figures
    );
    assert_eq!(
        page.matches("<table").count(),
        page.matches("class=\"scroll\"").count()
    );
    for chart in crate::plot::figures::of_run(&samples::run()) {
        assert!(page.contains(&chart.title), "{}", chart.title);
        for axis in [&chart.x, &chart.y] {
            assert!(page.contains(&axis.label()), "{}", axis.label());
        }
    }
}

#[test]
fn a_doubted_or_unfinished_run_says_so_first() {
    let mut run = samples::run();
    run.record.verdict.findings[0].weight = crate::verdict::Weight::Distrust;
    run.record.complete = false;
    let page = run_html(&run, &shared());
    let no = page.find("trust: no, because").unwrap();
    let unfinished = page.find("incomplete").unwrap();
    let first_table = page.find("<table").unwrap();
    assert!(no < first_table && unfinished < first_table);
    assert!(!page.contains("trust: yes"));
}

#[test]
fn a_run_that_got_nowhere_still_has_a_page() {
    let page = run_html(&RunResult::default(), &RunPage::default());
    assert!(page.contains("incomplete"));
    assert!(!page.contains("<figure"));
    // Nothing to draw: no script to carry.
    assert!(page.len() < 40_000, "{}", page.len());
}

#[test]
fn a_campaign_leads_to_each_of_its_cells_and_shares_one_script() {
    let dir = tempfile::tempdir().unwrap();
    let folder = samples::campaign();
    let path = write_campaign(dir.path(), &folder).unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    for cell in &folder.result.cells {
        let link = format!("href=\"{}/report.html\"", cell.folder);
        assert!(page.contains(&link), "{link}");
    }
    let cell = &folder.result.cells[0];
    let about = cell_page(&folder.result.name, &[], &cell.name, &cell.folder);
    let at = dir.path().join(&cell.folder);
    write_run(&at, &samples::run(), &about).unwrap();
    let Library::Shared(script) = &about.library else {
        panic!("cells share the script");
    };
    assert!(at.join(script).exists());
    let (_, back) = about.within.unwrap();
    assert!(at.join(back).exists());
}

#[test]
fn a_live_run_tells_of_its_rig_and_a_simulated_one_of_its_digest() {
    let mut run = samples::run();
    let simulated = run_html(&run, &shared());
    assert!(!simulated.contains("The rig") && simulated.contains("byte for byte"));
    run.summary.engine = "live".to_owned();
    run.record.rig = Some(crate::rig::Rig {
        kernel: "6.18.44".to_owned(),
        lateness: crate::rig::Lateness {
            count: 12_345,
            p99_us: 23.4,
            ..Default::default()
        },
        flows: vec![crate::rig::RigFlow {
            name: "flow/prague".to_owned(),
            congestion_control: "nw_prague".to_owned(),
            accecn: true,
            received_ce: Some(77),
            delivered_ce: Some(77),
            notes: vec!["the socket was slow".to_owned()],
            ..Default::default()
        }],
        ..Default::default()
    });
    let live = run_html(&run, &shared());
    for told in [
        "The rig",
        "23.4 µs",
        "nw_prague",
        "AccECN, 77 marks received and 77 fed back",
        "flow/prague: the socket was slow",
    ] {
        assert!(live.contains(told), "{told}");
    }
    assert!(!live.contains("byte for byte"));
}
