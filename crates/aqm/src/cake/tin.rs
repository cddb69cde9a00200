//! One tin: its queues with their AQM, the rounds in which they are served, its threshold.
//!
//! Behaviour from Linux net/sched/sch_cake.c v6.17 (`cake_set_rate`, `cake_enqueue`,
//! `cake_dequeue`).

use std::collections::VecDeque;

use narrows_core::Packet;
use narrows_units::{Duration, Instant, Rng};

use super::isolation::{FlowMode, Isolation, QUEUES, Set};
use super::rounds::{Round, Rounds};
use super::shaper::{Pace, Schedule};
use super::tins::Share;
use crate::cobalt::{Cobalt, Params};
use crate::flows::FlowHash;

/// Bytes of a flow and round: the rate in bytes per second divided by this, within bounds
/// (`cake_set_rate`).
const ROUNDS_A_SECOND: u64 = 4096;
/// The bounds, in bytes; the upper one also holds without a shaper.
const QUANTA: std::ops::RangeInclusive<u64> = 300..=1514;

/// One queue of a tin.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub packets: VecDeque<Box<Packet>>,
    pub cobalt: Cobalt,
    pub deficit: i32,
}

/// A tin.
#[derive(Debug)]
pub(super) struct Tin {
    pub isolation: Isolation,
    pub flows: Vec<Flow>,
    /// Bytes of each queue, apart so that the search for the longest reads little memory.
    pub backlogs: Vec<u32>,
    rounds: Rounds,
    /// Flows that are sparse, and that are bulk.
    sparse: u32,
    pub bulk: u32,
    /// Packets that wait in it.
    pub packets: u32,
    pub schedule: Schedule,
    pub pace: Pace,
    pub params: Params,
    /// Bytes of a flow and round.
    quantum: u32,
    /// Bytes of the tin and round, where nothing shapes.
    pub weight: i32,
    pub deficit: i32,
}

/// The AQM of a tin of `rate` bytes per second, 0 without a shaper: its target is one and a
/// half frames at least, and its interval as much longer, and two targets at least.
fn params_of(pace: Pace, target: Duration, interval: Duration, frame: u32) -> Params {
    let frame_time = pace.time_for(frame);
    let (usual, interval) = (target.as_nanos(), interval.as_nanos());
    let target = usual.max(frame_time * 3 / 2);
    Params {
        target,
        interval: (interval + target - usual).max(2 * target),
        frame_time,
    }
}

impl Tin {
    pub fn new(mode: FlowMode, hash: FlowHash) -> Self {
        Self {
            isolation: Isolation::new(mode, hash),
            flows: (0..QUEUES).map(|_| Flow::default()).collect(),
            backlogs: vec![0; QUEUES.into()],
            rounds: Rounds::new(QUEUES),
            sparse: 0,
            bulk: 0,
            packets: 0,
            schedule: Schedule::default(),
            pace: Pace::default(),
            params: params_of(Pace::default(), Duration::ZERO, Duration::ZERO, 0),
            quantum: 0,
            weight: 0,
            deficit: 0,
        }
    }

    /// Gives it its share; `frame` is the link's largest.
    pub fn configure(&mut self, share: Share, target: Duration, interval: Duration, frame: u32) {
        self.pace = Pace::new(share.threshold);
        self.params = params_of(self.pace, target, interval, frame);
        let quantum = match share.threshold {
            0 => *QUANTA.end(),
            rate => (rate / ROUNDS_A_SECOND).clamp(*QUANTA.start(), *QUANTA.end()),
        };
        self.quantum = quantum as u32;
        self.weight = share.weight;
    }

    /// Whether any flow is in the rounds of new and old flows.
    pub fn is_active(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// Brings `queue` into another state and counts that.
    fn enter(&mut self, queue: u16, set: Set) {
        let mut count = |set, by: u32| match set {
            Set::Sparse | Set::SparseWait => self.sparse = self.sparse.wrapping_add(by),
            Set::Bulk => self.bulk = self.bulk.wrapping_add(by),
            Set::Free | Set::Decaying => {}
        };
        count(self.isolation.set_of(queue), u32::MAX);
        count(set, 1);
        self.isolation.enter(queue, set);
    }

    /// A packet has come into `queue`.
    pub fn arrived(&mut self, queue: u16, rng: &mut Rng) {
        match self.isolation.set_of(queue) {
            Set::Free | Set::Decaying => {
                self.rounds.join(queue, Round::New);
                self.enter(queue, Set::Sparse);
                let quantum = self.isolation.quantum(queue, self.quantum, rng);
                self.flows[usize::from(queue)].deficit = quantum;
            }
            // It was empty when it had its quantum: now it is bulk indeed.
            Set::SparseWait => self.enter(queue, Set::Bulk),
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The queue whose turn it is; on the `first` call of a dequeue that of one that decays.
    /// `None` if none is in a round.
    pub fn turn(&mut self, first: bool, rng: &mut Rng) -> Option<u16> {
        let mut first = first;
        loop {
            let decaying = self.rounds.first(Round::Decaying);
            let queue = decaying
                .filter(|_| first)
                .or_else(|| self.rounds.first(Round::New))
                .or_else(|| self.rounds.first(Round::Old))
                .or(decaying)?;
            first = false;
            let at = usize::from(queue);
            if self.flows[at].deficit > 0 {
                return Some(queue);
            }
            if self.isolation.set_of(queue) == Set::Sparse {
                // An empty one goes the round of the old ones for its deficit alone.
                let is_empty = self.flows[at].packets.is_empty();
                self.enter(queue, if is_empty { Set::SparseWait } else { Set::Bulk });
            }
            self.flows[at].deficit += self.isolation.quantum(queue, self.quantum, rng);
            self.rounds.join(queue, Round::Old);
        }
    }

    /// `queue` had its turn and is empty.
    pub fn ran_empty(&mut self, queue: u16, now: Instant) {
        let cobalt = &mut self.flows[usize::from(queue)].cobalt;
        cobalt.ran_empty(&self.params, now);
        if cobalt.is_at_rest(now) {
            self.rounds.leave(queue);
            self.enter(queue, Set::Free);
        } else {
            self.rounds.join(queue, Round::Decaying);
            self.enter(queue, Set::Decaying);
        }
    }

    /// Takes the oldest packet of `queue`, of which the link counts `length` bytes.
    pub fn pull(&mut self, queue: u16, length: impl Fn(&Packet) -> u32) -> Option<Box<Packet>> {
        let at = usize::from(queue);
        let packet = self.flows[at].packets.pop_front()?;
        self.backlogs[at] -= length(&packet);
        self.packets -= 1;
        Some(packet)
    }
}

#[cfg(test)]
mod tests;
