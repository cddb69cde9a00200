//! `dualpi2`: two queues, one for L4S and one for the rest, coupled so that a
//! scalable flow and a classic flow get like shares (RFC 9332).
//!
//! A PI controller steers the delay of the classic queue with a base
//! probability p′. Classic packets are marked or dropped with p_C = p′²,
//! low-latency packets are marked with p_L = k·p′ or by a native AQM on their
//! own delay, whichever asks for it. A weighted scheduler lets the classic
//! queue have `classic_protection` of the link when both want it.
//!
//! | | `linux` | `linux-2020` | `rfc9332` |
//! |---|---|---|---|
//! | PI input | older head of both queues | the same | head of the classic queue |
//! | PI step divided by | 64, the sum | 127, each product | exact |
//! | first update, period | `tupdate` | 500 ms, whole jiffies | `tupdate` |
//! | native AQM | step | step, if ≥ 2 packets waited at arrival | ramp 800–1200 µs, if > 1 packet |
//! | marks | random, p′ compared twice | the same | deterministic, `recur` |
//! | under 2 frames of backlog | no mark or drop by PI | the same | no such rule |
//! | limit | packets, bytes | packets | bytes, 250 ms |
//!
//! Sources: RFC 9332 Appendix A; Linux net/sched/sch_dualpi2.c v6.17;
//! L4STeam/linux of 2020.

pub(crate) mod config;
pub(crate) mod pi;

use std::collections::VecDeque;

use narrows_core::{Backlog, DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Draw, Duration, Instant, Rng, WordError};
use narrows_wire::{Ecn, ip};

pub use config::{DualPi2Config, Percent, StepThreshold, Variant};
use pi::{ONE, Pi};

use crate::jiffies;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading::{self, Parameters};

/// Packets that may wait (`dualpi2_reset_default`, Linux v6.17).
const LINUX_LIMIT: u32 = 10_000;
/// Buffer of RFC 9332 A.1.
const RFC_BUFFER: Duration = Duration::from_millis(250);
/// Start and width of the ramp, RFC 9332 A.1.
const RAMP_START: Duration = Duration::from_micros(800);
const RAMP_WIDTH: Duration = Duration::from_micros(400);
/// The ramp does not mark unless more packets than this are in the L queue,
/// the leaving one included (`Th_len`, RFC 9332 A.1).
const RAMP_MIN_PACKETS: usize = 1;
/// Scratch bits of a waiting packet.
const IN_L: u64 = 1;
const STEP_APPLIES: u64 = 2;

