//! `red`: one queue, random early drops or marks by the average backlog
//! (Floyd and Jacobson, "Random Early Detection Gateways", 1993), with
//! `adaptive` steering max_p (Floyd, Gummadi and Shenker, 2001).
//!
//! Sources of behaviour: Linux net/sched/sch_red.c, include/net/red.h v6.17;
//! iproute2 tc/q_red.c, tc/tc_red.c. Deviations:
//! * an idle period starts when the queue runs empty; Linux starts it when
//!   the device asks an empty queue, which a plain device does at once and a
//!   shaper such as HTB never does;
//! * a change in mid-run keeps the packets that wait, where Linux drops them.

mod law;

use narrows_core::{Backlog, DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rate, Rng, Word, WordError, Words,
};

use self::law::{Action, Derived, Red};
use crate::jiffies;
use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, is, maybe, packets, read_packets};
use crate::waiting::Waiting;

/// max_p unless configured otherwise (tc, Floyd's recommendation).
const PROBABILITY: f64 = 0.02;
/// Bandwidth unless configured otherwise (tc).
const BANDWIDTH: Rate = Rate::from_mbit(10);
/// Bits that a threshold and the weight may take together (Linux
/// `red_check_params`).
const THRESHOLD_BITS: u32 = 32;

/// Parameters of `red`. What is unset is derived as tc derives it.
#[derive(Clone, Debug, PartialEq)]
pub struct RedConfig {
    /// Bytes that may wait.
    pub limit: u32,
    /// Average backlog in bytes from which packets are chosen; unset: a third
    /// of `max`.
    pub min: Option<u32>,
    /// Average backlog in bytes from which every packet is chosen; unset: a
    /// quarter of `limit`, or three times `min` if that is set.
    pub max: Option<u32>,
    /// Size in bytes of an average packet.
    pub avpkt: u32,
    /// Packets of a burst that the average shall pass; unset:
    /// (2·min + max)/(3·avpkt).
    pub burst: Option<u32>,
    /// Steer max_p between 1 % and 50 %.
    pub adaptive: bool,
    /// max_p to begin with.
    pub probability: f64,
    /// Rate by which an idle queue's average decays.
    pub bandwidth: Rate,
    /// Mark instead of dropping where the packet allows it.
    pub ecn: bool,
    /// Drop from `max` on even what could be marked.
    pub harddrop: bool,
    /// With `ecn`, let pass what cannot be marked.
    pub nodrop: bool,
}

impl Default for RedConfig {
    /// The example of tc-red(8) without the derived values: `limit 400000
    /// avpkt 1000`. In words both have to be given.
    fn default() -> Self {
        Self {
            limit: 400_000,
            avpkt: 1_000,
            ..Self::unset()
        }
    }
}

/// Everything that the kernel needs to know.
#[derive(Clone, Debug)]
struct Thresholds {
    min: u32,
    max: u32,
    p_log: u32,
    derived: Derived,
}

impl RedConfig {
    const fn unset() -> Self {
        Self {
            limit: 0,
            min: None,
            max: None,
            avpkt: 0,
            burst: None,
            adaptive: false,
            probability: PROBABILITY,
            bandwidth: BANDWIDTH,
            ecn: false,
            harddrop: false,
            nodrop: false,
        }
    }

    /// min, max and burst as tc derives them.
    fn defaults(&self) -> (u32, u32, u32) {
        let max = self
            .max
            .unwrap_or_else(|| self.min.map_or(self.limit / 4, |min| min.saturating_mul(3)));
        let min = self.min.unwrap_or(max / 3);
        let burst = self.burst.unwrap_or_else(|| {
            let bytes = 2 * u64::from(min) + u64::from(max);
            (bytes / (3 * u64::from(self.avpkt.max(1)))) as u32
        });
        (min, max, burst)
    }

