//! When the thread sleeps and when it polls.

use std::fs::{File, OpenOptions};
use std::io::Write;

use narrows_units::{Duration, Instant};
use nix::sys::prctl;

/// How long before a wake the thread stops sleeping and polls. A timer wakes a thread
/// 18 to 35 µs late in the middle and rarely more than 100 µs (measured on a
/// virtual machine, timer slack 1 ns).
const POLL_BEFORE: Duration = Duration::from_micros(100);

/// How long before a wake the thread stops polling devices and spins on the clock:
/// about the time that it takes to poll two of them.
const SPIN_BEFORE: Duration = Duration::from_micros(2);

/// The longest sleep, so that a cancelled run ends soon.
const LONGEST: Duration = Duration::from_millis(20);

/// What to do while nothing is due and no packet waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Sleep so long at most, or until a packet comes.
    Sleep(Duration),
    /// Poll clock and devices again.
    Poll,
    /// Poll the clock alone until the wake is due.
    Spin,
}

/// What to do at `now` if the next wake is due at `due`.
pub(super) fn until_wake(now: Instant, due: Instant) -> Idle {
    let left = due.since(now);
    if left > POLL_BEFORE {
        Idle::Sleep(left.saturating_sub(POLL_BEFORE).min(LONGEST))
    } else if left > SPIN_BEFORE {
        Idle::Poll
    } else {
        Idle::Spin
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

/// Keeps the machine's processors from falling asleep while it lives, where
/// this user may (root, as a rule): a virtual processor that sleeps is given
/// back to its host, and comes back up to milliseconds late; a real one takes
/// tens of microseconds out of its deeper states. The kernel drops the request
/// when the file is closed, however the process ends
/// (Documentation/power/pm_qos_interface.rst).
pub(super) struct Awake(Option<File>);

impl Awake {
    /// Most microseconds that a processor may take to wake up.
    const LATENCY_US: i32 = 0;

    pub(super) fn start() -> Self {
        let open = OpenOptions::new().write(true).open("/dev/cpu_dma_latency");
        let wished = open.and_then(|mut file| {
            file.write_all(&Self::LATENCY_US.to_ne_bytes())?;
            Ok(file)
        });
        Self(wished.ok())
    }

    /// Whether the kernel took the wish.
    pub(super) fn granted(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_sleeps_polls_and_spins_as_the_wake_comes_near() {
        let now = Instant::from_nanos(5_000_000_000);
        let left = |ns| until_wake(now, now + Duration::from_nanos(ns));
        assert_eq!(left(60_000_000_000), Idle::Sleep(LONGEST));
        assert_eq!(left(150_000), Idle::Sleep(Duration::from_micros(50)));
        assert_eq!(left(100_000), Idle::Poll);
        assert_eq!(left(2_000), Idle::Spin);
        assert_eq!(until_wake(now, Instant::ZERO), Idle::Spin);
    }
}
