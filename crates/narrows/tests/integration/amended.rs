//! A run to which changes are added while it goes on is that of the plan with them.

use std::sync::{Arc, Mutex, MutexGuard};

use narrows_core::{Event, EventSink};
use narrows_engine::Amended;
use narrows_results::{
    Ended, Engine, EngineError, Followed, Pace, RunHandle, RunOptions, RunResult, Sample,
    run_scenario,
};
use narrows_scenario::{Plan, TimedChange, catalog, load};
use narrows_sim::SimEngine;
use narrows_units::{Duration, Instant, Rng};

use crate::support::{run, unwatched};

const MS: Duration = Duration::from_millis(1);

/// From a plan and the time that was reached to the plan with a change more.
type Amend = Box<dyn Fn(&Plan, Instant) -> Plan + Send + Sync>;

/// Runs a plan in the simulator, and amends it at the first event at these times or after them.
struct Amending {
    amends: Vec<(Instant, Amend)>,
    /// What became of the plan.
    plan: Mutex<Plan>,
}

impl Amending {
    fn new(plan: &Plan, amends: Vec<(Instant, Amend)>) -> Self {
        let plan = Mutex::new(plan.clone());
        Self { amends, plan }
    }
}

impl Engine for Amending {
    fn name(&self) -> &'static str {
        SimEngine.name()
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        SimEngine.names(plan)
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let amended = Amended::default();
        let own = RunHandle {
            amended: Some(&amended),
            ..*handle
        };
        let mut tap = Tap {
            sink,
            amended: &amended,
            amends: &self.amends,
            plan: self.plan.lock().expect("no panic"),
        };
        SimEngine.run(plan, seed, &mut tap, &own)
    }
}

struct Tap<'a, 's> {
    sink: &'s mut dyn EventSink,
    amended: &'a Amended,
    amends: &'a [(Instant, Amend)],
    plan: MutexGuard<'a, Plan>,
}

impl EventSink for Tap<'_, '_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Some((first, later)) = self.amends.split_first().filter(|(a, _)| a.0 <= now) {
            *self.plan = first.1(&self.plan, now);
            self.amended.put(Arc::new(self.plan.clone()));
            self.amends = later;
        }
        self.sink.record(now, event);
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// `plan` with a change more.
fn with(plan: &Plan, at: Instant, target: &str, words: &str) -> Plan {
    let mut plan = plan.clone();
    plan.changes.push(TimedChange {
        name: None,
        at,
        target: target.to_owned(),
        words: words.to_owned(),
    });
    plan.changes.sort_by_key(|change| change.at);
    plan
}

/// Changes that an element of the plan takes, by its full name: of those that no proxy is given
/// beforehand.
fn possible(plan: &Plan) -> Vec<(String, &'static str)> {
    let words = [
        "rate 3Mbit",
        "delay 7ms",
        "rate 40Mbit",
        "limit 9",
        "target 1ms",
    ];
    let takes = |name: &str, words: &str| {
        let element = plan.elements().find(|e| e.name == name);
        let takes = element.is_some_and(|e| e.spec.check_change(words).is_ok());
        let after = with(plan, at(1), name, words);
        let unknown = plan.proxies.iter().zip(&after.proxies).all(|(a, b)| {
            plan.given_rates(&a.near) == after.given_rates(&b.near)
                && plan.given_rates(&a.far) == after.given_rates(&b.far)
        });
        takes && unknown
    };
    let names = plan.elements().map(|e| e.name.clone());
    let each = names.flat_map(|name| words.map(|words| (name.clone(), words)));
    each.filter(|(name, words)| takes(name, words)).collect()
}

/// The plan of a scenario, of a campaign that of its first cell.
fn first_plan(name: &str) -> Option<Plan> {
    let loaded = load(name).ok()?;
    match loaded.draft() {
        Ok(draft) => draft.check().ok(),
        Err(_) => Some(loaded.campaign(&[]).ok()?.cells.first()?.plan.clone()),
    }
}

/// All results of a run: summary, series, verdict, scenario and the number of events.
fn results(run: RunResult) -> (impl PartialEq + std::fmt::Debug, serde_json::Value, u64) {
    let said = (run.summary, run.series, run.record.verdict);
    (said, run.record.scenario, run.record.events)
}

/// Of the catalogue's scenarios and campaigns' first cells, their beginnings, with what a draw by their names adds.
#[test]
fn a_run_that_is_changed_is_that_of_the_plan_with_the_changes() {
    let (mut tried, mut made) = (0, 0);
    for entry in catalog::entries() {
        let Some(mut plan) = first_plan(entry.name).filter(|p| SimEngine.accepts(p).is_ok()) else {
            continue;
        };
        plan.duration = plan.duration.min(Duration::from_millis(600));
        plan.measure.from = Instant::ZERO;
        plan.measure.to = Instant::ZERO + plan.duration;
        plan.windows.clear();
        let possible = possible(&plan);
        if possible.is_empty() {
            continue;
        }
        let mut rng = Rng::for_name(1, entry.name);
        let mut draw = |below: u64| (rng.unit() * below as f64) as u64;
        // The third is given when the second has been, and most often for its time.
        let amends = [(90, 1 + draw(80)), (250, 50), (251, 49)].map(|(given_ms, ahead_ms)| {
            let (target, words) = possible[draw(possible.len() as u64) as usize].clone();
            let amend = move |plan: &Plan, now: Instant| {
                let ms = now.as_nanos() / 1_000_000 + ahead_ms;
                with(plan, at(ms), &target, words)
            };
            (at(given_ms), Box::new(amend) as Amend)
        });
        let amending = Amending::new(&plan, amends.into());
        let amended = results(run(&amending, &plan));
        let changed = amending.plan.into_inner().expect("no panic");
        made += changed.changes.len() - plan.changes.len();
        let whole = results(run(&SimEngine, &changed));
        assert_eq!(amended, whole, "{}", entry.name);
        tried += 1;
    }
    // Where little happens, there may be no event at the times of some.
    assert!(tried > 20 && made > 2 * tried, "{made} in {tried}");
}

