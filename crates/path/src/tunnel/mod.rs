//! Tunnels: outer headers around packets for a part of a link.

mod ecn;
mod encapsulation;
mod replay;
mod spec;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use narrows_aqm::FlowHash;
use narrows_core::{Change, DropCause, Element, ElementCounters, EntityId, Outlet, Packet, Port};
use narrows_units::{Instant, Rng, WordError};
use narrows_wire::{Icmp, Ip, ip};

use crate::mtu::{back, report};
use crate::site::{OtherEnd, Site};
use crate::tap::pass;
pub use encapsulation::Encapsulation;
use encapsulation::{Outer, Wrapped};
use replay::ReplayWindow;
use spec::{MTUS, SourcePort};
pub use spec::{TunnelSpec, TunnelWords};

/// Automatic source ports are of Linux's default range of local ports
/// (`net.ipv4.ip_local_port_range`), without its last (`udp_flow_src_port` of
/// include/net/udp.h, Linux 6.12).
const FIRST_PORT: u64 = 32_768;
const PORTS: u64 = 60_999 - FIRST_PORT;

/// One end of a tunnel: wraps what goes into it and unwraps what comes out. ECN is as in
/// RFC 6040, normal mode; the DSCP is copied to the outer header and not back; hops of the
/// packet inside are not counted. An outer packet is the same [`Packet`] with other bytes, so
/// that what belongs to a flow does in the tunnel, too.
///
/// What a box in the tunnel says of an outer packet by ICMP goes on to the sender inside; an MTU
/// that it names becomes the tunnel's (RFC 2003 §5.1). It has to quote what this end sends: its
/// addresses and ports, or its SPI (`__udp4_lib_err` of net/ipv4/udp.c, `esp4_err` of
/// net/ipv4/esp4.c, Linux 6.12).
///
/// An end of WireGuard sends to where the latest packet that it accepted came from (the WireGuard
/// paper, §2.1), so that it works through a `nat`. FOU and ESP send to the address that they are
/// set to.
#[derive(Clone, Debug)]
pub struct Tunnel {
    entity: EntityId,
    /// `None` of one that does nothing: it stands in no scenario.
    ends: Option<Ends>,
    counters: ElementCounters,
    scratch: Vec<u8>,
}

/// What an end knows of both.
#[derive(Clone, Debug)]
struct Ends {
    words: TunnelWords,
    /// Which way the other end lies.
    into: Port,
    /// This end's, for ICMP errors and the outer header.
    addresses: [IpAddr; 2],
    /// The source port, and with automatic ones the hash.
    port: u16,
    hash: Option<FlowHash>,
    /// Outer addresses, this end's and the other's, and the port there.
    own: IpAddr,
    other: IpAddr,
    other_port: u16,
    /// The longest packet that goes in: what the words say, or less since a box in the tunnel
    /// reported less.
    mtu: u32,
    /// The number of the next packet.
    next: u64,
    window: Option<ReplayWindow>,
}

impl Ends {
    fn of(words: &TunnelWords, site: &Site<'_>, other: &OtherEnd) -> Self {
        let family = usize::from(words.ipv6);
        let (port, hash) = match words.sport {
            Some(SourcePort::Auto) => {
                let mut rng = Rng::for_name(site.seed, site.name);
                (0, Some(FlowHash::new(&mut rng)))
            }
            Some(SourcePort::Fixed(port)) => (port, None),
            None => (0, None),
        };
        Self {
            words: *words,
            into: other.way,
            addresses: site.addresses,
            port,
            hash,
            own: site.addresses[family],
            other: other.addresses[family],
            other_port: words.of.port().unwrap_or_default(),
            mtu: words.mtu_on(site.mtu),
            // WireGuard counts from 0, ESP from 1 (RFC 4303 §3.3.3).
            next: u64::from(words.of == Encapsulation::Ipsec),
            window: words.replay.map(ReplayWindow::new),
        }
    }

    /// Wraps `packet`; why it cannot be, otherwise.
    fn enter(&mut self, packet: &mut Packet, scratch: &mut Vec<u8>) -> Option<DropCause> {
        match Ip::parse(&packet.bytes) {
            Ok(ip) if ip.total_len == packet.len() as usize => {}
            _ => return Some(DropCause::Malformed),
        }
        if packet.len() > self.mtu {
            return Some(DropCause::TooBig);
        }
        let source_port = match &self.hash {
            Some(hash) => {
                let offset = (u64::from(hash.of(packet)) * PORTS) >> 32;
                (FIRST_PORT + offset) as u16
            }
            None => self.port,
        };
        let outer = Outer {
            of: self.words.of,
            source: self.own,
            destination: self.other,
            source_port,
            destination_port: self.other_port,
            seq: self.next,
            mtu: self.mtu,
        };
        self.next += 1;
        outer.wrap(packet, scratch);
        None
    }