/// What the AQM decides on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Drop(DropCause),
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// PI is fed the age of the newest packet instead of that of the oldest.
    NewestDelay,
    /// The classic queue marks with p′ instead of p′².
    Unsquared,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct DualPi2 {
    config: DualPi2Config,
    link: LinkFacts,
    limit_packets: u32,
    limit_bytes: u64,
    low: VecDeque<Box<Packet>>,
    classic: VecDeque<Box<Packet>>,
    /// Positive: the classic queue's turn. Per cent of bytes.
    credit: i64,
    pi: Pi,
    next_update: Instant,
    /// Likelihood gathered by deterministic marking in each queue, 2⁻³².
    low_count: u64,
    classic_count: u64,
    over_limit: bool,
    rng: Rng,
    meter: Meter,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl DualPi2 {
    pub fn new(config: DualPi2Config, entity: EntityId, link: LinkFacts, rng: Rng) -> Self {
        let first = match config.variant {
            Variant::Linux | Variant::Rfc9332 => config.tupdate,
            Variant::Linux2020 => jiffies::HALF_SECOND,
        };
        let mut queue = Self {
            pi: Pi::new(&config),
            next_update: Instant::ZERO + first,
            config,
            link,
            limit_packets: 0,
            limit_bytes: 0,
            low: VecDeque::new(),
            classic: VecDeque::new(),
            credit: 0,
            low_count: 0,
            classic_count: 0,
            over_limit: false,
            rng,
            meter: Meter::new(entity, link),
            #[cfg(test)]
            mutant: None,
        };
        queue.apply_limits();
        queue.credit = queue.first_credit();
        queue
    }

    fn apply_limits(&mut self) {
        let frame = u64::from(self.link.frame());
        self.limit_packets = self.config.limit.unwrap_or(LINUX_LIMIT);
        self.limit_bytes = match (self.config.variant, self.config.limit) {
            (Variant::Linux, _) => self
                .config
                .memlimit
                .map_or(u64::from(self.limit_packets) * 2 * frame, u64::from),
            (Variant::Linux2020, _) | (Variant::Rfc9332, Some(_)) => u64::MAX,
            (Variant::Rfc9332, None) => {
                self.limit_packets = u32::MAX;
                // One frame is kept free, so there has to be room for two.
                self.link.rate.bytes_in(RFC_BUFFER).max(2 * frame)
            }
        };
    }

    /// Starts with the queue of greater weight (`c_protection_init`).
    fn first_credit(&self) -> i64 {
        let classic = i64::from(self.config.classic_protection.0);
        i64::from(self.link.frame()) * (2 * classic - 100)
    }

    /// Classification by the ECN field (RFC 9332 §2.3).
    fn goes_low(&self, ecn: Ecn) -> bool {
        match ecn {
            Ecn::Ect1 | Ecn::Ce => true,
            Ecn::Ect0 => self.config.any_ect,
            Ecn::NotEct => false,
        }
    }

    fn is_full_for(&self, packet: &Packet) -> bool {
        let bytes = self.meter.counts.backlog.bytes;
        let more = match self.config.variant {
            Variant::Linux | Variant::Linux2020 => self.meter.length(packet),
            // RFC 9332 Figure 3 keeps room for a packet of any size.
            Variant::Rfc9332 => self.link.frame(),
        };
        self.meter.counts.backlog.packets >= self.limit_packets
            || bytes.saturating_add(u64::from(more)) > self.limit_bytes
    }

    /// After a change of limits: drops from the heads what exceeds them.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.over_limit = false;
        while self.meter.counts.backlog.packets > self.limit_packets
            || self.meter.counts.backlog.bytes > self.limit_bytes
        {
            let Some(packet) = self.classic.pop_front().or_else(|| self.low.pop_front()) else {
                return;
            };
            self.meter.left(self.meter.length(&packet));
            self.meter.drop(now, packet, DropCause::Overflow, out);
        }
    }

    /// The scheduler: takes a packet off the queue whose turn it is; also
    /// gives the change of credit that is due if it is sent.
    fn pick(&mut self) -> Option<(Box<Packet>, i64)> {
        let (packet, weight) =
            if !self.low.is_empty() && (self.classic.is_empty() || self.credit <= 0) {
                let weight = i64::from(self.config.classic_protection.0);
                (
                    self.low.pop_front()?,
                    weight * i64::from(!self.classic.is_empty()),
                )
            } else if let Some(packet) = self.classic.pop_front() {
                let weight = 100 - i64::from(self.config.classic_protection.0);
                (packet, -weight * i64::from(!self.low.is_empty()))
            } else {
                self.credit = self.first_credit();
                return None;
            };
        let length = self.meter.length(&packet);
        self.meter.left(length);
        Some((packet, weight * i64::from(length)))
    }

    /// True with probability (p + 1)/2³²: as in Linux, even p = 0 wins once in
    /// 2³² draws.
    #[inline]
    fn roll(&mut self, probability: u64) -> bool {
        u64::from(self.rng.draw_u32()) <= probability
    }

    /// p′² by two comparisons.
    #[inline]
    fn squared_roll(&mut self, probability: u64) -> bool {
        #[cfg(test)]
        if self.mutant == Some(Mutant::Unsquared) {
            return self.roll(probability);
        }
        self.roll(probability) && self.roll(probability)
    }

    /// Linux: the decision of PI on a packet that comes or leaves.
    fn judge(&mut self, now: Instant, packet: &mut Packet, out: &mut Outlet<'_>) -> Verdict {
        if self.meter.counts.backlog.bytes < 2 * u64::from(self.link.frame()) {
            return Verdict::Pass;
        }
        // RFC 9332 §2.1: p_CL = k·p′ for L4S, p_C = p′² for classic packets; what happens
        // when p_CL reaches 1 is left to implementations (§4.2.3).
        let base = self.pi.probability();
        let coupled = base * u64::from(self.config.coupling_factor);
        let overload = coupled >= ONE;
        if packet.scratch & IN_L == 0 {
            if self.squared_roll(base)
                && (overload || !self.meter.mark(now, packet, MarkCause::Probability, out))
            {
                let capable = ip::ecn(&packet.bytes).is_capable();
                return Verdict::Drop(if capable {
                    DropCause::Overload
                } else {
                    DropCause::Probability
                });
            }
        } else if overload {
            if self.config.drop_overload && self.squared_roll(base) {
                return Verdict::Drop(DropCause::Overload);
            }
            self.meter.mark(now, packet, MarkCause::Coupled, out);
        } else if self.roll(coupled) {
            self.meter.mark(now, packet, MarkCause::Coupled, out);
        }
        Verdict::Pass
    }

    /// Linux: the step, for a packet that leaves. It applies to packets of the L queue alone, and
    /// to them where enough others waited as they came.
    fn step(&mut self, now: Instant, packet: &mut Packet, out: &mut Outlet<'_>) {
        let above = match self.config.step {
            StepThreshold::Time(threshold) => now.since(packet.held_since) > threshold,
            StepThreshold::Packets(threshold) => self.low.len() as u64 > u64::from(threshold),
        };
        if above && packet.scratch & STEP_APPLIES != 0 {
            self.meter.mark(now, packet, MarkCause::Step, out);
        }
    }

    /// RFC 9332 Figures 4, 7 and 8: the decision on a packet that leaves.
    fn judge_by_rfc(&mut self, now: Instant, packet: &mut Packet, out: &mut Outlet<'_>) -> Verdict {
        let base = self.pi.probability();
        let k = u64::from(self.config.coupling_factor);
        let coupled = base * k;
        let squared = ((u128::from(base) * u128::from(base)) >> 32) as u64;
        if packet.scratch & IN_L != 0 {
            if coupled >= ONE {
                if recur(&mut self.low_count, squared) {
                    return Verdict::Drop(DropCause::Overload);
                }
                if recur(&mut self.low_count, coupled) {
                    self.meter.mark(now, packet, MarkCause::Coupled, out);
                }
                return Verdict::Pass;
            }
            let native = if self.low.len() + 1 > RAMP_MIN_PACKETS {
                ramp(now.since(packet.held_since))
            } else {
                0
            };
            if recur(&mut self.low_count, native.max(coupled)) {
                let cause = if native > coupled {
                    MarkCause::Step
                } else {
                    MarkCause::Coupled
                };
                self.meter.mark(now, packet, cause, out);
            }
        } else if recur(&mut self.classic_count, squared) {
            // ECN of the classic queue ends at p_Cmax = 1/k².
            let overload = squared >= ONE / (k * k);
            if overload || !self.meter.mark(now, packet, MarkCause::Probability, out) {
                let capable = ip::ecn(&packet.bytes).is_capable();
                return Verdict::Drop(if capable {
                    DropCause::Overload
                } else {
                    DropCause::Probability
                });
            }
        }
        Verdict::Pass
    }

    /// The delay that PI steers by.
    fn delay(&self, now: Instant) -> Duration {
        let age = |queue: &VecDeque<Box<Packet>>| {
            let oldest = queue.front();
            #[cfg(test)]
            let oldest = match self.mutant {
                Some(Mutant::NewestDelay) => queue.back(),
                _ => oldest,
            };
            oldest.map_or(Duration::ZERO, |p| now.since(p.held_since))
        };
        match self.config.variant {
            Variant::Linux | Variant::Linux2020 => age(&self.classic).max(age(&self.low)),
            Variant::Rfc9332 => age(&self.classic),
        }
    }
}

