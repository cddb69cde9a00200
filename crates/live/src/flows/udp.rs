//! The kernel's UDP: what carries datagrams, and transports of ours (QUIC).

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use narrows_core::{DatagramError, Packet, PacketPool, Undelivered};
use narrows_linux::arrival;
use narrows_linux::datagrams::{DatagramSocket, PathReport, Received};
use narrows_quic::datagram::{Sealer, stored};
use narrows_units::Instant;
use narrows_wire::{Ecn, FlowKey};
use nix::errno::Errno;

use crate::Clock;

/// Reads in a row, so that no socket keeps the others of its host waiting.
const READS: usize = 64;

/// Bytes of a datagram that a report of the path may quote (RFC 4443 section 2.4(c): within 1280).
const QUOTED: usize = 1_280;

/// A datagram is sent once more where the kernel only said what ICMP had said of an earlier one
/// (ip(7), `IP_RECVERR`).
const TRIES: usize = 3;

/// A UDP socket of the kernel's, and which sockets of its host use it.
pub struct Port {
    /// The kernel's.
    pub socket: DatagramSocket,
    /// Its address.
    pub local: SocketAddr,
    /// The options of the socket that opened it.
    pub profile: usize,
    /// Sockets that use it.
    pub users: BTreeSet<u32>,
    /// Whether it is read now and then only.
    pub lazy: bool,
    /// Whether packets for which there is no room wait for some; else they are lost.
    pub waits: bool,
    /// Whether the kernel keeps the errors that the path reports of datagrams.
    pub keeps_reports: bool,
    /// Packets for which there was no room.
    pub unsent: VecDeque<Box<Packet>>,
    /// Datagrams that the host did not take, and why.
    refused: u64,
    reason: Option<Errno>,
}

impl Port {
    /// Over `socket`, which is bound to `local`.
    pub fn new(socket: DatagramSocket, local: SocketAddr, profile: usize) -> Self {
        Self {
            socket,
            local,
            profile,
            users: BTreeSet::new(),
            lazy: false,
            waits: false,
            keeps_reports: false,
            unsent: VecDeque::new(),
            refused: 0,
            reason: None,
        }
    }

    /// Sends the datagram in `packet`, now or when there is room.
    pub fn send(&mut self, packet: Box<Packet>, pool: &mut PacketPool, buffer: &mut [u8]) {
        self.unsent.push_back(packet);
        self.flush(pool, buffer);
    }

    /// Sends what waits, as far as there is room. `buffer` has room for [`LARGEST`](narrows_linux::datagrams::LARGEST) bytes.
    pub fn flush(&mut self, pool: &mut PacketPool, buffer: &mut [u8]) {
        while let Some(packet) = self.unsent.pop_front() {
            let of_earlier = [Errno::EMSGSIZE, Errno::ECONNREFUSED, Errno::EHOSTUNREACH];
            let mut tries = (0..TRIES).map(|_| send(&self.socket, &packet, buffer));
            let sent = match self.keeps_reports {
                true => tries.find(|sent| !sent.is_err_and(|e| of_earlier.contains(&e))),
                false => tries.next(),
            };
            match sent.unwrap_or(Err(Errno::EMSGSIZE)) {
                Ok(()) => {}
                Err(Errno::EAGAIN) if self.waits => {
                    self.unsent.push_front(packet);
                    return;
                }
                // A datagram that the host does not take is lost, as it is for any
                // program; one that probes for the path's MTU may be too long.
                Err(e) => {
                    self.refused += 1;
                    self.reason = Some(e);
                }
            }
            pool.give(packet);
        }
    }

    /// Takes some of what has arrived, as packets, and when each did. `buffer` has room
    /// for [`LARGEST`](narrows_linux::datagrams::LARGEST) bytes.
    pub fn receive(
        &mut self,
        clock: &Clock,
        pool: &mut PacketPool,
        buffer: &mut [u8],
    ) -> Vec<(Instant, Box<Packet>)> {
        let mut received = Vec::new();
        for _ in 0..READS {
            match self.socket.receive(buffer) {
                Ok(Some(Received {
                    from,
                    class,
                    stamp,
                    len,
                })) => {
                    // The kernel stamps datagrams with the time of day, when they arrive: a thread that is
                    // woken late does not lengthen a round trip. The run's clock does not jump as the time
                    // of day may, so the stamp is turned into an age, and the age is taken from the run's
                    // clock. If the time of day was set in between, the age is not plausible, and the time
                    // of the reading stands for it.
                    let at = stamp.and_then(|stamp| arrival(clock, stamp));
                    let at = at.unwrap_or_else(|| clock.now());
                    let mut sealer = Sealer {
                        source: from,
                        destination: self.local,
                        dscp: class >> 2,
                        flow: None,
                        ident: 0,
                    };
                    let ecn = Ecn::from_bits(class & 3);
                    received.push((at, sealer.seal(at, pool, ecn, &buffer[..len], 0)));
                }
                Err(Errno::EAGAIN) => break,
                // Interrupted, or what an ICMP message said of an earlier packet.
                Ok(None) | Err(_) => {}
            }
        }
        received
    }

    /// The errors that the path reported of datagrams, and what of each is quoted.
    pub fn path_reports(&self) -> Vec<(DatagramError, Vec<u8>)> {
        let mut reports = Vec::new();
        let mut quote = [0; QUOTED];
        while self.keeps_reports && reports.len() < READS {
            let Ok(report) = self.socket.path_report(&mut quote) else {
                break;
            };
            // What this host says itself of a datagram is known by its not being sent.
            let error = report.and_then(|report| {
                let PathReport { to, reporter, .. } = report;
                let why = match (report.error, report.mtu) {
                    (Errno::EMSGSIZE, Some(mtu)) => Undelivered::TooBig { mtu },
                    (Errno::ECONNREFUSED, _) => Undelivered::PortUnreachable,
                    _ => Undelivered::Unreachable,
                };
                let (to, reporter) = (to?, reporter?);
                let quoted = quote[..report.quoted.min(QUOTED)].to_vec();
                Some((DatagramError { to, reporter, why }, quoted))
            });
            reports.extend(error);
        }
        reports
    }

    /// What the host did not take, in a sentence.
    pub fn note(&self) -> Option<String> {
        let (n, s) = (self.refused, if self.refused == 1 { "" } else { "s" });
        let why = self.reason?.desc();
        Some(format!("its host did not send {n} datagram{s}: {why}"))
    }
}

/// Sends the datagram in `packet` to where its header says, with its traffic class.
fn send(socket: &DatagramSocket, packet: &Packet, buffer: &mut [u8]) -> nix::Result<()> {
    let (key, payload) = FlowKey::of(&packet.bytes)
        .zip(stored(packet))
        .ok_or(Errno::EINVAL)?;
    let len = payload.len() + packet.zero_tail as usize;
    let whole = buffer.get_mut(..len).ok_or(Errno::EMSGSIZE)?;
    whole[..payload.len()].copy_from_slice(payload);
    whole[payload.len()..].fill(0);
    let to = SocketAddr::new(key.destination, key.destination_port);
    socket.send(to, class_of(&packet.bytes), whole)
}

/// The traffic class in an IP header.
fn class_of(bytes: &[u8]) -> u8 {
    match bytes {
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        [_, second, ..] => *second,
        _ => 0,
    }
}
