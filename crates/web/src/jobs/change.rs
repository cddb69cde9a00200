//! Changing a run that goes on.
//!
//! A change is a `[[change]]` of the run's text at a time just after that which was reached. The
//! run waits while the text is checked, and goes on by the new plan: what comes of it is what the
//! new text gives anybody who runs it from its beginning.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use axum::extract::State;
use axum::http::StatusCode;
use narrows::scenario::{Edit, Plan, edited};
use narrows::units::{Duration, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Change, Job, JobState};
use crate::body::{Json, Path};
use crate::check::are_few;
use crate::error::{Answer, ApiError};
use crate::state::{Shared, Work, aside};

/// Changes that one request makes.
const MOST: usize = 100;

/// For how long a run may be busy between two events: with making ready what ten thousand flows
/// need, before the first.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

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

/// A proxy that a change concerns which it would have to know beforehand.
fn knows_beforehand<'p>(before: &Plan, after: &'p Plan) -> Option<&'p str> {
    let mut proxies = before.proxies.iter().zip(&after.proxies);
    let differs = |a, b| before.given_rates(a) != after.given_rates(b);
    let knows = proxies.find(|(a, b)| differs(&a.near, &b.near) || differs(&a.far, &b.far));
    knows.map(|(_, proxy)| proxy.name.as_str())
}

/// The text with a change at `at`, and its plan.
fn made(job: &Job, at: Instant, target: &Target) -> Answer<(String, Plan)> {
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
    let (before, text) = {
        let state = job.active()?;
        (state.plan.clone(), Arc::clone(&state.text))
    };
    let made = edited(&text, &edits);
    let (text, _) = made.map_err(|error| ApiError::unusable(error.to_string()))?;
    let loaded = job.prepared.loaded.clone().with_text(&text);
    are_few(&loaded)?;
    let plan = loaded.draft()?.check()?;
    if let Some(proxy) = before.and_then(|before| knows_beforehand(&before, &plan)) {
        let message = format!("proxy/{proxy} is given the rates of this link from the beginning");
        return Err(ApiError::unusable(message).hint("add a [[change]] to the text, and run that"));
    }
    Ok((text, plan))
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
    drop(job.active()?);
    // The job's state is free meanwhile, so that others can ask for it.
    let Some(held) = job.pace.hold(PATIENCE) else {
        drop(job.active()?);
        let message = "the run reports nothing that it could be changed at";
        return Err(ApiError::new(StatusCode::CONFLICT, message).hint("try again"));
    };
    let at = next(held.at());
    let (text, plan) = made(job, at, target)?;
    let plan = Arc::new(plan);
    let mut state = job.active()?;
    let changes = target.words().map(|(target, to)| Change {
        at_s: at.as_secs_f64(),
        target: target.to_owned(),
        to: to.to_owned(),
    });
    state.changes.extend(changes);
    state.text = text.as_str().into();
    state.plan = Some(Arc::clone(&plan));
    job.pace.amend(plan);
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
    aside(&state, Work::Job, move |_| {
        let changed = changed(&job, &target)?;
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
