//! Two engines held against each other.

use crate::support;

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{ModelEngine, by_seed, equal_shares, plan, unwatched};
use narrows::report::pages;
use narrows::report::table::comparison_table;
use narrows::results::comparison::{Comparison, FILE};
use narrows::results::open_run;
use narrows::results::{Ended, RunHandle};
use narrows::{CompareOptions, Engine, Output, compare};
use narrows_core::EventSink;
use narrows_engine::{EngineError, Lateness, Rig};
use narrows_scenario::{Campaign, FlowPlan, HostModel, Plan, Segmentation, Transport, load};

/// A model as the live engine, of which some runs have a rig that was late.
struct Rigged {
    model: ModelEngine,
    /// Runs so far.
    runs: AtomicU32,
    /// Which of them were late.
    late: fn(u32) -> bool,
}

impl Rigged {
    fn new(model: ModelEngine, late: fn(u32) -> bool) -> Self {
        Self {
            model,
            runs: AtomicU32::new(0),
            late,
        }
    }
}

impl Engine for Rigged {
    fn name(&self) -> &'static str {
        "live"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        self.model.names(plan)
    }

    fn alone(&self) -> bool {
        true
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let ended = self.model.run(plan, seed, sink, handle)?;
        let late = (self.late)(self.runs.fetch_add(1, Ordering::Relaxed));
        let rig = Rig {
            lateness: Lateness {
                count: 1_000,
                p99_us: if late { 500.0 } else { 5.0 },
                ..Lateness::default()
            },
            ..Rig::default()
        };
        Ok(Ended {
            rig: Some(rig),
            ..ended
        })
    }
}

/// An engine whose hosts send in bursts, whatever the plan says.
struct Bursty(Rigged);

impl Engine for Bursty {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        self.0.names(plan)
    }

    fn hosts_as_here(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        for flow in &mut plan.flows {
            if let Transport::Tcp(tcp) = &mut flow.transport {
                tcp.host.segmentation = HostModel::TSO;
            }
        }
        plan
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        self.0.run(plan, seed, sink, handle)
    }
}

/// Flows that are simulated in bursts get less.
fn by_bursts(plan: &Plan, _: u64) -> Vec<f64> {
    let rate = |one| if one { 20.0 } else { 15.0 };
    let one_segment = |flow: &FlowPlan| {
        let tcp = flow.transport.tcp();
        tcp.is_some_and(|tcp| tcp.host.segmentation == Segmentation::OneSegment)
    };
    plan.flows.iter().map(|f| rate(one_segment(f))).collect()
}

#[test]
fn the_simulator_gets_the_hosts_of_the_engine_that_it_is_held_against_and_this_is_said() {
    let sim = ModelEngine {
        name: "sim",
        ..ModelEngine::new(by_bursts)
    };
    let campaign = Campaign::of_one(plan());
    let dir = tempfile::tempdir().unwrap();
    let options = CompareOptions {
        repetitions: 1,
        output: Output::Folder(dir.path().join("fitted")),
        ..CompareOptions::default()
    };
    let live = Bursty(Rigged::new(ModelEngine::new(by_bursts), |_| false));
    let compared = |live: &dyn Engine, options: &CompareOptions| {
        let found = unwatched(|watch| compare(&sim, live, &campaign, options, watch));
        found.unwrap().0
    };
    let goodput = |found: &Comparison| {
        let row = found.cells[0].row("goodput_mbit of flow/first").unwrap();
        (row.first.median.unwrap(), row.second.median.unwrap())
    };
    let found = compared(&live, &options);
    let (simulated, own) = goodput(&found);
    // The other side runs what the scenario says, as it always does.
    assert!((simulated - 15.0).abs() < 0.5, "{simulated}");
    assert!((own - 20.0).abs() < 0.5, "{own}");
    let said = "hosts: simulated with segmentation \"tso min_segments 2 gso_max_bytes 65536 defer 1ms\" for \"one\"";
    assert_eq!(found.hosts, [said]);
    assert!(comparison_table(&found).contains(said));
    let page = fs::read_to_string(pages::again(&dir.path().join("fitted")).unwrap().0).unwrap();
    assert!(page.contains("simulated with segmentation"));
    let folder = dir.path().join("fitted").join(&found.cells[0].sim[0]);
    let ran = open_run(&folder).unwrap().record.scenario;
    assert_ne!(ran["flows"][0]["host"]["segmentation"], "one-segment");

    let alike = Rigged::new(ModelEngine::new(by_bursts), |_| false);
    let options = CompareOptions {
        output: Output::Nowhere,
        ..options
    };
    let found = compared(&alike, &options);
    assert!((goodput(&found).0 - 20.0).abs() < 0.5);
    assert_eq!(found.hosts, [""; 0]);
}