    /// The whole of it, or what tc or the kernel has against it.
    fn thresholds(&self) -> Result<Thresholds, &'static str> {
        if self.limit == 0 || self.avpkt == 0 {
            return Err("limit BYTES and avpkt BYTES, which are required");
        }
        if self.nodrop && !self.ecn {
            return Err("`ecn` beside `nodrop`");
        }
        let (min, max, burst) = self.defaults();
        if min == 0 || max <= min {
            return Err("0 < min < max");
        }
        let derived = Derived::of(min, burst, self.avpkt, self.bandwidth)
            .ok_or("a burst of at least min/avpkt packets, with a weight from 2^-1 to 2^-31")?;
        if u32::BITS - max.leading_zeros() + derived.w_log >= THRESHOLD_BITS {
            return Err("thresholds that leave bits for the weight: a smaller max or burst");
        }
        let p_log = law::probability_log(max - min, self.probability)
            .ok_or("a greater probability for so wide a range of min to max")?;
        Ok(Thresholds {
            min,
            max,
            p_log,
            derived,
        })
    }

    /// What tc hands to the kernel for these words; `None` of a configuration made by hand
    /// that tc would refuse.
    pub fn kernel_parameters(&self) -> Option<KernelParameters> {
        let found = self.thresholds().ok()?;
        Some(KernelParameters {
            min: found.min,
            max: found.max,
            w_log: found.derived.w_log as u8,
            p_log: found.p_log as u8,
            cell_log: found.derived.cell_log as u8,
            damping: found.derived.damping,
            max_p: law::max_p(self.probability),
        })
    }
}

/// What tc derives from the words of `red` and hands to the kernel (iproute2 tc/q_red.c).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameters {
    /// `qth_min`, bytes.
    pub min: u32,
    /// `qth_max`, bytes.
    pub max: u32,
    /// `Wlog`: a new sample weighs 2^−w_log.
    pub w_log: u8,
    /// `Plog`.
    pub p_log: u8,
    /// `Scell_log`: a cell of idle time is 2^cell_log µs wide.
    pub cell_log: u8,
    /// `TCA_RED_STAB`: shift of the average per cell of idle time.
    pub damping: [u8; law::CELLS],
    /// `TCA_RED_MAX_P`, units of 2⁻³².
    pub max_p: u32,
}

fn size(words: &mut Words<'_>) -> Result<u32, WordError> {
    let bytes = words.value_where("a size from 1b to 4095Mb", |n: &Bytes| {
        (1..=u64::from(u32::MAX)).contains(&n.get())
    })?;
    Ok(bytes.get() as u32)
}

