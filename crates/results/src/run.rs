//! One run: plan in, result out.

use narrows_core::{EventSink, Sinks};
use narrows_engine::{Ended, Engine, RunHandle};
use narrows_reduce::{Observers, Reduced, Reducer, Setup};
use narrows_scenario::Plan;
use narrows_units::{Duration, Instant};

use crate::Error;
use crate::capture::Captures;
use crate::folder::{Folder, Origin, Output, RunRecord, RunResult};
use crate::series::{self, Series};
use crate::verdict;
use crate::watch::{Progress, Watch};

/// How a run is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The seed; the plan's own if `None`.
    pub seed: Option<u64>,
    /// Where results go.
    pub output: Output,
    /// What makes it.
    pub origin: Origin,
}

/// Runs `plan` on `engine`.
///
/// The folder is there from the start, with a `run.json` that says
/// `complete: false`; so a run that is killed leaves a readable folder. A run
/// that is cancelled through `watch` is no error: its result says
/// `complete: false` and holds what was seen until then.
///
/// # Errors
/// When the folder is not empty or cannot be written, and when the engine
/// fails.
pub fn run_scenario(
    engine: &dyn Engine,
    plan: &Plan,
    options: &RunOptions,
    watch: &Watch<'_>,
) -> Result<RunResult, Error> {
    engine.accepts(plan)?;
    let seed = options.seed.unwrap_or(plan.seed);
    let folder = Folder::create(&options.output, &plan.name)?;
    run_into(engine, plan, seed, options, folder, watch)
}

/// What the engine and the reduction gave.
pub struct Reduction {
    /// How the run ended.
    pub ended: Ended,
    /// What its events came to.
    pub reduced: Reduced,
    /// Whether it can be trusted.
    pub verdict: verdict::Verdict,
}

/// The machine, while an engine that changes it runs, even if that panics.
struct Taken<'a>(&'a Watch<'a>);

impl<'a> Taken<'a> {
    /// By `engine`; `None` if that leaves the machine alone, as the simulator does.
    fn by(engine: &dyn Engine, watch: &'a Watch<'a>) -> Option<Self> {
        let takes = engine.alone() || engine.virtual_kernel().is_some();
        takes.then(|| {
            (watch.progress)(Progress::MachineTaken);
            Self(watch)
        })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        (self.0.progress)(Progress::MachineLeft);
    }
}

impl Reduction {
    /// The result, of which `record` has what was known before the run and how long it took.
    pub fn into_result(self, record: RunRecord) -> RunResult {
        let record = match self.ended.amended.as_deref() {
            Some(plan) => record.amended(plan),
            None => record,
        };
        RunResult {
            dir: None,
            record: RunRecord {
                virtual_s: self.ended.virtual_time.as_secs_f64(),
                events: self.ended.events,
                packets: self.ended.packets,
                verdict: self.verdict,
                // That on which it ran, where it brought its own.
                kernel: match &self.ended.rig {
                    Some(rig) => rig.kernel.clone(),
                    None => record.kernel,
                },
                rig: self.ended.rig,
                complete: !self.ended.interrupted,
                ..record
            },
            series: Series::of(&self.reduced),
            summary: self.reduced.summary,
        }
    }
}

/// Runs and reduces; writes the plan's captures and what programs wrote into
/// the folder `keep`, and nothing else.
pub fn reduce_run(
    engine: &dyn Engine,
    plan: &Plan,
    seed: u64,
    interval: Duration,
    watch: &Watch<'_>,
    report_time: bool,
    keep: Option<&std::path::Path>,
) -> Result<Reduction, Error> {
    let setup = Setup {
        names: engine.names(plan),
        interval,
    };
    let mut reducer = Reducer::new(&plan.for_seed(seed), setup);
    let reached = |at: Instant| {
        if report_time {
            (watch.progress)(Progress::Run {
                reached: at.since(Instant::ZERO),
                of: plan.duration,
            });
        }
    };
    let handle = RunHandle {
        cancel: Some(watch.cancel),
        progress: Some(&reached),
        keep,
        amended: None,
    };
    let names = engine.names(plan);
    let mut observers = match plan.observers.is_empty() {
        true => None,
        false => Some(Observers::new(plan, &names)?),
    };
    let mut captures = match keep.filter(|_| !plan.captures.is_empty()) {
        Some(dir) => Some(Captures::create(plan, &names, dir)?),
        None => None,
    };
    let mut sinks: Vec<&mut dyn EventSink> = Vec::new();
    sinks.extend(captures.as_mut().map(|c| c as &mut dyn EventSink));
    sinks.extend(observers.as_mut().map(|o| o as &mut dyn EventSink));
    let taken = Taken::by(engine, watch);
    let ended = if sinks.is_empty() {
        engine.run(plan, seed, &mut reducer, &handle)
    } else {
        sinks.push(&mut reducer);
        engine.run(plan, seed, &mut Sinks(sinks), &handle)
    };
    drop(taken);
    if let Some(captures) = captures {
        captures.finish()?;
    }
    let ended = ended?;
    let plan = ended.amended.as_deref().unwrap_or(plan);
    let end = Instant::ZERO + ended.virtual_time;
    let mut reduced = reducer.finish(plan, engine.name(), seed, end);
    if let Some(observers) = observers {
        let flows = &reduced.summary.flows;
        reduced.summary.observations = observers.finish(plan, flows, keep)?;
    }
    reduced.summary.marks = ended.signals.iter().map(Into::into).collect();
    reduced.summary.disciplines = match &ended.rig {
        Some(rig) => rig.disciplines.clone(),
        None => Vec::new(),
    };
    let (summary, interrupted) = (&reduced.summary, ended.interrupted);
    let verdict = match &ended.rig {
        Some(rig) => verdict::judge_live(plan, summary, rig, interrupted),
        None => verdict::judge(plan, summary, interrupted),
    };
    Ok(Reduction {
        ended,
        reduced,
        verdict,
    })
}

/// Runs and writes into `folder`.
pub fn run_into(
    engine: &dyn Engine,
    plan: &Plan,
    seed: u64,
    options: &RunOptions,
    folder: Option<Folder>,
    watch: &Watch<'_>,
) -> Result<RunResult, Error> {
    let mut record = crate::folder::begin(engine, plan, seed);
    record.made_by(&options.origin);
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    let started = std::time::Instant::now();
    let dir = folder.as_ref().map(Folder::dir);
    let interval = series::interval(plan);
    let mut outcome = reduce_run(engine, plan, seed, interval, watch, true, dir)?;
    verdict::note_interval(plan, interval, &mut outcome.verdict);
    record.wall_s = started.elapsed().as_secs_f64();
    let mut result = outcome.into_result(record);
    if let Some(folder) = folder {
        folder.write_run(&mut result, true, watch.cancel)?;
    }
    Ok(result)
}

#[cfg(test)]
mod tests;