fn compared(live: &Rigged, campaign: &Campaign, output: Output) -> Comparison {
    let sim = ModelEngine {
        name: "sim",
        ..ModelEngine::new(by_seed)
    };
    let options = CompareOptions {
        output,
        ..CompareOptions::default()
    };
    unwatched(|watch| compare(&sim, live, campaign, &options, watch))
        .unwrap()
        .0
}

/// The first flow gets what is left.
fn starved(plan: &Plan, seed: u64) -> Vec<f64> {
    let mut rates = by_seed(plan, seed);
    rates[0] = 1.0 + seed as f64 / 10.0;
    rates
}

#[test]
fn an_engine_does_not_differ_from_itself() {
    let live = Rigged::new(ModelEngine::new(by_seed), |_| false);
    let found = compared(&live, &Campaign::of_one(plan()), Output::Nowhere);
    assert!(found.complete && found.passed() && found.verdict().trusted());
    let cell = &found.cells[0];
    assert!(cell.rows.len() > 15, "{:?}", cell.rows);
    for row in &cell.rows {
        assert_eq!(row.difference, Some(0.0), "{}", row.metric);
        assert_eq!(row.same, Some(true), "{}", row.metric);
        assert_eq!((row.first.runs, row.second.runs), (3, 3));
    }
}

#[test]
fn engines_that_share_otherwise_are_told_apart_and_what_is_alike_stays_so() {
    let live = Rigged::new(ModelEngine::new(starved), |_| false);
    let found = compared(&live, &Campaign::of_one(plan()), Output::Nowhere);
    assert!(!found.passed());
    let row = |metric| found.cells[0].row(metric).unwrap();
    for metric in ["goodput_mbit of flow/first", "share1_pct"] {
        assert_eq!(row(metric).verdict(), "differs", "{metric}");
        assert!(row(metric).difference.unwrap() < 0.0);
    }
    assert_eq!(row("goodput_mbit of flow/second").same, Some(true));
}

#[test]
fn a_repetition_on_a_late_rig_is_made_again_and_named() {
    // The second repetition is late twice; the third always.
    let live = Rigged::new(ModelEngine::new(by_seed), |n| n != 0 && n != 3);
    let dir = tempfile::tempdir().unwrap();
    let output = Output::Folder(dir.path().to_path_buf());
    let found = compared(&live, &Campaign::of_one(plan()), output);
    let live: Vec<_> = found.cells[0]
        .live
        .iter()
        .map(|l| {
            let leaf = l.folder.rsplit('/').next().unwrap();
            (leaf, l.trusted(), l.used)
        })
        .collect();
    assert_eq!(
        live,
        [
            ("live-1", true, true),
            ("live-2", false, false),
            ("live-2b", false, false),
            ("live-2c", true, true),
            ("live-3", false, false),
            ("live-3b", false, false),
            ("live-3c", false, true),
        ]
    );
    assert!(!found.verdict().trusted());
    assert_eq!(found.cells[0].rows[0].second.runs, 3);
    let text = comparison_table(&found);
    let head: Vec<&str> = text.lines().take(3).collect();
    assert!(
        head[1].starts_with("sim: simulator, narrows 0."),
        "{}",
        head[1]
    );
    assert!(head[1].ends_with("3 of 3 runs trusted"), "{}", head[1]);
    assert!(head[2].starts_with("live: live on Linux "), "{}", head[2]);
    assert!(head[2].ends_with("2 of 3 runs trusted"), "{}", head[2]);
    assert!(text.contains("live-2b: trust: no, because one packet in a hundred"));
    assert!(text.contains("live-3c") && text.contains("counts all the same"));
    // All of it is on the disk, and every run can be opened.
    let json = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), found);
    for folder in found.cells[0].live.iter().map(|l| &l.folder) {
        let run = open_run(&dir.path().join(folder)).unwrap();
        assert!(run.record.complete && run.record.rig.is_some());
    }
    let csv = std::fs::read_to_string(dir.path().join("compare.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + found.cells[0].rows.len());
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns));
    // The page leads to the page of each of them.
    let (page, _) = pages::again(dir.path()).unwrap();
    assert_eq!(page, dir.path().join(pages::COMPARISON_FILE));
    let page = std::fs::read_to_string(page).unwrap();
    for folder in found.cells[0].folders() {
        let link = format!("{folder}/report.html");
        assert!(page.contains(&format!("href=\"{link}\"")), "{link}");
        assert!(dir.path().join(link).is_file());
    }
    assert!(page.contains("trust: no, in 1 of 6 runs") && page.contains("made again"));
    for side in ["sim", "live"] {
        assert!(page.contains(&format!("{side}: Throughput of each flow at its receiver")));
    }
}

