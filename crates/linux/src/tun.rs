//! One end of a link as its host sees it: a TUN device.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use nix::libc;

use super::Namespace;
use super::system_calls::attach_tun;
use crate::LinuxError;

/// Packets that a device holds until the datapath reads them (`txqueuelen`).
///
/// The path's own queues are the only ones that may fill up, so this one must
/// last while the datapath's processor is taken away: 33 ms at the 500 000
/// packets a second that one datapath can carry, 190 ms at 1 Gbit/s of full
/// packets. The kernel takes 8 bytes for each place, 128 KiB for a device;
/// with a longer ring the places themselves would no longer stay in a cache.
pub const DEVICE_QUEUE: u32 = 16_384;

/// The end of a link in a host: what the host's kernel routes to the device
/// is read from it, and what is written to it reaches the host. One IP packet
/// per read or write, without any header before it; reads and writes do not
/// block. The device is gone when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
    namespace: Namespace,
    name: String,
    index: u32,
    mtu: u32,
}

impl Tun {
    /// Makes the device `name` (at most 15 characters) with `mtu` bytes as its
    /// largest packet, and takes it into use.
    ///
    /// # Errors
    /// Where the machine has no TUN or the process no right to it.
    pub fn new(namespace: &Namespace, name: &str, mtu: u32) -> Result<Self, LinuxError> {
        let place = namespace.name();
        // A TUN file belongs to the namespace of the thread that opens it.
        let file = namespace
            .run(|| open(name))?
            .map_err(|e| refusal(place, e))?;
        let index = namespace.device(name)?.index;
        let tun = Self {
            file,
            namespace: namespace.clone(),
            name: name.to_owned(),
            index,
            mtu,
        };
        let attributes = vec![
            LinkAttribute::Mtu(mtu),
            LinkAttribute::TxQueueLen(DEVICE_QUEUE),
        ];
        // Without multicast the kernel reports no memberships of groups.
        let mask = LinkFlags::Up | LinkFlags::Multicast;
        namespace
            .set_device(index, LinkFlags::Up, mask, attributes)
            .map_err(|e| {
                let what = format!("{place}: device {name} with an MTU of {mtu} bytes");
                LinuxError::refused(what, e)
            })?;
        Ok(tun)
    }

    /// From now on TCP hands it at most `segments` at once (`gso_max_segs`).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn limit_bursts(&self, segments: u32) -> Result<(), LinuxError> {
        let attributes = vec![LinkAttribute::GsoMaxSegs(segments)];
        let none = LinkFlags::empty();
        let set = self
            .namespace
            .set_device(self.index, none, none, attributes);
        set.map_err(|e| {
            let what = format!("{}: gso_max_segs {segments}", self.name);
            LinuxError::refused(what, e)
        })
    }

    /// The device's name in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's index in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The largest packet that it carries, in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Where it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// How many packets the device has dropped since it was made because
    /// [`DEVICE_QUEUE`] of them waited: where this is not zero, a queue that
    /// is not the path's was full.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn dropped(&self) -> Result<u64, LinuxError> {
        Ok(self.namespace.device(&self.name)?.dropped)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Where TUN devices come from.
const TUN_FILE: &str = "/dev/net/tun";

/// What failed.
enum Step {
    Open(io::Error),
    Attach(io::Error),
}

fn open_file() -> io::Result<OwnedFd> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    how.open(TUN_FILE).map(OwnedFd::from)
}

fn open(name: &str) -> Result<OwnedFd, Step> {
    let file = open_file().map_err(Step::Open)?;
    attach_tun(&file, name).map_err(Step::Attach)?;
    Ok(file)
}

fn refusal(place: &str, step: Step) -> LinuxError {
    match step {
        Step::Open(e) => LinuxError::NoTun {
            reason: why_not_opened(&e),
        },
        Step::Attach(e) => LinuxError::refused(format!("{place}: making a TUN device"), e),
    }
}

/// Opens the file and makes no device.
pub fn try_tun_file() -> Result<(), LinuxError> {
    let refused = |e| refusal("this machine", Step::Open(e));
    open_file().map(drop).map_err(refused)
}

/// Why [`TUN_FILE`] cannot be opened, and what changes that.
fn why_not_opened(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!(
            "there is no {TUN_FILE} (as root: mkdir -p /dev/net && mknod -m 666 {TUN_FILE} c 10 200)"
        ),
        // The file is there, and no driver behind it.
        Some(libc::ENODEV | libc::ENXIO) => {
            "the kernel has no TUN driver (as root: modprobe tun; CONFIG_TUN)".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("{TUN_FILE} is closed to this user (as root: chmod 666 {TUN_FILE})")
        }
        _ => format!("{TUN_FILE}: {error}"),
    }
}
