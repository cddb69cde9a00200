//! The thread of a job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

use super::{Attempt, Job, Kind, Outcome, Phase};

/// Entities of which samples are sent; a page shows no more, and ten thousand flows would fill
/// every stream.
const MOST_ENTITIES: usize = 256;

/// How a job ended.
enum End {
    Complete(Outcome),
    /// It was ended; what there is.
    Broken(Outcome),
}

/// Does a job's present attempt.
pub(super) fn run(job: &Arc<Job>) {
    let attempt = job.state().attempt.clone();
    let worked = catch_unwind(AssertUnwindSafe(|| work(job, &attempt)));
    let end = match worked {
        Ok(end) => end.map_err(|error| error.to_string()),
        Err(_) => Err("a mistake in narrows itself ended it".to_owned()),
    };
    let mut state = job.state();
    if state.attempt.number != attempt.number {
        drop(state);
        // What it wrote is of a text that is no more. It stays as an incomplete result where it
        // cannot be removed.
        if let Ok(End::Complete(outcome) | End::Broken(outcome)) = end {
            outcome.remove(&job.results);
        }
        return;
    }
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

fn work(job: &Job, attempt: &Attempt) -> Result<End, Error> {
    let engine = EngineName::from(job.prepared.engine);
    let engine = engine
        .engine(None)
        .map_err(|refusal| Error::Refused(refusal.to_line()))?;
    let progress = |progress: Progress<'_>| advanced(job, attempt, &progress);
    let watch = Watch {
        cancel: &attempt.cancel,
        progress: &progress,
    };
    let output = Output::Below(job.results.clone());
    let origin = Origin {
        // What was changed under way is no command's.
        command: match job.state().changes.is_empty() {
            true => job.prepared.command.clone(),
            false => Vec::new(),
        },
        commit: None,
    };
    match (job.prepared.kind, &attempt.plan, &job.prepared.campaign) {
        (Kind::Run, Some(plan), _) => {
            let followed = Followed {
                engine: &*engine,
                pace: &attempt.pace,
                samples: &|sample| publish(job, attempt, &sample),
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

fn advanced(job: &Job, attempt: &Attempt, progress: &Progress<'_>) {
    let counted = match progress {
        Progress::Cells { done, of, .. } | Progress::Runs { done, of, .. } => Some((*done, *of)),
        Progress::Compared { runs, of } => Some((*runs, *of)),
        Progress::Run { reached, .. } => {
            attempt.pace.set_watched(job.stream.is_read());
            if !job.prepared.has_pace() {
                attempt.pace.set_reached(Instant::ZERO + *reached);
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

fn publish(job: &Job, attempt: &Attempt, sample: &Sample) {
    if !job.stream.is_read() || attempt.cancel.load(Ordering::Relaxed) {
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
