//! Flows over QUIC: the two ends of a connection and what they do.

use narrows_packet::{DropCause, Event, FlowId, FlowSample, Packet, Role};
use narrows_path::routes::Hop;
use narrows_path::wakes::Slot;
use narrows_quic::{Config, Connection, Epoch, QuicEvent, lost_sizes, spin};
use narrows_scenario::{EcnMode, Plan, SpinUse};
use narrows_traffic::Want;

use crate::engine::Engine;
use crate::flow::{Carrier, Phase};

/// One end of a QUIC connection in a host.
pub struct QuicEnd {
    pub connection: Connection,
    pub node: u32,
    /// The first link towards the other end.
    pub hop: Hop,
    pub flow: u32,
    pub role: Role,
    /// Whether this end sends the flow's data.
    pub sends: bool,
    /// Whether the end of the stream was said.
    pub closing: bool,
}

/// The ends of flow `i`, that which opens it first; `hops` lead from the one
/// to the other and back, over links that carry packets of `mtu` bytes.
pub fn ends(plan: &Plan, i: usize, seed: u64, mtu: u32, hops: [Hop; 2]) -> [QuicEnd; 2] {
    let flow = &plan.flows[i];
    let ends = plan.flow_ends(i);
    let ((near_host, near), (far_host, far)) = (ends.opener, ends.answerer);
    let config = |local, remote| Config {
        local,
        remote,
        control: flow.cc.quic().unwrap_or_default(),
        ecn: flow.ecn != EcnMode::Off,
        dscp: flow.dscp,
        mtu,
        spin: flow.spin != SpinUse::Greased,
        flow: Some(FlowId(i as u32)),
    };
    let (client, server) = (config(near, far), config(far, near));
    let on = flow.spin == SpinUse::On;
    let (for_client, for_server) = spin::generators(seed, &flow.name, on, &client, &server);
    let epoch = Epoch::new();
    let end = |connection, host: narrows_scenario::HostIndex, hop, role| QuicEnd {
        connection,
        node: host.0 as u32,
        hop,
        flow: i as u32,
        role,
        sends: host == flow.from,
        closing: false,
    };
    [
        end(
            Connection::client(client, epoch, for_client),
            near_host,
            hops[0],
            Role::Initiator,
        ),
        end(
            Connection::server(server, epoch, for_server),
            far_host,
            hops[1],
            Role::Responder,
        ),
    ]
}

/// A look at a sender. What came with CE its other end counts.
pub fn sample(ends: &[QuicEnd], sender: usize) -> FlowSample {
    FlowSample {
        // The ends of a flow stand beside each other.
        delivered_ce: ends[sender ^ 1].connection.came_with_ce,
        ..ends[sender].connection.sample()
    }
}

impl Engine<'_> {
    /// The flow begins.
    pub(crate) fn open_quic(&mut self, q: usize) {
        self.sim.quics[q].connection.open(self.sim.now);
        self.touch_quic(q);
    }

    /// A packet for one end.
    pub(crate) fn take_quic(&mut self, q: usize, packet: Box<Packet>) {
        self.sim.quics[q].connection.receive(self.sim.now, &packet);
        self.consume(packet);
        self.touch_quic(q);
    }

    /// An end's timer, or one that has moved away since.
    pub(crate) fn wake_quic(&mut self, q: usize, slot: Slot) {
        let now = self.sim.now;
        let due = self.sim.quics[q].connection.next_timeout();
        if due.is_some_and(|t| t <= now) {
            self.sim.quics[q].connection.on_timeout(now);
            self.touch_quic(q);
        }
        let next = self.sim.quics[q].connection.next_timeout();
        self.sim.paths.wakes.serve(slot, next);
    }

    /// Lets an end say what happened, serves its application, sends what it
    /// has to send, and sets its timer: to be called after every call that may
    /// change the connection.
    pub(crate) fn touch_quic(&mut self, q: usize) {
        loop {
            let mut news = false;
            while let Some(event) = self.sim.quics[q].connection.poll_event() {
                self.hear_quic(q, event);
                news = true;
            }
            if self.sim.quics[q].sends {
                news |= self.supply_quic(q);
            }
            news |= self.transmit_quic(q);
            if !news {
                break;
            }
        }
        let next = self.sim.quics[q].connection.next_timeout();
        let slot = self.sim.quic_slot(q);
        self.sim.paths.wakes.set(slot, next);
    }

    /// Sends all that an end has to send now; whether that was anything.
    fn transmit_quic(&mut self, q: usize) -> bool {
        let now = self.sim.now;
        let mut sent = false;
        loop {
            let sim = &mut self.sim;
            let end = &mut sim.quics[q];
            let Some(mut packet) = end.connection.poll_transmit(now, &mut sim.paths.pool) else {
                return sent;
            };
            sent = true;
            let (node, hop, role) = (end.node as usize, end.hop, end.role);
            if self.pass_egress(node, role, &mut packet, None) {
                self.send(node, hop, packet);
            } else {
                let entity = self.sim.nodes[node].entity;
                self.drop_packet(entity, packet, DropCause::Policy);
            }
        }
    }

    fn hear_quic(&mut self, q: usize, event: QuicEvent) {
        let now = self.sim.now;
        let end = &mut self.sim.quics[q];
        let (f, sends) = (end.flow as usize, end.sends);
        let flow = &mut self.sim.flows[f];
        let id = flow.id;
        match event {
            QuicEvent::Established if sends => {
                let ecn = end.connection.config().ecn;
                (flow.established, flow.ecn) = (true, ecn);
                let event = Event::Established {
                    flow: id,
                    ecn,
                    accecn: false,
                };
                self.sink.record(now, event);
            }
            QuicEvent::Readable if !sends => {
                let (bytes, ended) = end.connection.read();
                if bytes > 0 {
                    flow.delivered += bytes;
                    self.sink.record(now, Event::Delivered { flow: id, bytes });
                }
                if ended {
                    let complete = flow.delivered == flow.generator.bytes();
                    self.finish(f, complete);
                }
            }
            QuicEvent::RttSample(rtt) if sends => {
                self.sink.record(now, Event::RttSample { flow: id, rtt });
            }
            QuicEvent::Recovery(event) if sends => {
                self.sink.record(now, Event::Recovery { flow: id, event });
            }
            QuicEvent::Lost { packets, bytes } if sends => {
                for bytes in lost_sizes(packets, bytes) {
                    let event = Event::Retransmitted { flow: id, bytes };
                    self.sink.record(now, event);
                }
            }
            QuicEvent::Acknowledged if sends => end.connection.close(now),
            QuicEvent::Broken(_) => {
                flow.broken |= flow.phase < Phase::Stopped;
                self.finish(f, false);
            }
            _ => {}
        }
    }

    /// Lets the application of the flow write ahead of what is sent; whether
    /// it wrote or ended its stream.
    fn supply_quic(&mut self, q: usize) -> bool {
        let now = self.sim.now;
        let end = &mut self.sim.quics[q];
        let flow = &mut self.sim.flows[end.flow as usize];
        if end.closing || !matches!(flow.carrier, Carrier::Quic { .. }) {
            return false;
        }
        match flow.generator.want(now) {
            Want::Stream(bytes) => {
                let taken = end.connection.write_zeros(bytes);
                flow.generator.sent(taken);
                taken > 0
            }
            Want::End => {
                end.closing = end.connection.finish();
                end.closing
            }
            Want::Datagram(_) | Want::Nothing => false,
        }
    }
}