/// RFC 9332 Figure 5: the native L4S AQM's probability, 2⁻³².
fn ramp(delay: Duration) -> u64 {
    let above = delay.saturating_sub(RAMP_START).as_nanos();
    if above >= RAMP_WIDTH.as_nanos() {
        ONE
    } else {
        above * ONE / RAMP_WIDTH.as_nanos()
    }
}

/// RFC 9332 Figure 4: true as often as `likelihood` asks, evenly spread.
pub(crate) fn recur(count: &mut u64, likelihood: u64) -> bool {
    *count += likelihood;
    if *count > ONE {
        *count -= ONE;
        return true;
    }
    false
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if self.over_limit {
            self.trim(now, out);
        }
        if self.is_full_for(&packet) {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        let low = self.goes_low(ip::ecn(&packet.bytes));
        packet.scratch = if low { IN_L } else { 0 };
        if self.config.drop_early {
            if let Verdict::Drop(cause) = self.judge(now, &mut packet, out) {
                self.meter.drop(now, packet, cause, out);
                return false;
            }
        }
        self.meter.entered(now, &mut packet);
        if low {
            let gate = self.config.min_qlen_step;
            if self.low.len() as u64 >= u64::from(gate) {
                packet.scratch |= STEP_APPLIES;
            }
            self.low.push_back(packet);
        } else {
            self.classic.push_back(packet);
        }
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        if self.over_limit {
            self.trim(now, out);
        }
        loop {
            let (mut packet, credit) = self.pick()?;
            let verdict = match self.config.variant {
                Variant::Rfc9332 => self.judge_by_rfc(now, &mut packet, out),
                _ if self.config.drop_early => Verdict::Pass,
                _ => self.judge(now, &mut packet, out),
            };
            if let Verdict::Drop(cause) = verdict {
                // A dropped packet costs its queue no credit.
                self.meter.drop(now, packet, cause, out);
                continue;
            }
            if self.config.variant != Variant::Rfc9332 {
                self.step(now, &mut packet, out);
            }
            self.credit += credit;
            return Some(packet);
        }
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (self.meter.counts.backlog.packets > 0).then_some(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        Some(self.next_update)
    }

    fn tick(&mut self, now: Instant) {
        let delay = self.delay(now);
        self.pi.update(delay.as_nanos());
        self.next_update = match self.config.variant {
            Variant::Linux | Variant::Rfc9332 => now + self.config.tupdate,
            Variant::Linux2020 => jiffies::expiry(now, self.config.tupdate),
        };
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    fn probability(&self) -> f64 {
        self.pi.probability() as f64 / ONE as f64
    }

    fn bands(&self) -> &'static [&'static str] {
        DualPi2Config::BANDS
    }

    fn band_of(&self, packet: &Packet) -> u8 {
        u8::from(packet.scratch & IN_L != 0)
    }

    /// What waits beyond a lower limit is dropped when the queue is next
    /// called with somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        let old = self.config.classic_protection;
        self.config = reading::changed(&self.config, "dualpi2", words)?;
        self.pi.configure(&self.config);
        self.apply_limits();
        self.over_limit = true;
        if self.config.classic_protection != old {
            self.credit = self.first_credit();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
