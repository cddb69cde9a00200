//! A host or router: its addresses, its sockets by address, and the hooks that its
//! packets pass.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use narrows_core::{EntityId, HookVerdict, HostHook, Packet, Role, SocketFacts};
use narrows_efm::{HostSignals, SignalHook};
use narrows_units::Instant;

use crate::icmp::ErrorLimit;
use crate::table::Table;

/// A host or router.
#[derive(Default)]
pub struct Node {
    /// By which it reports.
    pub entity: EntityId,
    /// Whether it passes on packets that are not for it.
    pub forwards: bool,
    /// Its IPv4 address.
    pub ipv4: [u8; 4],
    /// Its IPv6 address.
    pub ipv6: [u8; 16],
    /// Its sockets.
    pub(crate) table: Table,
    /// The port that a connection gets next which names none; 0 before the first.
    pub(crate) next_port: u16,
    /// Fast Open cookies by the server's address (RFC 7413 §4.1.3).
    pub(crate) cookies: BTreeMap<IpAddr, Vec<u8>>,
    /// How many errors may still be sent to an address.
    pub(crate) errors: BTreeMap<IpAddr, Option<ErrorLimit>>,
    /// Path MTUs in bytes, and until when they hold.
    pub(crate) mtus: BTreeMap<IpAddr, (u32, Instant)>,
    /// Signals of the plan, each with its name; they come before other hooks.
    pub signal_hooks: Vec<(String, SignalHook)>,
    /// What else reads or marks its packets.
    pub hooks: Vec<Box<dyn HostHook>>,
}

impl Node {
    /// A node with these addresses that reports as `entity` and, as a router, passes on
    /// what is not for it.
    pub fn new(entity: EntityId, forwards: bool, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Self {
        Self {
            entity,
            forwards,
            ipv4: ipv4.octets(),
            ipv6: ipv6.octets(),
            ..Self::default()
        }
    }

    /// Its address of the IP version of `like`, with `port`.
    pub fn address(&self, like: IpAddr, port: u16) -> SocketAddr {
        match like {
            IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::from(self.ipv4), port)),
            IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::from(self.ipv6), port)),
        }
    }

    /// Whether a packet is addressed to this node.
    #[inline]
    pub fn owns(&self, bytes: &[u8]) -> bool {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => bytes.get(16..).and_then(<[u8]>::first_chunk) == Some(&self.ipv4),
            Some(6) => bytes.get(24..).and_then(<[u8]>::first_chunk) == Some(&self.ipv6),
            _ => false,
        }
    }

    /// Whether its packets pass any hook.
    #[inline]
    pub fn has_hooks(&self) -> bool {
        !self.hooks.is_empty() || !self.signal_hooks.is_empty()
    }

    /// All hooks, in order.
    fn all_hooks(&mut self) -> impl Iterator<Item = &mut dyn HostHook> {
        let signal_hooks = self
            .signal_hooks
            .iter_mut()
            .map(|(_, m)| m as &mut dyn HostHook);
        let others = self.hooks.iter_mut().map(|h| &mut **h as &mut dyn HostHook);
        signal_hooks.chain(others)
    }

    /// What the signal hooks of this host, which has the name `host`, have done.
    pub fn signals(&self, host: &str) -> impl Iterator<Item = HostSignals> {
        self.signal_hooks
            .iter()
            .map(move |(mark, marker)| HostSignals {
                mark: mark.clone(),
                host: host.to_owned(),
                counters: marker.counters(),
            })
    }

    /// Shows a leaving packet to the hooks; whether it goes on.
    pub(crate) fn egress(
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
    pub(crate) fn ingress(
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
