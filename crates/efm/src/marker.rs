//! The hook that marks the packets of a simulated host.

use narrows_packet::{FlowId, HookVerdict, HostHook, Packet, Role, SocketFacts};
use narrows_units::Instant;
use narrows_wire::{FlowKey, Ip, ip};

use crate::ffi::Flow;
use crate::params::{PacketFacts, Params};
use crate::spec::Spec;
use crate::table::Table;

/// Connections that a host keeps by default; as many as a map of the BPF
/// program.
const FLOWS: usize = 65_536;

/// What a marker has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// SYNs and SYN-ACKs that a code was written into.
    pub announced: u64,
    /// Packets that signals were written into.
    pub marked: u64,
    /// Connections forgotten because there were too many.
    pub evicted: u64,
}

/// Marks the TCP connections of one host that begin while it looks, by the
/// rules of a [`Spec`]. What is no TCP, a fragment or of an earlier connection
/// goes on unchanged.
///
/// Roles come from the handshake, as they do in the BPF program, and not from
/// the caller.
#[derive(Clone, Debug)]
pub struct Marker {
    params: Params,
    flows: Table<FlowKey, Flow>,
    only: Option<Vec<FlowId>>,
    announced: u64,
    marked: u64,
}

impl Marker {
    /// A marker for all connections of a host.
    pub fn new(spec: &Spec) -> Self {
        Self {
            params: spec.params(),
            flows: Table::new(FLOWS),
            only: None,
            announced: 0,
            marked: 0,
        }
    }

    /// The same for these flows alone.
    #[must_use]
    pub fn only(self, flows: Vec<FlowId>) -> Self {
        Self {
            only: Some(flows),
            ..self
        }
    }

    /// The same with room for `flows` connections, at least one; 65,536 by
    /// default.
    #[must_use]
    pub fn with_room_for(self, flows: usize) -> Self {
        Self {
            flows: Table::new(flows),
            ..self
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        Counters {
            announced: self.announced,
            marked: self.marked,
            evicted: self.flows.evicted(),
        }
    }

    fn wants(&self, packet: &Packet) -> bool {
        match (&self.only, packet.flow) {
            (None, _) => true,
            (Some(only), Some(flow)) => only.contains(&flow),
            (Some(_), None) => false,
        }
    }
}

/// A whole TCP segment: its connection, as the packet names it, where its
/// header begins, and its facts.
fn segment(
    now: Instant,
    packet: &Packet,
    socket: Option<&SocketFacts>,
) -> Option<(FlowKey, usize, PacketFacts)> {
    let header = Ip::parse(&packet.bytes).ok()?;
    if header.protocol != ip::TCP || header.fragment_offset != 0 || header.more_fragments {
        return None;
    }
    let at = header.header_len;
    let len = header.total_len.saturating_sub(at);
    let facts = PacketFacts::read(now, packet.bytes.get(at..)?, len as u32)?;
    let facts = match socket {
        // C counts modulo 2^32, as Linux's sockets do.
        Some(s) => facts.with_socket(s.lost as u32, s.spurious as u32, s.delivered_ce as u32),
        None => facts,
    };
    let port = |at: usize| u16::from_be_bytes([packet.bytes[at], packet.bytes[at + 1]]);
    let key = FlowKey {
        source: header.source,
        destination: header.destination,
        source_port: port(at),
        destination_port: port(at + 2),
        protocol: ip::TCP,
    };
    Some((key, at, facts))
}

impl HostHook for Marker {
    fn egress(
        &mut self,
        now: Instant,
        _role: Role,
        packet: &mut Packet,
        socket: Option<&SocketFacts>,
    ) -> HookVerdict {
        if !self.wants(packet) {
            return HookVerdict::Pass;
        }
        let Some((key, at, facts)) = segment(now, packet, socket) else {
            return HookVerdict::Pass;
        };
        let flow = if facts.is_syn() {
            Some(self.flows.get_or_insert(key))
        } else {
            self.flows.get(&key)
        };
        if let Some(write) = flow.and_then(|flow| flow.egress(&self.params, &facts)) {
            write.apply(&mut packet.bytes[at..]);
            if facts.is_syn() {
                self.announced += 1;
            } else {
                self.marked += 1;
            }
        }
        HookVerdict::Pass
    }

    fn ingress(
        &mut self,
        now: Instant,
        _role: Role,
        packet: &mut Packet,
        _socket: Option<&SocketFacts>,
    ) -> HookVerdict {
        if !self.wants(packet) {
            return HookVerdict::Pass;
        }
        if let Some((key, _, facts)) = segment(now, packet, None) {
            let key = key.reversed();
            let flow = if facts.is_syn() {
                Some(self.flows.get_or_insert(key))
            } else {
                self.flows.get(&key)
            };
            if let Some(flow) = flow {
                flow.ingress(&self.params, &facts);
            }
        }
        HookVerdict::Pass
    }
}
