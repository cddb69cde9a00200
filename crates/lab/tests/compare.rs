//! Two engines held against each other.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};

use narrows_lab::compare::FILE;
use narrows_lab::results::open_run;
use narrows_lab::rig::{Lateness, Rig};
use narrows_lab::{CompareOptions, Comparison, Ended, Engine, Output, RunControl, compare};
use narrows_packet::EventSink;
use narrows_scenario::{Campaign, Plan, load};
use support::{ModelEngine, by_seed, equal_shares, plan, unwatched};

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

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        control: &RunControl<'_>,
    ) -> Result<Ended, String> {
        let ended = self.model.run(plan, seed, sink, control)?;
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

fn compared(live: &Rigged, campaign: &Campaign, output: Output) -> Comparison {
    let sim = ModelEngine::new(by_seed);
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
    assert!(found.complete && found.passed() && found.trusted());
    let cell = &found.cells[0];
    assert!(cell.rows.len() > 15, "{:?}", cell.rows);
    for row in &cell.rows {
        assert_eq!(row.difference, Some(0.0), "{}", row.metric);
        assert_eq!(row.same, Some(true), "{}", row.metric);
        assert_eq!((row.sim.runs, row.live.runs), (3, 3));
    }
}

#[test]
fn engines_that_share_otherwise_are_told_apart_and_what_is_alike_stays_so() {
    let live = Rigged::new(ModelEngine::new(starved), |_| false);
    let found = compared(&live, &Campaign::of_one(plan()), Output::Nowhere);
    assert!(!found.passed());
    let row = |metric| found.cells[0].row(metric).unwrap();
    for metric in ["flow/first/goodput_mbit", "share1_pct"] {
        assert_eq!(row(metric).verdict(), "differs", "{metric}");
        assert!(row(metric).difference.unwrap() < 0.0);
    }
    assert_eq!(row("flow/second/goodput_mbit").same, Some(true));
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
    assert!(!found.trusted());
    assert_eq!(found.cells[0].rows[0].live.runs, 3);
    let text = narrows_lab::compare::table(&found);
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
