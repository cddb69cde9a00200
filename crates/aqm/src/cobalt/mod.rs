//! `cobalt`: one queue under CAKE's AQM, COBALT, which is CoDel with a counter that decays
//! step by step, beside BLUE.
//!
//! Sources: Linux net/sched/sch_cake.c v6.17, of which it is the law; ns-3's
//! CobaltQueueDisc, which is a queue of its own as this one. No kernel of Linux has
//! a discipline of this name; the words are those of `codel`. What overflows is dropped from
//! the head, as CAKE does, so that BLUE learns of it.

mod law;

use narrows_core::{DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Duration, Instant, Parameter, Rng, Word, WordError, Words};
use narrows_wire::ip;

pub(crate) use law::{BLUE_DOWN, BLUE_UP, Cobalt, Params};

use crate::codel;
use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, is, packets, read_packets};
use crate::waiting::Waiting;

/// Packets (`sch->limit` of sch_cake.c v6.17).
const LIMIT: u32 = 10_240;

/// Parameters of `cobalt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CobaltConfig {
    /// Packets that may wait.
    pub limit: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time from when the delay exceeds target to the first signal.
    pub interval: Duration,
    /// Mark instead of dropping where the packet allows it; BLUE drops in any case.
    pub ecn: bool,
}

impl Default for CobaltConfig {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            target: codel::TARGET,
            interval: codel::INTERVAL,
            ecn: true,
        }
    }
}

impl Parameters for CobaltConfig {
    const PARAMETERS: &'static [Parameter] = &[
        packets("limit PACKETS", "10240", "Packets that may wait"),
        codel::TARGET_PARAMETER,
        codel::INTERVAL_PARAMETER,
        codel::ecn_parameter("ecn"),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            is(self.target),
            is(self.interval),
            Holds::Flag(self.ecn),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = read_packets(words)?,
            "target" => self.target = codel::time(words)?,
            "interval" => self.interval = codel::time(words)?,
            "ecn" | "noecn" => self.ecn = key.text == "ecn",
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct CobaltQueue {
    config: CobaltConfig,
    link: LinkFacts,
    cobalt: Cobalt,
    rng: Rng,
    waiting: Waiting,
}

impl CobaltQueue {
    pub fn new(config: CobaltConfig, entity: EntityId, link: LinkFacts, rng: Rng) -> Self {
        Self {
            config,
            link,
            cobalt: Cobalt::default(),
            rng,
            waiting: Waiting::new(entity, link),
        }
    }

    /// The law's parameters at the link's present rate; a link that stands still counts no
    /// frames.
    fn params(&self) -> Params {
        let frame_time = match self.link.rate.as_bits() {
            0 => Duration::ZERO,
            _ => self.link.rate.time_for(u64::from(self.link.frame())),
        };
        Params {
            target: self.config.target.as_nanos(),
            interval: self.config.interval.as_nanos(),
            frame_time: frame_time.as_nanos(),
        }
    }

    /// Drops the oldest packets above the limit.
    fn shed(&mut self, now: Instant, out: &mut Outlet<'_>) {
        while self.waiting.packets() > self.config.limit {
            let Some(packet) = self.waiting.pull() else {
                return;
            };
            let params = self.params();
            self.cobalt.overflowed(&params, now);
            self.waiting.drop(now, packet, DropCause::Overflow, out);
        }
    }
}

impl Queue for CobaltQueue {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.waiting.push(now, packet);
        self.shed(now, out);
        // With a limit of at least one packet it is never the newcomer that goes.
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.shed(now, out);
        let params = self.params();
        loop {
            let Some(mut packet) = self.waiting.pull() else {
                self.cobalt.ran_empty(&params, now);
                return None;
            };
            let capable = self.config.ecn && ip::ecn(&packet.bytes).is_capable();
            let sojourn = now.since(packet.held_since);
            let due = self
                .cobalt
                .judge(&params, now, sojourn, 0, capable, &mut self.rng);
            // The last packet may be marked, and is not dropped.
            if let Some(cause) = due.drops().filter(|_| self.waiting.packets() > 0) {
                self.waiting.drop(now, packet, cause, out);
                continue;
            }
            if due.mark {
                let cause = MarkCause::Probability;
                self.waiting.meter.mark(now, &mut packet, cause, out);
            }
            return Some(packet);
        }
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        self.waiting.next_dequeue(now)
    }

    fn counts(&self) -> QueueCounts {
        self.waiting.meter.counts
    }

    fn probability(&self) -> f64 {
        f64::from(self.cobalt.blue()) / f64::from(u32::MAX)
    }

    fn link_rate_changed(&mut self, rate: narrows_units::Rate) {
        self.link.rate = rate;
    }

    /// What waits beyond a lower limit is dropped when the queue is next called with
    /// somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "cobalt", words)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
