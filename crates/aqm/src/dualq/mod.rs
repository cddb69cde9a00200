//! `dualq`: the dual queues of the MAMI project's fixed-link study, coupled or not.
//!
//! What is sensitive to latency goes to the L queue, the rest to the classic queue; which
//! queue sends next, and what marks or drops, are words. tc has no such discipline: the words
//! are ours, the rules those of the report and, where it leaves something open, of the
//! study's public code.
//!
//! | | `pi2` | `pie` | `cred` | `red` |
//! |---|---|---|---|---|
//! | p_C | p′², PI on the delay | p, PIE | (d̃/0.5 s)², d̃ the smoothed delay | by the queue's length |
//! | p_L, coupled | k·p′ | k·√p | d/0.25 s, d the delay of the classic head | |
//! | step of a coupled L queue | delay, if two frames wait | the same | five frames wait | |
//! | decided | as a packet leaves | as it comes | as it leaves | as it comes |
//! | scheduler unless named | time-shifted, twice the target | L first | L first | turns of packets |
//!
//! `pie uncoupled` has a controller for each queue, and `red` is uncoupled in any case: with
//! turns in proportion to the flows of each class they are LoLa. A packet that is to be marked
//! and cannot be is dropped.
//!
//! Sources: MAMI D2.2 (2018) §3.3.1 and §3.3.2; mami-project/ns3-aqm-l4s (`l4s-pi2`,
//! `l4s-my-pie`, `l4s-cred`, `dq-my-pie`, `dq-red`). Deviations: PI2's probability stops at 0
//! and 1, where that code lets it run beyond both; frames count the link's overhead.

mod config;
mod pi;

use std::collections::VecDeque;

use narrows_core::{DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Draw, Duration, Instant, Rng, WordError};
use narrows_wire::{Ecn, ip};

pub use config::{Aqm, DualQConfig, Scheduler};
use pi::{Law, ONE, Pi};

use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading::{self, Parameters};

/// S_C of CRED: the smoothed delay at which classic packets are all marked (report §3.3.1).
const S_C: Duration = Duration::from_millis(500);
/// S_L of CRED, S_C over k = 2; k scales it (report §3.3.1).
const S_L: Duration = Duration::from_millis(250);
/// f of CRED: the weight of a new delay is 2 to the minus this (report §3.3.1: 1/32).
const SMOOTHING: u32 = 5;
/// Full frames that have to wait behind a packet of L for the step (code: 2 MTU).
const STEP_FRAMES: u64 = 2;
/// Full frames above which CRED marks all of L (code: 5 MTU).
const CRED_FRAMES: u64 = 5;
/// p_C of PI2 at which its coupled probability is 1 and both queues drop (report: 25 %).
const PI2_SATURATION: u64 = ONE / 2;
/// RED's probability at the upper threshold, in per cent (report §3.3.1: 0.02).
const RED_MAX_P: u64 = 2;
/// Scratch bit of a packet of L.
const IN_L: u64 = 1;

/// The two queues, as indices.
const LOW: usize = 0;
const CLASSIC: usize = 1;

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The coupling leaves out k.
    NoK,
    /// p_C is not squared.
    Unsquared,
    /// The step is a delay, whatever the number of packets.
    StepOfOne,
    /// The turns are those of the other queue.
    TurnsSwapped,
    /// The shift is added to the classic queue.
    ShiftSwapped,
    /// RED's thresholds include themselves.
    Inclusive,
}

/// One of the two.
#[derive(Debug)]
struct Side {
    packets: VecDeque<Box<Packet>>,
    /// Bytes.
    bytes: u64,
    pi: Pi,
}

