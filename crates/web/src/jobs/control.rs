//! Holding a job back, and changing what it runs.

use axum::extract::State;
use axum::http::StatusCode;
use narrows::units::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Job, JobAbout, Phase};
use crate::body::{Json, Path};
use crate::error::{Answer, ApiError};
use crate::state::Shared;

/// What a job is to do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    action: Action,
    /// Of `step`: for how long it goes on, in seconds of the network; 0.1 by default.
    by_s: Option<f64>,
    /// Of `speed`: seconds of the network in a second; `null` for as fast as it goes.
    speed: Option<f64>,
}

/// What a job is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// Wait.
    Pause,
    /// Go on.
    Resume,
    /// End; what it came to so far is kept and says that it is incomplete.
    Stop,
    /// Go on for a while, then wait.
    Step,
    /// Go at another speed.
    Speed,
}

/// By how much a step goes on that says nothing.
const STEP_S: f64 = 0.1;

fn control_of(job: &Job, control: &Control) -> Answer<()> {
    if control.action == Action::Stop {
        job.stop();
        return Ok(());
    }
    if !job.prepared.has_pace() {
        let message = "only single runs in the simulator can be paused and slowed down";
        return Err(ApiError::unusable(message));
    }
    let seconds = |given: Option<f64>, what: &str| match given {
        Some(s) if !(s.is_finite() && (1e-6..=1e6).contains(&s)) => Err(ApiError::unusable(
            format!("{what}: allowed are 0.000001 to 1000000"),
        )),
        given => Ok(given),
    };
    let step = seconds(control.by_s, "by_s")?.unwrap_or(STEP_S);
    let speed = seconds(control.speed, "speed")?;
    let mut state = job.state();
    if !state.phase.is_active() {
        return Err(ApiError::new(StatusCode::CONFLICT, "the job has ended"));
    }
    let pace = &job.pace;
    let phase = match control.action {
        Action::Pause => {
            pace.pause();
            Phase::Paused
        }
        Action::Step => {
            pace.step(Duration::from_nanos((step * 1e9) as u64));
            Phase::Paused
        }
        Action::Resume => {
            pace.resume();
            Phase::Running
        }
        Action::Speed => {
            pace.set_speed(speed);
            state.phase
        }
        Action::Stop => state.phase,
    };
    state.phase = phase;
    Ok(())
}

/// Has a job pause, go on, go on for a while, go at another speed, or end.
pub(crate) async fn control(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(control): Json<Control>,
) -> Answer<Json<JobAbout>> {
    let job = state.jobs.get(&id)?;
    control_of(&job, &control)?;
    job.publish();
    Ok(Json(job.about()))
}
