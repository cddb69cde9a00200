//! The thread of a job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narrows::report::pages;
use narrows::results::folder::Origin;
use narrows::results::{Followed, Sample};
use narrows::units::Instant;
use narrows::{
    CampaignOptions, CompareOptions, EngineName, Error, Output, Progress, RunOptions, Watch,
    compare, run_campaign, run_scenario,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Job, Kind, Outcome, Phase};

/// Entities of which samples are sent; a page shows no more, and ten thousand flows would fill
/// every stream.
const MOST_ENTITIES: usize = 256;

/// How a job ended.
enum End {
    Complete(Outcome),
    /// It was ended; what there is.
    Broken(Outcome),
}

/// Does a job.
pub(super) fn run(job: &Job) {
    let worked = catch_unwind(AssertUnwindSafe(|| work(job)));
    let end = match worked {
        Ok(end) => end.map_err(|error| error.to_string()),
        Err(_) => Err("a mistake in narrows itself ended it".to_owned()),
    };
    let mut state = job.state();
    match end {
        Ok(End::Complete(outcome)) => {
            state.phase = Phase::Done;
            state.outcome = Some(Arc::new(outcome));
        }
        Ok(End::Broken(outcome)) => {
            state.phase = Phase::Cancelled;
            state.outcome = Some(Arc::new(outcome));
        }
        Err(_) if state.stopped => state.phase = Phase::Cancelled,
        Err(error) => {
            state.phase = Phase::Failed;
            state.error = Some(error);
        }
    }
    drop(state);
    job.publish();
}

fn work(job: &Job) -> Result<End, Error> {
    let engine = EngineName::from(job.prepared.engine);
    let engine = engine
        .engine(None)
        .map_err(|refusal| Error::Refused(refusal.to_line()))?;
    let progress = |progress: Progress<'_>| advanced(job, &progress);
    let watch = Watch {
        cancel: &job.cancel,
        progress: &progress,
    };
    let output = Output::Below(job.results.clone());
    let origin = Origin {
        command: job.prepared.command.clone(),
        commit: None,
    };
    match (
        job.prepared.kind,
        &job.prepared.plan,
        &job.prepared.campaign,
    ) {
        (Kind::Run, Some(plan), _) => {
            let followed = Followed {
                engine: &*engine,
                pace: &job.pace,
                samples: &|sample| publish(job, &sample),
            };
            let options = RunOptions {
                seed: None,
                output,
                origin,
            };
            let result = run_scenario(&followed, plan, &options, &watch)?;
            if let (Some(dir), false) = (&result.dir, result.record.digest.is_empty()) {
                pages::write_run(dir, &result, &pages::RunPage::default())?;
            }
            let outcome = Outcome::of_run(&result, &job.pages);
            Ok(match result.record.complete {
                true => End::Complete(outcome),
                false => End::Broken(outcome),
            })
        }
        (Kind::Campaign, _, Some(campaign)) => {
            let options = CampaignOptions {
                seeds: job.prepared.seed.into_iter().collect(),
                output,
                origin,
                ..CampaignOptions::default()
            };
            let folder = run_campaign(&*engine, campaign, &options, &watch)?;
            if !folder.dir.join(pages::FILE).is_file() {
                pages::again(&folder.dir)?;
            }
            let outcome = Outcome::of_campaign(&folder, &job.pages);
            Ok(match folder.result.complete {
                true => End::Complete(outcome),
                false => End::Broken(outcome),
            })
        }
        (Kind::Compare, _, Some(campaign)) => {
            let sim = EngineName::Sim.engine(None);
            let sim = sim.map_err(|refusal| Error::Refused(refusal.to_line()))?;
            let options = CompareOptions {
                output,
                origin,
                ..CompareOptions::default()
            };
            let (found, dir) = compare(&*sim, &*engine, campaign, &options, &watch)?;
            if let Some(dir) = &dir {
                pages::again(dir)?;
            }
            let outcome = Outcome::of_comparison(&found, dir.as_deref(), &job.pages);
            Ok(match found.complete {
                true => End::Complete(outcome),
                false => End::Broken(outcome),
            })
        }
        _ => Err(Error::Refused("there is nothing to run".to_owned())),
    }
}

/// How often a job says how far it is in time.
const PERIOD: Duration = Duration::from_millis(250);

fn advanced(job: &Job, progress: &Progress<'_>) {
    let counted = match progress {
        Progress::Comparing { cell, engine, seed } => {
            job.pace.set_reached(Instant::ZERO);
            job.state().doing = Some(format!("{cell}, {engine}, seed {seed}"));
            job.publish();
            None
        }
        Progress::Cells { done, of, .. } | Progress::Runs { done, of, .. } => Some((*done, *of)),
        Progress::Compared { runs, of } => Some((*runs, *of)),
        Progress::Run { reached, .. } => {
            job.pace.set_watched(job.stream.is_read());
            if !job.prepared.has_pace() {
                job.pace.set_reached(Instant::ZERO + *reached);
                let mut state = job.state();
                let due = state.published.elapsed() >= PERIOD;
                if due {
                    state.published = std::time::Instant::now();
                    drop(state);
                    job.publish();
                }
            }
            None
        }
        _ => None,
    };
    if counted.is_some() {
        job.state().done = counted;
        job.publish();
    }
}

/// A sample, as the stream has it.
#[derive(Serialize)]
struct Sampled<'a> {
    job: &'a str,
    t_s: f64,
    values: Map<String, Value>,
}

fn publish(job: &Job, sample: &Sample) {
    if !job.stream.is_read() || job.cancel.load(Ordering::Relaxed) {
        return;
    }
    let values = sample.values.iter().take(MOST_ENTITIES).map(|of| {
        let values = of
            .values
            .iter()
            .map(|(metric, value)| (metric.clone(), (*value).into()));
        (of.entity.clone(), Value::Object(values.collect()))
    });
    let sampled = Sampled {
        job: &job.id(),
        t_s: sample.at.as_secs_f64(),
        values: values.collect(),
    };
    job.stream.send("samples", &sampled);
}
