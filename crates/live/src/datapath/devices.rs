//! The ends of links, as the path reads and writes them.

use std::os::fd::{AsFd, BorrowedFd};

use narrows_packet::Packet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd;

use narrows_units::Duration;

/// The largest IP packet, in bytes.
const LARGEST: usize = 65_535;

/// A TUN device at one end of a link.
pub(super) struct Device<'d> {
    fd: BorrowedFd<'d>,
    /// Whose it is, by index in the plan.
    pub node: usize,
}

impl<'d> Device<'d> {
    pub(super) fn new(fd: BorrowedFd<'d>, node: usize) -> Self {
        Self { fd, node }
    }
}

/// What became of a packet that was written.
pub(super) enum Written {
    /// The stack has it.
    Taken,
    /// The kernel had no room for it.
    NoRoom,
    /// The kernel could not read it.
    Malformed,
}

/// Room for a packet on its way in or out.
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        Self(vec![0; LARGEST])
    }

    /// The next packet of `device`, if one waits.
    pub(super) fn read(&mut self, device: &Device<'_>) -> Result<Option<&[u8]>, Errno> {
        match unistd::read(device.fd, &mut self.0) {
            Ok(n) => Ok(Some(&self.0[..n])),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands `packet` to the stack behind `device`.
    pub(super) fn write(&mut self, device: &Device<'_>, packet: &Packet) -> Result<Written, Errno> {
        let whole = if packet.zero_tail == 0 {
            &packet.bytes[..]
        } else {
            let stored = packet.bytes.len();
            let all = (packet.len() as usize).min(self.0.len());
            self.0[..stored].copy_from_slice(&packet.bytes);
            self.0[stored..all].fill(0);
            &self.0[..all]
        };
        match unistd::write(device.fd, whole) {
            Ok(_) => Ok(Written::Taken),
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EINTR) => {
                Ok(Written::NoRoom)
            }
            Err(Errno::EINVAL) => Ok(Written::Malformed),
            Err(error) => Err(error),
        }
    }
}

/// Sleeps until a packet waits at some of `devices`, at most for `longest`; puts their
/// places into `ready`. Whether it slept to the end.
pub(super) fn sleep(
    devices: &[Option<Device<'_>>],
    longest: Duration,
    ready: &mut Vec<usize>,
) -> Result<bool, Errno> {
    ready.clear();
    let there = || {
        devices
            .iter()
            .enumerate()
            .filter_map(|(i, d)| Some((i, d.as_ref()?)))
    };
    let mut watched: Vec<PollFd<'_>> = there()
        .map(|(_, d)| PollFd::new(d.fd.as_fd(), PollFlags::POLLIN))
        .collect();
    let longest = TimeSpec::from(std::time::Duration::from_nanos(longest.as_nanos()));
    match ppoll(&mut watched, Some(longest), None) {
        Ok(0) => return Ok(true),
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(false),
        Err(error) => return Err(error),
    }
    let places = there().map(|(i, _)| i).zip(&watched);
    ready.extend(
        places
            .filter(|(_, w)| w.any() == Some(true))
            .map(|(i, _)| i),
    );
    Ok(false)
}