impl Side {
    /// How long its oldest packet has waited.
    fn delay(&self, now: Instant) -> Duration {
        let oldest = self.packets.front();
        oldest.map_or(Duration::ZERO, |p| now.since(p.held_since))
    }
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct DualQ {
    config: DualQConfig,
    frame: u64,
    sides: [Side; 2],
    /// CRED's smoothed delay of the classic queue in ns, times 2⁵.
    smoothed: u64,
    /// Whose turn it is, and how many packets it has sent in it.
    turn: (usize, u32),
    next_update: Instant,
    over_limit: bool,
    rng: Rng,
    meter: Meter,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl DualQ {
    pub fn new(config: DualQConfig, entity: EntityId, link: LinkFacts, rng: Rng) -> Self {
        let side = |pi| Side {
            packets: VecDeque::new(),
            bytes: 0,
            pi,
        };
        Self {
            frame: u64::from(link.frame()),
            sides: [
                side(controller(&config, LOW)),
                side(controller(&config, CLASSIC)),
            ],
            smoothed: 0,
            turn: (LOW, 0),
            next_update: Instant::ZERO + config.tupdate,
            over_limit: false,
            rng,
            meter: Meter::new(entity, link),
            config,
            #[cfg(test)]
            mutant: None,
        }
    }

    #[cfg(test)]
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Which queue a packet goes to: by its DSCP, or by ECN as in RFC 9331.
    fn side_of(&self, packet: &Packet) -> usize {
        let low = match self.config.dscp {
            Some(dscp) => ip::dscp(&packet.bytes) == dscp,
            None => matches!(ip::ecn(&packet.bytes), Ecn::Ect1 | Ecn::Ce),
        };
        if low { LOW } else { CLASSIC }
    }

    /// True with a probability in units of 2⁻⁴⁸.
    fn roll(&mut self, probability: u64) -> bool {
        self.rng.draw_u64() >> 16 < probability
    }

    /// p² by two comparisons.
    fn squared_roll(&mut self, probability: u64) -> bool {
        #[cfg(test)]
        if self.is(Mutant::Unsquared) {
            return self.roll(probability);
        }
        // Both are drawn, as the study's code draws both.
        let (first, second) = (self.roll(probability), self.roll(probability));
        first && second
    }

    /// k·√p, by comparing a square: (u/k)² < p.
    fn rooted_roll(&mut self, probability: u64) -> bool {
        let drawn = u128::from(self.rng.draw_u32());
        let k = self.k();
        drawn * drawn < (u128::from(k * k) * u128::from(probability)) << 16
    }

    fn k(&self) -> u64 {
        #[cfg(test)]
        if self.is(Mutant::NoK) {
            return 1;
        }
        u64::from(self.config.coupling_factor)
    }

    /// Whether the step asks for a packet of L whose queue's head has waited for `delay`.
    fn step(&self, delay: Duration) -> bool {
        let long = delay > self.config.step_thresh;
        #[cfg(test)]
        if self.is(Mutant::StepOfOne) {
            return long;
        }
        long && self.sides[LOW].bytes > STEP_FRAMES * self.frame
    }

    /// RED's verdict by the length of the queue: nothing up to `min`, everything above `max`.
    fn red(&mut self, side: usize) -> bool {
        let (min, max) = match side {
            LOW => (self.config.l_min, self.config.l_max),
            _ => (self.config.min, self.config.max),
        };
        let length = self.sides[side].packets.len() as u64;
        let (min, max) = (u64::from(min), u64::from(max));
        #[cfg(test)]
        if self.is(Mutant::Inclusive) && length >= max {
            return true;
        }
        if length > max {
            return true;
        }
        length > min && self.roll(ONE / 100 * RED_MAX_P / (max - min) * (length - min))
    }

    /// Whether a packet that comes to `side` is to be marked, by which cause.
    fn arrives(&mut self, now: Instant, side: usize) -> Option<MarkCause> {
        let delay = self.sides[side].delay(now);
        let due = match (self.config.aqm, side) {
            (Aqm::Red, _) => self.red(side),
            (Aqm::Pie, LOW) if self.config.coupled => {
                let base = self.sides[CLASSIC].pi.probability;
                if self.rooted_roll(base) {
                    return Some(MarkCause::Coupled);
                }
                return self.step(delay).then_some(MarkCause::Step);
            }
            (Aqm::Pie, _) => {
                let waiting = self.sides[side].packets.len();
                let calm = self.sides[side].pi.is_calm(delay, waiting);
                let probability = self.sides[side].pi.probability;
                !calm && self.roll(probability)
            }
            (Aqm::Pi2 | Aqm::Cred, _) => false,
        };
        due.then_some(MarkCause::Probability)
    }

    /// PI2: what becomes of a packet that leaves `side`.
    fn leaves_by_pi2(&mut self, side: usize, delay: Duration) -> (Option<MarkCause>, bool) {
        let base = self.sides[CLASSIC].pi.probability;
        let saturated = base >= PI2_SATURATION;
        let coupled = base.saturating_mul(self.k()).min(ONE);
        if side == CLASSIC {
            let due = self.squared_roll(base);
            return (due.then_some(MarkCause::Probability), saturated && due);
        }
        if saturated && self.squared_roll(base) {
            return (None, true);
        }
        let coupled = self.roll(coupled).then_some(MarkCause::Coupled);
        let step = (!saturated && self.step(delay)).then_some(MarkCause::Step);
        (coupled.or(step), false)
    }

    /// CRED: what becomes of a packet that leaves `side`.
    fn leaves_by_cred(&mut self, now: Instant, side: usize, delay: Duration) -> Option<MarkCause> {
        let over = |ns: u64, scale: Duration| {
            let part = (u128::from(ns) << 48) / u128::from(scale.as_nanos());
            part.min(u128::from(ONE)) as u64
        };
        if side == CLASSIC {
            let smoothed = self.smoothed;
            self.smoothed = smoothed - (smoothed >> SMOOTHING) + delay.as_nanos();
            let base = over(self.smoothed >> SMOOTHING, S_C);
            return self.squared_roll(base).then_some(MarkCause::Probability);
        }
        let classic = self.sides[CLASSIC].delay(now).as_nanos();
        let coupled = self.roll(over(classic, S_L) / 2 * self.k());
        let step = self.sides[LOW].bytes > CRED_FRAMES * self.frame;
        match (coupled, step) {
            (true, _) => Some(MarkCause::Coupled),
            (_, true) => Some(MarkCause::Step),
            _ => None,
        }
    }

    /// Which queue sends next, of two that are not both empty.
    fn pick(&mut self, now: Instant) -> usize {
        let [low, classic] = &self.sides;
        let alone = match (low.packets.is_empty(), classic.packets.is_empty()) {
            (true, _) => Some(CLASSIC),
            (_, true) => Some(LOW),
            _ => None,
        };
        match self.config.scheduler {
            Scheduler::Priority => alone.unwrap_or(LOW),
            Scheduler::Shift(shift) => alone.unwrap_or_else(|| {
                let (low, classic) = (low.delay(now), classic.delay(now));
                #[cfg(test)]
                if self.is(Mutant::ShiftSwapped) {
                    return usize::from(low < classic + shift);
                }
                if low + shift >= classic { LOW } else { CLASSIC }
            }),
            Scheduler::Wrr(low, classic) => {
                let divisor = gcd(low, classic);
                let turns = [low / divisor, classic / divisor];
                #[cfg(test)]
                let turns = match self.is(Mutant::TurnsSwapped) {
                    true => [turns[1], turns[0]],
                    false => turns,
                };
                let (turn, sent) = self.turn;
                let over = sent >= turns[turn];
                let next = alone.unwrap_or(if over { 1 - turn } else { turn });
                // A queue that is alone goes on counting, so that it has no turn left when
                // the other comes back.
                self.turn = match next == turn {
                    true => (turn, sent.saturating_add(1)),
                    false => (next, 1),
                };
                next
            }
        }
    }

    /// Takes the oldest packet of `side`.
    fn pull(&mut self, side: usize) -> Option<Box<Packet>> {
        let packet = self.sides[side].packets.pop_front()?;
        let length = self.meter.length(&packet);
        self.sides[side].bytes -= u64::from(length);
        self.meter.left(length);
        Some(packet)
    }

    /// After a lower limit: drops from the heads what exceeds it.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if !std::mem::take(&mut self.over_limit) {
            return;
        }
        while self.meter.counts.backlog.packets > self.config.limit {
            let Some(packet) = self.pull(CLASSIC).or_else(|| self.pull(LOW)) else {
                return;
            };
            self.meter.drop(now, packet, DropCause::Overflow, out);
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The controller of a queue as its words have it.
fn controller(c: &DualQConfig, side: usize) -> Pi {
    let law = match c.aqm {
        Aqm::Pie => Law::Pie,
        Aqm::Pi2 | Aqm::Cred | Aqm::Red => Law::Pi2,
    };
    let target = match (side, c.l_target) {
        (LOW, Some(target)) => target,
        _ => c.target,
    };
    Pi::new(law, target, c.tupdate, c.alpha, c.beta)
}

impl Queue for DualQ {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.trim(now, out);
        let side = self.side_of(&packet);
        if self.meter.counts.backlog.packets >= self.config.limit {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        if let Some(cause) = self.arrives(now, side) {
            if !self.meter.mark(now, &mut packet, cause, out) {
                self.meter.drop(now, packet, DropCause::Probability, out);
                return false;
            }
        }
        packet.scratch = if side == LOW { IN_L } else { 0 };
        let length = self.meter.entered(now, &mut packet);
        self.sides[side].bytes += u64::from(length);
        self.sides[side].packets.push_back(packet);
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.trim(now, out);
        while self.meter.counts.backlog.packets > 0 {
            let side = self.pick(now);
            let mut packet = self.pull(side)?;
            let delay = now.since(packet.held_since);
            let (mark, drop) = match self.config.aqm {
                Aqm::Pi2 => self.leaves_by_pi2(side, delay),
                Aqm::Cred => (self.leaves_by_cred(now, side, delay), false),
                Aqm::Pie | Aqm::Red => (None, false),
            };
            let cause = match (mark, drop) {
                (_, true) => Some(DropCause::Overload),
                (Some(cause), _) if !self.meter.mark(now, &mut packet, cause, out) => {
                    Some(DropCause::Probability)
                }
                _ => None,
            };
            match cause {
                Some(cause) => self.meter.drop(now, packet, cause, out),
                None => return Some(packet),
            }
        }
        None
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (self.meter.counts.backlog.packets > 0).then_some(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        match self.config.aqm {
            Aqm::Pi2 | Aqm::Pie => Some(self.next_update),
            Aqm::Cred | Aqm::Red => None,
        }
    }

    /// PI2 steers by the L queue where the classic one is empty, as the study's code does.
    fn tick(&mut self, now: Instant) {
        let mut delays = [LOW, CLASSIC].map(|side| self.sides[side].delay(now));
        if self.config.aqm == Aqm::Pi2 && self.sides[CLASSIC].packets.is_empty() {
            delays[CLASSIC] = delays[LOW];
        }
        for (side, delay) in self.sides.iter_mut().zip(delays) {
            side.pi.update(delay);
        }
        self.next_update = now + self.config.tupdate;
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    fn probability(&self) -> f64 {
        self.sides[CLASSIC].pi.probability as f64 / ONE as f64
    }

    fn bands(&self) -> &'static [&'static str] {
        DualQConfig::BANDS
    }

    fn band_of(&self, packet: &Packet) -> u8 {
        u8::from(packet.scratch & IN_L != 0)
    }

    /// What waits beyond a lower limit is dropped when the queue is next called with
    /// somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "dualq", words)?;
        for (index, side) in self.sides.iter_mut().enumerate() {
            side.pi.take_parameters(&controller(&self.config, index));
        }
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
