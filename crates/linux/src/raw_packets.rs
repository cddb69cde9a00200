//! Whole packets of IP between this machine and others: raw sockets (raw(7)).
//!
//! The kernel's TCP must not answer what comes to a port of ours: it knows of no connection and
//! would reset it. It says nothing where a listening socket has the port whose filter drops every
//! packet, for the filter is asked before TCP is (`tcp_v4_rcv`: `tcp_filter`); a datagram
//! socket with the same filter keeps UDP from telling that nobody has the port. Raw sockets get
//! their copies before (`raw_local_deliver`). So no rule of a packet filter is needed, and all is
//! gone with the sockets.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use narrows_wire::{Ip, IpFields, ip};
use nix::errno::Errno;
use nix::libc::{self, sock_filter};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage,
    bind, listen, recvmsg, sendto, setsockopt, socket, sockopt,
};

use crate::socket_option;
use crate::tcp_options::family;

/// Why whole packets cannot be sent and received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The process may not open raw sockets.
    #[error("raw sockets need root or CAP_NET_RAW: run it with sudo")]
    NoPermission,
    /// Another socket has a port, or the machine has no such address.
    #[error("{at} cannot be used: {reason}")]
    Port {
        /// Where.
        at: SocketAddr,
        /// What the kernel said.
        reason: io::Error,
    },
    /// A step failed, which it does not on a working system.
    #[error("packets cannot be sent and received: {0}")]
    Sockets(io::Error),
}

/// The largest IP packet, in bytes.
const LARGEST: usize = 65_535;

/// The sockets of one end.
#[derive(Debug)]
pub struct RawPackets {
    own: IpAddr,
    out: OwnedFd,
    /// One for each protocol.
    sources: Vec<(u8, OwnedFd)>,
    /// Those that keep the kernel from answering.
    _quiet: Vec<OwnedFd>,
    room: Vec<u8>,
}

