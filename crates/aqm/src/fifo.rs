//! `pfifo` and `bfifo`: one queue, tail drop at a limit in packets or bytes.
//!
//! Behaviour from Linux net/sched/sch_fifo.c v6.17: a packet is refused when
//! the queue already holds `limit` packets, or when it would make the backlog
//! exceed `limit` bytes.

use narrows_core::{Backlog, DropCause, EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rng, Word, WordError, Words,
};

use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, maybe};
use crate::waiting::Waiting;

/// Packets that a Linux device queues unless configured otherwise (`txqueuelen`
/// 1000, set by `ether_setup`); bfifo multiplies it by the frame size.
pub const DEFAULT_LIMIT: u64 = 1000;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Packets,
    Bytes,
}

impl Unit {
    const fn kind(self) -> &'static str {
        match self {
            Self::Packets => "pfifo",
            Self::Bytes => "bfifo",
        }
    }
}

/// Parameters of `pfifo` and `bfifo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FifoConfig {
    /// Packets (`pfifo`) or bytes (`bfifo`) that may wait; unset: 1000
    /// packets, or 1000 full frames in bytes.
    pub limit: Option<Bytes>,
}

impl Parameters for FifoConfig {
    const PARAMETERS: &'static [Parameter] = &[Parameter::new(
        "limit NUMBER",
        ParameterKind::Number(""),
        "a limit of at least 1, such as 1000 or 64kb",
        "1000 packets; of bfifo the bytes of 1000 full frames",
        "Packets that may wait, or of bfifo bytes",
    )];

    fn values(&self) -> Vec<Holds> {
        vec![maybe(self.limit.map(Bytes::get))]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => {
                self.limit = Some(words.value_where(
                    "a limit of at least 1, such as 1000 or 64kb",
                    |n: &Bytes| n.get() > 0 && n.get() <= u64::from(u32::MAX),
                )?);
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
pub(crate) struct Fifo {
    config: FifoConfig,
    unit: Unit,
    limit: u64,
    frame: u32,
    waiting: Waiting,
}

impl Fifo {
    /// `pfifo`.
    pub fn of_packets(config: FifoConfig, entity: EntityId, link: LinkFacts, _: Rng) -> Self {
        Self::new(config, Unit::Packets, entity, link)
    }

    /// `bfifo`.
    pub fn of_bytes(config: FifoConfig, entity: EntityId, link: LinkFacts, _: Rng) -> Self {
        Self::new(config, Unit::Bytes, entity, link)
    }

    fn new(config: FifoConfig, unit: Unit, entity: EntityId, link: LinkFacts) -> Self {
        let mut fifo = Self {
            config,
            unit,
            limit: 0,
            frame: link.frame(),
            waiting: Waiting::new(entity, link),
        };
        fifo.apply_limit();
        fifo
    }

    fn apply_limit(&mut self) {
        self.limit = match (self.config.limit, self.unit) {
            (Some(limit), _) => limit.get(),
            (None, Unit::Packets) => DEFAULT_LIMIT,
            (None, Unit::Bytes) => DEFAULT_LIMIT * u64::from(self.frame),
        };
    }

    fn is_full_for(&self, packet: &Packet) -> bool {
        match self.unit {
            Unit::Packets => u64::from(self.waiting.packets()) >= self.limit,
            Unit::Bytes => {
                self.waiting.bytes() + u64::from(self.waiting.meter.length(packet)) > self.limit
            }
        }
    }
}

impl Queue for Fifo {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if self.is_full_for(&packet) {
            self.waiting.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        self.waiting.push(now, packet);
        true
    }

    fn dequeue(&mut self, _now: Instant, _out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.waiting.pull()
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        self.waiting.next_dequeue(now)
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.waiting.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.waiting.meter.counts
    }

    /// A lower limit refuses newcomers and drops nothing that waits, as in
    /// Linux.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, self.unit.kind(), words)?;
        self.apply_limit();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Ecn::NotEct;

    use super::*;
    use crate::testing::{Bench, ms};

    #[test]
    fn pfifo_refuses_the_packet_after_the_limit_and_keeps_order() {
        let mut b = Bench::new("pfifo limit 3");
        let taken: Vec<bool> = (0..5).map(|_| b.offer(ms(1), 1, NotEct, 1514).1).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert_eq!(b.queue.counts().dropped, 2);
        assert!(b.log.drops.iter().all(|d| d.2 == DropCause::Overflow));
        let ids: Vec<u64> = std::iter::from_fn(|| b.take(ms(2))).map(|t| t.id).collect();
        assert_eq!(ids, [0, 1, 2]);
        assert_eq!(b.queue.backlog(), narrows_core::Backlog::default());
    }

    #[test]
    fn bfifo_takes_a_packet_that_exactly_fills_the_limit() {
        let mut b = Bench::new("bfifo limit 3028");
        assert!(b.offer(ms(1), 1, NotEct, 1514).1);
        assert!(b.offer(ms(1), 1, NotEct, 1514).1);
        assert!(!b.offer(ms(1), 1, NotEct, 64).1);
        assert_eq!(b.queue.backlog().bytes, 3028);
    }

    #[test]
    fn the_default_limits_are_1000_packets_and_1000_frames() {
        let mut b = Bench::new("pfifo");
        assert_eq!(
            (0..1500)
                .filter(|_| b.offer(ms(1), 1, NotEct, 64).1)
                .count(),
            1000
        );
        let mut b = Bench::new("bfifo");
        assert_eq!(
            (0..1500)
                .filter(|_| b.offer(ms(1), 1, NotEct, 1514).1)
                .count(),
            1000
        );
    }

    #[test]
    fn a_lower_limit_in_mid_run_drops_nothing_that_waits() {
        let mut b = Bench::new("pfifo limit 10");
        (0..10).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, 1514).1));
        b.queue.change(ms(2), "limit 5").unwrap();
        assert_eq!(b.queue.backlog().packets, 10);
        assert!(!b.offer(ms(2), 1, NotEct, 1514).1);
        (0..6).for_each(|_| assert!(b.take(ms(3)).is_some()));
        assert!(b.offer(ms(3), 1, NotEct, 1514).1);
        assert!(!b.offer(ms(3), 1, NotEct, 1514).1);
        assert!(b.queue.change(ms(3), "pie limit 5").is_err());
    }
}
