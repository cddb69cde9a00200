//! The control law of CoDel (RFC 8289) as Linux computes it.
//!
//! Behaviour from Linux include/net/codel_impl.h v6.17: times are whole units
//! of 1024 ns, 1/√count is a 16-bit fraction improved by one Newton step per
//! signal, and re-entry within 16 intervals resumes from the signals of the
//! last episode.

use narrows_core::{DropCause, MarkCause, Outlet, Packet};
use narrows_units::{Duration, Instant};
use narrows_wire::ip;

use crate::inverse_root::{newton_step, scaled};
use crate::meter::Meter;

/// Linux's CoDel clock: nanoseconds shifted right by this (`CODEL_SHIFT`).
const CLOCK_SHIFT: u32 = 10;
/// Bits of the stored 1/√count (`REC_INV_SQRT_BITS`).
const INVERSE_ROOT_SHIFT: u32 = 32 - 16;
/// Within how many intervals after an episode its rate is taken up again.
/// RFC 8289 §5.6 lets implementations choose; Linux has 16.
const MEMORY_INTERVALS: u64 = 16;

/// Units of 1024 ns.
type Ticks = u64;

const fn ticks(ns: u64) -> Ticks {
    ns >> CLOCK_SHIFT
}

/// To which packets `ce_threshold` applies: those whose traffic class, masked,
/// equals the value (Linux `ce_threshold_selector`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// What the masked traffic class has to be.
    pub value: u8,
    /// The bits that matter.
    pub mask: u8,
}

/// Parameters of the law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    target: Ticks,
    interval: Ticks,
    ce_threshold: Option<Ticks>,
    selector: Option<Selector>,
    ecn: bool,
    /// No signal with at most so many bytes left behind.
    frame: u64,
}

impl Params {
    pub fn new(
        target: Duration,
        interval: Duration,
        ce_threshold: Option<Duration>,
        selector: Option<Selector>,
        ecn: bool,
        frame: u32,
    ) -> Self {
        Self {
            target: ticks(target.as_nanos()),
            interval: ticks(interval.as_nanos()),
            ce_threshold: ce_threshold.map(|t| ticks(t.as_nanos())),
            selector,
            ecn,
            frame: u64::from(frame),
        }
    }
}

/// The queue that the law watches.
pub(crate) trait Source {
    /// Takes the oldest packet and counts it out.
    fn pull(&mut self) -> Option<Box<Packet>>;

    /// The meter whose backlog decides whether there is a queue at all: with
    /// several flows, that of all of them.
    fn meter(&mut self) -> &mut Meter;
}

/// State of the law for one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codel {
    /// Signals of this episode.
    pub count: u32,
    last_count: u32,
    dropping: bool,
    /// 1/√count · 2¹⁶.
    inverse_root: u16,
    /// When the delay will have been above target for an interval; 0 while it
    /// is below.
    first_above: Ticks,
    drop_next: Ticks,
    /// Sojourn of the packet that was examined last.
    delay: Ticks,
}

impl Codel {
    /// One step of Newton's method towards 1/√count.
    fn newton_step(&mut self) {
        let inverse = u32::from(self.inverse_root) << INVERSE_ROOT_SHIFT;
        self.inverse_root = (newton_step(self.count, inverse) >> INVERSE_ROOT_SHIFT) as u16;
    }

    /// interval/√count.
    fn spacing(&self, params: &Params) -> Ticks {
        let inverse = u32::from(self.inverse_root) << INVERSE_ROOT_SHIFT;
        scaled(params.interval, inverse)
    }

    /// Whether the delay has been above target for an interval, as seen with
    /// `packet` leaving (RFC 8289 §5.6, `dodequeue`).
    fn is_bad(
        &mut self,
        packet: Option<&Packet>,
        params: &Params,
        now: Ticks,
        backlog: u64,
    ) -> bool {
        let Some(packet) = packet else {
            self.first_above = 0;
            return false;
        };
        self.delay = now - ticks(packet.held_since.as_nanos());
        if self.delay < params.target || backlog <= params.frame {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now + params.interval;
            return false;
        }
        now > self.first_above
    }

