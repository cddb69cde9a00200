//! When the thread sleeps and when it looks.

use narrows_units::{Duration, Instant};
use nix::sys::prctl;

/// How long before a wake the thread stops sleeping. A timer wakes a thread
/// 18 to 35 µs late in the middle and rarely more than 100 µs (measured on a
/// virtual machine, timer slack 1 ns).
const SPIN: Duration = Duration::from_micros(100);

/// How long before a wake the thread stops looking at devices: about the time
/// that it takes to look at two of them.
const ALMOST: Duration = Duration::from_micros(2);

/// The longest sleep, so that a caller who cancels is heard.
const LONGEST: Duration = Duration::from_millis(20);

/// What to do while nothing is due and no packet waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Sleep so long at most, or until a packet comes.
    Sleep(Duration),
    /// Look again at clock and devices.
    Look,
    /// Look at the clock alone until the wake is due.
    Watch,
}

/// What to do at `now` if the next wake is due at `due`.
pub(super) fn wait(now: Instant, due: Instant) -> Wait {
    let left = due.since(now);
    if left > SPIN {
        Wait::Sleep(left.saturating_sub(SPIN).min(LONGEST))
    } else if left > ALMOST {
        Wait::Look
    } else {
        Wait::Watch
    }
}

/// Asks the kernel for exact timers in this thread while it lives: the timer
/// slack, 50 µs by default, is one nanosecond.
pub(super) struct ExactTimers(Option<u64>);

impl ExactTimers {
    pub(super) fn start() -> Self {
        let before = prctl::get_timerslack().ok();
        let set = prctl::set_timerslack(1).is_ok();
        Self(before.filter(|_| set).map(|ns| ns as u64))
    }
}

impl Drop for ExactTimers {
    fn drop(&mut self) {
        if let Some(ns) = self.0 {
            // It was so before.
            let _ = prctl::set_timerslack(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sleeps_looks_and_watches_as_the_wake_comes_near() {
        let now = Instant::from_nanos(5_000_000_000);
        let left = |ns| wait(now, now + Duration::from_nanos(ns));
        assert_eq!(left(60_000_000_000), Wait::Sleep(LONGEST));
        assert_eq!(left(150_000), Wait::Sleep(Duration::from_micros(50)));
        assert_eq!(left(100_000), Wait::Look);
        assert_eq!(left(2_000), Wait::Watch);
        assert_eq!(wait(now, Instant::ZERO), Wait::Watch);
    }
}
