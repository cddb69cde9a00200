//! How threads wait, and how all of them are stopped at once.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, sync::Arc};

use narrows_units::Instant;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

use crate::Clock;

/// A request to threads to end, whatever they wait for.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requested: AtomicBool,
    /// Readable once requested; never read, so that it wakes every thread.
    event: EventFd,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The time has come.
    Due,
    /// The thread is to end.
    Stopped,
}

impl Stop {
    /// Not yet requested.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self(Arc::new(Inner {
            requested: AtomicBool::new(false),
            event,
        })))
    }

    /// Asks all threads to end.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::Release);
        // It fails only when it is readable already.
        let _ = self.0.event.write(1);
    }

    /// Whether the threads are to end.
    pub fn requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }

    /// Waits for `due` on the run's clock, to the nanosecond that the kernel's
    /// timers give. The deadline is absolute, so what one wait is late does
    /// not add to the next.
    pub fn wait_until(&self, clock: &Clock, due: Instant) -> Wait {
        let mut fds = [self.poll_fd()];
        loop {
            if self.requested() {
                return Wait::Stopped;
            }
            let Some(left) = clock.until(due) else {
                return Wait::Due;
            };
            // An interrupted wait is taken up again; others cannot fail.
            let _ = poll_for(&mut fds, Some(left));
        }
    }

    /// What to poll beside other descriptors.
    pub fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(self.0.event.as_fd(), PollFlags::POLLIN)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

/// Polls for at most `left` (without end if `None`); zero if interrupted.
///
/// # Errors
/// If a descriptor is not open.
fn poll_for(fds: &mut [PollFd<'_>], left: Option<TimeSpec>) -> nix::Result<i32> {
    match ppoll(fds, left, None) {
        Err(Errno::EINTR) => Ok(0),
        other => other,
    }
}

/// Has the calling thread woken when it asked to be, instead of up to 50 µs
/// later together with others (prctl(2), `PR_SET_TIMERSLACK`).
pub fn wake_sharply() {
    // Old kernels in odd containers may refuse; then wake-ups are blunt.
    let _ = nix::sys::prctl::set_timerslack(1);
}

impl Clock {
    /// How long it is until `due`; `None` if it has come.
    pub(crate) fn until(&self, due: Instant) -> Option<TimeSpec> {
        // Before the epoch `now` is zero, so this goes by the clock below it.
        let due = self.monotonic_ns_at(due);
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).ok()?;
        let now = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
        let left = due.checked_sub(now).filter(|left| *left > 0)?;
        Some(TimeSpec::new(
            (left / 1_000_000_000) as i64,
            (left % 1_000_000_000) as i64,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Duration;

    #[test]
    fn a_wait_ends_at_a_stop_and_not_before_it_is_due() {
        let stop = Stop::new().unwrap();
        let clock = Clock::starting_in(Duration::from_millis(2));
        let due = Instant::ZERO + Duration::from_millis(3);
        assert_eq!(stop.wait_until(&clock, due), Wait::Due);
        assert!(clock.now() >= due);
        let far = Instant::ZERO + Duration::from_secs(3_600);
        let waiting = {
            let stop = stop.clone();
            std::thread::spawn(move || stop.wait_until(&clock, far))
        };
        stop.request();
        assert_eq!(waiting.join().unwrap(), Wait::Stopped);
        assert!(stop.requested());
    }
}
