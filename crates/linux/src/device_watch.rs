//! Whether a device is still there: what attached to one learns when it goes.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::libc;
use nix::net::if_::{if_indextoname, if_nametoindex};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::LinuxError;
use crate::netlink::{Messages, attribute};

/// `RTNLGRP_LINK` (linux/rtnetlink.h): the kernel's notices about devices.
const LINKS: u32 = 1;
/// Bytes of `struct ifinfomsg` (linux/rtnetlink.h), and where its index stands.
const LINK_HEADER: usize = 16;
const INDEX: usize = 4;

/// A device of the network namespace of the thread that made this. A device is known by its number: one
/// that is deleted and made anew under its name is another one.
#[derive(Debug)]
pub struct DeviceWatch {
    socket: Socket,
    name: String,
    index: u32,
}

/// What a notice says of a device.
enum Notice {
    /// The one of this number was deleted, or moved to another network namespace.
    Gone(u32),
    /// There is one of this number and name.
    There(u32, Vec<u8>),
}

impl DeviceWatch {
    /// Watches the device `name`.
    ///
    /// # Errors
    /// If there is none, or the kernel gives no notice.
    pub fn of(name: &str) -> Result<Self, LinuxError> {
        let mut watch = Self::for_name(name)?;
        let absent = |e: nix::Error| {
            LinuxError::refused(format!("there is no device {name}"), io::Error::from(e))
        };
        watch.index = if_nametoindex(name).map_err(absent)?;
        Ok(watch)
    }

    /// Watches for a device `name`, which need not be there.
    ///
    /// # Errors
    /// If the kernel gives no notice.
    pub fn for_name(name: &str) -> Result<Self, LinuxError> {
        let failed = |e: io::Error| LinuxError::refused(format!("{name}: it cannot be watched"), e);
        // Notices before anything is asked, so that nothing happens in between.
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.add_membership(LINKS)?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(failed)?,
            name: name.to_owned(),
            index: 0,
        })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's number; 0 where it is gone, or has not been there yet.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Waits for `patience` until the device is gone: deleted, or moved to another network namespace.
    /// Whether it is.
    ///
    /// # Errors
    /// If the kernel gives no notice.
    pub fn is_gone_within(&mut self, patience: Duration) -> io::Result<bool> {
        let (index, mut gone) = (self.index, false);
        self.wait(patience, |notice| {
            gone |= is_gone(index, notice);
            gone
        })?;
        if gone {
            self.index = 0;
        }
        Ok(gone)
    }

    /// Waits for `patience` until a device of the name is there, which is watched from then on. Whether
    /// there is.
    ///
    /// # Errors
    /// If the kernel gives no notice.
    pub fn is_there_within(&mut self, patience: Duration) -> io::Result<bool> {
        let name = self.name.clone();
        let mut found = if_nametoindex(name.as_str()).ok();
        if found.is_none() {
            self.wait(patience, |notice| {
                match notice {
                    Some(Notice::There(index, of)) if *of == name.as_bytes() => {
                        found = Some(*index);
                    }
                    Some(Notice::Gone(index)) if found == Some(*index) => found = None,
                    Some(_) => {}
                    None => found = if_nametoindex(name.as_str()).ok(),
                }
                found.is_some()
            })?;
        }
        self.index = found.unwrap_or(0);
        Ok(found.is_some())
    }

    /// Passes notices on until one is enough, or `patience` is over. `None` stands for notices that were
    /// lost.
    fn wait(
        &self,
        patience: Duration,
        mut enough: impl FnMut(Option<&Notice>) -> bool,
    ) -> io::Result<()> {
        let end = Instant::now() + patience;
        loop {
            let read = match self.socket.recv_from_full() {
                Ok((read, _)) => read,
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    if enough(None) {
                        return Ok(());
                    }
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    self.sleep(left)?;
                    continue;
                }
                Err(e) => return Err(e),
            };
            // All notices of one read: the device may be made anew in it.
            let mut done = false;
            for (kind, _, body) in Messages::new(&read) {
                done |= notice(kind, body).is_some_and(|notice| enough(Some(&notice)));
            }
            if done {
                return Ok(());
            }
        }
    }

    fn sleep(&self, left: Duration) -> io::Result<()> {
        let mut waits = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let left = left.max(Duration::from_millis(1));
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut waits, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Whether `notice` means that the device of number `index` is gone. `None` stands for notices that were
/// lost: the kernel is asked.
fn is_gone(index: u32, notice: Option<&Notice>) -> bool {
    match notice {
        Some(Notice::Gone(which)) => *which == index,
        Some(Notice::There(..)) => false,
        None => device_name(index).is_none(),
    }
}

/// The name of the device with that number in this network namespace, if there is one; without, nix answers
/// an empty one.
pub fn device_name(index: u32) -> Option<String> {
    let name = if_indextoname(index).ok()?.to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

/// What a message of the group says. Notices of other families are about one use of a device, such as a
/// bridge's port (`AF_BRIDGE`).
fn notice(kind: u16, body: &[u8]) -> Option<Notice> {
    let header: &[u8; LINK_HEADER] = body.first_chunk()?;
    if i32::from(header[0]) != libc::AF_UNSPEC {
        return None;
    }
    let index = u32::from_ne_bytes(*header[INDEX..].first_chunk()?);
    match kind {
        libc::RTM_DELLINK => Some(Notice::Gone(index)),
        libc::RTM_NEWLINK => {
            let name = attribute(&body[LINK_HEADER..], libc::IFLA_IFNAME)?;
            let name = name.split(|byte| *byte == 0).next()?;
            Some(Notice::There(index, name.to_vec()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback device has number 1 in each network namespace (`LOOPBACK_IFINDEX`,
    /// include/net/net_namespace.h).
    const LOOPBACK: u32 = 1;
    /// A number that no device has: they are below 2³¹.
    const NONE: u32 = u32::MAX >> 1;

    #[test]
    fn a_device_is_gone_by_its_own_notice_and_not_by_that_of_another() {
        assert!(is_gone(7, Some(&Notice::Gone(7))));
        assert!(!is_gone(7, Some(&Notice::Gone(8))));
        assert!(!is_gone(7, Some(&Notice::There(7, b"v0".to_vec()))));
    }

    #[test]
    fn where_notices_were_lost_the_kernel_is_asked() {
        assert!(!is_gone(LOOPBACK, None));
        assert!(is_gone(NONE, None));
    }
}
