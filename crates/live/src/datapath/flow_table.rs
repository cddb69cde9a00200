//! Which flow a packet belongs to, and whether it begins or ends at a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use narrows_core::{Event, EventSink, FlowId};
use narrows_scenario::Plan;
use narrows_scenario::endpoints::{ANSWERER_PORTS, MAX_FLOWS, OPENER_PORTS};
use narrows_units::Instant;
use narrows_wire::FlowKey;

use super::Node;

/// Finds the flow of a packet by its addresses and ports. Each flow's ports
/// are its own, so that one table look-up is enough.
pub(super) struct FlowTable {
    /// Of each flow the addresses of its connection, or of both where it goes by a proxy.
    planned: Vec<[(SocketAddr, SocketAddr); 2]>,
    /// Addresses that boxes gave flows.
    translated: BTreeMap<(SocketAddr, SocketAddr), FlowId>,
}

impl FlowTable {
    pub(super) fn of(plan: &Plan) -> Self {
        let ends = (0..plan.flows.len().min(MAX_FLOWS)).map(|i| {
            let ends = plan.flow_ends(i);
            match plan.proxy_ends(i) {
                Some(proxy) => [(ends.opener.1, proxy.near), (proxy.far, ends.answerer.1)],
                None => [(ends.opener.1, ends.answerer.1); 2],
            }
        });
        Self {
            planned: ends.collect(),
            translated: BTreeMap::new(),
        }
    }

    /// The flow that the packet `bytes` belongs to, in either direction.
    pub(super) fn flow(&self, bytes: &[u8]) -> Option<FlowId> {
        let key = FlowKey::of(bytes)?;
        let source = SocketAddr::new(key.source, key.source_port);
        let destination = SocketAddr::new(key.destination, key.destination_port);
        self.between(source, destination)
            .or_else(|| self.between(destination, source))
            .or_else(|| {
                let ways = [(source, destination), (destination, source)];
                ways.iter()
                    .find_map(|way| self.translated.get(way).copied())
            })
    }

    fn between(&self, opener: SocketAddr, answerer: SocketAddr) -> Option<FlowId> {
        let i = opener.port().checked_sub(OPENER_PORTS)?;
        (answerer.port().checked_sub(ANSWERER_PORTS) == Some(i)
            && self
                .planned
                .get(usize::from(i))?
                .contains(&(opener, answerer)))
        .then_some(FlowId(u32::from(i)))
    }
}

/// Passes events on, and records the addresses that boxes give to flows.
pub(super) struct TranslationSink<'a> {
    pub sink: &'a mut dyn EventSink,
    pub flows: &'a mut FlowTable,
}

impl EventSink for TranslationSink<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Event::Translated {
            flow: Some(flow),
            addresses,
            ..
        } = event
        {
            self.flows.translated.insert(addresses, flow);
        }
        self.sink.record(now, event);
    }
}

impl Node {
    /// Whether a packet that leaves this node's stack began there.
    pub(super) fn sends(&self, bytes: &[u8]) -> bool {
        !self.router || self.is(bytes, 12, 8)
    }

    /// Whether a packet that reaches this node's stack ends there.
    pub(super) fn receives(&self, bytes: &[u8]) -> bool {
        !self.router || self.is(bytes, 16, 24)
    }

    /// Whether the address at `v4` or `v6`, by the packet's version, is this
    /// node's.
    fn is(&self, bytes: &[u8], v4: usize, v6: usize) -> bool {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => bytes.get(v4..v4 + 4) == Some(&self.ipv4),
            Some(6) => bytes.get(v6..v6 + 16) == Some(&self.ipv6),
            _ => false,
        }
    }
}

/// Whether the packet is of link-local scope (router solicitations, multicast
/// reports, neighbour discovery), which no link of a plan carries: IPv6 with a link-local address or a multicast group of link scope (RFC 4291
/// §2.5.6, §2.7), or IPv4 to 224.0.0.0/24 (RFC 5771 §4).
pub(super) fn is_link_local(bytes: &[u8]) -> bool {
    match bytes {
        [first, ..] if first >> 4 == 6 && bytes.len() >= 40 => {
            let link_local = |a: &[u8]| a[0] == 0xfe && a[1] & 0xc0 == 0x80;
            link_local(&bytes[8..24])
                || link_local(&bytes[24..40])
                || (bytes[24] == 0xff && bytes[25] & 0x0f <= 2)
        }
        [first, ..] if first >> 4 == 4 && bytes.len() >= 20 => bytes[16..19] == [224, 0, 0],
        _ => false,
    }
}