/// What becomes of a run of `plan` that is amended at 60 ms.
fn amended_at_60_ms(
    plan: &Plan,
    amend: impl Fn(&Plan, Instant) -> Plan + Send + Sync + 'static,
) -> Result<Ended, EngineError> {
    let amending = Amending::new(plan, vec![(at(60), Box::new(amend))]);
    let mut nobody = narrows_core::NullSink;
    amending.run(plan, 1, &mut nobody, &RunHandle::default())
}

#[test]
fn no_command_repeats_a_run_that_was_changed() {
    let plan = crate::support::plan();
    let (name, words) = possible(&plan)[0].clone();
    let amend: Amend = Box::new(move |plan, now| with(plan, now + MS, &name, words));
    let amending = Amending::new(&plan, vec![(at(60), amend)]);
    let command = vec!["narrows".to_owned(), "run".to_owned()];
    let made_by = |engine: &dyn Engine| {
        let mut options = RunOptions::default();
        options.origin.command.clone_from(&command);
        let run = unwatched(|watch| run_scenario(engine, &plan, &options, watch));
        run.expect("it runs").record.command
    };
    assert_eq!(made_by(&SimEngine), command);
    assert_eq!(made_by(&amending), Vec::<String>::new());
}

#[test]
fn changes_are_taken_for_later_times_and_those_that_were_made_stay() {
    let plan = crate::support::plan();
    let possible = possible(&plan);
    let (name, words) = possible[0].clone();
    let (other, _) = possible
        .iter()
        .find(|(other, same)| *other != name && *same == words)
        .expect("an element of the same kind");
    let made = with(&plan, at(50), &name, words);
    let elsewhere = with(&plan, at(50), other, words);
    let target = name.clone();
    let refused = [
        (
            "late",
            amended_at_60_ms(&plan, move |plan, now| {
                with(plan, now - Duration::from_nanos(1), &target, words)
            }),
        ),
        (
            "taken away",
            amended_at_60_ms(&made, {
                let plan = plan.clone();
                move |_, _| plan.clone()
            }),
        ),
        (
            "another element's",
            amended_at_60_ms(&made, move |_, _| elsewhere.clone()),
        ),
    ];
    for (what, ended) in refused {
        let Err(EngineError::Failed(why)) = ended else {
            panic!("{what}: {ended:?}");
        };
        assert!(why.contains("later times only"), "{what}: {why}");
    }
    let target = name.clone();
    let now = amended_at_60_ms(&plan, move |plan, now| with(plan, now, &target, words));
    assert!(now.is_err(), "{now:?}");
    let soon = amended_at_60_ms(&plan, move |plan, now| {
        with(plan, now + Duration::from_nanos(1), &name, words)
    });
    assert!(soon.is_ok(), "{soon:?}");
}

#[test]
fn the_load_of_a_link_is_held_against_the_rate_that_it_was_given() {
    let plan = crate::support::plan();
    let by_rate = possible(&plan)
        .into_iter()
        .find(|(_, words)| *words == "rate 3Mbit");
    let (bottleneck, _) = by_rate.expect("a bottleneck");
    let pace = Pace::new(Some(10.0), false);
    let samples: Mutex<Vec<Sample>> = Mutex::default();
    let made_at = std::thread::scope(|scope| {
        scope.spawn(|| {
            let followed = Followed {
                engine: &SimEngine,
                pace: &pace,
                samples: &|sample: Sample| samples.lock().expect("no panic").push(sample),
            };
            run(&followed, &plan)
        });
        let held = pace
            .hold(std::time::Duration::from_secs(30))
            .expect("it goes on");
        let made_at = held.at() + MS;
        pace.amend(Arc::new(with(&plan, made_at, &bottleneck, "rate 3Mbit")));
        made_at
    });
    let load = |sample: &Sample| {
        let of = sample.values.iter().find(|of| of.entity == bottleneck)?;
        let load = of.values.iter().find(|(metric, _)| metric == "load")?;
        Some((sample.at, load.1))
    };
    let samples: Vec<Sample> = samples.into_inner().expect("no panic");
    // In the second half both flows fill it.
    let half = made_at + Duration::from_secs(3);
    let loads: Vec<_> = samples
        .iter()
        .filter_map(load)
        .filter(|(at, _)| *at > half)
        .collect();
    let full = |(_, load): &(Instant, f64)| (0.8..1.1).contains(load);
    assert!(!loads.is_empty() && loads.iter().all(full), "{loads:?}");
}
