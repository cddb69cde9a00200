//! Routers that forward in the path instead of in a stack.
//!
//! Where time is virtual, a packet that passes a router would cross the border between the
//! path and the kernel twice, which is most of what it costs, and for nothing: processing takes
//! no time there. Between links that are both in the path, a router therefore forwards here, by
//! the addresses and routes of the plan. What a stack would answer, refuse or cut goes to the
//! stack.

use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_core::Packet;
use narrows_path::routes::{Hop, Routes};
use narrows_scenario::Plan;
use narrows_wire::ip::Ip;

/// Who forwards here, and which way.
pub(super) struct Routers {
    /// Of each node, whether it forwards here.
    forwards: Vec<bool>,
    routes: Routes,
    nodes: BTreeMap<IpAddr, usize>,
    /// The largest packet of each link that is in the path.
    mtu: Vec<Option<u32>>,
}

impl Routers {
    /// None: all that a router gets is its stack's.
    pub(super) fn none(plan: &Plan) -> Self {
        Self {
            forwards: vec![false; plan.hosts.len()],
            ..Self::of(plan)
        }
    }

    /// Those of `plan`.
    pub(super) fn of(plan: &Plan) -> Self {
        let hosts = plan.hosts.iter().enumerate();
        let addresses = hosts.flat_map(|(n, h)| {
            let (ipv4, ipv6): (IpAddr, IpAddr) = (h.ipv4.into(), h.ipv6.into());
            [(ipv4, n), (ipv6, n)]
        });
        Self {
            forwards: plan.hosts.iter().map(|h| h.router).collect(),
            routes: plan.routes(),
            nodes: addresses.chain(plan.routed()).collect(),
            mtu: plan
                .links
                .iter()
                .map(|l| l.datapath.is_own().then_some(l.mtu))
                .collect(),
        }
    }

    /// Whether `node` forwards here.
    pub(super) fn forwards(&self, node: usize) -> bool {
        self.forwards[node]
    }

    /// The way from a node to another; none if no way leads there.
    pub(super) fn way(&self, from: usize, to: usize) -> Vec<Hop> {
        self.routes.path(from, to).unwrap_or_default()
    }

    /// The node at which `hop` begins.
    pub(super) fn start_of(&self, hop: Hop) -> usize {
        let back = Hop { up: !hop.up, ..hop };
        self.routes.end_of(back)
    }

    /// What `packet` takes at `node`, if nothing but forwarding is to be done about it.
    pub(super) fn hop(&self, node: usize, packet: &Packet) -> Option<Hop> {
        if !self.forwards[node] {
            return None;
        }
        let header = Ip::parse_cut(&packet.bytes, packet.zero_tail).ok()?;
        let to = self.nodes.get(&header.destination)?;
        let hop = self.routes.next_hop(node, *to)?;
        let fits = self.mtu[hop.link].is_some_and(|mtu| packet.len() <= mtu);
        (fits && header.ttl > 1).then_some(hop)
    }
}
