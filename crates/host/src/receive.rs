//! How packets reach hosts: hooks, then the socket that they belong to.

use narrows_packet::{DropCause, Event, Packet, Role, SocketEvent};
use narrows_units::Instant;
use narrows_wire::tcp::TcpFlags;
use narrows_wire::{Icmp, ip, udp};

use crate::address::Addressing;
use crate::hosts::{Hosts, Net};
use crate::icmp::is_icmp;
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
            Some(Found::Connected(s)) => self.receive(net, s, packet),
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
                    let id = narrows_packet::SocketId(s);
                    self.call(net, app, |app, host| {
                        app.on_event(id, SocketEvent::Readable, host);
                    });
                }
            }
            Kind::Listener { .. } if !opens(&packet, addressing) => {
                self.refuse(net, node, addressing, packet);
            }
            Kind::Listener {
                waiting, backlog, ..
            } => {
                // Linux drops the SYN of a connection for which the accept queue has no
                // room (`tcp_conn_request`); the peer sends it again.
                if *waiting >= *backlog {
                    let entity = self.nodes[node].entity;
                    self.drop_packet(net, entity, packet, DropCause::Overflow);
                    return;
                }
                match self.incoming(net, s, addressing.source) {
                    Some(child) => self.receive(net, child, packet),
                    None => self.refuse(net, node, addressing, packet),
                }
            }
            Kind::Stream(_) => self.receive(net, s, packet),
        }
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
        self.drop_packet(net, entity, packet, DropCause::Unreachable);
        if let Some(reset) = reset {
            match self.hop(node, addressing.source.ip()) {
                Some(hop) => self.send(net, node, hop, Role::Responder, reset, None),
                None => self.drop_packet(net, entity, reset, DropCause::Unreachable),
            }
        }
    }
}

/// Whether a packet may open a connection: a SYN without ACK or RST (RFC 9293
/// §3.10.7.2), and any datagram, as transports over UDP decide for themselves.
fn opens(packet: &Packet, addressing: &Addressing) -> bool {
    if addressing.protocol != ip::TCP {
        return packet.bytes.len() >= addressing.above + udp::HEADER_LEN;
    }
    // The flags but AE, which with these three is no matter.
    let flags = packet.bytes.get(addressing.above + 13);
    flags.is_some_and(|flags| {
        let decide = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST;
        u16::from(*flags) & decide == TcpFlags::SYN
    })
}
