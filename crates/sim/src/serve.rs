//! What hosts do: sockets, applications and probes.

use narrows_packet::{DropCause, Event, Packet, Role};
use narrows_tcp::{SendBuffer, TcpEvent};
use narrows_traffic::Want;
use narrows_traffic::probe::{PAYLOAD_LEN, Probe};
use narrows_wire::tcp::FastOpenCookie;
use narrows_wire::{ip, udp};

use crate::demux::Addressing;
use crate::engine::Engine;
use crate::flow::{Carrier, Envelope, Phase, Socket};
use crate::host::Owner;
use crate::quic;

/// Bytes that an application keeps written ahead at least: four of the
/// largest bursts that segmentation makes (64 KiB).
const WRITE_AHEAD: u64 = 256 << 10;

impl Engine<'_> {
    /// A packet for host `node`: finds who wants it.
    #[inline]
    pub(crate) fn deliver(&mut self, node: usize, mut packet: Box<Packet>) {
        let Some(addressing) = Addressing::of(&packet.bytes) else {
            let entity = self.sim.nodes[node].entity;
            self.drop_packet(entity, packet, DropCause::Malformed);
            return;
        };
        let port = addressing.destination.port();
        let owner = self.sim.nodes[node].ports.owner(addressing.protocol, port);
        let (role, socket) = match owner {
            Some(Owner::Socket(s)) => (self.sim.sockets[s as usize].role, Some(s as usize)),
            Some(Owner::Quic(q)) => (self.sim.quics[q as usize].role, None),
            Some(Owner::Model(m)) => (self.sim.models[m as usize].role, None),
            Some(Owner::Asker(_)) => (Role::Initiator, None),
            _ => (Role::Responder, None),
        };
        if !self.pass_ingress(node, role, &mut packet, socket) {
            let entity = self.sim.nodes[node].entity;
            self.drop_packet(entity, packet, DropCause::Policy);
            return;
        }
        match owner {
            Some(Owner::Socket(s)) if self.sim.sockets[s as usize].remote == addressing.source => {
                let (s, now) = (s as usize, self.sim.now);
                self.sim.sockets[s].connection.receive(now, &packet);
                self.consume(packet);
                self.touch(s);
            }
            Some(Owner::Quic(q)) => self.take_quic(q as usize, packet),
            Some(Owner::Model(m)) if self.is_models(m as usize, addressing.source) => {
                self.take_model(m as usize, &addressing, packet);
            }
            Some(Owner::Datagrams(f)) => self.take_datagram(f as usize, &addressing, packet),
            Some(Owner::Asker(p)) => self.take_answer(p as usize, &addressing, packet),
            Some(Owner::Answerer(p)) => self.take_question(p as usize, &addressing, packet),
            _ => self.refuse(node, &addressing, packet),
        }
    }

    /// Nobody wants the packet: TCP answers with a reset.
    fn refuse(&mut self, node: usize, addressing: &Addressing, packet: Box<Packet>) {
        let now = self.sim.now;
        let reset = if addressing.protocol == ip::TCP {
            narrows_tcp::reset_for(now, &mut self.sim.paths.pool, &packet)
        } else {
            None
        };
        let entity = self.sim.nodes[node].entity;
        self.drop_packet(entity, packet, DropCause::Unreachable);
        if let Some(reset) = reset {
            self.send_routed(node, Role::Responder, reset);
        }
    }

    /// Lets a socket say what happened, serves its application, sends what it
    /// has to send, and sets its timer: to be called after every call that may
    /// change the connection.
    pub(crate) fn touch(&mut self, s: usize) {
        let sends = self.sim.sockets[s].sends;
        let flow = self.sim.sockets[s].flow as usize;
        let mut first = true;
        loop {
            let mut news = false;
            while let Some(event) = self.sim.sockets[s].connection.poll_event() {
                self.hear(s, event);
                news = true;
            }
            // The application writes ahead before the connection sends, lest
            // it seem to have nothing to send.
            news |= sends && self.supply(flow);
            if !first && !news {
                break;
            }
            // Sending may itself be worth an event (a retransmission).
            self.transmit(s);
            first = false;
        }
        let next = self.sim.sockets[s].connection.next_timeout();
        let slot = self.sim.socket_slot(s);
        self.sim.paths.wakes.at_latest(slot, next);
    }

    /// Sends all that the socket has to send now.
    #[inline]
    fn transmit(&mut self, s: usize) {
        let now = self.sim.now;
        loop {
            let sim = &mut self.sim;
            let socket = &mut sim.sockets[s];
            let Some(mut packet) = socket.connection.poll_transmit(now, &mut sim.paths.pool) else {
                return;
            };
            let (node, hop, role) = (socket.node as usize, socket.hop, socket.role);
            if self.pass_egress(node, role, &mut packet, Some(s)) {
                self.send(node, hop, packet);
            } else {
                let entity = self.sim.nodes[node].entity;
                self.drop_packet(entity, packet, DropCause::Policy);
            }
        }
    }

    /// A socket tells what happened.
    fn hear(&mut self, s: usize, event: TcpEvent) {
        let now = self.sim.now;
        let socket = &mut self.sim.sockets[s];
        let flow = &mut self.sim.flows[socket.flow as usize];
        let (f, id, sends) = (socket.flow as usize, flow.id, socket.sends);
        match event {
            TcpEvent::Established { ecn, accecn } if sends => {
                (flow.established, flow.ecn, flow.accecn) = (true, ecn, accecn);
                let flow = id;
                let event = Event::Established { flow, ecn, accecn };
                self.sink.record(now, event);
            }
            TcpEvent::Readable => {
                let bytes = socket.connection.read(u64::MAX);
                if !sends && bytes > 0 {
                    flow.delivered += bytes;
                    self.sink.record(now, Event::Delivered { flow: id, bytes });
                }
            }
            TcpEvent::RttSample(rtt) if sends => {
                self.sink.record(now, Event::RttSample { flow: id, rtt });
            }
            TcpEvent::Recovery(event) if sends => {
                self.sink.record(now, Event::Recovery { flow: id, event });
            }
            TcpEvent::Retransmitted { bytes } if sends => {
                self.sink
                    .record(now, Event::Retransmitted { flow: id, bytes });
            }
            TcpEvent::PeerClosed => {
                if !socket.closing {
                    socket.closing = true;
                    socket.connection.close(now);
                }
                if !sends {
                    let complete = flow.delivered == flow.generator.bytes();
                    self.finish(f, complete);
                }
            }
            TcpEvent::Reset | TcpEvent::TimedOut => {
                flow.broken |= flow.phase < Phase::Stopped;
                self.finish(f, false);
            }
            _ => {}
        }
    }

    /// Lets the application of flow `f` write ahead of what is sent: as much as
    /// is in flight, as Linux's send buffer of twice the window lets it, and
    /// at least [`WRITE_AHEAD`]. So what is left in the buffer
    /// when the flow is stopped is what a real socket would still send. Where
    /// the send buffer is modelled, it decides.
    ///
    /// Says whether it wrote or closed.
    pub(crate) fn supply(&mut self, f: usize) -> bool {
        let now = self.sim.now;
        let flow = &mut self.sim.flows[f];
        let Carrier::Connection { sender, .. } = flow.carrier else {
            return false;
        };
        let socket = &mut self.sim.sockets[sender as usize];
        if socket.closing {
            return false;
        }
        match flow.generator.want(now) {
            Want::Stream(bytes) => {
                let unsent = socket.connection.unsent();
                let in_flight = socket.connection.unacknowledged() - unsent;
                let ahead = in_flight.max(WRITE_AHEAD);
                let room = match socket.connection.config().host.send_buffer {
                    SendBuffer::Auto { .. } => u64::MAX,
                    SendBuffer::Unlimited if unsent >= ahead => return false,
                    // Twice as far, so that not every ACK costs a write.
                    SendBuffer::Unlimited => 2 * ahead - unsent,
                };
                let taken = socket.connection.write_zeros(bytes.min(room));
                flow.generator.sent(taken);
                taken > 0
            }
            Want::End => {
                socket.closing = true;
                socket.connection.close(now);
                true
            }
            Want::Datagram(_) | Want::Nothing => false,
        }
    }

    /// The application of flow `f` starts, stops or sends a datagram.
    pub(crate) fn wake_flow(&mut self, f: usize) {
        let now = self.sim.now;
        let flow = &mut self.sim.flows[f];
        if flow.phase == Phase::Waiting && flow.start <= now {
            flow.phase = Phase::Running;
            flow.generator.start(now);
            match flow.carrier {
                Carrier::Connection { opener, .. } => {
                    let opener = opener as usize;
                    let cookie = self.cookie_for(opener);
                    let connection = &mut self.sim.sockets[opener].connection;
                    connection.remember_fast_open(cookie);
                    connection.open(now);
                    self.touch(opener);
                }
                Carrier::Quic { opener, .. } => self.open_quic(opener as usize),
                Carrier::Model { opener, .. } => self.open_model(opener as usize),
                Carrier::Datagrams(_) => {}
            }
        }
        let flow = &mut self.sim.flows[f];
        if flow.phase == Phase::Running && flow.stop.is_some_and(|t| t <= now) {
            self.stop_flow(f);
        }
        self.send_datagrams(f);
        self.write_when_due(f);
        let flow = &self.sim.flows[f];
        let stop = flow.stop.filter(|_| flow.phase < Phase::Stopped);
        // What the connection has no room for now is written when there is some.
        let due = [flow.generator.next(), flow.generator.next_write(now), stop];
        let next = due.into_iter().flatten().min();
        let slot = self.sim.flow_slot(f);
        self.sim.paths.wakes.serve(slot, next);
    }

    /// The Fast Open cookie that the host of socket `opener` has of the other
    /// host, from an earlier connection of its own (RFC 7413 §4.1.3: by the
    /// server's address).
    fn cookie_for(&self, opener: usize) -> Option<FastOpenCookie> {
        let socket = &self.sim.sockets[opener];
        if !socket.connection.uses_fast_open() {
            return None;
        }
        let same = |s: &&Socket| s.node == socket.node && s.remote.ip() == socket.remote.ip();
        let mut known = self.sim.sockets.iter().filter(same);
        known.find_map(|s| s.connection.fast_open_cookie())
    }

    fn stop_flow(&mut self, f: usize) {
        let flow = &mut self.sim.flows[f];
        flow.phase = Phase::Stopped;
        flow.generator.stop();
        match flow.carrier {
            Carrier::Connection { sender, .. } => {
                self.touch(sender as usize);
            }
            Carrier::Quic { sender, .. } => self.touch_quic(sender as usize),
            Carrier::Model { sender, .. } => self.touch_model(sender as usize),
            Carrier::Datagrams(_) => self.finish(f, false),
        }
    }

    /// The application of flow `f` writes into its connection, if it writes at
    /// times of its own.
    fn write_when_due(&mut self, f: usize) {
        let flow = &self.sim.flows[f];
        let writes = flow.generator.next_write(self.sim.now).is_some();
        if !(writes && flow.established && flow.phase == Phase::Running) {
            return;
        }
        match flow.carrier {
            Carrier::Connection { sender, .. } => self.touch(sender as usize),
            Carrier::Quic { sender, .. } => self.touch_quic(sender as usize),
            Carrier::Model { sender, .. } => self.touch_model(sender as usize),
            Carrier::Datagrams(_) => {}
        }
    }

    fn send_datagrams(&mut self, f: usize) {
        let now = self.sim.now;
        loop {
            let sim = &mut self.sim;
            let flow = &mut sim.flows[f];
            let id = flow.id;
            let (Carrier::Datagrams(envelope), Want::Datagram(bytes)) =
                (&mut flow.carrier, flow.generator.want(now))
            else {
                return;
            };
            let packet = envelope.seal(now, &mut sim.paths.pool, Some(id), &[], bytes);
            let envelope = *envelope;
            flow.generator.sent(u64::from(bytes));
            self.send_sealed(&envelope, Role::Initiator, packet);
        }
    }

    pub(crate) fn send_sealed(&mut self, envelope: &Envelope, role: Role, mut packet: Box<Packet>) {
        let node = envelope.node as usize;
        if self.pass_egress(node, role, &mut packet, None) {
            self.send(node, envelope.hop, packet);
        } else {
            let entity = self.sim.nodes[node].entity;
            self.drop_packet(entity, packet, DropCause::Policy);
        }
    }

    fn take_datagram(&mut self, f: usize, addressing: &Addressing, packet: Box<Packet>) {
        let headers = (addressing.above + udp::HEADER_LEN) as u64;
        let bytes = u64::from(packet.len()).saturating_sub(headers);
        self.consume(packet);
        let flow = &mut self.sim.flows[f];
        flow.delivered += bytes;
        let event = Event::Delivered {
            flow: flow.id,
            bytes,
        };
        self.sink.record(self.sim.now, event);
    }

    /// A probe asks, or gives up an answer.
    pub(crate) fn wake_probe(&mut self, p: usize) {
        let now = self.sim.now;
        let probe = self.sim.probes[p].entity;
        for _ in 0..self.sim.probes[p].asker.lost(now) {
            self.sink.record(now, Event::ProbeLost { probe });
        }
        while let Some(question) = self.sim.probes[p].asker.ask(now) {
            let sim = &mut self.sim;
            let state = &mut sim.probes[p];
            let bytes = question.to_bytes();
            let length = state.payload_len;
            let packet = state
                .question
                .seal(now, &mut sim.paths.pool, None, &bytes, length);
            let envelope = state.question;
            self.send_sealed(&envelope, Role::Initiator, packet);
        }
        let next = self.sim.probes[p].asker.next_wake();
        let slot = self.sim.probe_slot(p);
        self.sim.paths.wakes.serve(slot, next);
    }

    fn take_question(&mut self, p: usize, addressing: &Addressing, packet: Box<Packet>) {
        let question = payload(&packet, addressing).and_then(Probe::parse);
        self.consume(packet);
        let Some(question) = question.filter(|q| !q.reply) else {
            return;
        };
        let now = self.sim.now;
        let sim = &mut self.sim;
        let state = &mut sim.probes[p];
        let answer = Probe {
            reply: true,
            ..question
        };
        let bytes = answer.to_bytes();
        let length = state.payload_len;
        let packet = state
            .answer
            .seal(now, &mut sim.paths.pool, None, &bytes, length);
        let envelope = state.answer;
        self.send_sealed(&envelope, Role::Responder, packet);
    }

    fn take_answer(&mut self, p: usize, addressing: &Addressing, packet: Box<Packet>) {
        let answer = payload(&packet, addressing).and_then(Probe::parse);
        self.consume(packet);
        let Some(answer) = answer.filter(|a| a.reply) else {
            return;
        };
        let now = self.sim.now;
        let state = &mut self.sim.probes[p];
        let probe = state.entity;
        if let Some(rtt) = state.asker.answered(now, answer) {
            self.sink.record(now, Event::ProbeRtt { probe, rtt });
        }
        let next = self.sim.probes[p].asker.next_wake();
        let slot = self.sim.probe_slot(p);
        self.sim.paths.wakes.set(slot, next);
    }

    /// Looks at every sender that is at work.
    pub(crate) fn sample_flows(&mut self) {
        let now = self.sim.now;
        for flow in &mut self.sim.flows {
            if flow.phase == Phase::Waiting || flow.phase == Phase::Finished {
                continue;
            }
            let sender = match flow.carrier {
                Carrier::Connection { sender, .. } => sender,
                Carrier::Quic { sender, .. } => {
                    let sample = quic::sample(&self.sim.quics, sender as usize);
                    let flow = flow.id;
                    self.sink.record(now, Event::Sampled { flow, sample });
                    continue;
                }
                Carrier::Model { sender, .. } => {
                    let sample = self.sim.models[sender as usize].endpoint.sample();
                    let flow = flow.id;
                    self.sink.record(now, Event::Sampled { flow, sample });
                    continue;
                }
                Carrier::Datagrams(_) => continue,
            };
            let connection = &self.sim.sockets[sender as usize].connection;
            let sample = connection.sample(now);
            let id = flow.id;
            self.sink.record(now, Event::Sampled { flow: id, sample });
            let limited = connection.limited();
            if limited != flow.limited {
                flow.limited = limited;
                let (receive_window, send_buffer, application) = limited;
                let event = Event::Limited {
                    flow: id,
                    receive_window,
                    send_buffer,
                    application,
                };
                self.sink.record(now, event);
            }
        }
    }

    /// Reports the end of a flow, once.
    pub(crate) fn finish(&mut self, f: usize, complete: bool) {
        let flow = &mut self.sim.flows[f];
        if flow.phase == Phase::Finished {
            return;
        }
        flow.phase = Phase::Finished;
        flow.complete = complete;
        let event = Event::Finished {
            flow: flow.id,
            bytes: flow.delivered,
            complete,
        };
        self.sink.record(self.sim.now, event);
    }

    /// The run ends: so does every flow that has begun.
    pub(crate) fn finish_flows(&mut self) {
        for f in 0..self.sim.flows.len() {
            if self.sim.flows[f].phase != Phase::Waiting {
                self.finish(f, false);
            }
        }
    }
}

/// What a datagram carries, as far as it is stored.
fn payload<'a>(packet: &'a Packet, addressing: &Addressing) -> Option<&'a [u8]> {
    let from = addressing.above + udp::HEADER_LEN;
    packet.bytes.get(from..from + PAYLOAD_LEN)
}
