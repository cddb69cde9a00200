//! `pie`: one queue, random drops or marks on arrival with a probability that
//! a PI controller steers by the queueing delay (RFC 8033).
//!
//! Source of behaviour: Linux net/sched/sch_pie.c v6.17. The delay is that of
//! the last packet to leave, or with `dq_rate_estimator` the backlog over the
//! measured drain rate.

pub(crate) mod control;

use narrows_core::{Backlog, DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Duration, Instant, Parameter, ParameterKind, Rng, Word, WordError, Words};

use self::control::{MAX_PROBABILITY, Pie};
use crate::codel;
use crate::jiffies;
use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, is, packets, read_packets};
use crate::waiting::Waiting;

/// Greatest α and β of tc, in sixteenths of Hz (`ALPHA_MAX`).
const MAX_GAIN: u32 = 32;
/// Packets are marked while the probability is at most this, RFC 8033 §5.1.
const MARK_UP_TO: u64 = MAX_PROBABILITY / 10;

/// Parameters of `pie`. Defaults are those of RFC 8033 §4.2 and Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieConfig {
    /// Packets that may wait.
    pub limit: u32,
    /// Delay that the controller steers to.
    pub target: Duration,
    /// Period of the update.
    pub tupdate: Duration,
    /// Integral gain in sixteenths of Hz.
    pub alpha: u32,
    /// Proportional gain in sixteenths of Hz.
    pub beta: u32,
    /// Mark instead of dropping, up to a probability of 10 %.
    pub ecn: bool,
    /// Smaller packets are dropped less.
    pub bytemode: bool,
    /// Delay from the drain rate (RFC 8033 §4.3) instead of timestamps.
    pub dq_rate_estimator: bool,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            limit: 1_000,
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(15),
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: false,
        }
    }
}

fn gain(words: &mut Words<'_>) -> Result<u32, WordError> {
    words.value_where("1 to 32 sixteenths of Hz", |n: &u32| {
        (1..=MAX_GAIN).contains(n)
    })
}

impl Parameters for PieConfig {
    const PARAMETERS: &'static [Parameter] = &[
        packets("limit PACKETS", "1000", "Packets that may wait"),
        Parameter::new(
            "target TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "15ms",
            "Delay that the controller steers to",
        ),
        Parameter::new(
            "tupdate TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "15ms",
            "Period of the update of the probability",
        ),
        Parameter::new(
            "alpha ALPHA",
            ParameterKind::Number("Hz/16"),
            "1 to 32 sixteenths of Hz",
            "2",
            "Integral gain",
        ),
        Parameter::new(
            "beta BETA",
            ParameterKind::Number("Hz/16"),
            "1 to 32 sixteenths of Hz",
            "20",
            "Proportional gain",
        ),
        Parameter::flag(
            "ecn|noecn",
            "noecn",
            "Whether packets are marked instead of dropped, up to a probability of 10 %",
        ),
        Parameter::flag(
            "bytemode|nobytemode",
            "nobytemode",
            "Whether smaller packets are dropped less",
        ),
        Parameter::flag(
            "dq_rate_estimator|no_dq_rate_estimator",
            "no_dq_rate_estimator",
            "Whether delay is computed from the drain rate (RFC 8033 §4.3) instead of timestamps",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            is(self.target),
            is(self.tupdate),
            is(self.alpha),
            is(self.beta),
            Holds::Flag(self.ecn),
            Holds::Flag(self.bytemode),
            Holds::Flag(self.dq_rate_estimator),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = read_packets(words)?,
            "target" => self.target = codel::time(words)?,
            "tupdate" => self.tupdate = codel::time(words)?,
            "alpha" => self.alpha = gain(words)?,
            "beta" => self.beta = gain(words)?,
            "ecn" | "noecn" => self.ecn = key.text == "ecn",
            "bytemode" | "nobytemode" => self.bytemode = key.text == "bytemode",
            "dq_rate_estimator" | "no_dq_rate_estimator" => {
                self.dq_rate_estimator = key.text == "dq_rate_estimator";
            }
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
pub(crate) struct PieQueue {
    config: PieConfig,
    frame: u32,
    pie: Pie,
    waiting: Waiting,
    next_update: Instant,
    over_limit: bool,
    rng: Rng,
}

impl PieQueue {
    pub fn new(config: PieConfig, entity: EntityId, link: LinkFacts, rng: Rng) -> Self {
        Self {
            config,
            frame: link.frame(),
            pie: Pie::new(),
            waiting: Waiting::new(entity, link),
            next_update: Instant::ZERO + jiffies::HALF_SECOND,
            over_limit: false,
            rng,
        }
    }

    /// Drops what exceeds a limit that was lowered.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if std::mem::take(&mut self.over_limit) {
            self.waiting.trim(now, self.config.limit, out);
        }
    }

