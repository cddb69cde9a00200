//! When a datagram arrived, by the run's clock.

use narrows_units::{Duration, Instant};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::Clock;

/// A kernel's time stamp that says more than this lies before the reading of
/// it is ignored: the clock was set meanwhile.
const OLDEST_STAMP: Duration = Duration::from_secs(5);

/// Readings of both clocks, of which the closest pair counts.
const READINGS: usize = 3;

/// Readings that lie closer than this are close enough: a reading takes some
/// 30 ns where the kernel maps its clocks into the process.
const CLOSE: Duration = Duration::from_micros(2);

/// When on the run's clock the time of day was `stamp`; `None` if that was not
/// a moment ago.
///
/// Two clocks cannot be read at once. The run's is read after the time of day,
/// so a thread that is held up in between makes an arrival later, never
/// earlier, than it was: no round trip comes out shorter than it is.
pub fn arrival(clock: &Clock, stamp: TimeSpec) -> Option<Instant> {
    let (mut closest, mut at) = (Duration::MAX, None);
    for _ in 0..READINGS {
        let before = clock.now();
        let age = age(stamp);
        let after = clock.now();
        if after.since(before) < closest {
            closest = after.since(before);
            at = age.map(|age| (after, age));
        }
        if closest < CLOSE {
            break;
        }
    }
    let (now, age) = at.filter(|(_, age)| *age <= OLDEST_STAMP)?;
    Some(now - age)
}

/// How long ago `stamp` was, by the time of day.
fn age(stamp: TimeSpec) -> Option<Duration> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).ok()?;
    let ns = |t: TimeSpec| {
        let (s, ns) = (i128::from(t.tv_sec()), i128::from(t.tv_nsec()));
        s * 1_000_000_000 + ns
    };
    u64::try_from(ns(now) - ns(stamp))
        .ok()
        .map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_is_never_earlier_than_it_was() {
        let clock = Clock::starting_now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        for _ in 0..1_000 {
            let before = clock.now();
            let stamp = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
            // A clock of the machine that was set meanwhile has no answer.
            if let Some(at) = arrival(&clock, stamp) {
                // Both clocks run at one rate but for slewing, 500 ppm at most
                // (adjtimex(2)), of the moment between the readings.
                assert!(at + Duration::from_micros(1) >= before, "{at} {before}");
            }
        }
    }
}
