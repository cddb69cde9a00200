//! How packets leave hosts, pass routers and reach hosts.

use narrows_packet::{DropCause, EntityId, Event, Packet, Role};
use narrows_path::routes::Hop;

use crate::demux;
use crate::engine::Engine;

impl Engine<'_> {
    /// A packet leaves host `node` by `hop`, after the hooks.
    #[inline]
    pub(crate) fn send(&mut self, node: usize, hop: Hop, packet: Box<Packet>) {
        let host = self.sim.nodes[node].entity;
        self.sink.record(
            self.sim.now,
            Event::Sent {
                host,
                packet: &packet,
            },
        );
        self.enter(hop, packet);
    }

    /// A packet enters a link.
    #[inline]
    fn enter(&mut self, hop: Hop, packet: Box<Packet>) {
        let link = &self.sim.links[hop.link];
        if packet.len() > link.mtu {
            let entity = link.entity;
            self.drop_packet(entity, packet, DropCause::TooBig);
            return;
        }
        let next = link.first(hop);
        self.sim.paths.send(next, packet);
    }

    /// A packet reaches a host or router.
    #[inline]
    pub(crate) fn arrive(&mut self, i: usize, packet: Box<Packet>) {
        let node = &self.sim.nodes[i];
        if !node.owns(&packet.bytes) {
            self.forward(i, packet);
            return;
        }
        self.sink.record(
            self.sim.now,
            Event::Received {
                host: node.entity,
                packet: &packet,
            },
        );
        self.deliver(i, packet);
    }

    fn forward(&mut self, i: usize, mut packet: Box<Packet>) {
        let sim = &self.sim;
        let node = &sim.nodes[i];
        let entity = node.entity;
        let hop = demux::destination(&packet.bytes)
            .filter(|_| node.forwards)
            .and_then(|address| sim.addresses.get(&address))
            .and_then(|to| sim.routes.next_hop(i, *to));
        match hop {
            Some(hop) if demux::spend_hop(&mut packet.bytes) => self.enter(hop, packet),
            _ => self.drop_packet(entity, packet, DropCause::Unreachable),
        }
    }

    /// Sends a packet that no socket made back where it belongs.
    pub(crate) fn send_routed(&mut self, node: usize, role: Role, mut packet: Box<Packet>) {
        let hop = demux::destination(&packet.bytes)
            .and_then(|address| self.sim.addresses.get(&address))
            .and_then(|to| self.sim.routes.next_hop(node, *to));
        let entity = self.sim.nodes[node].entity;
        let Some(hop) = hop else {
            self.drop_packet(entity, packet, DropCause::Unreachable);
            return;
        };
        if self.pass_egress(node, role, &mut packet, None) {
            self.send(node, hop, packet);
        } else {
            self.drop_packet(entity, packet, DropCause::Policy);
        }
    }

    /// Shows a leaving packet to the host's hooks.
    #[inline]
    pub(crate) fn pass_egress(
        &mut self,
        node: usize,
        role: Role,
        packet: &mut Packet,
        socket: Option<usize>,
    ) -> bool {
        let sim = &mut self.sim;
        if !sim.nodes[node].has_hooks() {
            return true;
        }
        let facts = socket.map(|s| sim.sockets[s].connection.socket_facts());
        sim.nodes[node].egress(sim.now, role, packet, facts.as_ref())
    }

    /// Shows an arriving packet to the host's hooks.
    #[inline]
    pub(crate) fn pass_ingress(
        &mut self,
        node: usize,
        role: Role,
        packet: &mut Packet,
        socket: Option<usize>,
    ) -> bool {
        let sim = &mut self.sim;
        if !sim.nodes[node].has_hooks() {
            return true;
        }
        let facts = socket.map(|s| sim.sockets[s].connection.socket_facts());
        sim.nodes[node].ingress(sim.now, role, packet, facts.as_ref())
    }

    /// Drops a packet that is in no element.
    pub(crate) fn drop_packet(&mut self, entity: EntityId, packet: Box<Packet>, cause: DropCause) {
        self.sim.own_drops += 1;
        let event = Event::Dropped {
            element: entity,
            packet: &packet,
            cause,
        };
        self.sink.record(self.sim.now, event);
        self.sim.paths.pool.give(packet);
    }

    /// Takes a packet out of the run: it has arrived.
    #[inline]
    pub(crate) fn consume(&mut self, packet: Box<Packet>) {
        self.sim.delivered += 1;
        self.sim.paths.pool.give(packet);
    }
}