#[test]
fn what_the_simulator_doubts_too_is_not_tried_again() {
    // 20 ms of round trip make a window of 100 ms too short in both engines.
    let mut plan = plan();
    plan.measure.from = plan.measure.to - narrows_units::Duration::from_millis(100);
    let live = Rigged::new(ModelEngine::new(by_seed), |_| false);
    let found = compared(&live, &Campaign::of_one(plan), Output::Nowhere);
    assert_eq!(found.cells[0].live.len(), 3);
    assert!(found.cells[0].live.iter().all(|l| l.used && !l.trusted()));
}

#[test]
fn the_catalogues_comparison_asks_for_shares_and_queues_in_twelve_cells() {
    let campaign = load("compare/s1").and_then(|l| l.campaign(&[])).unwrap();
    assert_eq!(campaign.cells.len(), 12);
    let sim = ModelEngine::new(equal_shares);
    let run = |law: support::Law| {
        let live = Rigged::new(ModelEngine::new(law), |_| false);
        let options = CompareOptions {
            repetitions: 1,
            ..CompareOptions::default()
        };
        let mut campaign = campaign.clone();
        for cell in &mut campaign.cells {
            cell.plan.duration = narrows_units::Duration::from_secs(2);
            cell.plan.measure.from = narrows_units::Instant::from_nanos(1_000_000_000);
            cell.plan.measure.to = narrows_units::Instant::from_nanos(2_000_000_000);
        }
        unwatched(|watch| compare(&sim, &live, &campaign, &options, watch))
            .unwrap()
            .0
    };
    let same = run(equal_shares);
    assert_eq!(same.checks.len(), 3);
    assert!(same.passed());
    // A share of 40 %: too far for an AQM's 8 points, near enough for a FIFO's 15.
    let unequal = run(|_, _| vec![0.40 * 47.7, 0.60 * 47.7]);
    let passed: Vec<bool> = unequal.checks.iter().map(|c| c.passed).collect();
    assert_eq!(passed, [false, true, true]);
    assert_eq!(unequal.checks[0].outside.len(), 8);
}

/// An engine that has no queue of the kind `lacks`.
struct Lacking {
    rigged: Rigged,
    lacks: &'static str,
}

impl Engine for Lacking {
    fn name(&self) -> &'static str {
        "live"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        self.rigged.names(plan)
    }

    fn accepts(&self, plan: &Plan) -> Result<(), EngineError> {
        match plan.name.contains(self.lacks) {
            true => Err(EngineError::Refused(format!(
                "there is no `queue {}`",
                self.lacks
            ))),
            false => Ok(()),
        }
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        self.rigged.run(plan, seed, sink, handle)
    }
}

#[test]
fn cells_that_an_engine_refuses_are_left_out_and_named_unless_all_are() {
    let mut campaign = load("compare/s1").and_then(|l| l.campaign(&[])).unwrap();
    campaign
        .cells
        .retain(|cell| cell.name.starts_with("20-20/"));
    for cell in &mut campaign.cells {
        cell.plan.duration = narrows_units::Duration::from_secs(2);
        cell.plan.measure.from = narrows_units::Instant::from_nanos(1_000_000_000);
        cell.plan.measure.to = narrows_units::Instant::from_nanos(2_000_000_000);
    }
    let sim = ModelEngine::new(equal_shares);
    let options = CompareOptions {
        repetitions: 1,
        jobs: 1,
        ..CompareOptions::default()
    };
    let run = |lacks: &'static str| {
        let rigged = Rigged::new(ModelEngine::new(equal_shares), |_| false);
        let live = Lacking { rigged, lacks };
        unwatched(|watch| compare(&sim, &live, &campaign, &options, watch))
    };
    let found = run("dualpi2").unwrap().0;
    assert!(found.complete && found.passed());
    assert_eq!((found.planned, found.cells.len()), (4, 4));
    assert!(
        found
            .cells
            .iter()
            .all(|cell| !cell.name.contains("dualpi2"))
    );
    let left_out = ["20-20/dualpi2/prague-cubic", "20-20/dualpi2/cubic-cubic"];
    let why = "there is no `queue dualpi2`";
    assert_eq!(found.left_out_by_reason(), [(why, left_out.to_vec())]);
    let text = comparison_table(&found);
    assert!(text.contains(&format!("left out: {}: {why}", left_out.join(", "))));
    assert!(text.contains("difference of"), "{text}");
    // Where nothing would be left, it is an error.
    let refused = run("20-20").err().map(|error| error.to_string());
    assert_eq!(
        refused.as_deref(),
        Some("the cell 20-20/dualpi2/prague-cubic: there is no `queue 20-20`")
    );
}