impl RawPackets {
    /// Sockets for packets from and to `own`, with `ports` for TCP and UDP.
    ///
    /// # Errors
    /// If this user may not have them, or another socket has a port.
    pub fn open(own: IpAddr, ports: &[u16]) -> Result<Self, RawError> {
        let icmp = match own {
            IpAddr::V4(_) => (ip::ICMP, SockProtocol::Icmp),
            IpAddr::V6(_) => (ip::ICMPV6, SockProtocol::IcmpV6),
        };
        let raw = |protocol| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let made = socket(
                family(SocketAddr::new(own, 0)),
                SockType::Raw,
                flags,
                protocol,
            );
            made.map_err(|e| match e {
                Errno::EPERM | Errno::EACCES => RawError::NoPermission,
                e => RawError::Sockets(e.into()),
            })
        };
        // Sockets of this protocol send packets with their headers (raw(7), `IPV6_HDRINCL`).
        let out = raw(SockProtocol::Raw)?;
        let mut sources = Vec::new();
        for (number, protocol) in [
            (ip::TCP, SockProtocol::Tcp),
            (ip::UDP, SockProtocol::Udp),
            icmp,
        ] {
            let source = raw(protocol)?;
            let prepare = || -> io::Result<()> {
                if own.is_ipv6() {
                    setsockopt(&source, sockopt::Ipv6RecvPacketInfo, &true)?;
                    setsockopt(&source, sockopt::Ipv6RecvTClass, &true)?;
                    setsockopt(&source, sockopt::Ipv6RecvHopLimit, &true)?;
                }
                match number {
                    ip::TCP | ip::UDP => {
                        socket_option::filter(&source, &to_port(own.is_ipv4(), ports[0]))
                    }
                    _ => Ok(()),
                }
            };
            prepare().map_err(RawError::Sockets)?;
            sources.push((number, source));
        }
        let mut quiet = Vec::new();
        for port in ports {
            let at = SocketAddr::new(own, *port);
            for kind in [SockType::Stream, SockType::Datagram] {
                let taken = silence(at, kind);
                quiet.push(taken.map_err(|reason| RawError::Port { at, reason })?);
            }
        }
        Ok(Self {
            own,
            out,
            sources,
            _quiet: quiet,
            room: vec![0; LARGEST],
        })
    }

    /// Sends a packet. One that the kernel does not take is lost, as others are on the way.
    ///
    /// # Errors
    /// If it is no packet, or may not be sent.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let Ok(ip) = Ip::parse(packet) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let to = SockaddrStorage::from(SocketAddr::new(ip.destination, 0));
        match sendto(self.out.as_raw_fd(), packet, &to, MsgFlags::empty()) {
            Err(e @ (Errno::EPERM | Errno::EACCES | Errno::EINVAL)) => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Waits for a packet, for `most` at the longest.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        let sources = self.sources.iter();
        let mut files: Vec<PollFd<'_>> = sources
            .map(|(_, source)| PollFd::new(source.as_fd(), PollFlags::POLLIN))
            .collect();
        // Up to the next millisecond, as poll(2) counts.
        let most = PollTimeout::try_from(most + Duration::from_micros(999));
        match poll(&mut files, most.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The next packet that has come, from its IP header on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        for (protocol, source) in &self.sources {
            let mut slices = [IoSliceMut::new(&mut self.room)];
            let mut control = nix::cmsg_space!(libc::in6_pktinfo, libc::c_int, libc::c_int);
            let came = recvmsg::<SockaddrStorage>(
                source.as_raw_fd(),
                &mut slices,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            );
            let came = match came {
                Ok(came) => came,
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => continue,
                Err(e) => return Err(e.into()),
            };
            let len = came.bytes;
            if self.own.is_ipv4() {
                return Ok(Some(self.room[..len].to_vec()));
            }
            // A raw socket of IPv6 gives what is above IP, and the header in pieces.
            let from = came
                .address
                .as_ref()
                .and_then(SockaddrStorage::as_sockaddr_in6);
            let Some(from) = from.map(|from| from.ip()) else {
                continue;
            };
            let mut fields = IpFields {
                source: from.into(),
                destination: self.own,
                traffic_class: 0,
                ttl: 0,
                protocol: *protocol,
                ident: 0,
            };
            for message in came.cmsgs()? {
                match message {
                    ControlMessageOwned::Ipv6PacketInfo(info) => {
                        fields.destination = IpAddr::from(info.ipi6_addr.s6_addr);
                    }
                    ControlMessageOwned::Ipv6TClass(class) => fields.traffic_class = class as u8,
                    ControlMessageOwned::Ipv6HopLimit(hops) => fields.ttl = hops as u8,
                    _ => {}
                }
            }
            let mut packet = Vec::with_capacity(40 + len);
            fields.write(&mut packet, len);
            packet.extend_from_slice(&self.room[..len]);
            return Ok(Some(packet));
        }
        Ok(None)
    }
}

/// A socket that has the port and gets nothing from it.
fn silence(at: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let own = socket(family(at), kind, SockFlag::SOCK_CLOEXEC, None)?;
    socket_option::filter(&own, &[instruction(libc::BPF_RET | libc::BPF_K, 0)])?;
    bind(own.as_raw_fd(), &SockaddrStorage::from(at))?;
    if kind == SockType::Stream {
        listen(&own, Backlog::new(1)?)?;
    }
    Ok(own)
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// A program of classic BPF that takes what goes to `port`. Raw sockets of IPv4 show it the
/// packet from IP on, those of IPv6 from what is above.
fn to_port(v4: bool, port: u16) -> Vec<sock_filter> {
    use libc::{BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET};
    let above = match v4 {
        true => instruction(BPF_LDX | BPF_B | BPF_MSH, 0),
        false => instruction(BPF_LDX | libc::BPF_IMM, 0),
    };
    let equal = sock_filter {
        jf: 1,
        ..instruction(BPF_JMP | BPF_JEQ | BPF_K, port.into())
    };
    vec![
        above,
        // The destination port, in TCP and in UDP.
        instruction(BPF_LD | BPF_H | BPF_IND, 2),
        equal,
        instruction(BPF_RET | BPF_K, LARGEST as u32),
        instruction(BPF_RET | BPF_K, 0),
    ]
}
