//! `fq`: flows kept apart and served by turns, each at most at `maxrate`, in three bands.
//!
//! Sources: Linux net/sched/sch_fq.c v6.17; iproute2 tc/q_fq.c. This is the fq of a router:
//! packets belong to no socket, so that a flow is a hash of addresses and ports, masked by
//! `orphan_mask`, and its pace is `maxrate` alone. No packet carries a time at which it is to be
//! sent, so that `horizon`, `horizon_cap`, `offload_horizon` and `timer_slack` have no meaning
//! and are refused by name; what paces by a sender's rate here is the sender, in front of the
//! first element. Deviation: a flow that has been idle for three seconds is not forgotten.

mod config;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narrows_core::{DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Duration, Instant, Rng, WordError};

pub use config::FqConfig;
use config::{BANDS, SECOND};

use crate::flows::FlowHash;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::priority::priority_of;
use crate::reading::{self, Parameters};

/// Packets that may wait past the flows while none of these has its turn (`fq_fastpath_check`).
const FAST_PATH: usize = 8;
/// The lists of a band: flows that have come, and those that had a turn.
const NEW: usize = 0;
const OLD: usize = 1;

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In no list, since this tick of a millisecond (`age`).
    Detached(u64),
    Listed,
    /// Until its next packet is due.
    Throttled,
}

/// One flow.
#[derive(Debug)]
struct Flow {
    packets: VecDeque<Box<Packet>>,
    credit: i64,
    band: usize,
    place: Place,
    /// When its next packet is due at `maxrate`; 0 before the first.
    next_packet: Instant,
}

/// One band.
#[derive(Debug, Default)]
struct Band {
    /// Flows that have come and those that had a turn.
    lists: [VecDeque<u32>; 2],
    credit: i64,
    packets: u32,
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// A flow may send at once again after each packet.
    NoPace,
    /// Bands share the link equally.
    EqualBands,
    /// The fast path is used however many packets are in it.
    FastForAll,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Fq {
    config: FqConfig,
    frame: u32,
    hash: FlowHash,
    /// The flow of each hash, as a place in `flows`.
    by_hash: BTreeMap<u32, u32>,
    flows: Vec<Flow>,
    /// Packets past the flows.
    fast: VecDeque<Box<Packet>>,
    bands: [Band; BANDS],
    turn: usize,
    /// Throttled flows by when they are due, in the order in which they came.
    delayed: BTreeSet<(Instant, u64, u32)>,
    throttlings: u64,
    /// Packets of throttled flows.
    held: u32,
    over_limit: bool,
    meter: Meter,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Fq {
    pub fn new(config: FqConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        Self {
            frame: link.frame(),
            hash: FlowHash::new(&mut rng),
            by_hash: BTreeMap::new(),
            flows: Vec::new(),
            fast: VecDeque::new(),
            bands: Default::default(),
            turn: 0,
            delayed: BTreeSet::new(),
            throttlings: 0,
            held: 0,
            over_limit: false,
            meter: Meter::new(entity, link),
            config,
            #[cfg(test)]
            mutant: None,
        }
    }

    fn quantum(&self) -> i64 {
        i64::from(self.config.quantum.unwrap_or(2 * self.frame))
    }

    fn weight(&self, band: usize) -> i64 {
        #[cfg(test)]
        if self.mutant == Some(Mutant::EqualBands) {
            return i64::from(self.config.weights[0]);
        }
        i64::from(self.config.weights[band])
    }

    /// Whether a packet may pass the flows: nothing waits, or all that waits is past the flows as
    /// well. Without `maxrate`, which a running queue keeps once it has it, no flow is throttled,
    /// so that nothing that waits is to be sent later.
    fn is_fast(&self) -> bool {
        if self.config.maxrate.is_some() {
            return false;
        }
        let waiting = self.meter.counts.backlog.packets as usize;
        #[cfg(test)]
        if self.mutant == Some(Mutant::FastForAll) {
            return waiting == self.fast.len();
        }
        waiting == self.fast.len() && self.fast.len() < FAST_PATH
    }

    /// The flow of `packet`.
    fn flow_of(&mut self, now: Instant, packet: &Packet) -> u32 {
        let hash = self.hash.of(packet) & self.config.orphan_mask;
        if let Some(flow) = self.by_hash.get(&hash) {
            return *flow;
        }
        let flow = self.flows.len() as u32;
        self.by_hash.insert(hash, flow);
        let initial = self.config.initial_quantum.unwrap_or(10 * self.frame);
        self.flows.push(Flow {
            packets: VecDeque::new(),
            credit: i64::from(initial),
            band: 0,
            place: Place::Detached(tick(now)),
            next_packet: Instant::ZERO,
        });
        flow
    }

    fn list(&mut self, flow: u32, list: usize) {
        let of = &mut self.flows[flow as usize];
        of.place = Place::Listed;
        self.bands[of.band].lists[list].push_back(flow);
    }

    /// Lists the flows whose next packet is due.
    fn release(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first().copied().filter(|f| f.0 <= now) {
            self.delayed.remove(&first);
            let flow = first.2;
            self.held -= self.flows[flow as usize].packets.len() as u32;
            self.list(flow, OLD);
        }
    }

    /// The next band that has a flow and credit (`fq_dequeue`); which of its lists.
    fn select(&mut self) -> Option<usize> {
        let mut empty = 0;
        loop {
            let band = &self.bands[self.turn];
            if band.credit > 0 {
                let list = band.lists.iter().position(|list| !list.is_empty());
                if list.is_some() {
                    return list;
                }
            }
            empty += 1;
            if empty > BANDS {
                return None;
            }
            loop {
                self.turn = (self.turn + 1) % BANDS;
                let weight = self.weight(self.turn);
                let band = &mut self.bands[self.turn];
                band.credit = (band.credit + weight).min(weight);
                if band.credit > 0 {
                    break;
                }
                empty = 0;
            }
        }
    }

    /// Sets when the flow may send again, after a packet of `length` that left now.
    fn pace(&mut self, now: Instant, flow: u32, length: u32) {
        #[cfg(test)]
        if self.mutant == Some(Mutant::NoPace) {
            return;
        }
        let (Some(rate), true) = (self.config.maxrate, self.config.pacing) else {
            return;
        };
        let quantum = self.quantum() as u64;
        let flow = &mut self.flows[flow as usize];
        let mut bytes = u64::from(length);
        if rate <= self.config.low_rate_threshold {
            flow.credit = 0;
        } else {
            bytes = bytes.max(quantum);
            if flow.credit > 0 {
                return;
            }
        }
        let wait = bytes * SECOND / rate.as_bytes().max(1);
        let mut wait = wait.min(SECOND);
        // A flow that was late makes up for it by half a pause at most.
        if flow.next_packet > Instant::ZERO {
            let late = now.since(flow.next_packet).as_nanos();
            wait -= (wait / 2).min(late);
        }
        flow.next_packet = now + Duration::from_nanos(wait);
    }

    fn next(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        if let Some(packet) = self.fast.pop_front() {
            self.meter.left(self.meter.length(&packet));
            return Some(packet);
        }
        self.release(now);
        loop {
            let list = self.select()?;
            let band = self.turn;
            let index = *self.bands[band].lists[list].front()?;
            let quantum = self.quantum();
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += quantum;
                self.bands[band].lists[list].pop_front();
                self.list(index, OLD);
                continue;
            }
            let Some(packet) = flow.packets.front() else {
                self.bands[band].lists[list].pop_front();
                // As in fq_codel, a new flow that is empty passes through the old ones.
                match list {
                    NEW => self.list(index, OLD),
                    _ => flow.place = Place::Detached(tick(now)),
                }
                continue;
            };
            let due = packet.held_since.max(flow.next_packet);
            if now < due {
                flow.next_packet = due;
                flow.place = Place::Throttled;
                self.held += flow.packets.len() as u32;
                self.throttlings += 1;
                self.bands[band].lists[list].pop_front();
                self.delayed.insert((due, self.throttlings, index));
                continue;
            }
            let mut packet = flow.packets.pop_front()?;
            let length = self.meter.length(&packet);
            flow.credit -= i64::from(length);
            self.bands[band].credit -= i64::from(length);
            self.bands[packet.scratch as usize % BANDS].packets -= 1;
            self.meter.left(length);
            let late = now.since(due);
            if self.config.ce_threshold.is_some_and(|most| late > most) {
                self.meter.mark(now, &mut packet, MarkCause::Step, out);
            }
            self.pace(now, index, length);
            return Some(packet);
        }
    }

    /// After a lower limit: dequeues and drops what exceeds it, as far as the queue gives it.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if !std::mem::take(&mut self.over_limit) {
            return;
        }
        while self.meter.counts.backlog.packets > self.config.limit {
            let Some(packet) = self.next(now, out) else {
                return;
            };
            self.meter.drop(now, packet, DropCause::Overflow, out);
        }
    }
}

