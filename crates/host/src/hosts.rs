//! All hosts and routers of a run.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use narrows_core::{
    App, DropCause, EntityId, Event, EventSink, FlowId, HostHook, Limited, Packet, Profile, Role,
    SocketError,
};
use narrows_efm::HostSignals;
use narrows_path::paths::{Link, Paths};
use narrows_path::routes::{Hop, Routes};
use narrows_path::wakes::Slot;
use narrows_units::Instant;
use narrows_wire::Icmp;

use crate::address;
use crate::api::Api;
use crate::node::Node;
use crate::profile::{EndpointFactory, Options};
use crate::socket::Socket;
use crate::system::System;

/// Nodes, the links between them, and the ways through these.
pub struct Topology {
    /// Hosts and routers, in the plan's order.
    pub nodes: Vec<Node>,
    /// Links, in the plan's order.
    pub links: Vec<Link>,
    /// The next hop from each node to each other.
    pub routes: Routes,
    /// Addresses of boxes on links, each with the node to which ways to it lead.
    pub routed: Vec<(IpAddr, usize)>,
}

/// An application and the host that it runs on.
pub struct AppOn {
    /// The node's index.
    pub node: usize,
    /// By which errors name it: `flow/prague`.
    pub name: String,
    /// The application.
    pub app: Box<dyn App>,
}

/// What hosts share with the rest of a run.
pub struct Net<'a> {
    /// The time.
    pub now: Instant,
    /// Elements, wakes and the pool of packets.
    pub paths: &'a mut Paths,
    /// Takes what happens.
    pub sink: &'a mut dyn EventSink,
    /// The machine's own stack, where sockets are over it.
    pub system: Option<&'a mut dyn System>,
}

/// An application in its place; `None` while it is called.
pub(crate) struct AppSlot {
    pub node: usize,
    name: String,
    app: Option<Box<dyn App>>,
}

/// The sockets of a flow of the plan, which are sampled.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlowSockets {
    pub sender: Option<u32>,
    pub receiver: Option<u32>,
    pub finished: bool,
    /// What was last reported, to report changes only.
    pub limited: Limited,
}

/// All hosts and routers of a run, with what runs on them.
pub struct Hosts {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) routes: Routes,
    /// Nodes by [`address::key`], rising.
    addresses: Vec<(u128, usize)>,
    pub(crate) profiles: Vec<EndpointFactory>,
    pub(crate) seed: u64,
    /// The slot of the first application's wakes; those of sockets follow.
    first_slot: Slot,
    pub(crate) apps: Vec<AppSlot>,
    pub(crate) sockets: Vec<Option<Socket>>,
    /// Numbers of sockets that may be given out again.
    pub(crate) free: Vec<u32>,
    pub(crate) flows: Vec<FlowSockets>,
    /// Ports, from the first that connections get which name none, that flows of the plan
    /// have.
    pub(crate) flow_ports: u16,
    /// Sockets that are to be served before time goes on.
    pub(crate) dirty: VecDeque<u32>,
    /// The socket that is being served, and whether its application changed it.
    pub(crate) current: Option<u32>,
    pub(crate) changed: bool,
    /// Packets that reached an application or a connection.
    pub delivered: u64,
    /// Packets that hosts, hooks and links dropped; elements count their own.
    pub dropped: u64,
}

impl Hosts {
    /// Hosts over `topology` whose connections have the options `profiles`, in the order
    /// of their [`Profile`] numbers; wakes from `first_slot` on are theirs. Randomness
    /// comes from `seed` and names.
    pub fn new(topology: Topology, profiles: Vec<Options>, seed: u64, first_slot: Slot) -> Self {
        let Topology {
            nodes,
            links,
            routes,
            routed,
        } = topology;
        let of = |(i, node): (usize, &Node)| {
            let addresses = [IpAddr::from(node.ipv4), IpAddr::from(node.ipv6)];
            addresses.map(|address| (address::key(address), i))
        };
        let flows = profiles.iter().filter_map(|p| p.flow).max();
        let routed = routed.into_iter().map(|(a, i)| (address::key(a), i));
        let own = nodes.iter().enumerate().flat_map(of);
        let addresses: BTreeMap<_, _> = own.chain(routed).collect();
        Self {
            addresses: addresses.into_iter().collect(),
            nodes,
            links,
            routes,
            flows: vec![FlowSockets::default(); flows.map_or(0, |FlowId(f)| f as usize + 1)],
            profiles: profiles.into_iter().map(EndpointFactory::new).collect(),
            flow_ports: 0,
            seed,
            first_slot,
            apps: Vec::new(),
            sockets: Vec::new(),
            free: Vec::new(),
            dirty: VecDeque::new(),
            current: None,
            changed: false,
            delivered: 0,
            dropped: 0,
        }
    }

