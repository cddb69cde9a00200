//! Modelled flows in hosts: the ends of QUIC and PLUS as a path sees them.

use std::net::SocketAddr;

use narrows_packet::{Event, Packet, RecoveryEvent, Role};
use narrows_path::routes::Hop;
use narrows_path::wakes::Slot;
use narrows_quic::model::{Endpoint, ModelEvent, Spec};
use narrows_scenario::endpoints::Ends;
use narrows_scenario::{HostIndex, Plan};
use narrows_traffic::Want;
use narrows_units::Rng;
use narrows_wire::udp;

use crate::demux::Addressing;
use crate::engine::Engine;
use crate::flow::Envelope;

/// Bytes that an application keeps written ahead. It is asked again with every
/// packet, so this never limits; what is left of it goes out after a stop.
const WRITE_AHEAD: u64 = 256 << 10;

/// One end of a modelled flow in a host.
pub struct ModelEnd {
    pub endpoint: Endpoint,
    pub envelope: Envelope,
    pub flow: u32,
    pub role: Role,
    /// Whether this end sends the flow's data.
    pub sends: bool,
    /// Where packets for this end come from.
    pub remote: SocketAddr,
    /// Whether the application has said that it is done.
    pub closing: bool,
}

/// The ends of flow `i`, that which opens it first; `hops` lead from the one
/// to the other and back.
pub fn ends(plan: &Plan, i: usize, seed: u64, spec: &Spec, hops: [Hop; 2]) -> [ModelEnd; 2] {
    let flow = &plan.flows[i];
    let Ends { opener, answerer } = plan.flow_ends(i);
    let end = |role, (host, local): (HostIndex, SocketAddr), remote, hop| {
        let name = match role {
            Role::Initiator => "opener",
            Role::Responder => "answerer",
        };
        let rng = Rng::for_name(seed, &format!("flow/{}/{name}", flow.name));
        ModelEnd {
            endpoint: Endpoint::new(*spec, role, rng),
            envelope: Envelope {
                node: host.0 as u32,
                hop,
                source: local,
                destination: remote,
                traffic_class: flow.dscp << 2,
                ident: 0,
            },
            flow: i as u32,
            role,
            sends: host == flow.from,
            remote,
            closing: false,
        }
    };
    [
        end(Role::Initiator, opener, answerer.1, hops[0]),
        end(Role::Responder, answerer, opener.1, hops[1]),
    ]
}

impl Engine<'_> {
    /// Whether a datagram for modelled end `m` comes from its other end.
    pub(crate) fn is_models(&self, m: usize, source: SocketAddr) -> bool {
        self.sim.models[m].remote == source
    }

    /// A packet of the other end of modelled end `m`.
    pub(crate) fn take_model(&mut self, m: usize, addressing: &Addressing, packet: Box<Packet>) {
        let now = self.sim.now;
        let from = addressing.above + udp::HEADER_LEN;
        if let Some(payload) = packet.bytes.get(from..) {
            self.sim.models[m].endpoint.receive(now, payload);
        }
        self.consume(packet);
        self.touch_model(m);
    }

    /// The timer of modelled end `m`.
    pub(crate) fn wake_model(&mut self, m: usize, slot: Slot) {
        let now = self.sim.now;
        let endpoint = &mut self.sim.models[m].endpoint;
        let due = endpoint.next_timeout();
        if due.is_some_and(|t| t <= now) {
            endpoint.on_timeout(now);
            self.touch_model(m);
            let next = self.sim.models[m].endpoint.next_timeout();
            self.sim.paths.wakes.serve(slot, next);
        } else {
            self.sim.paths.wakes.serve(slot, due);
        }
    }

    /// Lets modelled end `m` say what happened, serves its application, sends
    /// what it has to send, and sets its timer.
    pub(crate) fn touch_model(&mut self, m: usize) {
        self.supply_model(m);
        self.transmit_model(m);
        // Sending is worth an event where data goes again.
        while let Some(event) = self.sim.models[m].endpoint.poll_event() {
            self.hear_model(m, event);
        }
        let next = self.sim.models[m].endpoint.next_timeout();
        let slot = self.sim.model_slot(m);
        self.sim.paths.wakes.at_latest(slot, next);
    }

    /// Opens the flow whose opener is modelled end `m`.
    pub(crate) fn open_model(&mut self, m: usize) {
        self.sim.models[m].endpoint.open();
        self.touch_model(m);
    }

    fn supply_model(&mut self, m: usize) {
        let now = self.sim.now;
        let socket = &mut self.sim.models[m];
        if !socket.sends || socket.closing {
            return;
        }
        let generator = &mut self.sim.flows[socket.flow as usize].generator;
        match generator.want(now) {
            Want::Stream(bytes) => {
                let unsent = socket.endpoint.unsent();
                // Twice as far, so that not every packet costs a write.
                if unsent < WRITE_AHEAD / 2 {
                    let taken = bytes.min(WRITE_AHEAD - unsent);
                    socket.endpoint.write(taken);
                    generator.sent(taken);
                }
                if generator.want(now) == Want::End {
                    socket.closing = true;
                    socket.endpoint.close();
                }
            }
            Want::End => {
                socket.closing = true;
                socket.endpoint.close();
            }
            Want::Datagram(_) | Want::Nothing => {}
        }
    }

    fn transmit_model(&mut self, m: usize) {
        let now = self.sim.now;
        let mut bytes = std::mem::take(&mut self.sim.scratch);
        loop {
            let sim = &mut self.sim;
            let socket = &mut sim.models[m];
            let Some(length) = socket.endpoint.poll_transmit(now, &mut bytes) else {
                break;
            };
            let flow = sim.flows[socket.flow as usize].id;
            let packet = socket
                .envelope
                .seal(now, &mut sim.paths.pool, Some(flow), &bytes, length);
            let (envelope, role) = (socket.envelope, socket.role);
            self.send_sealed(&envelope, role, packet);
        }
        self.sim.scratch = bytes;
    }

    fn hear_model(&mut self, m: usize, event: ModelEvent) {
        let now = self.sim.now;
        let socket = &self.sim.models[m];
        let (f, sends) = (socket.flow as usize, socket.sends);
        let flow = &mut self.sim.flows[f];
        let id = flow.id;
        let event = match event {
            ModelEvent::Established if sends => {
                flow.established = true;
                Event::Established {
                    flow: id,
                    ecn: false,
                    accecn: false,
                }
            }
            ModelEvent::Delivered(bytes) if !sends => {
                flow.delivered += bytes;
                Event::Delivered { flow: id, bytes }
            }
            ModelEvent::RttSample(rtt) if sends => Event::RttSample { flow: id, rtt },
            ModelEvent::Retransmitted(bytes) if sends => Event::Retransmitted { flow: id, bytes },
            ModelEvent::Lost(_) if sends => Event::Recovery {
                flow: id,
                event: RecoveryEvent::FastRetransmit,
            },
            ModelEvent::Timeout if sends => Event::Recovery {
                flow: id,
                event: RecoveryEvent::RetransmissionTimeout,
            },
            ModelEvent::PeerFinished if !sends => {
                let complete = flow.delivered == flow.generator.bytes();
                self.finish(f, complete);
                return;
            }
            _ => return,
        };
        self.sink.record(now, event);
    }
}
