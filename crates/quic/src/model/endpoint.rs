//! One end of a modelled flow.

use std::collections::VecDeque;

use narrows_core::{FlowSample, Role};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::plus::Flags;
use narrows_wire::quic_model::{self, Shown};
use narrows_wire::{Plus, QuicModel, plus};

use super::frame::{Chunk, Frames, OVERHEAD, Opening};
use super::inbound::Inbound;
use super::outbound::Outbound;
use super::path_mtu::PathMtu;
use super::received::{Arrival, Received};
use super::rtt::Rtt;
use super::signals::Signals;
use super::spec::{ModelSpec, Pace, Shape};

/// RFC 9000 §18.2, `max_ack_delay`: the longest that an acknowledgement waits.
const ACK_DELAY: Duration = Duration::from_millis(25);
/// Doublings of a timeout at most (our choice; RFC 9002 has no bound): 2¹⁰ times
/// the shortest, a little more than `max_ack_delay`, is half a minute.
const MOST_BACKOFF: u32 = 10;

/// What happened at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// The handshake is done.
    Established,
    /// A round trip was measured.
    RttSample(Duration),
    /// So many bytes more are there in order.
    Delivered(u64),
    /// A packet with so many bytes of the stream that were sent before leaves.
    Retransmitted(u32),
    /// Packets are taken for lost because later ones arrived.
    Lost(u32),
    /// Nothing was received for the probe timeout.
    Timeout,
    /// The other end's stream is complete.
    PeerFinished,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Opening,
    Open,
}

/// One end of a modelled flow: packets in, packets out, time as an argument.
#[derive(Clone, Debug)]
pub struct Endpoint {
    spec: ModelSpec,
    role: Role,
    state: State,
    rng: Rng,
    /// Connection ID of QUIC, token of PLUS: the initiator's choice.
    connection: u64,
    next_number: u32,
    signals: Signals,
    /// Whether this end's part of the handshake has left once.
    opened: bool,
    opening_pending: bool,
    received: Received,
    inbound: Inbound,
    outbound: Outbound,
    /// Where it searches for the size of its packets.
    mtu: Option<PathMtu>,
    rtt: Rtt,
    /// Packets that call for an acknowledgement.
    unacknowledged: u32,
    ack_due: Option<Instant>,
    backoff: u32,
    /// When the last packet left that a timeout counts from.
    last_call: Instant,
    next_at_rate: Instant,
    events: VecDeque<ModelEvent>,
}

impl Endpoint {
    /// An end that has sent nothing, on a link that takes packets of `mtu` bytes. Its numbers, its
    /// connection's and fixed values come from `rng`.
    pub fn new(spec: ModelSpec, role: Role, (ipv4, mtu): (bool, u32), mut rng: Rng) -> Self {
        let search = spec.search();
        let outbound = Outbound::new(search.is_some());
        let signals = Signals::new(&spec, &mut rng);
        let connection = rng.draw_u64();
        Self {
            role,
            state: State::Idle,
            connection,
            next_number: match spec.shape() {
                Shape::Quic => 0,
                // Serial numbers start anywhere.
                Shape::Plus => rng.draw_u64() as u32,
            },
            signals,
            opened: false,
            opening_pending: false,
            received: Received::default(),
            inbound: Inbound::default(),
            outbound,
            mtu: search.map(|search| PathMtu::new(search, ipv4, mtu)),
            rtt: Rtt::default(),
            unacknowledged: 0,
            ack_due: None,
            backoff: 0,
            last_call: Instant::ZERO,
            next_at_rate: Instant::ZERO,
            events: VecDeque::new(),
            rng,
            spec,
        }
    }

    /// What the flow is.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The initiator begins the handshake.
    pub fn open(&mut self) {
        if self.state == State::Idle && self.role == Role::Initiator {
            self.state = State::Opening;
            self.opening_pending = true;
        }
    }

    /// The application writes `bytes`.
    pub fn write(&mut self, bytes: u64) {
        self.outbound.write(bytes);
    }

    /// The application has nothing more to write.
    pub fn close(&mut self) {
        self.outbound.end();
    }

