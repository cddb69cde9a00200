//! Another process of this machine, which no other can be mistaken for, and the namespaces that
//! it holds.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;

use crate::LinuxError;
use crate::system_calls::{open_process, signal_process};
use crate::user_namespace::keep_rights;

/// A process, held by a pidfd: whatever is done to it is done to this one, and never to another
/// that has got its number since.
#[derive(Debug)]
pub struct OtherProcess {
    handle: OwnedFd,
    pid: u32,
}

impl OtherProcess {
    /// The process `pid` if it is the one that started at `start`
    /// ([`start_time`]); `None` if that one has ended.
    ///
    /// # Errors
    /// When the kernel has no pidfds (before Linux 5.3), or `/proc` is not mounted.
    pub fn open(pid: u32, start: u64) -> io::Result<Option<Self>> {
        let handle = match open_process(pid) {
            Ok(handle) => handle,
            Err(e) if e.raw_os_error() == Some(Errno::ESRCH as i32) => return Ok(None),
            Err(e) => return Err(e),
        };
        let process = Self { handle, pid };
        // Read while the handle is held: if it runs after that, it was this one's.
        let same = start_time(pid).is_some_and(|now| now == start);
        Ok((same && process.runs()).then_some(process))
    }

    /// Whether it has not ended yet.
    pub fn runs(&self) -> bool {
        !self.wait(Duration::ZERO)
    }

    /// Waits at most so long until it has ended; whether it has.
    pub fn wait(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut watched = [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)];
            match poll(&mut watched, left) {
                Ok(ended) if ended > 0 => return true,
                _ if Instant::now() >= until => return false,
                _ => {}
            }
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is another user's.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match signal_process(&self.handle, signal) {
            // It has just ended.
            Err(e) if e.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(()),
            sent => sent,
        }
    }

    /// Opens `file` of its folder in `/proc`, such as `ns/user` or `fd/7`.
    fn file(&self, file: &str) -> io::Result<File> {
        let opened = File::open(format!("/proc/{}/{file}", self.pid))?;
        match self.runs() {
            true => Ok(opened),
            // It may be that of another process.
            false => Err(Errno::ESRCH.into()),
        }
    }

    /// Moves this process, which must have one thread, into what `process` holds: its user
    /// namespace, the mount namespace `mounts` and the network namespace `network`, each by the
    /// number of its descriptor there. The network namespace must have the inode `inode`.
    /// The current folder stays, where it is there.
    ///
    /// # Errors
    /// When this user may not, the process has ended, or it has something else by now.
    pub fn join(&self, mounts: Option<i32>, network: i32, inode: u64) -> Result<(), LinuxError> {
        let refused = |what: &'static str| {
            move |e: io::Error| LinuxError::refused(format!("joining the {what}"), e)
        };
        let of = |number: i32| self.file(&format!("fd/{number}"));
        let user = self.file("ns/user").map_err(refused("user namespace"))?;
        let mounts = mounts.map(of).transpose().map_err(refused("files"))?;
        let network = of(network).map_err(refused("network"))?;
        let found = network.metadata().map_err(refused("network"))?.ino();
        if found != inode {
            let changed = io::Error::other("the process holds another one by that number");
            return Err(refused("network")(changed));
        }
        let here = std::env::current_dir();
        let number = |file: &File| file.metadata().map(|m| m.ino()).ok();
        let own = File::open("/proc/self/ns/user").ok();
        if own.as_ref().and_then(number) != number(&user) {
            let enter = setns(&user, CloneFlags::CLONE_NEWUSER).map_err(io::Error::from);
            enter.map_err(refused("user namespace"))?;
            keep_rights()?;
        }
        if let Some(mounts) = mounts {
            let enter = setns(&mounts, CloneFlags::CLONE_NEWNS).map_err(io::Error::from);
            enter.map_err(refused("files"))?;
            // Entering leads to the root.
            if let Ok(here) = here {
                let _ = std::env::set_current_dir(here);
            }
        }
        let enter = setns(&network, CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
        enter.map_err(refused("network"))
    }
}

/// When the process `pid` started, in clock ticks after the machine did (field 22 of
/// `/proc/PID/stat`, proc_pid_stat(5)).
pub fn start_time(pid: u32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before, in brackets, may have anything in it.
    let (_, rest) = line.rsplit_once(')')?;
    // The state, field 3, is the first of the rest.
    rest.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_number_and_start_and_by_no_other_start() {
        let own = std::process::id();
        let start = start_time(own).expect("this process has started");
        assert!(OtherProcess::open(own, start).unwrap().is_some());
        assert!(OtherProcess::open(own, start + 1).unwrap().is_none());
    }

    #[test]
    fn one_that_has_ended_is_not_found_though_its_number_is_taken() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep starts");
        let start = start_time(child.id()).expect("it has started");
        let process = OtherProcess::open(child.id(), start)
            .unwrap()
            .expect("runs");
        process.signal(Signal::SIGKILL).unwrap();
        // Not waited for, it keeps its number.
        assert!(process.wait(Duration::from_secs(30)));
        assert!(!process.runs());
        assert!(OtherProcess::open(child.id(), start).unwrap().is_none());
        assert!(process.file("ns/user").is_err());
        child.wait().unwrap();
        assert!(OtherProcess::open(child.id(), start).unwrap().is_none());
    }
}
