//! The hook that sets signals in the packets of a simulated host.

use narrows_core::{FlowId, HookVerdict, HostHook, Packet, Role, SocketFacts};
use narrows_units::Instant;
use narrows_wire::{FlowKey, Ip, ip};

use crate::counters::SignalCounters;
use crate::ffi::{SignalFlow, Write};
use crate::params::{PacketFacts, SignalParams};
use crate::spec::SignalSpec;
use crate::table::Table;

/// Connections that a host keeps by default.
const FLOWS: usize = 65_536;

/// Marks the TCP connections of one host that begin while it runs, by the
/// rules of a [`SignalSpec`]. What is no TCP, a fragment or of an earlier connection
/// goes on unchanged.
///
/// Roles come from the handshake, as they do in the BPF program, and not from
/// the caller.
#[derive(Clone, Debug)]
pub struct SignalHook {
    params: SignalParams,
    flows: Table<FlowKey, SignalFlow>,
    only: Option<Vec<FlowId>>,
    counters: SignalCounters,
}

impl SignalHook {
    /// A marker for all connections of a host.
    pub fn new(spec: &SignalSpec) -> Self {
        Self {
            params: spec.params(),
            flows: Table::new(FLOWS),
            only: None,
            counters: SignalCounters::default(),
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
    pub fn counters(&self) -> SignalCounters {
        SignalCounters {
            flows: self.flows.inserted(),
            evicted: self.flows.evicted(),
            ..self.counters
        }
    }

    /// As the program at a device counts.
    fn count(&mut self, write: Write, facts: &PacketFacts, masks: &[u8; 8]) {
        let counters = &mut self.counters;
        if facts.is_syn() {
            counters.announced += u64::from(write.bits != 0);
            return;
        }
        counters.marked += 1;
        for (set, mask) in counters.set.iter_mut().zip(masks) {
            *set += u64::from(mask & write.bits != 0);
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

impl HostHook for SignalHook {
    fn egress(
        &mut self,
        now: Instant,
        _role: Role,
        packet: &mut Packet,
        socket: Option<&SocketFacts>,
    ) -> HookVerdict {
        let Some((key, at, facts)) = segment(now, packet, socket) else {
            self.counters.other += 1;
            return HookVerdict::Pass;
        };
        let flow = match self.wants(packet) {
            false => None,
            true if facts.is_syn() => Some(self.flows.get_or_insert(key)),
            true => self.flows.get(&key),
        };
        let Some(flow) = flow else {
            self.counters.passed_over += 1;
            return HookVerdict::Pass;
        };
        if let Some(write) = flow.egress(&self.params, &facts) {
            write.apply(&mut packet.bytes[at..]);
            let masks = flow.masks();
            self.count(write, &facts, &masks);
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
