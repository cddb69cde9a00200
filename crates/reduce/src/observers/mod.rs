//! Observers inside a run, and how wrong they are.
//!
//! Each `[[observe]]` of a scenario is an observer of `narrows-observe` that
//! is handed the packets of its tap as they pass. What it finds is held against
//! what really happened to these packets, which only a laboratory knows.

mod found;
mod packets;
mod pairs;
mod rows;
mod seconds;
mod spread;
mod sums;
#[cfg(test)]
mod tests;
mod window;

use std::path::Path;

use narrows_core::{EntityId, Event, EventSink, FlowId};
use narrows_files::FileError;
use narrows_observe::{Observer, ObserverConfig, ObserverMode, Pinned};
use narrows_scenario::{ObserverPlan, Plan};
use narrows_units::Instant;

use crate::summary::{FlowSummary, ObservationSummary};
use found::{Entry, Found, Seen};
use packets::{PacketTable, Passed};
use seconds::{Carried, SmoothedRtt};
pub use seconds::{SECONDS, TOTALS};
use window::Span;

/// The file of all samples in a results folder.
pub const SAMPLES: &str = "samples.csv.gz";

/// An observer of a plan whose tap is no entity of the run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run has no {tap}, where the observer `{observer}` is to be")]
pub struct NoTap {
    /// The observer's name.
    pub observer: String,
    /// Where it is to be.
    pub tap: String,
}

/// All observers of a run.
pub struct Observers {
    ledger: PacketTable,
    srtt: SmoothedRtt,
    all: Vec<Watching>,
}

/// One of them.
struct Watching {
    name: String,
    tap: String,
    at: EntityId,
    observer: Observer,
    passed: Passed,
    /// By the plan's flows.
    carried: Vec<Carried>,
    found: Found,
}

/// The settings of `narrows-observe` that a plan's words select.
fn config(plan: &ObserverPlan) -> ObserverConfig {
    ObserverConfig {
        mode: if plan.thesis {
            ObserverMode::Thesis
        } else {
            ObserverMode::Rfc
        },
        profile: plan.profile,
        negotiated: plan.negotiated,
        pinned: Pinned {
            t_max: plan.t_max,
            block: plan.block,
            reordering: plan.reordering,
        },
        ..ObserverConfig::default()
    }
}

impl Observers {
    /// The observers of `plan`; `names` are the run's entities.
    pub fn new(plan: &Plan, names: &[String]) -> Result<Self, NoTap> {
        let mut all = Vec::new();
        for observer in &plan.observers {
            let at = names.iter().position(|n| *n == observer.tap);
            let at = at.ok_or_else(|| NoTap {
                observer: observer.name.clone(),
                tap: observer.tap.clone(),
            })?;
            all.push(Watching {
                name: observer.name.clone(),
                tap: observer.tap.clone(),
                at: EntityId(at as u32),
                observer: Observer::new(config(observer)),
                passed: Passed::default(),
                carried: plan.flows.iter().map(|_| Carried::default()).collect(),
                found: Found::new(&observer.techniques, Span::of(plan, observer.measure)),
            });
        }
        Ok(Self {
            ledger: PacketTable::new(plan, names),
            srtt: SmoothedRtt::new(plan.flows.len()),
            all,
        })
    }

    fn tapped(&mut self, now: Instant, tap: EntityId, packet: &narrows_core::Packet) {
        for watching in self.all.iter_mut().filter(|w| w.at == tap) {
            watching.passed.pass(now, packet);
            watching.found.now = packet.flow.map(|f| f.0 as usize);
            if let Some(carried) = packet
                .flow
                .and_then(|f| watching.carried.get_mut(f.0 as usize))
            {
                carried.add(now, u64::from(packet.len()));
            }
            let Watching {
                observer, found, ..
            } = watching;
            found.reach(now, observer);
            observer.observe(&packet.bytes, now, packet.id.0, found);
        }
    }

    /// Ends all observers: sums for the summary, and if `keep` is a results
    /// folder, all samples and the tables of seconds in it. `flows` are the
    /// flows' own figures.
    pub fn finish(
        mut self,
        plan: &Plan,
        flows: &[FlowSummary],
        keep: Option<&Path>,
    ) -> Result<Vec<ObservationSummary>, FileError> {
        for watching in &mut self.all {
            watching.observer.finish(&mut watching.found);
            watching.found.settle();
        }
        if let Some(dir) = keep {
            narrows_files::create_dir_all(dir).map_err(FileError::at("create", dir))?;
            rows::write(&dir.join(SAMPLES), &self.ledger, &self.all)?;
            seconds::write(dir, plan, &self.all, &self.srtt, flows)?;
        }
        let mut sums = Vec::new();
        for watching in &self.all {
            sums::add(plan, &self.ledger, &self.srtt, watching, &mut sums);
        }
        Ok(sums)
    }
}

impl EventSink for Observers {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Tapped { tap, packet, .. } => self.tapped(now, tap, packet),
            Event::Sent { host, packet } => self.ledger.sent(now, host, packet),
            Event::Received { packet, .. } => self.ledger.received(now, packet),
            Event::Dropped { packet, .. } => self.ledger.dropped(packet),
            Event::Sampled {
                flow: FlowId(flow),
                sample,
            } => self.srtt.sampled(now, flow as usize, &sample),
            _ => {}
        }
    }
}
