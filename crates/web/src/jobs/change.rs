//! Changing a run that goes on.
//!
//! A change is a `[[change]]` of the run's text at the time that was reached, and the run is made
//! anew with it: up to that time as fast as it goes and silently, where it is the same as before,
//! then at the speed that was asked for. So what is seen is what the text gives anybody who runs
//! it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use axum::extract::State;
use axum::http::StatusCode;
use narrows::results::Pace;
use narrows::scenario::{Edit, Plan, edited};
use narrows::units::{Duration, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Attempt, Change, Job, JobState, Phase};
use crate::body::{Json, Path};
use crate::error::{Answer, ApiError};
use crate::state::{Shared, Work, aside};

/// Changes that one request makes.
const MOST: usize = 100;

/// Times of changes are whole multiples of this: they are read by people.
const GRAIN: Duration = Duration::from_millis(1);

/// What to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Elements by their full names, `link/access/up/bottleneck`, with their new words; the
    /// element's own name may stand before them.
    set: BTreeMap<String, String>,
}

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changed {
    /// When, in seconds of the network.
    at_s: f64,
    /// The text that is run now: run anywhere it gives the same.
    text: String,
}

/// The first whole multiple of the grain after `reached`.
fn next(reached: Instant) -> Instant {
    let grain = GRAIN.as_nanos();
    Instant::from_nanos((reached.as_nanos() / grain + 1) * grain)
}

/// `to` without the name of the element `target`, which may stand before the words as it does in
/// a link: `bottleneck: rate 20Mbit`.
fn words_of<'t>(target: &str, to: &'t str) -> &'t str {
    let own = target.rsplit('/').next().unwrap_or(target);
    let rest = to.trim_start().strip_prefix(own);
    let words = rest.and_then(|rest| rest.strip_prefix(": "));
    words.map_or(to, str::trim)
}

impl Job {
    /// The state of a job that goes on.
    fn active(&self) -> Answer<MutexGuard<'_, JobState>> {
        let state = self.state();
        match state.phase.is_active() {
            true => Ok(state),
            false => Err(ApiError::new(StatusCode::CONFLICT, "the job has ended")
                .hint("add a [[change]] to its text, and run that")),
        }
    }
}

impl Target {
    /// Each element with its new words.
    fn words(&self) -> impl Iterator<Item = (&str, &str)> {
        let set = self.set.iter();
        set.map(|(target, to)| (target.as_str(), words_of(target, to)))
    }
}

/// When the change is made of a run that is held, and the text and the plan with it.
fn made(job: &Job, before: &Attempt, target: &Target) -> Answer<(Instant, String, Plan)> {
    let at = next(before.pace.reached().max(before.pace.catch_up()));
    if at.since(Instant::ZERO) >= job.prepared.duration {
        return Err(ApiError::new(StatusCode::CONFLICT, "the run is at its end"));
    }
    let edits = target.words().map(|(target, to)| {
        let values = [
            ("at", at.to_string().as_str()),
            ("target", target),
            ("to", to),
        ]
        .map(|(key, value)| (key.to_owned(), value.into()));
        Edit::Add {
            table: "change".to_owned(),
            values: values.into_iter().collect(),
        }
    });
    let edits: Vec<Edit> = edits.collect();
    let text =
        edited(&before.text, &edits).map_err(|error| ApiError::unusable(error.to_string()))?;
    let loaded = job.prepared.loaded.clone().with_text(&text);
    let plan = loaded.draft()?.check()?;
    Ok((at, text, plan))
}

fn changed(job: &Job, target: &Target) -> Answer<Changed> {
    if !job.prepared.has_pace() {
        return Err(ApiError::unusable(
            "only single runs in the simulator can be changed",
        ));
    }
    if target.set.is_empty() || target.set.len() > MOST {
        return Err(ApiError::unusable(format!(
            "set: allowed are 1 to {MOST} elements"
        )));
    }
    // One change after the other: each is added to the text of the one before.
    let _changing = job.changing();
    let before = job.active()?.attempt.clone();
    // It goes no further meanwhile. The job's state is free, so that others can ask for it while the
    // text is checked.
    before.pace.pause();
    let made = made(job, &before, target);
    let mut state = job.active()?;
    // As it was, or as it was asked for since.
    let is_held = state.phase == Phase::Paused;
    let (at, text, plan) = match made {
        Ok(made) => made,
        Err(error) => {
            if !is_held {
                before.pace.resume();
            }
            return Err(error);
        }
    };
    let pace = Pace::new(before.pace.speed(), is_held, at);
    pace.set_watched(job.stream.is_read());
    state.attempt = Attempt {
        number: before.number + 1,
        text: text.as_str().into(),
        plan: Some(Arc::new(plan)),
        pace: Arc::new(pace),
        cancel: Arc::new(AtomicBool::new(state.stopped)),
    };
    let changes = target.words().map(|(target, to)| Change {
        at_s: at.as_secs_f64(),
        target: target.to_owned(),
        to: to.to_owned(),
    });
    state.changes.extend(changes);
    before.cancel.store(true, Ordering::SeqCst);
    Ok(Changed {
        at_s: at.as_secs_f64(),
        text,
    })
}

/// Changes a run that goes on.
pub(crate) async fn change(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(target): Json<Target>,
) -> Answer<Json<Changed>> {
    let job = state.jobs.get(&id)?;
    aside(&state, Work::Job, move |lab| {
        let changed = changed(&job, &target)?;
        lab.jobs.work(&job)?;
        job.publish();
        Ok(Json(changed))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_own_name_may_stand_before_its_words() {
        let target = "link/access/up/bottleneck";
        for (to, words) in [
            ("bottleneck: rate 2Mbit", "rate 2Mbit"),
            ("rate 2Mbit", "rate 2Mbit"),
            ("other: rate 2Mbit", "other: rate 2Mbit"),
            ("bottlenecks: rate 2Mbit", "bottlenecks: rate 2Mbit"),
        ] {
            assert_eq!(words_of(target, to), words);
        }
    }

    #[test]
    fn changes_come_after_what_was_reached_at_times_that_can_be_read() {
        for (reached_ns, at) in [
            (0, "1ms"),
            (999_999, "1ms"),
            (1_000_000, "2ms"),
            (1_234_567_890, "1.235s"),
        ] {
            assert_eq!(next(Instant::from_nanos(reached_ns)).to_string(), at);
        }
    }
}
