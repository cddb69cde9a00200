//! How packets reach hosts: hooks, then the socket that they belong to.

use narrows_core::{DropCause, Event, Packet, Role, SocketEvent};
use narrows_units::Instant;
use narrows_wire::tcp::TcpFlags;
use narrows_wire::{Icmp, checksum, ip, udp};

use crate::address::Addressing;
use crate::hosts::{Hosts, Net};
use crate::icmp::is_icmp;
use crate::profile::Transport;
use crate::socket::{DATAGRAM_BUFFER, Kind};
use crate::table::Found;

impl Hosts {
    /// A packet reaches node `i`.
    #[inline]
    pub fn arrive(&mut self, net: &mut Net<'_>, i: usize, packet: Box<Packet>) {
        self.arrive_at(net, i, packet, net.now);
    }

    /// The same, for a packet that has been there since `at`.
    #[inline]
    pub fn arrive_at(&mut self, net: &mut Net<'_>, i: usize, packet: Box<Packet>, at: Instant) {
        let node = &self.nodes[i];
        if !node.owns(&packet.bytes) {
            self.forward(net, i, packet);
            return;
        }
        let received = Event::Received {
            host: node.entity,
            packet: &packet,
        };
        net.sink.record(net.now, received);
        self.deliver(net, i, packet, at);
        self.settle(net);
    }

    #[inline]
    fn deliver(&mut self, net: &mut Net<'_>, node: usize, mut packet: Box<Packet>, at: Instant) {
        let entity = self.nodes[node].entity;
        let Some(addressing) = Addressing::of(&packet.bytes) else {
            self.drop_packet(net, entity, packet, DropCause::Malformed);
            return;
        };
        // A machine's own stack may leave them to a device.
        if net.system.is_none() && !checksum::hold(&packet.bytes, packet.zero_tail) {
            self.drop_packet(net, entity, packet, DropCause::Malformed);
            return;
        }
        let port = addressing.destination.port();
        let table = &self.nodes[node].table;
        let found = table.find(addressing.protocol, port, addressing.source);
        let socket = match found {
            Some(Found::Connected(s) | Found::Bound(s)) => Some(s),
            None => None,
        };
        if self.nodes[node].has_hooks() {
            let known = socket.and_then(|s| self.sockets[s as usize].as_ref());
            let role = known.map_or(Role::Responder, |s| s.role);
            let facts = socket.and_then(|s| self.facts(s));
            if !self.nodes[node].ingress(net.now, role, &mut packet, facts.as_ref()) {
                self.drop_packet(net, entity, packet, DropCause::Policy);
                return;
            }
        }
        match found {
            Some(Found::Connected(s)) => match self.reopened(net, s, &addressing, &packet) {
                Some((listener, isn)) => {
                    self.open_for(net, listener, &addressing, packet, Some(isn));
                }
                None => self.receive(net, s, packet),
            },
            Some(Found::Bound(s)) => self.receive_bound(net, s, &addressing, packet, at),
            None => self.refuse(net, node, &addressing, packet),
        }
    }

    /// A packet of the connection of socket `s`.
    #[inline]
    fn receive(&mut self, net: &mut Net<'_>, s: u32, packet: Box<Packet>) {
        if let Some(stream) = self.sockets[s as usize].as_mut().and_then(|s| s.stream()) {
            stream.endpoint.receive(net.now, &packet);
        }
        self.consume(net, packet);
        self.touch(net, s);
    }