    /// The same in a run of so many flows, of which each opens its connection from a port of
    /// its own when its time comes: no other connection gets one of these.
    #[must_use]
    pub fn with_flows(mut self, flows: usize) -> Self {
        self.flow_ports = u16::try_from(flows).unwrap_or(u16::MAX);
        self
    }

    /// Puts applications on their hosts and starts them, in order. To be called once.
    ///
    /// # Errors
    /// The name of the first that cannot begin, and why.
    pub fn start(
        &mut self,
        net: &mut Net<'_>,
        apps: Vec<AppOn>,
    ) -> Result<(), (String, SocketError)> {
        self.apps.extend(apps.into_iter().map(|a| AppSlot {
            node: a.node,
            name: a.name,
            app: Some(a.app),
        }));
        for i in 0..self.apps.len() {
            net.paths.wakes.reserve(self.app_slot(i) + 1);
            let mut started = Ok(());
            self.call(net, i, |app, host| started = app.start(host));
            started.map_err(|error| (self.apps[i].name.clone(), error))?;
        }
        self.settle(net);
        Ok(())
    }

    /// The run ends: applications report what they have not yet reported.
    pub fn end(&mut self, net: &mut Net<'_>) {
        for i in 0..self.apps.len() {
            self.call(net, i, |app, host| app.end(host));
        }
    }

    /// A further set of socket options, and its number.
    pub fn add_profile(&mut self, options: Options) -> Profile {
        self.profiles.push(EndpointFactory::new(options));
        Profile(self.profiles.len() as u32 - 1)
    }

    /// The index of the node that reports as `entity`.
    pub fn node(&self, entity: EntityId) -> Option<usize> {
        self.nodes.iter().position(|n| n.entity == entity)
    }

    /// Sockets that are in use.
    pub fn sockets(&self) -> usize {
        self.sockets.len() - self.free.len()
    }

    /// Puts `hook` at the host that reports as `entity`, after those that are there;
    /// whether there is such a host.
    pub fn add_hook(&mut self, entity: EntityId, hook: Box<dyn HostHook>) -> bool {
        let node = self.node(entity);
        if let Some(node) = node {
            self.nodes[node].hooks.push(hook);
        }
        node.is_some()
    }

    /// What the plan's signals did at each host, of which `name` gives the name.
    pub fn signals(&self, name: impl Fn(EntityId) -> String) -> Vec<HostSignals> {
        let of = |node| Node::signals(node, &name(node.entity)).collect::<Vec<_>>();
        self.nodes.iter().flat_map(of).collect()
    }

    /// Who asked for a wake: an application, or that of a socket.
    pub fn owner_name(&self, slot: Slot) -> String {
        let i = slot.saturating_sub(self.first_slot) as usize;
        let app = match i.checked_sub(self.apps.len()) {
            None => Some(i),
            Some(s) => self.sockets.get(s).and_then(|s| s.as_ref()?.app),
        };
        let app = app.and_then(|app| self.apps.get(app));
        app.map_or_else(|| "a socket".to_owned(), |app| app.name.clone())
    }

    pub(crate) fn app_slot(&self, app: usize) -> Slot {
        self.first_slot + app as Slot
    }

    pub(crate) fn socket_slot(&self, socket: u32) -> Slot {
        self.first_slot + self.apps.len() as Slot + socket
    }

    /// What a slot of the hosts' is for: an application's timer or a socket's.
    pub(crate) fn slot_owner(&self, slot: Slot) -> Result<usize, u32> {
        let i = slot - self.first_slot;
        match i.checked_sub(self.apps.len() as Slot) {
            None => Ok(i as usize),
            Some(socket) => Err(socket),
        }
    }