    /// Unwraps `packet` if it is for this end; why it goes no further, otherwise.
    fn leave(&mut self, packet: &mut Packet, scratch: &mut Vec<u8>) -> Option<DropCause> {
        let Ok(ip) = Ip::parse(&packet.bytes) else {
            return Some(DropCause::Malformed);
        };
        if ip.destination != self.own {
            return None;
        }
        if matches!(ip.protocol, ip::ICMP | ip::ICMPV6) {
            let relayed = self.relay(&ip, packet, scratch);
            return relayed.is_none().then_some(DropCause::Unreachable);
        }
        let wrapped = Wrapped::read(self.words.of, &ip, packet);
        let Some(wrapped) = wrapped.filter(|w| self.listens_at(w.destination_port)) else {
            return Some(DropCause::Malformed);
        };
        if let Some(window) = &mut self.window {
            let seq = match self.words.of {
                Encapsulation::Ipsec => extended(wrapped.seq, window.highest()),
                _ => wrapped.seq,
            };
            if !window.accepts(seq) {
                return Some(DropCause::Replay);
            }
        }
        if self.words.roams() {
            (self.other, self.other_port) = (ip.source, wrapped.source_port);
        }
        let outer = ip.ecn();
        wrapped.unwrap(packet);
        let inner = ip::ecn(&packet.bytes);
        match ecn::decapsulated(inner, outer) {
            // A drop in place of a mark, as in a queue that finds a packet without ECN.
            None => return Some(DropCause::Probability),
            Some(ecn) if ecn != inner => ip::set_ecn(&mut packet.bytes, ecn),
            Some(_) => {}
        }
        None
    }

    /// Whether what comes to this port is for this end: that of its kind, and of one that learns
    /// where the other is, that from which it sends.
    fn listens_at(&self, port: u16) -> bool {
        let own = self.words.of.port().unwrap_or_default();
        port == own || self.words.roams() && port == self.port
    }

    /// Whether an outer packet with these ports is one that this end sends now.
    fn sends(&self, destination_port: u16, source_port: u16) -> bool {
        let source = match self.hash {
            Some(_) => u64::from(source_port).wrapping_sub(FIRST_PORT) < PORTS,
            None => source_port == self.port,
        };
        source && destination_port == self.other_port
    }

    /// Makes of an ICMP error about an outer packet of this end the same error about the packet
    /// inside, for its sender (RFC 2003 §4); whether it could. An MTU is noted.
    fn relay(&mut self, ip: &Ip, packet: &mut Packet, scratch: &mut Vec<u8>) -> Option<()> {
        let above = packet.bytes.get(ip.header_len..)?;
        let (mut error, quoted) = Icmp::quoted(ip.protocol, above)?;
        let outer = Ip::parse(quoted).ok()?;
        let (to, from) = (self.words.of).ports(&outer, quoted.get(outer.header_len..)?)?;
        if (outer.source, outer.destination) != (self.own, self.other) || !self.sends(to, from) {
            return None;
        }
        if let Icmp::TooBig { mtu } = &mut error {
            let fits = self.words.of.largest(self.words.ip(), *mtu);
            if fits >= *MTUS.start() {
                self.mtu = self.mtu.min(fits);
            }
            *mtu = self.mtu;
        }
        let inner = quoted.get(self.words.of.begins(&outer)..)?;
        let v6 = inner.first()? >> 4 == 6;
        scratch.clear();
        let from = self.addresses[usize::from(v6)];
        packet.zero_tail = error.report(scratch, from, inner, packet.zero_tail)?;
        std::mem::swap(&mut packet.bytes, scratch);
        Some(())
    }
}

/// The whole number whose lower half is `low`: the nearest to `highest` (RFC 4303 appendix A).
fn extended(low: u64, highest: Option<u64>) -> u64 {
    const HALF: u64 = 1 << 31;
    let Some(highest) = highest else {
        return low;
    };
    let near = highest & !0xffff_ffff | low;
    if near + HALF < highest {
        near + 2 * HALF
    } else if near > highest + HALF && near >= 2 * HALF {
        near - 2 * HALF
    } else {
        near
    }
}

impl Tunnel {
    fn new(entity: EntityId, ends: Option<Ends>) -> Self {
        Self {
            entity,
            ends,
            counters: ElementCounters::default(),
            scratch: Vec::new(),
        }
    }
}

impl Element for Tunnel {
    fn push(&mut self, now: Instant, port: Port, mut packet: Box<Packet>, out: &mut Outlet<'_>) {
        let Some(ends) = &mut self.ends else {
            pass(&mut self.counters, &packet);
            out.send(port, packet);
            return;
        };
        let counters = &mut self.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(packet.len());
        let dropped = if port == ends.into {
            ends.enter(&mut packet, &mut self.scratch)
        } else {
            ends.leave(&mut packet, &mut self.scratch)
        };
        match dropped {
            None => {
                counters.packets_out += 1;
                counters.bytes_out += u64::from(packet.len());
                out.send(port, packet);
            }
            Some(cause) => {
                counters.dropped += 1;
                if cause == DropCause::TooBig {
                    let error = Icmp::TooBig { mtu: ends.mtu };
                    if let Some(error) = report(now, error, &ends.addresses, &packet, out) {
                        counters.packets_out += 1;
                        counters.bytes_out += u64::from(error.len());
                        out.send(back(port), error);
                    }
                }
                out.drop(now, self.entity, packet, cause);
            }
        }
    }

    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        Err(WordError::new(
            0..change.words.len(),
            format!("`{}`", change.words),
            "no change: a tunnel stays as it is",
        ))
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}