    /// A packet for a listener, or a datagram.
    fn receive_bound(
        &mut self,
        net: &mut Net<'_>,
        s: u32,
        addressing: &Addressing,
        packet: Box<Packet>,
        at: Instant,
    ) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let node = socket.node;
        let transport = &self.profiles[socket.profile].options.transport;
        let quic = matches!(transport, Transport::Quic(..));
        match &mut socket.kind {
            Kind::Datagrams {
                received,
                bytes,
                used,
                ..
            } => {
                *used = true;
                let entity = self.nodes[node].entity;
                if *bytes + u64::from(packet.len()) > DATAGRAM_BUFFER {
                    self.drop_packet(net, entity, packet, DropCause::Overflow);
                    return;
                }
                *bytes += u64::from(packet.len());
                received.push_back((at, packet));
                if let Some(app) = socket.app {
                    let id = narrows_core::SocketId(s);
                    self.call(net, app, |app, host| {
                        app.on_event(id, SocketEvent::Readable, host);
                    });
                }
            }
            Kind::Listener { .. } if !opens(&packet, addressing, quic) => {
                if quic || is_dropped(&packet, addressing) {
                    let entity = self.nodes[node].entity;
                    self.drop_packet(net, entity, packet, DropCause::NoSocket);
                } else {
                    self.refuse(net, node, addressing, packet);
                }
            }
            Kind::Listener { .. } => self.open_for(net, s, addressing, packet, None),
            Kind::Stream(_) => self.receive(net, s, packet),
        }
    }

    /// A packet that opens a connection with `listener`, which is to answer with the initial
    /// sequence number `isn` of TCP if one is given.
    fn open_for(
        &mut self,
        net: &mut Net<'_>,
        listener: u32,
        addressing: &Addressing,
        packet: Box<Packet>,
        isn: Option<u32>,
    ) {
        let Some(node) = self.sockets[listener as usize].as_ref().map(|s| s.node) else {
            return;
        };
        // Linux drops the SYN of a connection for which the accept queue has no
        // room (`tcp_conn_request`); the peer sends it again.
        if !self.has_room(listener) {
            let entity = self.nodes[node].entity;
            self.drop_packet(net, entity, packet, DropCause::Overflow);
            return;
        }
        match self.incoming(net, listener, addressing.source, isn) {
            Some(child) => self.receive(net, child, packet),
            None => self.refuse(net, node, addressing, packet),
        }
    }

    /// The listener that takes `packet` in the place of socket `s`, which is in TIME-WAIT, and its
    /// initial sequence number: `s` is over then (`tcp_v4_rcv`, `TCP_TW_SYN`; Linux v6.17).
    fn reopened(
        &mut self,
        net: &mut Net<'_>,
        s: u32,
        addressing: &Addressing,
        packet: &Packet,
    ) -> Option<(u32, u32)> {
        if addressing.protocol != ip::TCP || !opens(packet, addressing, false) {
            return None;
        }
        let socket = self.sockets[s as usize].as_mut()?;
        let (node, local) = (socket.node, socket.local);
        let listener = self.nodes[node].table.bound(ip::TCP, local)?;
        let endpoint = &mut socket.stream()?.endpoint;
        let isn = endpoint.reopened_by(net.now, packet)?;
        endpoint.abort(net.now);
        let table = &mut self.nodes[node].table;
        table.remove(ip::TCP, local, Some(addressing.source), s);
        self.touch(net, s);
        Some((listener, isn))
    }

    /// No socket takes the packet: TCP answers with a reset, UDP with an error
    /// (RFC 1122 §4.1.3.1).
    fn refuse(
        &mut self,
        net: &mut Net<'_>,
        node: usize,
        addressing: &Addressing,
        packet: Box<Packet>,
    ) {
        if is_icmp(addressing.protocol) {
            self.receive_icmp(net, node, addressing, packet);
            return;
        }
        let reset = if addressing.protocol == ip::TCP {
            narrows_tcp::reset_for(net.now, &mut net.paths.pool, &packet)
        } else {
            None
        };
        if addressing.protocol == ip::UDP {
            self.report_error(net, node, Icmp::PortUnreachable, &packet);
        }
        let entity = self.nodes[node].entity;
        self.drop_packet(net, entity, packet, DropCause::NoSocket);
        if let Some(reset) = reset {
            match self.hop(node, addressing.source.ip()) {
                Some(hop) => self.send(net, node, hop, Role::Responder, reset, None),
                None => self.drop_packet(net, entity, reset, DropCause::Unreachable),
            }
        }
    }
}

