//! A device whose packets are watched.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::net::if_::{if_indextoname, if_nameindex, if_nametoindex};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use crate::error::CaptureError;
use crate::frame::Block;
use crate::ring::Ring;

/// Bytes that are kept of each packet: the longest headers that observers read,
/// IPv6 with some extensions and TCP with all its options, and then some.
pub const SNAPLEN: u32 = 320;
/// Bytes of a block: some 600 packets.
const BLOCK: usize = 256 << 10;
/// Blocks of the ring: 32 MiB, a third of a second at 250,000 packets a second.
const BLOCKS: usize = 128;
/// Milliseconds until a block that is not full is handed over.
const RETIRE_MS: u32 = 10;

/// The name that stands for all devices together.
pub const ANY: &str = "any";

/// How a device is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether frames for other hosts are seen too.
    pub promiscuous: bool,
}

/// What passed a device since it is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that were handed to this program, or wait in the ring.
    pub seen: u64,
    /// Packets that found no room in the ring.
    pub dropped: u64,
}

/// A device that is watched.
#[derive(Debug)]
pub struct Capture {
    name: String,
    /// Its number; 0 for all devices.
    device: u32,
    ring: Ring,
    statistics: Statistics,
    /// Packets that were read.
    read: u64,
    /// The loopback device, if all devices are watched.
    loopback: Option<u32>,
}

impl Capture {
    /// Watches the packets of a device in this network namespace, or of all devices
    /// ([`ANY`]), both those that come and those that leave; of loopback, each once.
    ///
    /// # Errors
    /// Where there is no such device or it is down, without the capability
    /// `CAP_NET_RAW`, where the kernel has no memory for the ring, or where all devices
    /// are to be promiscuous: each has to be named for that.
    pub fn open(name: &str, options: &Options) -> Result<Self, CaptureError> {
        let wrong = |what| move |source| CaptureError::of(name, what, source);
        let ring =
            Ring::new(BLOCKS, BLOCK, RETIRE_MS).map_err(wrong("a ring could not be made"))?;
        let all = name == ANY;
        // No device has the number 0, which means all.
        let device = match all {
            true => 0,
            false => if_nametoindex(name).map_err(|_| CaptureError::NoDevice {
                name: name.to_owned(),
                present: present(),
            })?,
        };
        ring.keep(SNAPLEN)
            .map_err(wrong("packets could not be cut"))?;
        if is_loopback(name) {
            let what = "its outgoing packets could not be left out";
            ring.ignore_outgoing().map_err(wrong(what))?;
        }
        ring.bind(device).map_err(wrong("the device was refused"))?;
        if options.promiscuous && all {
            return Err(CaptureError::PromiscuousAny);
        }
        if options.promiscuous {
            let what = "promiscuous mode was refused";
            ring.promiscuous(device).map_err(wrong(what))?;
        }
        Ok(Self {
            name: name.to_owned(),
            device,
            ring,
            statistics: Statistics::default(),
            read: 0,
            loopback: loopback().filter(|_| all),
        })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Packets that came since the last call, if there are any. Does not wait.
    pub fn block(&mut self) -> Option<Block<'_>> {
        let block = Block::next(&mut self.ring, self.loopback)?;
        self.read += block.len() as u64;
        Some(block)
    }

    /// Ends it: packets that come from now on are not seen and not counted.
    /// Those that were seen are still to be read.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&self) -> Result<(), CaptureError> {
        let what = "it could not be stopped";
        self.ring
            .keep(0)
            .map_err(|e| CaptureError::of(&self.name, what, e))
    }

    /// Whether all that was seen has been read.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn is_drained(&mut self) -> Result<bool, CaptureError> {
        Ok(self.read >= self.statistics()?.seen)
    }

    /// What passed so far.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn statistics(&mut self) -> Result<Statistics, CaptureError> {
        let what = "its counters could not be read";
        let counts = self.ring.counts();
        let counts = counts.map_err(|e| CaptureError::of(&self.name, what, e))?;
        // The kernel counts from zero after each reading.
        self.statistics.seen += u64::from(counts.packets.saturating_sub(counts.dropped));
        self.statistics.dropped += u64::from(counts.dropped);
        Ok(self.statistics)
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// Waits until one of these has packets, or for this long. A signal ends it. The name of a device that is
/// gone, deleted or moved to another network namespace, after which its capture sees nothing any more; one
/// that is down may come up again, and is seen then.
///
/// # Errors
/// When the kernel refuses to wait.
pub fn wait<'a>(
    mut captures: impl Iterator<Item = &'a Capture> + Clone,
    at_most: Duration,
) -> io::Result<Option<&'a str>> {
    let mut waits: Vec<_> = captures
        .clone()
        .map(|c| PollFd::new(c.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
    match poll(&mut waits, timeout) {
        Err(Errno::EINTR) => return Ok(None),
        result => result?,
    };
    for (capture, wait) in captures.clone().zip(&waits) {
        if wait
            .revents()
            .is_some_and(|r| r.contains(PollFlags::POLLERR))
        {
            // A device went down, which is reported until it is asked for.
            let _ = getsockopt(&capture.ring.as_fd(), sockopt::SocketError);
        }
    }
    // The kernel reports that a device goes down, and not that it is deleted then.
    let gone = |c: &&Capture| c.device != 0 && name_of(c.device).is_none();
    Ok(captures.find(gone).map(Capture::name))
}

fn is_loopback(name: &str) -> bool {
    use nix::ifaddrs::getifaddrs;
    use nix::net::if_::InterfaceFlags;
    let Ok(mut all) = getifaddrs() else {
        return name == "lo";
    };
    all.any(|i| i.interface_name == name && i.flags.contains(InterfaceFlags::IFF_LOOPBACK))
}

/// The number of the loopback device of this network namespace.
fn loopback() -> Option<u32> {
    let all = if_nameindex().ok()?;
    let names = all
        .iter()
        .map(|i| (i.index(), i.name().to_string_lossy().into_owned()));
    let mut loopback = names.filter(|(_, name)| is_loopback(name));
    loopback.next().map(|(index, _)| index)
}

/// The name of the device with this number, or the number if it has gone.
pub fn device_name(index: u32) -> String {
    name_of(index).unwrap_or_else(|| format!("device {index}"))
}

/// The name of the device with this number, if there is one; without, nix answers an empty one.
fn name_of(index: u32) -> Option<String> {
    let name = if_indextoname(index).ok()?.to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

fn present() -> String {
    let Ok(all) = if_nameindex() else {
        return "none that could be listed".to_owned();
    };
    let names = all.iter().map(|i| i.name().to_string_lossy().into_owned());
    names.collect::<Vec<_>>().join(", ")
}
