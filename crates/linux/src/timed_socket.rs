//! A packet socket with the arrival times of packets and with release times for them.
//!
//! One call takes all that came since the last, each packet with the kernel's time of its
//! arrival, and one call hands over any number, each with the time at which the kernel
//! is to release it (`SO_TXTIME`, with `fq` at the device). So whoever has the socket
//! need not run at those times.

use std::io::{self, IoSliceMut};
use std::iter::zip;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use narrows_core::Packet;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol,
    SockType, recvmmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::socket_option;

/// Packets that one call takes or hands over.
const AT_ONCE: usize = 64;

/// Bytes of packets that may wait for the next call: at 10 Gbit/s, 50 ms.
const BUFFER: usize = 64 << 20;

/// The largest IP packet, in bytes.
const LARGEST: usize = 65_535;

/// What follows the stored bytes of packets that have a tail of zeros.
static ZEROS: [u8; LARGEST] = [0; LARGEST];

/// A packet that goes to a device at a time.
#[derive(Debug)]
pub struct Departure {
    /// The device's index.
    pub device: u32,
    /// When, on `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
    /// What.
    pub packet: Box<Packet>,
}

impl Departure {
    /// `packet` to the device with the index `device`, at `at_ns` on `CLOCK_MONOTONIC`.
    pub fn new(device: u32, at_ns: u64, packet: Box<Packet>) -> Self {
        Self {
            device,
            at_ns,
            packet,
        }
    }
}

/// A packet that came.
pub struct Arrival<'r> {
    /// By the device with this index.
    pub device: u32,
    /// When, on `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
    /// From the IP header on.
    pub bytes: &'r [u8],
}

/// Room for the packets of one call.
pub struct Room {
    bytes: Vec<u8>,
    /// Bytes of the largest packet.
    largest: usize,
    headers: MultiHeaders<LinkAddr>,
    /// What came: device, time and length.
    came: Vec<(u32, u64, usize)>,
}

impl Room {
    /// For packets of at most `largest` bytes.
    pub fn new(largest: u32) -> Self {
        let largest = (largest as usize).clamp(1, LARGEST);
        Self {
            bytes: vec![0; AT_ONCE * largest],
            largest,
            headers: MultiHeaders::preallocate(AT_ONCE, Some(cmsg_space!(TimeSpec))),
            came: Vec::with_capacity(AT_ONCE),
        }
    }

    /// What the last call took, in the order in which it came.
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival<'_>> {
        let places = self.bytes.chunks(self.largest);
        zip(&self.came, places).map(|((device, at_ns, length), place)| Arrival {
            device: *device,
            at_ns: *at_ns,
            bytes: &place[..*length],
        })
    }
}

/// A packet socket for all devices of a namespace.
#[derive(Debug)]
pub struct TimedSocket {
    socket: OwnedFd,
    /// By how much `CLOCK_REALTIME`, in which the kernel says when packets came, is ahead
    /// of `CLOCK_MONOTONIC`, in nanoseconds.
    real_ahead: u64,
}

