//! Flows: an application, and the two ends of its connection.

use std::net::SocketAddr;

use narrows_packet::{FlowId, Packet, PacketPool, Role};
use narrows_path::routes::Hop;
use narrows_tcp::Connection;
use narrows_traffic::Generator;
use narrows_units::{Duration, Instant};
use narrows_wire::{IpFields, UdpFields, ip, udp};

/// Default hop count, Linux's `ip_default_ttl`.
const TTL: u8 = 64;

/// One end of a TCP connection in a host.
pub struct Socket {
    pub connection: Connection,
    pub node: u32,
    /// The first link towards the other end.
    pub hop: Hop,
    pub flow: u32,
    pub role: Role,
    /// Whether this end sends the flow's data.
    pub sends: bool,
    /// Where packets for this socket come from.
    pub remote: SocketAddr,
    /// Whether [`Connection::close`] was called.
    pub closing: bool,
}

/// What carries a flow.
#[derive(Clone, Copy, Debug)]
pub enum Carrier {
    /// A connection between two sockets.
    Connection { opener: u32, sender: u32 },
    /// A QUIC connection between two ends.
    Quic { opener: u32, sender: u32 },
    /// A modelled flow between two ends.
    Model { opener: u32, sender: u32 },
    /// Datagrams in one direction.
    Datagrams(Envelope),
}

/// A flow's application and what became of it.
pub struct Flow {
    pub id: FlowId,
    pub start: Instant,
    pub stop: Option<Instant>,
    pub generator: Generator,
    pub carrier: Carrier,
    pub phase: Phase,
    pub delivered: u64,
    pub established: bool,
    pub ecn: bool,
    pub accecn: bool,
    pub complete: bool,
    pub broken: bool,
    /// What was last reported as the time limited, to report changes only.
    pub limited: (Duration, Duration, Duration),
}

/// Where a flow's application is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before its start.
    Waiting,
    /// Sends.
    Running,
    /// Was told to stop.
    Stopped,
    /// Over, and reported so.
    Finished,
}

/// Addresses and class of the datagrams that one end sends.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    pub node: u32,
    pub hop: Hop,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub traffic_class: u8,
    /// IPv4 identification of the next datagram.
    pub ident: u16,
}

impl Envelope {
    /// A datagram with `payload` and then zeros up to `payload_len` bytes.
    pub fn seal(
        &mut self,
        now: Instant,
        pool: &mut PacketPool,
        flow: Option<FlowId>,
        payload: &[u8],
        payload_len: u32,
    ) -> Box<Packet> {
        let mut packet = pool.take(now, flow);
        let zero_tail = payload_len - payload.len() as u32;
        IpFields {
            source: self.source.ip(),
            destination: self.destination.ip(),
            traffic_class: self.traffic_class,
            ttl: TTL,
            protocol: ip::UDP,
            ident: u32::from(self.ident),
        }
        .write(&mut packet.bytes, udp::HEADER_LEN + payload_len as usize);
        UdpFields {
            source_port: self.source.port(),
            destination_port: self.destination.port(),
        }
        .write(
            &mut packet.bytes,
            self.source.ip(),
            self.destination.ip(),
            payload,
            zero_tail,
        );
        packet.zero_tail = zero_tail;
        // IPv6's flow label stays zero: the field is not an identification.
        if self.source.is_ipv4() {
            self.ident = self.ident.wrapping_add(1);
        }
        packet
    }
}
