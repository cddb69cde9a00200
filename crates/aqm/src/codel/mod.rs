//! `codel`: one queue under the CoDel law (RFC 8289).
//!
//! A packet that leaves is marked or dropped once the sojourn time has been
//! above `target` for an `interval`, and then again each interval/√n, as long
//! as it stays above and more than one full frame is left behind.
//!
//! Sources: RFC 8289; Linux net/sched/sch_codel.c and include/net/codel_impl.h
//! v6.17.

mod law;

use narrows_core::{Backlog, DropCause, EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Duration, Instant, Parameter, ParameterKind, Rng, Word, WordError, Words};

pub use law::Selector;
pub(crate) use law::{Codel, Params, Source};

use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading::{self, Holds, Parameters, is, maybe, packets, read_packets};
use crate::waiting::Waiting;

/// Acceptable standing delay, RFC 8289 §4.3.
pub(crate) const TARGET: Duration = Duration::from_millis(5);
/// Window over which the delay has to fall below target once, RFC 8289 §4.3.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Packets (`DEFAULT_CODEL_LIMIT`, Linux v6.17).
const LIMIT: u32 = 1_000;

/// Parameters of `codel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Packets that may wait.
    pub limit: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Window over which the delay has to fall below target once.
    pub interval: Duration,
    /// Mark instead of dropping where the packet allows it.
    pub ecn: bool,
    /// Mark everything that waited longer, whatever the law says.
    pub ce_threshold: Option<Duration>,
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            target: TARGET,
            interval: INTERVAL,
            ecn: false,
            ce_threshold: None,
        }
    }
}

/// The times that [`time`] reads.
pub(crate) const TIME_ALLOWED: &str = "a time from 1us to 2000s";

/// A time that the kernel can hold: tc hands over 32 bits of microseconds.
pub(crate) fn time(words: &mut Words<'_>) -> Result<Duration, WordError> {
    words.value_where(TIME_ALLOWED, |t: &Duration| {
        (1_000..=2_000_000_000_000).contains(&t.as_nanos())
    })
}

/// CoDel's target, here and in every queue that has CoDel inside.
pub(crate) const TARGET_PARAMETER: Parameter = Parameter::new(
    "target TIME",
    ParameterKind::Time,
    TIME_ALLOWED,
    "5ms",
    "Acceptable standing delay",
);

/// CoDel's interval.
pub(crate) const INTERVAL_PARAMETER: Parameter = Parameter::new(
    "interval TIME",
    ParameterKind::Time,
    TIME_ALLOWED,
    "100ms",
    "Window over which the delay has to fall below target once",
);

/// The threshold on sojourn of CoDel.
pub(crate) const CE_THRESHOLD_PARAMETER: Parameter = Parameter::new(
    "ce_threshold TIME",
    ParameterKind::Time,
    TIME_ALLOWED,
    "none",
    "Sojourn time above which everything is marked, whatever the law says",
);

/// Whether CoDel marks; `default` is the word that holds where neither is given.
pub(crate) const fn ecn_parameter(default: &'static str) -> Parameter {
    Parameter::flag(
        "ecn|noecn",
        default,
        "Whether packets are marked instead of dropped where they allow it",
    )
}

impl Parameters for CodelConfig {
    const PARAMETERS: &'static [Parameter] = &[
        packets("limit PACKETS", "1000", "Packets that may wait"),
        TARGET_PARAMETER,
        INTERVAL_PARAMETER,
        ecn_parameter("noecn"),
        CE_THRESHOLD_PARAMETER,
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            is(self.target),
            is(self.interval),
            Holds::Flag(self.ecn),
            maybe(self.ce_threshold),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = read_packets(words)?,
            "target" => self.target = time(words)?,
            "interval" => self.interval = time(words)?,
            "ecn" | "noecn" => self.ecn = key.text == "ecn",
            "ce_threshold" => self.ce_threshold = Some(time(words)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn marking_step(&self) -> Option<Duration> {
        self.ce_threshold
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

impl Source for Waiting {
    fn pull(&mut self) -> Option<Box<Packet>> {
        Self::pull(self)
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct CodelQueue {
    config: CodelConfig,
    frame: u32,
    params: Params,
    codel: Codel,
    waiting: Waiting,
    over_limit: bool,
}

impl CodelQueue {
    pub fn new(config: CodelConfig, entity: EntityId, link: LinkFacts, _: Rng) -> Self {
        Self {
            frame: link.frame(),
            params: params_of(&config, link.frame()),
            config,
            codel: Codel::default(),
            waiting: Waiting::new(entity, link),
            over_limit: false,
        }
    }

    /// Drops what exceeds a limit that was lowered.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if std::mem::take(&mut self.over_limit) {
            self.waiting.trim(now, self.config.limit, out);
        }
    }
}

fn params_of(c: &CodelConfig, frame: u32) -> Params {
    Params::new(c.target, c.interval, c.ce_threshold, None, c.ecn, frame)
}

impl Queue for CodelQueue {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.trim(now, out);
        if self.waiting.packets() >= self.config.limit {
            self.waiting.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        self.waiting.push(now, packet);
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.trim(now, out);
        self.codel
            .dequeue(now, &self.params, &mut self.waiting, out)
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

    /// What waits beyond a lower limit is dropped when the queue is next
    /// called with somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "codel", words)?;
        self.params = params_of(&self.config, self.frame);
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