/// A live engine that writes down which cells it ran, in their order.
struct InTurns {
    rigged: Rigged,
    ran: Mutex<Vec<String>>,
}

impl Engine for InTurns {
    fn name(&self) -> &'static str {
        "live"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        self.rigged.names(plan)
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        self.ran.lock().unwrap().push(plan.name.clone());
        self.rigged.run(plan, seed, sink, handle)
    }
}

/// `compare/aa` in two seconds a run, with a model for the kernel.
fn in_pairs(law: support::Law, only: &str) -> (Comparison, Vec<String>) {
    let mut campaign = load("compare/aa").and_then(|l| l.campaign(&[])).unwrap();
    campaign.only(&[only.to_owned()]).unwrap();
    for cell in &mut campaign.cells {
        cell.plan.duration = narrows_units::Duration::from_secs(2);
        cell.plan.measure.from = narrows_units::Instant::from_nanos(500_000_000);
        cell.plan.measure.to = narrows_units::Instant::from_nanos(2_000_000_000);
    }
    let live = InTurns {
        rigged: Rigged::new(ModelEngine::new(law), |_| false),
        ran: Mutex::default(),
    };
    let sim = ModelEngine::new(equal_shares);
    let found =
        unwatched(|watch| compare(&sim, &live, &campaign, &CompareOptions::default(), watch))
            .unwrap()
            .0;
    (found, live.ran.into_inner().unwrap())
}

/// Rates that scatter with the seed; ours a tenth below the kernel's.
fn ours_is_slower(plan: &Plan, seed: u64) -> Vec<f64> {
    let ours = plan.flows[0].transport.tcp();
    let ours = ours.is_some_and(|tcp| tcp.cc.own().is_some());
    let rate = if ours { 18.0 } else { 20.0 } + seed as f64 * 0.1;
    vec![rate; plan.flows.len()]
}

/// The same for both.
fn scattered(_: &Plan, seed: u64) -> Vec<f64> {
    vec![20.0 + seed as f64 * 0.1; 2]
}

#[test]
fn a_pair_runs_in_turns_and_the_order_turns_round() {
    let (found, ran) = in_pairs(scattered, "pfifo/alone/*");
    let (kernel, ours) = ("pfifo/alone/kernel", "pfifo/alone/narrows");
    assert_eq!(ran, [kernel, ours, ours, kernel, kernel, ours]);
    assert_eq!(found.sides, ["kernel", "narrows"]);
    let cell = &found.cells[0];
    assert_eq!((cell.name.as_str(), cell.asked), ("pfifo/alone", 8));
    assert!(cell.sim.is_empty() && cell.used_on(&found.sides, 0).len() == 3);
    assert!(found.complete);
}

#[test]
fn what_is_our_own_differs_where_the_kernels_runs_among_themselves_do_not_explain_it() {
    let (same, _) = in_pairs(scattered, "*/reno-reno/*");
    assert_eq!(same.cells.len(), 2);
    assert!(same.checks.iter().all(|c| c.judged == 0 || c.passed));
    let (slower, _) = in_pairs(ours_is_slower, "*/reno-reno/*");
    let goodput = |found: &Comparison| {
        let row = found.cells[0].row("goodput1_mbit").unwrap();
        (row.within, row.first.spread().unwrap())
    };
    let ((inside, _), (outside, spread)) = (goodput(&same), goodput(&slower));
    assert_eq!((inside, outside), (Some(true), Some(false)));
    assert!((0.15..0.25).contains(&spread), "{spread}");
    let check = slower.checks.iter().find(|c| c.metric == "goodput1_mbit");
    let check = check.unwrap();
    assert!(!check.passed && !slower.passed());
    assert!(
        check.line.contains("0 of 2 within own spread"),
        "{}",
        check.line
    );
    let table = comparison_table(&slower);
    assert!(table.contains("narrows against kernel, 3 live repetitions"));
    assert!(table.contains("own spread: OUTSIDE"), "{table}");
}

#[test]
fn a_pattern_that_leaves_half_a_pair_is_refused() {
    let mut campaign = load("compare/aa").and_then(|l| l.campaign(&[])).unwrap();
    campaign.only(&["*/narrows".to_owned()]).unwrap();
    let live = Rigged::new(ModelEngine::new(scattered), |_| false);
    let sim = ModelEngine::new(equal_shares);
    let refused =
        unwatched(|watch| compare(&sim, &live, &campaign, &CompareOptions::default(), watch));
    let line = refused.unwrap_err().to_string();
    assert!(line.contains("--only"), "{line}");
}
