//! Hosts, routers and links as the engine keeps them.

use narrows_efm::{HostMarks, Marker};
use narrows_packet::{EntityId, HookVerdict, HostHook, Packet, Role, SocketFacts};
use narrows_units::Instant;

use crate::demux::Ports;

/// Who listens at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A TCP socket.
    Socket(u32),
    /// An end of a QUIC connection.
    Quic(u32),
    /// An end of a modelled flow.
    Model(u32),
    /// The receiving end of a flow of datagrams.
    Datagrams(u32),
    /// The end of a probe that asks.
    Asker(u32),
    /// The end of a probe that answers.
    Answerer(u32),
}

/// A host or router.
#[derive(Default)]
pub struct Node {
    pub entity: EntityId,
    pub forwards: bool,
    pub ipv4: [u8; 4],
    pub ipv6: [u8; 16],
    pub ports: Ports<Owner>,
    /// Marks of the plan, each with its name; they come before other hooks.
    pub markers: Vec<(String, Marker)>,
    pub hooks: Vec<Box<dyn HostHook>>,
}

impl Node {
    /// Whether a packet is addressed to this node.
    #[inline]
    pub fn owns(&self, bytes: &[u8]) -> bool {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => bytes.get(16..20) == Some(&self.ipv4),
            Some(6) => bytes.get(24..40) == Some(&self.ipv6),
            _ => false,
        }
    }

    /// Whether somebody wants to see the packets.
    #[inline]
    pub fn has_hooks(&self) -> bool {
        !self.hooks.is_empty() || !self.markers.is_empty()
    }

    /// All that looks at packets, in order.
    fn all_hooks(&mut self) -> impl Iterator<Item = &mut dyn HostHook> {
        let markers = self.markers.iter_mut().map(|(_, m)| m as &mut dyn HostHook);
        let others = self.hooks.iter_mut().map(|h| &mut **h as &mut dyn HostHook);
        markers.chain(others)
    }

    /// What the markers of this host, which has the name `host`, have done.
    pub fn marks(&self, host: &str) -> impl Iterator<Item = HostMarks> {
        self.markers.iter().map(move |(mark, marker)| HostMarks {
            mark: mark.clone(),
            host: host.to_owned(),
            counters: marker.counters(),
        })
    }

    /// Shows a leaving packet to the hooks; whether it goes on.
    pub fn egress(
        &mut self,
        now: Instant,
        role: Role,
        packet: &mut Packet,
        facts: Option<&SocketFacts>,
    ) -> bool {
        self.all_hooks()
            .all(|hook| hook.egress(now, role, packet, facts) == HookVerdict::Pass)
    }

    /// Shows an arriving packet to the hooks; whether it goes on.
    pub fn ingress(
        &mut self,
        now: Instant,
        role: Role,
        packet: &mut Packet,
        facts: Option<&SocketFacts>,
    ) -> bool {
        self.all_hooks()
            .all(|hook| hook.ingress(now, role, packet, facts) == HookVerdict::Pass)
    }
}
