//! Packets of a run: found by running it again, for it repeats.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::extract::State;
use narrows::EngineName;
use narrows::results::{PacketEvent, PacketQuery, packets};
use narrows::units::{Duration, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::{Json, Path, Query};
use crate::error::{Answer, ApiError};
use crate::jobs::Job;
use crate::state::{Shared, Work, aside};

/// Events of an answer.
const MOST: usize = 2000;

/// The span by default: some hundred packets of 50 Mbit/s.
const SPAN_S: f64 = 0.1;

/// Which packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// From when on, in seconds of the network.
    #[serde(default)]
    at_s: f64,
    /// For how long, in seconds; 0.1 by default.
    within_s: Option<f64>,
    /// Where: an element, a host, or the beginning of such names, `link/access/up`.
    #[serde(default)]
    place: String,
}

/// What happened to packets.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Packets {
    /// In order of time.
    packets: Vec<Happened>,
    /// Whether there is more than is given.
    more: bool,
}

/// What happened to one packet.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Way {
    /// In order of time.
    steps: Vec<Happened>,
}

/// Something that happened to a packet.
#[derive(Debug, Serialize, JsonSchema)]
struct Happened {
    /// The packet's number in the run.
    id: u64,
    /// That of the packet that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<u64>,
    /// When, in seconds of the network.
    t_s: f64,
    /// Its flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    /// Where.
    place: String,
    /// What: `sent`, `dequeued`, `marked`, `dropped`, `tapped`, `received`.
    what: &'static str,
    /// Length of the IP packet.
    bytes: u32,
    /// Its ECN field: `not-ect`, `ect1`, `ect0` or `ce`.
    ecn: &'static str,
    /// How long it waited, why it was marked or dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<PacketEvent> for Happened {
    fn from(event: PacketEvent) -> Self {
        Self {
            id: event.id,
            parent: event.parent,
            t_s: event.at.as_secs_f64(),
            flow: event.flow,
            place: event.place,
            what: event.what,
            bytes: event.bytes,
            // In the order of its bits.
            ecn: ["not-ect", "ect1", "ect0", "ce"][event.ecn as usize],
            detail: event.detail,
        }
    }
}

/// A time of a run, in nanoseconds.
fn instant(seconds: f64) -> Answer<Instant> {
    match seconds.is_finite() && (0.0..=1e8).contains(&seconds) {
        true => Ok(Instant::from_nanos((seconds * 1e9).round() as u64)),
        false => Err(ApiError::unusable(
            "times: allowed are seconds from 0 to 100000000",
        )),
    }
}

fn found(job: &Job, query: &PacketQuery) -> Answer<Vec<PacketEvent>> {
    let Some((plan, reached)) = job.repeats() else {
        let message = "only single runs in the simulator have packets that can be asked for";
        return Err(ApiError::unusable(message)
            .hint("a [[capture]] in the scenario writes them into a file"));
    };
    let query = PacketQuery {
        // What has not happened yet may still be changed.
        to: query.to.min(reached),
        ..query.clone()
    };
    if query.from >= query.to {
        return Ok(Vec::new());
    }
    let engine = EngineName::Sim.engine(None)?;
    Ok(packets(
        &*engine,
        &plan,
        plan.seed,
        &query,
        &AtomicBool::new(false),
    )?)
}

/// Gives what happened to packets in a span of time.
pub(crate) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Answer<Json<Packets>> {
    let job: Arc<Job> = state.jobs.get(&id)?;
    aside(&state, Work::Packets, move |_| {
        let from = instant(asked.at_s)?;
        let span = instant(asked.within_s.unwrap_or(SPAN_S))?;
        let query = PacketQuery {
            from,
            to: from + span.since(Instant::ZERO),
            place: asked.place,
            packet: None,
            most: MOST + 1,
        };
        let mut all = found(&job, &query)?;
        let more = all.len() > MOST;
        all.truncate(MOST);
        Ok(Json(Packets {
            packets: all.into_iter().map(Happened::from).collect(),
            more,
        }))
    })
    .await
}

/// Gives what happened to one packet.
pub(crate) async fn way(
    State(state): State<Shared>,
    Path((id, packet)): Path<(String, u64)>,
) -> Answer<Json<Way>> {
    let job: Arc<Job> = state.jobs.get(&id)?;
    aside(&state, Work::Packets, move |_| {
        let query = PacketQuery {
            from: Instant::ZERO,
            to: Instant::ZERO + Duration::MAX,
            place: String::new(),
            packet: Some(packet),
            most: MOST,
        };
        let steps = found(&job, &query)?;
        if steps.is_empty() {
            return Err(ApiError::not_found("such packet so far"));
        }
        let steps = steps.into_iter().map(Happened::from).collect();
        Ok(Json(Way { steps }))
    })
    .await
}