impl TimedSocket {
    /// Opens one in the namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let all = SockProtocol::EthAll;
        let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, all)?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
        setsockopt(&socket, sockopt::SndBufForce, &BUFFER)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        let by_monotonic = libc::sock_txtime {
            clockid: libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        setsockopt(&socket, sockopt::TxTime, &by_monotonic)?;
        ignore_outgoing(&socket)?;
        Ok(Self {
            socket,
            real_ahead: real_ahead()?,
        })
    }

    /// Takes packets that came into `room`, in their order, as many as it has places;
    /// whether all of these were needed, so that there may be more.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn receive(&self, room: &mut Room) -> Result<bool, Errno> {
        room.came.clear();
        let mut places: Vec<_> = room
            .bytes
            .chunks_exact_mut(room.largest)
            .map(|place| [IoSliceMut::new(place)])
            .collect();
        let fd = self.socket.as_raw_fd();
        let none = MsgFlags::empty();
        let received = match recvmmsg(fd, &mut room.headers, &mut places, none, None) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Err(error) => return Err(error),
        };
        for message in received {
            let device = message.address.map_or(0, |a| a.ifindex() as u32);
            let mut at_ns = 0;
            for control in message.cmsgs()? {
                if let ControlMessageOwned::ScmTimestampns(time) = control {
                    at_ns = nanos(time).saturating_sub(self.real_ahead);
                }
            }
            room.came.push((device, at_ns, message.bytes));
        }
        Ok(room.came.len() == AT_ONCE)
    }

    /// Hands over the first of `departures`, [`AT_ONCE`] at most, to devices whose other end
    /// has the hardware address `to`; how many.
    ///
    /// # Errors
    /// The kernel's error for the first of them; later ones are left for the next call.
    pub fn send(&self, departures: &[Departure], to: [u8; 6]) -> Result<usize, Errno> {
        let some = &departures[..departures.len().min(AT_ONCE)];
        let mut addresses: Vec<_> = some.iter().map(|d| address(d, to)).collect();
        let mut parts: Vec<_> = some.iter().map(|d| parts(&d.packet)).collect();
        let mut times: Vec<_> = some.iter().map(|d| ReleaseTime::new(d.at_ns)).collect();
        let mut messages: Vec<_> = zip(&mut addresses, zip(&mut parts, &mut times))
            .map(|(address, (parts, time))| message(address, parts, time))
            .collect();
        // SAFETY: `messages` are as many whole headers as are said. What they point to
        // (addresses, parts, the packets' bytes and the zeros, times) outlives the call and is
        // as long as each says; the kernel only reads it.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                0,
            )
        };
        Errno::result(sent).map(|sent| sent as usize)
    }

    /// How many packets came and found no room since this was asked last.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lost(&self) -> io::Result<u32> {
        // `struct tpacket_stats`: packets and drops, 32 bits each (linux/if_packet.h).
        const DROPS: usize = 4;
        let (bytes, _) =
            socket_option::get::<8>(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        let drops = bytes[DROPS..].first_chunk().expect("four bytes");
        Ok(u32::from_ne_bytes(*drops))
    }
}

impl AsFd for TimedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Packets that leave by the socket itself do not come back by it.
fn ignore_outgoing(socket: &OwnedFd) -> io::Result<()> {
    /// `PACKET_IGNORE_OUTGOING` (linux/if_packet.h, Linux 4.20).
    const IGNORE_OUTGOING: libc::c_int = 23;
    socket_option::set(socket, libc::SOL_PACKET, IGNORE_OUTGOING, 1)
}

/// By how much the real clock is ahead of the monotonic one.
fn real_ahead() -> io::Result<u64> {
    let read = |clock| clock_gettime(clock).map(nanos);
    // Reading takes time, each reading as much as the one before.
    let before = read(ClockId::CLOCK_MONOTONIC)?;
    let real = read(ClockId::CLOCK_REALTIME)?;
    let after = read(ClockId::CLOCK_MONOTONIC)?;
    Ok(real.saturating_sub(before + (after - before) / 2))
}

fn nanos(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn address(departure: &Departure, to: [u8; 6]) -> libc::sockaddr_ll {
    let is_v6 = departure.packet.bytes.first().is_some_and(|b| b >> 4 == 6);
    let protocol = if is_v6 {
        libc::ETH_P_IPV6
    } else {
        libc::ETH_P_IP
    };
    let mut sll_addr = [0; 8];
    sll_addr[..to.len()].copy_from_slice(&to);
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: departure.device as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: to.len() as libc::c_uchar,
        sll_addr,
    }
}

/// A packet's stored bytes, and its zeros.
fn parts(packet: &Packet) -> [libc::iovec; 2] {
    let zeros = &ZEROS[..(packet.zero_tail as usize).min(LARGEST)];
    [&packet.bytes[..], zeros].map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    })
}

fn message(
    address: &mut libc::sockaddr_ll,
    parts: &mut [libc::iovec; 2],
    time: &mut ReleaseTime,
) -> libc::mmsghdr {
    // SAFETY: a header of zeros is one without address, parts and control messages; its
    // padding differs between libraries, so that it cannot be written out.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let header = &mut message.msg_hdr;
    header.msg_name = (&raw mut *address).cast();
    header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len() as _;
    header.msg_control = (&raw mut *time).cast();
    header.msg_controllen = size_of::<ReleaseTime>() as _;
    message
}

/// A control message with the time of release (`SCM_TXTIME`).
#[repr(C)]
struct ReleaseTime {
    header: libc::cmsghdr,
    at_ns: u64,
}

impl ReleaseTime {
    fn new(at_ns: u64) -> Self {
        // SAFETY: a header of zeros is one; see `message`.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = size_of::<Self>() as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_TXTIME;
        Self { header, at_ns }
    }
}
