//! Packets of a run, by running it again: what repeats need not be kept.

use std::sync::atomic::{AtomicBool, Ordering};

use narrows_core::{EVENTS, EntityId, Event, EventSink, Packet};
use narrows_engine::{Engine, RunHandle};
use narrows_scenario::Plan;
use narrows_units::Instant;
use narrows_wire::{Ecn, ip};

use crate::Error;

/// Which events of packets are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketQuery {
    /// The first instant.
    pub from: Instant,
    /// The last; the run is not made beyond it.
    pub to: Instant,
    /// Where, by its full name or the beginning of one (`link/access/up`); anywhere if empty.
    pub place: String,
    /// Those of this packet alone, and of what was made from it.
    pub packet: Option<u64>,
    /// The first so many.
    pub most: usize,
}

/// Something that happened to a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketEvent {
    /// The packet's number in the run.
    pub id: u64,
    /// That of the packet that it was made from.
    pub parent: Option<u64>,
    /// When.
    pub at: Instant,
    /// Its flow, by its full name.
    pub flow: Option<String>,
    /// Where, by its full name.
    pub place: String,
    /// What: the event's name, `dequeued`.
    pub what: &'static str,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// What else is known: how long it waited, why it was marked or dropped.
    pub detail: Option<String>,
}

/// Runs `plan` on `engine` as far as needed, and gives the events that are wanted. Of an engine
/// whose runs repeat, they are those of every other run with this seed.
///
/// # Errors
/// When the engine cannot run it.
pub fn packets(
    engine: &dyn Engine,
    plan: &Plan,
    seed: u64,
    query: &PacketQuery,
    cancel: &AtomicBool,
) -> Result<Vec<PacketEvent>, Error> {
    engine.accepts(plan)?;
    let enough = AtomicBool::new(false);
    let mut recorder = Recorder {
        plan,
        names: engine.names(plan),
        query,
        found: Vec::new(),
        enough: &enough,
        cancel,
    };
    let handle = RunHandle {
        cancel: Some(&enough),
        ..RunHandle::default()
    };
    engine.run(plan, seed, &mut recorder, &handle)?;
    Ok(recorder.found)
}

struct Recorder<'a> {
    plan: &'a Plan,
    names: Vec<String>,
    query: &'a PacketQuery,
    found: Vec<PacketEvent>,
    enough: &'a AtomicBool,
    cancel: &'a AtomicBool,
}

impl EventSink for Recorder<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        let query = self.query;
        if now < query.from || self.enough.load(Ordering::Relaxed) {
            if self.cancel.load(Ordering::Relaxed) {
                self.enough.store(true, Ordering::Relaxed);
            }
            return;
        }
        if now > query.to || self.found.len() >= query.most || self.cancel.load(Ordering::Relaxed) {
            self.enough.store(true, Ordering::Relaxed);
            return;
        }
        let Some((entity, packet, detail)) = of_packet(&event) else {
            return;
        };
        let (id, parent) = (packet.id.0, packet.parent.map(|parent| parent.0));
        if query
            .packet
            .is_some_and(|wanted| wanted != id && Some(wanted) != parent)
        {
            return;
        }
        let place = self.names.get(entity.0 as usize).map_or("", String::as_str);
        if !is_at(place, &query.place) {
            return;
        }
        let flow = packet
            .flow
            .and_then(|flow| self.plan.flows.get(flow.0 as usize));
        self.found.push(PacketEvent {
            id,
            parent,
            at: now,
            flow: flow.map(|flow| format!("flow/{}", flow.name)),
            place: place.to_owned(),
            what: EVENTS[usize::from(event.number())].name,
            bytes: packet.len(),
            ecn: ip::ecn(&packet.bytes),
            detail,
        });
    }
}

/// Whether `place` is the one that is wanted, or within it.
fn is_at(place: &str, wanted: &str) -> bool {
    let within = place.strip_prefix(wanted);
    wanted.is_empty() || within.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What an event about a packet says: where, which, and what else.
fn of_packet<'e>(event: &Event<'e>) -> Option<(EntityId, &'e Packet, Option<String>)> {
    Some(match *event {
        Event::Dequeued {
            queue,
            packet,
            sojourn,
            ..
        } => (queue, packet, Some(format!("waited {sojourn}"))),
        Event::Marked {
            queue,
            packet,
            cause,
        } => (queue, packet, Some(format!("{cause:?}").to_lowercase())),
        Event::Dropped {
            element,
            packet,
            cause,
        } => (element, packet, Some(format!("{cause:?}").to_lowercase())),
        Event::Tapped {
            tap,
            packet,
            forward,
        } => {
            let way = if forward { "up" } else { "down" };
            (tap, packet, Some(way.to_owned()))
        }
        Event::Sent { host, packet } | Event::Received { host, packet } => (host, packet, None),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
