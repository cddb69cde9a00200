//! The kernel's UDP: sockets for datagrams, and what transports without a kernel of
//! their own (QUIC) run over.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_packet::{Datagram, Packet, PacketPool};
use narrows_quic::datagram::{Sealer, open};
use narrows_wire::Ecn;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendto};
use nix::sys::time::TimeSpec;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use super::arrival::arrival;
use crate::Clock;

/// Bytes of the largest datagram, and of those that the kernel hands over as one.
pub const LARGEST: usize = 1 << 16;

/// Reads in a row, so that no socket keeps the others of its host waiting.
const READS: usize = 64;

/// A socket for datagrams.
pub struct Datagrams {
    /// The socket.
    pub socket: OwnedFd,
    /// Datagrams that the host did not take, and why.
    refused: u64,
    reason: Option<Errno>,
}

impl Datagrams {
    /// Over `socket`, which is bound.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            refused: 0,
            reason: None,
        }
    }

    /// Sends `payload`, then zeros up to `len` bytes; `buffer` has room for [`LARGEST`].
    ///
    /// # Errors
    /// What the kernel says: it is lost then, as it is for any program.
    pub fn send(
        &mut self,
        to: SocketAddr,
        payload: &[u8],
        len: u32,
        buffer: &mut [u8],
    ) -> nix::Result<()> {
        let len = (len as usize).max(payload.len()).min(LARGEST);
        let head = payload.len().min(len);
        buffer[..head].copy_from_slice(&payload[..head]);
        buffer[head..len].fill(0);
        let (socket, to) = (self.socket.as_raw_fd(), SockaddrStorage::from(to));
        let sent = sendto(socket, &buffer[..len], &to, MsgFlags::MSG_NOSIGNAL);
        if let Err(e) = sent {
            self.refused += 1;
            self.reason = Some(e);
        }
        sent.map(|_| ())
    }

    /// The next datagram; its payload replaces what is in `into`.
    ///
    /// The kernel stamps datagrams with the time of day (`SO_TIMESTAMPNS`), when
    /// they arrive: a thread that is woken late does not lengthen a round trip.
    /// The run's clock does not jump as the time of day may, so the stamp is
    /// turned into an age, and the age is taken from the run's clock. If the time
    /// of day was set in between, the age is not plausible, and the time of the
    /// reading stands for it.
    pub fn receive(
        &mut self,
        clock: &Clock,
        into: &mut Vec<u8>,
        buffer: &mut [u8],
    ) -> Option<Datagram> {
        let mut control = cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(buffer)];
        let message = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        )
        .ok()?;
        let stamp = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|c| match c {
                ControlMessageOwned::ScmTimestampns(at) => Some(at),
                _ => None,
            })
        });
        let (len, from) = (message.bytes, message.address.and_then(socket_addr)?);
        let at = stamp.and_then(|stamp| arrival(clock, stamp));
        into.clear();
        into.extend_from_slice(&buffer[..len]);
        Some(Datagram {
            from,
            len: len as u32,
            at: at.unwrap_or_else(|| clock.now()),
        })
    }

    /// What the host did not take, in a sentence.
    pub fn note(&self) -> Option<String> {
        let (n, s) = (self.refused, if self.refused == 1 { "" } else { "s" });
        let why = self.reason?.desc();
        Some(format!("its host did not send {n} datagram{s}: {why}"))
    }
}

/// An address as the kernel gives it.
pub fn socket_addr(address: SockaddrStorage) -> Option<SocketAddr> {
    let four = address
        .as_sockaddr_in()
        .map(|a| SocketAddr::V4((*a).into()));
    four.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|a| SocketAddr::V6((*a).into()))
    })
}

/// A UDP socket that connections share which have one local address.
pub struct Port {
    /// The socket.
    pub io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// The socket that takes connections from whom none is known.
    pub listener: Option<u32>,
    /// The sockets of connections, by the other end's address.
    pub connections: BTreeMap<SocketAddr, u32>,
    /// Packets for which the kernel had no room.
    unsent: VecDeque<(SocketAddr, Box<Packet>)>,
}

impl Port {
    /// At `local`.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(local)?;
        Ok(Self {
            state: UdpSocketState::new((&io).into())?,
            local: io.local_addr()?,
            io,
            listener: None,
            connections: BTreeMap::new(),
            unsent: VecDeque::new(),
        })
    }

    /// Its address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether nobody has any use for it.
    pub fn is_idle(&self) -> bool {
        self.listener.is_none() && self.connections.is_empty()
    }

    /// Whether it takes packets.
    pub fn has_room(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Sends the datagram in `packet` to `to`, now or when there is room.
    pub fn send(&mut self, to: SocketAddr, packet: Box<Packet>, pool: &mut PacketPool) {
        self.unsent.push_back((to, packet));
        self.flush(pool);
    }

    /// Sends what waits, as far as there is room.
    pub fn flush(&mut self, pool: &mut PacketPool) {
        while let Some((to, packet)) = self.unsent.pop_front() {
            if let Some((ecn, contents)) = open(&packet) {
                let sent = self.state.send(
                    (&self.io).into(),
                    &Transmit {
                        destination: to,
                        ecn: EcnCodepoint::from_bits(ecn as u8),
                        contents,
                        segment_size: None,
                        src_ip: None,
                    },
                );
                if sent.is_err() {
                    self.unsent.push_front((to, packet));
                    return;
                }
            }
            pool.give(packet);
        }
    }

    /// Takes some of what has arrived, as packets with their senders. `buffer` has room
    /// for [`LARGEST`] bytes.
    pub fn receive(
        &mut self,
        clock: &Clock,
        pool: &mut PacketPool,
        buffer: &mut [u8],
    ) -> Vec<(SocketAddr, Box<Packet>)> {
        let mut received = Vec::new();
        for _ in 0..READS {
            let mut meta = [RecvMeta::default()];
            let mut slices = [IoSliceMut::new(buffer)];
            match self.state.recv((&self.io).into(), &mut slices, &mut meta) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // What an ICMP message said of an earlier packet.
                Err(_) => continue,
            }
            let meta = meta[0];
            let mut sealer = Sealer {
                source: meta.addr,
                destination: self.local,
                dscp: 0,
                flow: None,
                ident: 0,
            };
            let ecn = Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            for payload in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let packet = sealer.seal(clock.now(), pool, ecn, payload, 0);
                received.push((meta.addr, packet));
            }
        }
        received
    }
}
