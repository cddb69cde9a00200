//! The ends of links, as the path reads and writes them.

use std::os::fd::BorrowedFd;

use narrows_core::Packet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd;

use narrows_units::Duration;

/// The largest IP packet, in bytes.
const LARGEST: usize = 65_535;

/// The device at one end of a link.
pub(super) struct Device<'d> {
    /// How packets reach it.
    pub way: Way<'d>,
    /// Whose it is, by index in the plan.
    pub node: usize,
}

/// How packets reach a device, and come from it.
#[derive(Clone, Copy)]
pub(super) enum Way<'d> {
    /// By a read or a write each: a TUN device.
    Calls(BorrowedFd<'d>),
    /// Many together, with their times.
    Times(Port),
}

/// A device that packets reach by a [`TimedSocket`](narrows_linux::timed_socket::TimedSocket).
#[derive(Clone, Copy)]
pub(super) struct Port {
    /// Its number at the socket.
    pub number: u32,
    /// The largest packet that it takes, in bytes.
    pub mtu: u32,
}

impl<'d> Device<'d> {
    /// What is read and written; `None` of one that a socket has.
    fn fd(&self) -> Option<BorrowedFd<'d>> {
        match self.way {
            Way::Calls(fd) => Some(fd),
            Way::Times(_) => None,
        }
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
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        Self(vec![0; LARGEST])
    }

    /// The next packet of `device`, if one waits.
    pub(super) fn read(&mut self, device: &Device<'_>) -> Result<Option<&[u8]>, Errno> {
        let Some(fd) = device.fd() else {
            return Ok(None);
        };
        match unistd::read(fd, &mut self.0) {
            Ok(n) => Ok(Some(&self.0[..n])),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands `packet` to the stack behind the device `fd`.
    pub(super) fn write(&mut self, fd: BorrowedFd<'_>, packet: &Packet) -> Result<Written, Errno> {
        let whole = if packet.zero_tail == 0 {
            &packet.bytes[..]
        } else {
            let stored = packet.bytes.len();
            let all = (packet.len() as usize).min(self.0.len());
            self.0[..stored].copy_from_slice(&packet.bytes);
            self.0[stored..all].fill(0);
            &self.0[..all]
        };
        match unistd::write(fd, whole) {
            Ok(_) => Ok(Written::Taken),
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EINTR) => {
                Ok(Written::NoRoom)
            }
            Err(Errno::EINVAL) => Ok(Written::Malformed),
            Err(error) => Err(error),
        }
    }
}

/// Sleeps until a packet waits at some of `devices`, at most for `longest`.
pub(super) fn sleep(devices: &[Option<Device<'_>>], longest: Duration) -> Result<(), Errno> {
    let fds = devices.iter().flatten().filter_map(Device::fd);
    sleep_until_readable(fds, longest).map(drop)
}

/// Sleeps until something can be read from some of `fds`, at most for `longest`; whether
/// something can.
pub(super) fn sleep_until_readable<'f>(
    fds: impl Iterator<Item = BorrowedFd<'f>>,
    longest: Duration,
) -> Result<bool, Errno> {
    let mut watched: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let longest = TimeSpec::from(std::time::Duration::from_nanos(longest.as_nanos()));
    match ppoll(&mut watched, Some(longest), None) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error),
    }
}
