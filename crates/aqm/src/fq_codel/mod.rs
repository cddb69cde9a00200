//! `fq_codel`: flows kept apart by a hash, served by deficit round robin with
//! new flows first, each under the CoDel law (RFC 8290).
//!
//! Sources: RFC 8290; Linux net/sched/sch_fq_codel.c v6.17. With `flows 1` it
//! is one queue under CoDel.

mod config;

use std::collections::VecDeque;

use narrows_core::{Backlog, DropCause, EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Instant, Rng, WordError};

pub use config::FqCodelConfig;

use crate::codel::{Codel, Params, Source};
use crate::flows::FlowHash;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading;
use crate::rounds::Rounds;

/// One bucket of the hash.
#[derive(Debug, Default)]
struct Flow {
    packets: VecDeque<Box<Packet>>,
    codel: Codel,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct FqCodel {
    config: FqCodelConfig,
    frame: u32,
    params: Params,
    hash: FlowHash,
    flows: Vec<Flow>,
    /// Bytes per flow, apart from the flows so that the search for the
    /// fattest reads little memory.
    backlogs: Vec<u32>,
    rounds: Rounds,
    meter: Meter,
    over_limit: bool,
}

/// One flow, as the law sees it: its packets, everybody's backlog.
struct View<'a> {
    packets: &'a mut VecDeque<Box<Packet>>,
    backlog: &'a mut u32,
    meter: &'a mut Meter,
}

impl Source for View<'_> {
    fn pull(&mut self) -> Option<Box<Packet>> {
        let packet = self.packets.pop_front()?;
        let length = self.meter.length(&packet);
        self.meter.left(length);
        *self.backlog -= length;
        Some(packet)
    }

    fn meter(&mut self) -> &mut Meter {
        self.meter
    }
}

/// The bucket of `packet` in a queue of this configuration that is made with
/// `rng`; `None` where all flows are to be one.
pub(crate) fn bucket_of(config: &FqCodelConfig, mut rng: Rng, packet: &Packet) -> Option<usize> {
    let flows = config.flows as usize;
    (flows > 1).then(|| FlowHash::new(&mut rng).bucket(flows, packet))
}

impl FqCodel {
    pub fn new(config: FqCodelConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let flows = config.flows as usize;
        Self {
            frame: link.frame(),
            params: params_of(&config, link.frame()),
            hash: FlowHash::new(&mut rng),
            flows: (0..flows).map(|_| Flow::default()).collect(),
            backlogs: vec![0; flows],
            rounds: Rounds::new(flows, quantum_of(&config, link.frame())),
            meter: Meter::new(entity, link),
            over_limit: false,
            config,
        }
    }

    fn is_over(&self) -> bool {
        self.meter.counts.backlog.packets > self.config.limit
            || self.meter.counts.backlog.bytes > self.config.memory_limit.get()
    }

    /// Drops up to half of the fattest flow from its head (RFC 8290 §4.1); returns the
    /// flow.
    fn shed(&mut self, now: Instant, out: &mut Outlet<'_>) -> usize {
        let mut fattest = (0, 0);
        for (index, backlog) in self.backlogs.iter().enumerate() {
            if *backlog > fattest.1 {
                fattest = (index, *backlog);
            }
        }
        let (index, half) = (fattest.0, fattest.1 / 2);
        let flow = &mut self.flows[index];
        let (mut packets, mut bytes) = (0, 0);
        while let Some(packet) = flow.packets.pop_front() {
            let length = self.meter.length(&packet);
            self.meter.left(length);
            self.backlogs[index] -= length;
            self.meter.drop(now, packet, DropCause::Overflow, out);
            packets += 1;
            bytes += length;
            if packets >= self.config.drop_batch || bytes >= half {
                break;
            }
        }
        // CoDel signals more often, too, as in Linux (`fq_codel_drop`).
        flow.codel.count = flow.codel.count.wrapping_add(packets);
        index
    }

    /// The next packet by deficit round robin (RFC 8290 §4.2).
    fn next(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        loop {
            let index = self.rounds.next()?;
            let flow = &mut self.flows[index];
            let mut view = View {
                packets: &mut flow.packets,
                backlog: &mut self.backlogs[index],
                meter: &mut self.meter,
            };
            if let Some(packet) = flow.codel.dequeue(now, &self.params, &mut view, out) {
                self.rounds.spent(index, self.meter.length(&packet));
                return Some(packet);
            }
            self.rounds.had_none(index);
        }
    }

    /// After lower limits: dequeues and drops what exceeds them.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.over_limit = false;
        while self.is_over() {
            let Some(packet) = self.next(now, out) else {
                return;
            };
            self.meter.drop(now, packet, DropCause::Overflow, out);
        }
    }
}

fn quantum_of(config: &FqCodelConfig, frame: u32) -> i64 {
    i64::from(config.quantum.unwrap_or(frame))
}

fn params_of(c: &FqCodelConfig, frame: u32) -> Params {
    Params::new(
        c.target,
        c.interval,
        c.ce_threshold,
        c.ce_threshold_selector,
        c.ecn,
        frame,
    )
}

impl Queue for FqCodel {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if self.over_limit {
            self.trim(now, out);
        }
        let index = self.hash.bucket(self.flows.len(), &packet);
        let length = self.meter.entered(now, &mut packet);
        self.backlogs[index] += length;
        self.flows[index].packets.push_back(packet);
        self.rounds.begin(index);
        // Heads are dropped, so the newcomer is among them only if its flow
        // is empty afterwards.
        !(self.is_over() && self.shed(now, out) == index && self.flows[index].packets.is_empty())
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        if self.over_limit {
            self.trim(now, out);
        }
        self.next(now, out)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (self.meter.counts.backlog.packets > 0).then_some(now)
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    /// What waits beyond lower limits is dropped when the queue is next called
    /// with somewhere to report it. `flows` cannot change, as in Linux.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "fq_codel", words)?;
        self.rounds
            .set_quantum(quantum_of(&self.config, self.frame));
        self.params = params_of(&self.config, self.frame);
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
