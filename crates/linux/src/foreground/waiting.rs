//! Waiting for a command while signals and figures want something too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// The longest time between two ticks.
const TICK: Duration = Duration::from_millis(250);

/// How long a command has to end after it was asked to, before it is asked in
/// stronger terms: by SIGHUP, which interactive shells obey, and by SIGKILL.
const PATIENCE: Duration = Duration::from_secs(1);

/// Signals that are received by reading them, while this lives: by the calling
/// thread and those that it starts.
#[derive(Debug)]
pub struct Signals {
    before: SigSet,
    file: SignalFd,
}

impl Signals {
    /// Blocks SIGCHLD, SIGINT, SIGQUIT, SIGTERM and SIGHUP, to be read from a signalfd.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn hold() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [
            Signal::SIGCHLD,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGHUP,
        ] {
            mask.add(signal);
        }
        let file = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { before, file })
    }

    /// Waits until `child` ends. `tick` is called four times a second; once it
    /// says `false` the child is ended. Signals are passed on; with `insist` a child that
    /// does not heed them is ended by stronger ones.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn wait(
        &self,
        child: &mut Child,
        insist: bool,
        tick: &mut dyn FnMut() -> bool,
    ) -> io::Result<ExitStatus> {
        let pid = Pid::from_raw(child.id() as i32);
        // One that has just gone needs no signal.
        let send = |signal| {
            let _ = kill(pid, signal);
        };
        let mut next_tick = Instant::now() + TICK;
        let mut asked: Option<(Instant, Signal)> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                if !tick() && asked.is_none() {
                    send(Signal::SIGTERM);
                    asked = Some((now, Signal::SIGTERM));
                }
            }
            let unheeded = asked.filter(|(at, _)| insist && now >= *at + PATIENCE);
            if let Some((_, signal)) = unheeded {
                let stronger = match signal {
                    Signal::SIGTERM => Signal::SIGHUP,
                    _ => Signal::SIGKILL,
                };
                send(stronger);
                asked = Some((now, stronger));
            }
            self.sleep(next_tick.saturating_duration_since(now), None)?;
            while let Some((signal, code)) = self.next()? {
                match signal {
                    // From the terminal the command has got it too.
                    Signal::SIGINT | Signal::SIGQUIT if code == libc::SI_KERNEL => {}
                    Signal::SIGINT | Signal::SIGQUIT => send(signal),
                    Signal::SIGTERM | Signal::SIGHUP => {
                        send(signal);
                        // One that has been stopped would not see it.
                        send(Signal::SIGCONT);
                        asked = asked.or(Some((Instant::now(), signal)));
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Signals {
    /// Waits until the process behind `process` (a pidfd) has ended, or a signal other than
    /// that of a child asks to go; whether it ended. `tick` is called four times a second.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn until_gone(&self, process: BorrowedFd<'_>, tick: &mut dyn FnMut()) -> io::Result<bool> {
        let mut next_tick = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                tick();
            }
            let left = next_tick.saturating_duration_since(now);
            if self.sleep(left, Some(process))? {
                return Ok(true);
            }
            while let Some((signal, _)) = self.next()? {
                if signal != Signal::SIGCHLD {
                    return Ok(false);
                }
            }
        }
    }

    /// Waits until a signal other than that of a child asks to go. `readable` is called when
    /// something can be read from `file`, `tick` four times a second; once it says `false` that
    /// is the end, too.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn until_asked(
        &self,
        file: BorrowedFd<'_>,
        readable: &mut dyn FnMut(),
        tick: &mut dyn FnMut() -> bool,
    ) -> io::Result<()> {
        while tick() {
            if self.sleep(TICK, Some(file))? {
                readable();
            }
            if self.asked()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a signal other than that of a child has asked to go since this was asked.
    ///
    /// # Errors
    /// When signals cannot be read.
    pub fn asked(&self) -> io::Result<bool> {
        let mut asked = false;
        while let Some((signal, _)) = self.next()? {
            asked |= signal != Signal::SIGCHLD;
        }
        Ok(asked)
    }

    /// Sleeps until a signal came, `process` (or another file) is ready, or the time is over;
    /// whether it is.
    fn sleep(&self, time: Duration, process: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut watched = vec![of(self.file.as_fd())];
        watched.extend(process.map(of));
        let longest = PollTimeout::try_from(time + Duration::from_millis(1));
        match poll(&mut watched, longest.unwrap_or(PollTimeout::ZERO)) {
            Ok(_) => Ok(watched.get(1).and_then(PollFd::any) == Some(true)),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// The next signal that came, with what sent it (`si_code`).
    fn next(&self) -> io::Result<Option<(Signal, i32)>> {
        while let Some(info) = self.file.read_signal()? {
            if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
                return Ok(Some((signal, info.ssi_code)));
            }
        }
        Ok(None)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What came meanwhile has been answered.
        while let Ok(Some(_)) = self.file.read_signal() {}
        let _ = self.before.thread_set_mask();
    }
}

/// The status that a shell gives for a command that ended so: its own, or 128
/// and the signal's number.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|s| 128 + s));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)
}