/// Whether a packet may open a connection: a SYN without ACK or RST (RFC 9293
/// §3.10.7.2) or, as in Linux, FIN; of QUIC one with a long header (RFC 8999 §5.1), as what
/// comes late for a connection that is forgotten has a short one; and any other datagram, as
/// modelled transports decide for themselves.
fn opens(packet: &Packet, addressing: &Addressing, quic: bool) -> bool {
    const LONG: u8 = 0x80;
    if addressing.protocol != ip::TCP {
        let payload = addressing.above + udp::HEADER_LEN;
        return match packet.bytes.get(payload) {
            Some(first) => !quic || first & LONG != 0,
            None => !quic && packet.bytes.len() >= payload,
        };
    }
    let decide = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
    flags(packet, addressing).is_some_and(|flags| flags & decide == TcpFlags::SYN)
}

/// Whether a listener drops a packet that opens no connection without an answer: a
/// segment that acknowledges nothing (`tcp_rcv_state_process`, `TCP_LISTEN`; Linux v6.17).
fn is_dropped(packet: &Packet, addressing: &Addressing) -> bool {
    addressing.protocol == ip::TCP
        && flags(packet, addressing).is_some_and(|flags| flags & TcpFlags::ACK == 0)
}

/// The flags of a segment but AE.
fn flags(packet: &Packet, addressing: &Addressing) -> Option<u16> {
    packet
        .bytes
        .get(addressing.above + 13)
        .map(|flags| u16::from(*flags))
}

#[cfg(test)]
mod tests {
    use narrows_wire::{IpFields, TcpFields};

    use super::*;

    #[test]
    fn a_listener_answers_only_what_opens_or_acknowledges() {
        let judge = |bits: u16| {
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let fields = TcpFields {
                flags: TcpFlags(bits),
                ..TcpFields::default()
            };
            let header = IpFields {
                source,
                destination,
                traffic_class: 0,
                ttl: 64,
                protocol: ip::TCP,
                ident: 0,
            };
            let mut packet = narrows_core::PacketPool::new().take(Instant::ZERO, None);
            header.write(&mut packet.bytes, fields.header_len());
            fields.write(&mut packet.bytes, source, destination, &[], 0);
            let addressing = Addressing::of(&packet.bytes).unwrap();
            (
                opens(&packet, &addressing, false),
                is_dropped(&packet, &addressing),
            )
        };
        let (opened, dropped, refused) = ((true, true), (false, true), (false, false));
        for (bits, expected) in [
            (TcpFlags::SYN, opened),
            (TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR, opened),
            (TcpFlags::SYN | TcpFlags::FIN, dropped),
            (0, dropped),
            (TcpFlags::PSH, dropped),
            (TcpFlags::FIN, dropped),
            (TcpFlags::RST, dropped),
            (TcpFlags::ACK, refused),
            (TcpFlags::SYN | TcpFlags::ACK, refused),
        ] {
            assert_eq!(judge(bits), expected, "{bits:#b}");
        }
    }

    /// What is late for a connection of QUIC that is forgotten begins with a short header.
    #[test]
    fn a_listener_of_quic_begins_a_connection_for_long_headers_alone() {
        let opened = |first: &[u8], quic: bool| {
            let header = IpFields {
                source: [10, 0, 0, 1].into(),
                destination: [10, 0, 0, 2].into(),
                traffic_class: 0,
                ttl: 64,
                protocol: ip::UDP,
                ident: 0,
            };
            let mut packet = narrows_core::PacketPool::new().take(Instant::ZERO, None);
            header.write(&mut packet.bytes, udp::HEADER_LEN + first.len());
            packet.bytes.extend_from_slice(&[0; udp::HEADER_LEN]);
            packet.bytes.extend_from_slice(first);
            let addressing = Addressing::of(&packet.bytes).unwrap();
            opens(&packet, &addressing, quic)
        };
        let (long, short) = ([0xc3, 0, 0, 0, 1], [0x43, 0, 0, 0, 1]);
        assert!(opened(&long, true));
        assert!(!opened(&short, true));
        assert!(!opened(&[], true));
        assert!(opened(&short, false), "of modelled transports any may");
        assert!(opened(&[], false));
    }
}