    /// Why `packet` is not taken, if so; marks it if that is what is due.
    fn refuses(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        out: &mut Outlet<'_>,
    ) -> Option<DropCause> {
        if self.waiting.packets() >= self.config.limit {
            return Some(DropCause::Overflow);
        }
        let length = self.waiting.meter.length(packet);
        let backlog = self.waiting.bytes();
        let due = self
            .pie
            .drops(&self.config, backlog, length, self.frame, &mut self.rng);
        if !due {
            return None;
        }
        let overload = self.pie.probability > MARK_UP_TO;
        if self.config.ecn
            && !overload
            && self
                .waiting
                .meter
                .mark(now, packet, MarkCause::Probability, out)
        {
            return None;
        }
        let capable = narrows_wire::ip::ecn(&packet.bytes).is_capable();
        Some(if self.config.ecn && capable {
            DropCause::Overload
        } else {
            DropCause::Probability
        })
    }
}

impl Queue for PieQueue {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.trim(now, out);
        if let Some(cause) = self.refuses(now, &mut packet, out) {
            self.pie.accumulated = 0;
            self.waiting.drop(now, packet, cause, out);
            return false;
        }
        self.waiting.push(now, packet);
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.trim(now, out);
        let packet = self.waiting.pull()?;
        let length = self.waiting.meter.length(&packet);
        let backlog = self.waiting.bytes();
        self.pie
            .dequeued(&self.config, now, packet.held_since, backlog, length);
        Some(packet)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        self.waiting.next_dequeue(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        Some(self.next_update)
    }

    fn tick(&mut self, now: Instant) {
        self.pie.update(&self.config, self.waiting.bytes());
        self.next_update = jiffies::expiry(now, self.config.tupdate);
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.waiting.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.waiting.meter.counts
    }

    fn probability(&self) -> f64 {
        // The controller's own may run beyond 1, as in Linux.
        self.pie.probability.min(MAX_PROBABILITY) as f64 / MAX_PROBABILITY as f64
    }

    /// What waits beyond a lower limit is dropped when the queue is next
    /// called with somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "pie", words)?;
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Ecn::{self, Ect0, NotEct};

    use super::*;
    use crate::testing::{Bench, ms, us};

    const FRAME: u32 = 1514;

    /// Arrivals each 800 µs against departures each millisecond, stretched
    /// once the probability holds: 20 % too much traffic that never yields.
    fn overloaded(words: &str, ecn: Ecn, until_ms: u64) -> Bench {
        let mut b = Bench::new(words);
        for step in 0..until_ms * 5 {
            let now = us(200 * step);
            b.tick_until(now);
            if step % 4 == 0 {
                b.offer(now, 1, ecn, FRAME);
            }
            if step % 5 == 0 {
                b.take(now);
            }
        }
        b
    }

    #[test]
    fn unresponsive_overload_is_held_at_the_target_delay() {
        let b = overloaded("pie", NotEct, 60_000);
        // A fifth of the packets has to go; with drops spaced as in §5.4 the
        // mean gap ⌈0.85/p⌉ − 1 + 1/p is five packets at p = 0.33.
        let p = b.queue.probability();
        assert!((0.28..0.40).contains(&p), "{p}");
        // A frame leaves each millisecond, the target is 15 ms.
        let waiting = b.queue.backlog().packets;
        assert!((8..25).contains(&waiting), "{waiting}");
        assert!(b.log.drops.iter().all(|d| d.2 == DropCause::Probability));
    }

    #[test]
    fn marks_end_above_a_tenth() {
        let b = overloaded("pie ecn", Ect0, 60_000);
        assert!(!b.log.marks.is_empty());
        // The load needs 20 %: ECN alone cannot hold it.
        let dropped = b.log.drops.iter().filter(|d| d.2 == DropCause::Overload);
        assert!(dropped.count() > 1_000);
        assert!(overloaded("pie", Ect0, 5_000).log.marks.is_empty());
    }

    #[test]
    fn updates_start_at_500_ms_and_follow_each_tupdate() {
        let mut b = Bench::new("pie tupdate 32ms");
        assert_eq!(b.queue.next_tick(), Some(ms(500)));
        b.queue.tick(ms(500));
        assert_eq!(b.queue.next_tick(), Some(ms(532)));
    }

    #[test]
    fn the_limit_holds_and_a_lower_one_drops_from_the_head() {
        let mut b = Bench::new("pie limit 100 target 5ms tupdate 32ms alpha 2 beta 20 ecn");
        let taken = (0..150)
            .filter(|_| b.offer(ms(1), 1, Ect0, FRAME).1)
            .count();
        assert_eq!(taken, 100);
        assert!(b.log.drops.iter().all(|d| d.2 == DropCause::Overflow));
        b.queue.change(ms(1), "limit 10").unwrap();
        assert_eq!(b.take(ms(1)).unwrap().id, 90);
    }
}