    /// Bytes that were written and never sent.
    pub fn unsent(&self) -> u64 {
        self.outbound.unsent()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    /// A UDP payload arrives; what is no packet of the flow is passed over.
    pub fn receive(&mut self, now: Instant, payload: &[u8]) {
        let Some(packet) = Arriving::read(self.spec.shape(), payload) else {
            return;
        };
        if let Some(opening) = packet.frames.opening {
            self.receive_opening(now, opening, &packet);
            return;
        }
        if self.state != State::Open || packet.connection != self.connection {
            return;
        }
        let arrival = self.received.take(packet.number, now);
        if arrival == Arrival::Repeated {
            return;
        }
        self.signals.arrived(now, packet.number, packet.shown);
        if let Some(ack) = &packet.frames.ack {
            let outcome = self.outbound.acked(now, ack, &self.rtt);
            if let Some(rtt) = outcome.rtt {
                self.rtt.add(rtt, ack.held.min(ACK_DELAY));
                if let Some(mtu) = &mut self.mtu {
                    mtu.measured(rtt);
                }
                self.events.push_back(ModelEvent::RttSample(rtt));
            }
            if outcome.newly_acked {
                self.backoff = 0;
            }
            self.note_lost(outcome.lost);
            if let Some(mtu) = &mut self.mtu {
                mtu.acked(now, ack);
            }
        }
        if let Some(chunk) = packet.frames.chunk {
            self.receive_chunk(now, chunk, arrival);
        }
        if packet.frames.ping {
            // What probes is to know soon.
            self.ack_due = Some(now);
        }
    }

    fn receive_opening(&mut self, now: Instant, opening: Opening, packet: &Arriving) {
        match (opening, self.role) {
            (Opening::Hello, Role::Responder) => {
                if self.state == State::Idle {
                    self.connection = packet.connection;
                    self.signals.open_in(now, packet.number, false);
                    self.establish(now, packet.number);
                }
                // A second hello says that the answer was lost.
                self.opening_pending |= packet.connection == self.connection;
            }
            (Opening::Answer, Role::Initiator)
                if self.state == State::Opening && packet.connection == self.connection =>
            {
                self.signals.open_in(now, packet.number, true);
                // After a second hello it is unknown which one was answered.
                if self.backoff == 0 {
                    self.rtt.add(now.since(self.last_call), Duration::ZERO);
                }
                self.establish(now, packet.number);
            }
            _ => {}
        }
    }

    fn establish(&mut self, now: Instant, number: u32) {
        self.received.take(number, now);
        self.state = State::Open;
        self.backoff = 0;
        self.next_at_rate = now;
        self.events.push_back(ModelEvent::Established);
    }

    fn receive_chunk(&mut self, now: Instant, chunk: Chunk, arrival: Arrival) {
        let brought = self.inbound.take(chunk);
        if brought.bytes > 0 {
            self.events.push_back(ModelEvent::Delivered(brought.bytes));
        }
        if brought.end {
            self.events.push_back(ModelEvent::PeerFinished);
        }
        self.unacknowledged += 1;
        // RFC 9000 §13.2.1: at once if the packet is out of order.
        let now_due = arrival == Arrival::OutOfOrder
            || self.unacknowledged >= self.spec.ack_every()
            || brought.end;
        let due = if now_due { now } else { now + ACK_DELAY };
        self.ack_due = Some(self.ack_due.map_or(due, |known| known.min(due)));
    }

    fn note_lost(&mut self, lost: u32) {
        if lost > 0 {
            self.events.push_back(ModelEvent::Lost(lost));
        }
        self.judge_size();
    }

    /// Reports to the search what became of packets of data.
    fn judge_size(&mut self) {
        let around = self.around();
        if let (Some(mtu), Some(fates)) = (&mut self.mtu, &mut self.outbound.fates) {
            for (len, arrived) in fates.drain(..) {
                mtu.data(len + around, arrived);
            }
        }
    }

    /// Writes the next packet to be sent now into `out`, which is emptied
    /// first: all but the zeros at its end. Its UDP payload's whole length.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<u32> {
        if self.opening_pending {
            return Some(self.send_opening(now, out));
        }
        if self.state != State::Open {
            return None;
        }
        if let Some(length) = self.send_probe(now, out) {
            return Some(length);
        }
        let piece = self.next_piece(now);
        let ack_due = self.ack_due.is_some_and(|due| due <= now);
        if piece.is_none() && !ack_due {
            return None;
        }
        let frames = Frames {
            opening: None,
            // What goes anyway takes a waiting acknowledgement along.
            ack: self.ack_due.and_then(|_| self.received.ack(now)),
            chunk: piece,
            ping: false,
        };
        if frames.ack.is_some() {
            self.ack_due = None;
            self.unacknowledged = 0;
        }
        let number = self.number();
        if let Some(chunk) = piece {
            self.outbound.sent(now, number, chunk);
            self.last_call = now;
        }
        let counts = (self.outbound.lost, self.outbound.spurious);
        let shown = self.signals.out(now, number, counts, &mut self.rng);
        self.put(out, number, shown, &frames);
        let zeros = piece.map_or(0, |chunk| u32::from(chunk.len));
        let length = out.len() as u32 + zeros;
        // A full piece fills its packet, with an acknowledgement or without.
        let full = zeros == u32::from(self.room());
        Some(if full { self.size() } else { length })
    }

