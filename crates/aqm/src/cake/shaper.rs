//! The shaper, which works by deficit: each packet moves the time of the next one by what it
//! takes at the rate, so that there is no bucket and no first burst.
//!
//! Arithmetic from Linux net/sched/sch_cake.c v6.17 (`cake_set_rate`,
//! `cake_advance_shaper`), so that departures agree to the nanosecond.

/// Slowest rate in bytes per second (`MIN_RATE`).
const SLOWEST: u64 = 64;
/// Bits behind the point of the time that a byte takes, before they are reduced.
const PRECISION: u32 = 34;

/// The time that a byte takes, in fixed point; zero without a shaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    ns: u64,
    shift: u32,
}

impl Pace {
    /// That of `rate` bytes per second; of 0 none.
    pub fn new(rate: u64) -> Self {
        if rate == 0 {
            return Self::default();
        }
        let (mut ns, mut shift) = ((1_000_000_000 << PRECISION) / rate.max(SLOWEST), PRECISION);
        while ns >> PRECISION != 0 {
            ns >>= 1;
            shift -= 1;
        }
        Self { ns, shift }
    }

    /// Whether there is a shaper at all.
    pub fn shapes(self) -> bool {
        self.ns != 0
    }

    /// Nanoseconds that `bytes` take, rounded down.
    pub fn time_for(self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.ns) >> self.shift
    }
}

/// When the next packet of all tins may leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    /// By the rate.
    next: u64,
    /// By two thirds of the rate, without what was dropped: the failsafe with which traffic
    /// gets through however much of it is dropped.
    failsafe: u64,
}

impl Gate {
    /// The queue is empty: what was not used is lost.
    pub fn refresh(&mut self, now: u64) {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
        }
    }

    /// When it opens; at `now` or before if it is open.
    pub fn opens(&self) -> u64 {
        self.next.min(self.failsafe)
    }

    /// Charges `bytes` that leave, or that were dropped on a shaper of arriving traffic.
    pub fn charge(&mut self, pace: Pace, bytes: u32, dropped: bool) {
        let time = pace.time_for(bytes);
        self.next += time;
        if !dropped {
            self.failsafe += time + (time >> 1);
        }
    }
}

/// When a tin is below its threshold again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule(u64);

impl Schedule {
    /// The tin is empty: what it did not use is lost.
    pub fn refresh(&mut self, now: u64) {
        self.0 = self.0.max(now);
    }

    /// From when on it has priority, against `now`: not above zero if it has.
    pub fn until(self, now: u64) -> i64 {
        self.0 as i64 - now as i64
    }

    /// Charges `bytes` of the tin at `now`. A tin that is late keeps its place; one that is
    /// early by less than this packet is put off by the packet alone.
    pub fn charge(&mut self, pace: Pace, bytes: u32, now: u64) {
        let time = pace.time_for(bytes);
        if self.0 < now {
            self.0 += time;
        } else {
            self.0 = self.0.max(now + time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_the_time_of_the_rate() {
        for rate in [64u64, 1_000, 12_500, 125_000, 2_500_000, 1_250_000_000] {
            let pace = Pace::new(rate);
            for bytes in [40u32, 64, 1_514, 65_535] {
                let exact = 1_000_000_000 * u128::from(bytes) / u128::from(rate);
                let found = u128::from(pace.time_for(bytes));
                assert!(
                    found <= exact && exact - found <= exact / 1_000_000 + 1,
                    "{rate} {bytes}"
                );
            }
        }
        // 2.5 MB/s divides evenly.
        assert_eq!(Pace::new(2_500_000).time_for(1_538), 615_200);
        // Below 64 B/s it is 64 B/s.
        assert_eq!(Pace::new(1), Pace::new(64));
        assert!(!Pace::new(0).shapes());
        assert_eq!(Pace::new(0).time_for(1_500), 0);
    }

    #[test]
    fn dropped_bytes_move_the_rate_and_not_the_failsafe() {
        let pace = Pace::new(1_000_000);
        let mut gate = Gate::default();
        gate.refresh(1_000);
        assert_eq!(gate.opens(), 1_000);
        gate.charge(pace, 100, false);
        assert_eq!((gate.next, gate.failsafe), (101_000, 151_000));
        gate.charge(pace, 1_000, true);
        assert_eq!((gate.next, gate.failsafe), (1_101_000, 151_000));
        assert_eq!(gate.opens(), 151_000);
        // A gate that is still shut, or opens at this very time, is not refreshed.
        let mut due = gate.clone();
        due.refresh(1_101_000);
        assert_eq!((due.next, due.failsafe), (1_101_000, 151_000));
        gate.refresh(500_000);
        assert_eq!((gate.next, gate.failsafe), (1_101_000, 151_000));
        gate.refresh(1_101_001);
        assert_eq!((gate.next, gate.failsafe), (1_101_001, 1_101_001));
    }

    #[test]
    fn a_tin_is_charged_from_its_place_from_now_or_not_at_all() {
        let pace = Pace::new(1_000_000);
        let charged = |at: u64| {
            let mut schedule = Schedule(at);
            schedule.charge(pace, 100, 1_000_000);
            schedule.0
        };
        // Late: keeps its place, however late.
        assert_eq!(charged(400_000), 500_000);
        assert_eq!(charged(999_999), 1_099_999);
        // Early by less than the packet.
        assert_eq!(charged(1_000_000), 1_100_000);
        assert_eq!(charged(1_099_999), 1_100_000);
        // Early by more: this packet was not by its priority.
        assert_eq!(charged(1_100_001), 1_100_001);
    }
}