    /// Calls application `app`. What it does to sockets is served later.
    pub(crate) fn call(
        &mut self,
        net: &mut Net<'_>,
        app: usize,
        what: impl FnOnce(&mut dyn App, &mut Api<'_, '_>),
    ) {
        let Some(mut taken) = self.apps[app].app.take() else {
            return;
        };
        let hosts = self;
        what(&mut *taken, &mut Api { hosts, net, app });
        hosts.apps[app].app = Some(taken);
    }

    pub(crate) fn profile(&mut self, profile: Profile) -> &mut EndpointFactory {
        &mut self.profiles[profile.0 as usize]
    }

    /// The node that has `address`.
    #[inline]
    fn node_of(&self, address: IpAddr) -> Option<usize> {
        let key = address::key(address);
        let at = self.addresses.binary_search_by_key(&key, |a| a.0).ok()?;
        Some(self.addresses[at].1)
    }

    /// The first link from `node` to `address`.
    pub(crate) fn hop(&self, node: usize, address: IpAddr) -> Option<Hop> {
        self.routes.next_hop(node, self.node_of(address)?)
    }

    /// The first link from `node` to `address`, from where there is a way back.
    pub(crate) fn way_to(&self, node: usize, address: IpAddr) -> Option<Hop> {
        let to = self.node_of(address)?;
        let there = self.routes.path(node, to).ok()?;
        self.routes.path(to, node).ok()?;
        there.first().copied()
    }

    /// A packet leaves `node` by `hop`: past the hooks, into the link.
    #[inline]
    pub(crate) fn send(
        &mut self,
        net: &mut Net<'_>,
        node: usize,
        hop: Hop,
        role: Role,
        mut packet: Box<Packet>,
        socket: Option<u32>,
    ) {
        let host = self.nodes[node].entity;
        if self.nodes[node].has_hooks() {
            let facts = socket.and_then(|s| self.facts(s));
            if !self.nodes[node].egress(net.now, role, &mut packet, facts.as_ref()) {
                self.drop_packet(net, host, packet, DropCause::Policy);
                return;
            }
        }
        let sent = Event::Sent {
            host,
            packet: &packet,
        };
        net.sink.record(net.now, sent);
        self.enter(net, hop, packet);
    }

    /// A packet enters a link.
    #[inline]
    fn enter(&mut self, net: &mut Net<'_>, hop: Hop, packet: Box<Packet>) {
        let link = &self.links[hop.link];
        // A machine's own stack knows its devices, and may fragment.
        if packet.len() > link.mtu && net.system.is_none() {
            let entity = link.entity;
            self.drop_packet(net, entity, packet, DropCause::TooBig);
            return;
        }
        net.paths.send(link.first(hop), packet);
    }

    /// A packet that is not for `node` goes on, if the node is a router.
    pub(crate) fn forward(&mut self, net: &mut Net<'_>, node: usize, mut packet: Box<Packet>) {
        let hop = address::destination(&packet.bytes)
            .filter(|_| self.nodes[node].forwards)
            .and_then(|to| self.hop(node, to));
        let entity = self.nodes[node].entity;
        let Some(hop) = hop else {
            if self.nodes[node].forwards {
                self.report_error(net, node, Icmp::NoRoute, &packet);
            }
            self.drop_packet(net, entity, packet, DropCause::Unreachable);
            return;
        };
        let mtu = self.links[hop.link].mtu;
        if packet.len() > mtu {
            self.report_error(net, node, Icmp::TooBig { mtu }, &packet);
            self.enter(net, hop, packet);
        } else if address::spend_hop(&mut packet.bytes) {
            net.paths.send(self.links[hop.link].first(hop), packet);
        } else {
            self.report_error(net, node, Icmp::TimeExceeded, &packet);
            self.drop_packet(net, entity, packet, DropCause::Unreachable);
        }
    }

    /// Drops a packet that is in no element.
    pub(crate) fn drop_packet(
        &mut self,
        net: &mut Net<'_>,
        element: EntityId,
        packet: Box<Packet>,
        cause: DropCause,
    ) {
        self.dropped += 1;
        let event = Event::Dropped {
            element,
            packet: &packet,
            cause,
        };
        net.sink.record(net.now, event);
        net.paths.pool.give(packet);
    }

    /// Takes a packet out of the run: it has arrived.
    #[inline]
    pub(crate) fn consume(&mut self, net: &mut Net<'_>, packet: Box<Packet>) {
        self.delivered += 1;
        net.paths.pool.give(packet);
    }
}