    /// The packet to send, after the marks and drops that are due (RFC 8289 §5.5).
    pub fn dequeue<S: Source>(
        &mut self,
        time: Instant,
        params: &Params,
        source: &mut S,
        out: &mut Outlet<'_>,
    ) -> Option<Box<Packet>> {
        let now = ticks(time.as_nanos());
        let Some(mut packet) = source.pull() else {
            self.dropping = false;
            return None;
        };
        let backlog = source.meter().counts.backlog.bytes;
        let bad = self.is_bad(Some(&packet), params, now, backlog);
        if self.dropping && !bad {
            self.dropping = false;
        } else if self.dropping {
            while self.dropping && now >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                if self.mark(time, params, &mut packet, source, out) {
                    self.drop_next += self.spacing(params);
                    break;
                }
                packet = match self.replace(time, packet, source, out) {
                    Some(next) => next,
                    None => {
                        self.is_bad(None, params, now, 0);
                        self.dropping = false;
                        return None;
                    }
                };
                let backlog = source.meter().counts.backlog.bytes;
                if self.is_bad(Some(&packet), params, now, backlog) {
                    self.drop_next += self.spacing(params);
                } else {
                    self.dropping = false;
                }
            }
        } else if bad {
            let marked = self.mark(time, params, &mut packet, source, out);
            self.begin_episode(params, now);
            if !marked {
                let next = self.replace(time, packet, source, out);
                let backlog = source.meter().counts.backlog.bytes;
                self.is_bad(next.as_deref(), params, now, backlog);
                packet = next?;
            }
        }
        self.mark_above_threshold(time, params, &mut packet, source, out);
        Some(packet)
    }

    /// Enters the dropping state after its first signal (RFC 8289 §5.5: with a higher
    /// count if the last episode ended recently).
    fn begin_episode(&mut self, params: &Params, now: Ticks) {
        self.dropping = true;
        let gained = self.count.wrapping_sub(self.last_count);
        // Before the first episode there is none to take up, however young the clock is.
        let recent =
            self.last_count > 0 && now < self.drop_next + MEMORY_INTERVALS * params.interval;
        if gained > 1 && recent {
            self.count = gained;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = now + self.spacing(params);
    }

    fn mark<S: Source>(
        &self,
        time: Instant,
        params: &Params,
        packet: &mut Packet,
        source: &mut S,
        out: &mut Outlet<'_>,
    ) -> bool {
        params.ecn
            && source
                .meter()
                .mark(time, packet, MarkCause::Probability, out)
    }

    fn replace<S: Source>(
        &self,
        time: Instant,
        packet: Box<Packet>,
        source: &mut S,
        out: &mut Outlet<'_>,
    ) -> Option<Box<Packet>> {
        source
            .meter()
            .drop(time, packet, DropCause::Probability, out);
        source.pull()
    }

    fn mark_above_threshold<S: Source>(
        &self,
        time: Instant,
        params: &Params,
        packet: &mut Packet,
        source: &mut S,
        out: &mut Outlet<'_>,
    ) {
        let above = params.ce_threshold.is_some_and(|t| self.delay > t);
        let selected = params
            .selector
            .is_none_or(|s| ip::traffic_class(&packet.bytes) & s.mask == s.value);
        if above && selected {
            source.meter().mark(time, packet, MarkCause::Step, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newton_follows_one_over_root_of_count() {
        let mut codel = Codel {
            count: 1,
            inverse_root: u16::MAX,
            ..Codel::default()
        };
        for count in 2..2_000u32 {
            codel.count = count;
            codel.newton_step();
            let want = 65_536.0 / f64::from(count).sqrt();
            let found = f64::from(codel.inverse_root);
            // One step from 1 gives 1/2 for 1/√2; from there on it is close.
            let tolerance = if count == 2 { 0.3 } else { 0.03 } * want + 2.0;
            assert!((found - want).abs() < tolerance, "{count}: {found} {want}");
        }
    }

    #[test]
    fn the_first_spacing_is_the_interval() {
        let params = Params::new(
            Duration::from_millis(5),
            Duration::from_millis(100),
            None,
            None,
            false,
            1514,
        );
        let mut codel = Codel::default();
        codel.begin_episode(&params, 1_000_000);
        let spacing = (codel.drop_next - 1_000_000) << CLOCK_SHIFT;
        assert!((99_990_000..=100_000_000).contains(&spacing), "{spacing}");
    }

    #[test]
    fn an_episode_soon_after_another_resumes_its_rate() {
        let params = Params::new(
            Duration::from_millis(5),
            Duration::from_millis(100),
            None,
            None,
            false,
            1514,
        );
        let resumed = |after: Ticks| {
            let mut codel = Codel {
                count: 21,
                last_count: 1,
                inverse_root: (65_536.0 / f64::sqrt(21.0)) as u16,
                drop_next: 5_000_000,
                ..Codel::default()
            };
            codel.begin_episode(&params, 5_000_000 + after);
            codel.count
        };
        let interval = ticks(100_000_000);
        assert_eq!(resumed(16 * interval - 1), 20);
        assert_eq!(resumed(16 * interval), 1);
        // An overflow counts signals before the first episode, which takes up nothing.
        let mut fresh = Codel {
            count: 8,
            ..Codel::default()
        };
        fresh.begin_episode(&params, interval);
        assert_eq!((fresh.count, fresh.drop_next > interval), (1, true));
    }

    #[test]
    fn the_delay_is_bad_from_the_target_on_once_it_was_so_for_longer_than_an_interval() {
        // `codel_should_drop`: not before the target, and more than one frame left behind.
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        let params = Params::new(target, interval, None, None, false, 1514);
        let mut packet = narrows_core::PacketPool::new().take(Instant::ZERO, None);
        packet.held_since = Instant::from_nanos(1_000 << CLOCK_SHIFT);
        for (delay, backlog, above) in [
            (params.target - 1, 1_515, false),
            (params.target, 1_515, true),
            (params.target, 1_514, false),
        ] {
            let now = 1_000 + delay;
            let mut codel = Codel::default();
            assert!(!codel.is_bad(Some(&packet), &params, now, backlog));
            let since = if above { now + params.interval } else { 0 };
            assert_eq!(codel.first_above, since, "{delay} {backlog}");
        }
        let mut codel = Codel {
            first_above: 200_000,
            ..Codel::default()
        };
        assert!(!codel.is_bad(Some(&packet), &params, 200_000, 1_515));
        assert!(codel.is_bad(Some(&packet), &params, 200_001, 1_515));
    }
}
