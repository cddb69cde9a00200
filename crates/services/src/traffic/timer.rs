//! A timer by which an event loop wakes to the nanosecond.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use narrows_linux::Clock;
use narrows_units::Instant;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// The timer.
pub(super) struct Timer {
    fd: TimerFd,
    set: Option<Instant>,
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let fd = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        Ok(Self { fd, set: None })
    }

    /// Has it expire at a time of `clock`.
    pub(super) fn set(&mut self, clock: &Clock, at: Instant) -> io::Result<()> {
        if self.set == Some(at) {
            return Ok(());
        }
        self.set = Some(at);
        // Zero would switch it off.
        let ns = clock.monotonic_ns_at(at).max(1);
        let at = std::time::Duration::from_nanos(ns);
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        Ok(self.fd.set(Expiration::OneShot(at.into()), flags)?)
    }

    /// Takes note that it expired.
    pub(super) fn take(&mut self) {
        self.set = None;
        // That it is not ready any more does not matter.
        let _ = self.fd.wait();
    }
}
