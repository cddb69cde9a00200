//! The run's clock.

use std::fs;

use narrows_units::{Duration, Instant};
use nix::time::{ClockId, clock_gettime};

/// Where the kernel says by what it keeps time.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What the clock source of user-mode Linux in virtual time is called
/// (arch/um/kernel/time.c, `setup_time_travel`).
const VIRTUAL: &str = "time-travel-clock";

/// Whether this kernel's time is virtual: it stands still while anything is computed and
/// jumps to the next timer when nothing is, so that timers are never late and to poll for
/// one would take for ever.
pub fn is_virtual_time() -> bool {
    let source = fs::read_to_string(CLOCK_SOURCE);
    source.is_ok_and(|name| name.trim_end().starts_with(VIRTUAL))
}

/// Time since the run's epoch, from `CLOCK_MONOTONIC`: the clock of paths,
/// flows, samples and (as `bpf_ktime_get_ns`) BPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    epoch_ns: u64,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn starting_now() -> Self {
        Self {
            epoch_ns: monotonic_ns(),
        }
    }

    /// A clock whose epoch is `after` from now.
    pub fn starting_in(after: Duration) -> Self {
        Self {
            epoch_ns: monotonic_ns() + after.as_nanos(),
        }
    }

    /// The time of the run; zero before its epoch.
    pub fn now(&self) -> Instant {
        self.at(monotonic_ns())
    }

    /// How long it is until the epoch; zero from then on.
    pub fn until_epoch(&self) -> Duration {
        Duration::from_nanos(self.epoch_ns.saturating_sub(monotonic_ns()))
    }

    /// The epoch as connections of ours count time, which take `CLOCK_MONOTONIC` as the
    /// standard library has it.
    pub fn epoch(&self) -> narrows_quic::Epoch {
        let (now, ns) = (std::time::Instant::now(), monotonic_ns());
        let apart = std::time::Duration::from_nanos(self.epoch_ns.abs_diff(ns));
        narrows_quic::Epoch::at(if self.epoch_ns > ns {
            now + apart
        } else {
            now - apart
        })
    }

    /// Sleeps until the epoch.
    pub fn sleep_until_epoch(&self) {
        let left = self.until_epoch();
        std::thread::sleep(std::time::Duration::from_nanos(left.as_nanos()));
    }

    /// The time of the run at a reading of `CLOCK_MONOTONIC` in nanoseconds.
    pub fn at(&self, monotonic_ns: u64) -> Instant {
        Instant::from_nanos(monotonic_ns.saturating_sub(self.epoch_ns))
    }

    /// The reading of `CLOCK_MONOTONIC` at a time of the run, in nanoseconds.
    pub fn monotonic_ns_at(&self, at: Instant) -> u64 {
        self.epoch_ns + at.as_nanos()
    }
}

fn monotonic_ns() -> u64 {
    // The clock exists on every Linux; a failure would leave nothing to run by.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC can be read");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_zero_and_time_goes_on_from_it() {
        let clock = Clock { epoch_ns: 1_000 };
        assert_eq!(clock.at(1_000), Instant::ZERO);
        assert_eq!(clock.at(1_250), Instant::from_nanos(250));
        assert_eq!(clock.at(10), Instant::ZERO);
        assert_eq!(clock.monotonic_ns_at(Instant::from_nanos(250)), 1_250);
        let before = clock.now();
        assert!(clock.now() >= before);
    }
}