impl Parameters for RedConfig {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "limit BYTES",
            ParameterKind::Size,
            "a size from 1b to 4095Mb",
            "",
            "Bytes that may wait",
        ),
        Parameter::new(
            "min BYTES",
            ParameterKind::Size,
            "a size from 1b to 4095Mb",
            "a third of max",
            "Average backlog from which packets are chosen",
        ),
        Parameter::new(
            "max BYTES",
            ParameterKind::Size,
            "a size from 1b to 4095Mb",
            "a quarter of limit, or three times min",
            "Average backlog from which every packet is chosen",
        ),
        Parameter::new(
            "avpkt BYTES",
            ParameterKind::Size,
            "a size from 1b to 4095Mb",
            "",
            "Size of an average packet",
        ),
        packets(
            "burst PACKETS",
            "(2 min + max) / (3 avpkt)",
            "Packets of a burst that the average shall pass",
        ),
        Parameter::flag(
            "adaptive",
            "not adaptive",
            "Whether the probability is steered between 1 % and 50 %",
        ),
        Parameter::new(
            "probability PROBABILITY",
            ParameterKind::Number(""),
            "a probability above 0 and below 1",
            "0.02",
            "Probability at max, to begin with",
        ),
        Parameter::new(
            "bandwidth RATE",
            ParameterKind::Rate,
            "a rate of at least 8bit",
            "10Mbit",
            "Rate by which the average of an idle queue decays",
        ),
        Parameter::flag(
            "ecn",
            "no ecn",
            "Whether packets are marked instead of dropped where they allow it",
        ),
        Parameter::flag(
            "harddrop",
            "no harddrop",
            "Whether from max on even what could be marked is dropped",
        ),
        Parameter::flag(
            "nodrop",
            "no nodrop",
            "Whether, with ecn, what cannot be marked passes",
        ),
    ];

    /// `limit` and `avpkt` have to be named.
    fn usual(_: &Words<'_>) -> Self {
        Self::unset()
    }

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            maybe(self.min),
            maybe(self.max),
            is(self.avpkt),
            maybe(self.burst),
            Holds::Flag(self.adaptive),
            is(self.probability),
            is(self.bandwidth),
            Holds::Flag(self.ecn),
            Holds::Flag(self.harddrop),
            Holds::Flag(self.nodrop),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = size(words)?,
            "min" => self.min = Some(size(words)?),
            "max" => self.max = Some(size(words)?),
            "avpkt" => self.avpkt = size(words)?,
            "burst" => {
                let burst = read_packets(words)?;
                self.burst = Some(burst);
            }
            "adaptive" | "adaptative" => self.adaptive = true,
            "probability" => {
                self.probability = words
                    .value_where("a probability above 0 and below 1", |p: &f64| {
                        *p > 0.0 && *p < 1.0
                    })?;
            }
            "bandwidth" => {
                self.bandwidth =
                    words.value_where("a rate of at least 8bit", |r: &Rate| r.as_bytes() > 0)?;
            }
            "ecn" => self.ecn = true,
            "harddrop" => self.harddrop = true,
            "nodrop" => self.nodrop = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&mut self, line: &str) -> Result<(), WordError> {
        let end = line.len();
        self.thresholds()
            .map(drop)
            .map_err(|allowed| WordError::new(0..end, format!("`{}`", line.trim()), allowed))
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
pub(crate) struct RedQueue {
    config: RedConfig,
    red: Option<Red>,
    waiting: Waiting,
    next_adaptation: Instant,
    rng: Rng,
}

impl RedQueue {
    pub fn new(config: RedConfig, entity: EntityId, link: LinkFacts, rng: Rng) -> Self {
        Self {
            red: red_of(&config),
            config,
            waiting: Waiting::new(entity, link),
            next_adaptation: Instant::ZERO + jiffies::HALF_SECOND,
            rng,
        }
    }

    /// Why `packet` is not taken, if so; marks it if that is what is due.
    fn refuses(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        out: &mut Outlet<'_>,
    ) -> Option<DropCause> {
        let backlog = self.waiting.bytes();
        let action = match &mut self.red {
            Some(red) => red.arrive(now, backlog, &mut self.rng),
            None => Action::Pass,
        };
        let cause = match action {
            Action::Pass => None,
            Action::Early => Some(MarkCause::Probability),
            Action::Forced => Some(MarkCause::Overflow),
        };
        if let Some(cause) = cause {
            let forced = action == Action::Forced;
            if !self.config.ecn || forced && self.config.harddrop {
                return Some(if forced && self.config.ecn {
                    DropCause::Overload
                } else {
                    DropCause::Probability
                });
            }
            if !self.waiting.meter.mark(now, packet, cause, out) && !self.config.nodrop {
                return Some(DropCause::Probability);
            }
        }
        let length = u64::from(self.waiting.meter.length(packet));
        (backlog + length > u64::from(self.config.limit)).then_some(DropCause::Overflow)
    }
}

/// A configuration made by hand may be one that words would not pass; it is
/// then a plain tail drop.
fn red_of(config: &RedConfig) -> Option<Red> {
    let t = config.thresholds().ok()?;
    Some(Red::new(t.derived, t.min, t.max, config.probability))
}

impl Queue for RedQueue {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if let Some(cause) = self.refuses(now, &mut packet, out) {
            self.waiting.drop(now, packet, cause, out);
            return false;
        }
        self.waiting.push(now, packet);
        true
    }

    fn dequeue(&mut self, now: Instant, _out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        let packet = self.waiting.pull()?;
        if self.waiting.packets() == 0 {
            if let Some(red) = &mut self.red {
                red.idle(now);
            }
        }
        Some(packet)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        self.waiting.next_dequeue(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        self.config.adaptive.then_some(self.next_adaptation)
    }

    fn tick(&mut self, now: Instant) {
        if let Some(red) = &mut self.red {
            red.adapt(now);
        }
        self.next_adaptation = jiffies::expiry(now, jiffies::HALF_SECOND);
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.waiting.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.waiting.meter.counts
    }

    fn probability(&self) -> f64 {
        self.red.as_ref().map_or(0.0, Red::probability)
    }

    /// The average starts anew, as in Linux.
    fn change(&mut self, now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "red", words)?;
        self.red = red_of(&self.config);
        if let Some(red) = &mut self.red {
            red.restart(now, self.waiting.packets() == 0);
        }
        self.next_adaptation = jiffies::expiry(now, jiffies::HALF_SECOND);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