/// Linux's tick of a millisecond, its lowest bit set, as `age` has it beside pointers.
fn tick(now: Instant) -> u64 {
    (now.as_nanos() / 1_000_000) | 1
}

impl Queue for Fq {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.trim(now, out);
        let band = usize::from(self.config.priomap[priority_of(&packet)]);
        if self.bands[band].packets >= self.config.limit {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        packet.scratch = band as u64;
        if self.is_fast() {
            self.meter.entered(now, &mut packet);
            self.fast.push_back(packet);
            return true;
        }
        let index = self.flow_of(now, &packet);
        let quantum = self.quantum();
        let refill = self.config.refill_delay.as_nanos() / 1_000_000;
        let flow = &mut self.flows[index as usize];
        if flow.packets.len() >= self.config.flow_limit as usize {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        // As in Linux, a flow is listed in the band of the packet before, at first in 0.
        if let Place::Detached(since) = flow.place {
            if now.as_nanos() / 1_000_000 > since + refill {
                flow.credit = flow.credit.max(quantum);
            }
            self.list(index, NEW);
        }
        let flow = &mut self.flows[index as usize];
        flow.band = band;
        self.held += u32::from(flow.place == Place::Throttled);
        self.bands[band].packets += 1;
        self.meter.entered(now, &mut packet);
        flow.packets.push_back(packet);
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.trim(now, out);
        self.next(now, out)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        let waiting = self.meter.counts.backlog.packets;
        if waiting > self.held {
            return Some(now);
        }
        // A flow is only delayed while it has packets.
        let first = self.delayed.first();
        first.map(|(due, ..)| now.max(*due))
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    fn bands(&self) -> &'static [&'static str] {
        FqConfig::BANDS
    }

    fn band_of(&self, packet: &Packet) -> u8 {
        packet.scratch as u8
    }

    /// What waits beyond a lower limit is dropped when the queue is next called with
    /// somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "fq", words)?;
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