    /// The probe of a size that is due. The window does not hold it back, and its loss is none of
    /// the stream's (RFC 9000 §14.4).
    fn send_probe(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<u32> {
        let mtu = self.mtu.as_mut()?;
        if self.outbound.waits() && !self.rtt.smoothed.is_zero() {
            mtu.begin(now);
        }
        let probe = mtu.poll(now)?;
        let number = self.next_number;
        mtu.sent(number, probe);
        self.next_number = number.wrapping_add(1);
        let frames = Frames {
            ping: true,
            ..Frames::default()
        };
        let counts = (self.outbound.lost, self.outbound.spurious);
        let shown = self.signals.out(now, number, counts, &mut self.rng);
        self.put(out, number, shown, &frames);
        Some(u32::from(probe.size))
    }

    /// What is to be sent now of the stream.
    fn next_piece(&mut self, now: Instant) -> Option<Chunk> {
        if !self.outbound.waits() || !self.may_send(now) {
            return None;
        }
        let (chunk, again) = self.outbound.piece(self.room())?;
        if let Pace::Rate(rate) = self.spec.pace() {
            let gap = rate.time_for(u64::from(self.size()));
            // What was missed is not caught up with.
            let from = match now.since(self.next_at_rate) > gap {
                true => now,
                false => self.next_at_rate,
            };
            self.next_at_rate = from + gap;
        }
        if again {
            let bytes = u32::from(chunk.len);
            self.events.push_back(ModelEvent::Retransmitted(bytes));
        }
        Some(chunk)
    }

    fn may_send(&self, now: Instant) -> bool {
        match self.spec.pace() {
            Pace::Window(window) => self.outbound.in_flight() < window,
            Pace::Rate(_) => self.next_at_rate <= now,
        }
    }

    /// Bytes of UDP payload in a full packet.
    fn size(&self) -> u32 {
        let found = self.mtu.as_ref().map(PathMtu::size);
        found.unwrap_or_else(|| self.spec.size())
    }

    /// Bytes around those of the stream in a full packet.
    fn around(&self) -> u16 {
        let header = match self.spec.shape() {
            Shape::Quic => quic_model::SHORT_LEN,
            Shape::Plus => plus::HEADER_LEN,
        };
        (header + OVERHEAD) as u16
    }

    /// Bytes of the stream in a full packet: always with room for an
    /// acknowledgement, so that all pieces are alike.
    fn room(&self) -> u16 {
        self.size() as u16 - self.around()
    }

    fn send_opening(&mut self, now: Instant, out: &mut Vec<u8>) -> u32 {
        let answer = self.role == Role::Responder;
        let number = self.number();
        if !self.opened {
            self.opened = true;
            self.signals.open_out(now, number, answer);
        }
        self.opening_pending = false;
        self.last_call = now;
        let frames = Frames {
            opening: Some(if answer {
                Opening::Answer
            } else {
                Opening::Hello
            }),
            ..Frames::default()
        };
        self.put(out, number, Shown::default(), &frames);
        // RFC 9000 §14.1: both are padded.
        self.spec.size().max(out.len() as u32)
    }

    fn number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        number
    }

    /// Writes header and frames.
    fn put(&self, out: &mut Vec<u8>, number: u32, shown: Shown, frames: &Frames) {
        out.clear();
        match (self.spec.shape(), frames.opening) {
            (Shape::Quic, None) => QuicModel::Short {
                connection: self.connection,
                number,
                shown,
            }
            .write(out),
            (Shape::Quic, Some(opening)) => QuicModel::Long {
                connection: self.connection,
                number,
                answer: opening == Opening::Answer,
            }
            .write(out),
            (Shape::Plus, _) => Plus {
                token: self.connection,
                serial: number,
                echo: self.received.latest(),
                spin: shown.spin,
                vec: shown.vec,
                flags: Flags {
                    stop: frames.chunk.is_some_and(|chunk| chunk.fin),
                    ..Flags::default()
                },
                field: None,
            }
            .write(out),
        }
        frames.write(out);
    }

    /// When something happens by itself.
    pub fn next_timeout(&self) -> Option<Instant> {
        let opening = (self.state == State::Opening).then(|| self.timeout_at());
        let in_flight = self.outbound.in_flight() > 0;
        let loss = self.outbound.loss_time(&self.rtt).filter(|_| in_flight);
        let probe = (in_flight && loss.is_none()).then(|| self.timeout_at());
        let paced = match self.spec.pace() {
            Pace::Rate(_) if self.state == State::Open && self.outbound.waits() => {
                Some(self.next_at_rate)
            }
            _ => None,
        };
        let open = self.state == State::Open;
        let mtu = self.mtu.as_ref().filter(|_| open);
        let mtu = mtu.and_then(PathMtu::timeout);
        [opening, loss, probe, paced, self.ack_due, mtu]
            .into_iter()
            .flatten()
            .min()
    }

    fn timeout_at(&self) -> Instant {
        let since = self.outbound.last_sent().unwrap_or(self.last_call);
        let timeout = self
            .rtt
            .probe_timeout(ACK_DELAY)
            .max(self.spec.least_timeout());
        since + timeout * (1 << self.backoff)
    }

    /// The time has come that [`next_timeout`](Self::next_timeout) named. What
    /// it leads to is sent by [`poll_transmit`](Self::poll_transmit).
    pub fn on_timeout(&mut self, now: Instant) {
        if self.state == State::Opening && self.timeout_at() <= now {
            self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
            self.opening_pending = true;
            self.events.push_back(ModelEvent::Timeout);
        }
        if let Some(mtu) = &mut self.mtu {
            mtu.on_timeout(now);
        }
        if self.state != State::Open || self.outbound.in_flight() == 0 {
            return;
        }
        match self.outbound.loss_time(&self.rtt) {
            Some(at) if at <= now => {
                let lost = self.outbound.detect(now, &self.rtt);
                self.note_lost(lost);
            }
            Some(_) => {}
            None if self.timeout_at() <= now => {
                // RFC 9002 §6.2.4 lets a sender take all that is on its way for
                // lost in place of one probe. A path that loses one packet after
                // the other until some have passed would starve probes.
                self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
                self.outbound.declare_all_lost();
                self.events.push_back(ModelEvent::Timeout);
                self.judge_size();
            }
            None => {}
        }
    }

    /// A sample of the sender.
    pub fn sample(&self) -> FlowSample {
        let (window, pacing) = match self.spec.pace() {
            Pace::Window(window) => (window, 0),
            Pace::Rate(rate) => (self.outbound.in_flight(), rate.as_bytes()),
        };
        FlowSample {
            cwnd: window,
            ssthresh: u32::MAX,
            in_flight: self.outbound.in_flight(),
            srtt: self.rtt.smoothed,
            latest_rtt: self.rtt.latest,
            min_rtt: self.rtt.least,
            pacing_rate: pacing,
            delivery_rate: 0,
            bytes_acked: self.outbound.acked_bytes,
            retransmits: self.outbound.retransmitted,
            delivered: self.outbound.acked_packets,
            delivered_ce: 0,
            ca_state: 0,
        }
    }
}

/// A packet as it arrives.
struct Arriving {
    connection: u64,
    number: u32,
    shown: Shown,
    frames: Frames,
}

impl Arriving {
    fn read(shape: Shape, payload: &[u8]) -> Option<Self> {
        let (connection, number, shown, header) = match shape {
            Shape::Quic => {
                let header = QuicModel::parse(payload).ok()?;
                let len = header.len();
                match header {
                    QuicModel::Long {
                        connection, number, ..
                    } => (connection, number, Shown::default(), len),
                    QuicModel::Short {
                        connection,
                        number,
                        shown,
                    } => (connection, number, shown, len),
                }
            }
            Shape::Plus => {
                let header = Plus::parse(payload).ok()?;
                let shown = Shown {
                    spin: header.spin,
                    vec: header.vec,
                    ..Shown::default()
                };
                (header.token, header.serial, shown, header.len())
            }
        };
        Some(Self {
            connection,
            number,
            shown,
            frames: Frames::parse(payload.get(header..)?)?,
        })
    }
}
