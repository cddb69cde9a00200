//! What is kept of one flow.

mod counts;
mod facts;
mod touch;
mod way;

use std::net::IpAddr;

use narrows_units::Duration;
use narrows_wire::efm::Profile;
use narrows_wire::{Ecn, TcpFlags};

use self::way::{Order, Way};
use crate::classify::{Above, Ends, Packet, Segment};
use crate::config::Config;
use crate::handshake::Handshake;
use crate::ledger::Ledger;
use crate::marks::Marks;
use crate::mean::{Mean, RttMeans};
use crate::quic::{self, Quic};
use crate::sample::{Measured, Now, Quantity, Sample, Side, Technique};
use crate::seq_ack::SeqAck;
use crate::spin::SpinClass;
use crate::timestamps::Timestamps;
use crate::visible::{self, Visible};

/// A flow's number: the order in which flows were first seen, from 0. A
/// connection that reuses the ports of an ended one has a number of its own.
pub type FlowId = u64;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN, and nothing from the other side.
    Starting,
    /// Packets of an open connection, or of a flow that is not TCP.
    Up,
    /// One side has sent FIN.
    Closing,
    /// Both have, or there was an RST.
    Closed,
}

impl State {
    /// The word for it in every output (spindump's).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Up => "Up",
            Self::Closing => "Closing",
            Self::Closed => "Closed",
        }
    }
}

/// Why an observer lets go of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was silent for too long.
    Idle,
    /// The table was full, and it was silent longest.
    Evicted,
    /// Its ports began another connection.
    Reused,
    /// The observer stops.
    Finished,
}

/// Round trips by timestamps, and their means.
#[derive(Debug, Default)]
pub(crate) struct Stamped {
    pub timestamps: Timestamps,
    pub all: Option<Box<RttMeans>>,
    pub single: Option<Box<[Mean; 2]>>,
}

/// Round trips by acknowledgements, and their means.
#[derive(Debug, Default)]
pub(crate) struct Acked {
    pub seq_ack: SeqAck,
    pub left: Mean,
    pub right: Mean,
}

/// A flow: both directions between two ends.
///
/// Where flows are many, the lines of the cache that a packet touches are what
/// it costs. So what every packet needs stands in the first line, in the line of
/// its direction and in the one after these; the handshake comes last.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flow {
    pub(crate) ends: Ends,
    pub(crate) last_at: u64,
    pub(crate) stamped: Option<Box<Stamped>>,
    pub(crate) acked: Option<Box<Acked>>,
    ways: [Way; 2],
    pub(crate) marks: Option<Box<Marks>>,
    ledger: Option<Box<Ledger>>,
    /// Over UDP: a transport that shows its packet numbers.
    pub(crate) visible: Option<Box<Visible>>,
    /// The least full round trip that is sure, for judging edges.
    floor: u64,
    state: State,
    profile: Profile,
    low_opened: bool,
    pub(crate) role_known: bool,
    /// Whether the initiator has acknowledged the handshake.
    opened: bool,
    /// Codes that SYN and SYN-ACK announced.
    codes: [Option<u8>; 2],
    /// What is known of its handshake, if it is QUIC.
    pub(crate) quic: Option<Quic>,
    syn: Option<u32>,
    id: FlowId,
    pub(crate) first_at: u64,
    pub(crate) handshake: Handshake,
}

impl Flow {
    pub(crate) fn new(packet: &Packet<'_>, id: FlowId, at: u64) -> Self {
        let flags = packet.segment().map_or(TcpFlags(0), |s| s.flags);
        let syn = flags.has(TcpFlags::SYN);
        let payload = packet.datagram();
        let opening = payload.and_then(visible::opening);
        let answers = syn && flags.has(TcpFlags::ACK) || opening == Some(true);
        let opens = syn || opening.is_some() || payload.is_some_and(quic::opens);
        let (low, high) = (packet.ends.low().1, packet.ends.high().1);
        let low_opened = match (opens, low.cmp(&high)) {
            (true, _) => packet.from_low != answers,
            // Without a handshake: the higher port asked, else who is seen first.
            (false, std::cmp::Ordering::Equal) => packet.from_low,
            (false, order) => order.is_gt(),
        };
        Self {
            ends: packet.ends,
            last_at: at,
            stamped: None,
            acked: None,
            ways: Default::default(),
            marks: None,
            ledger: None,
            visible: payload.and_then(Visible::of).map(Box::new),
            floor: u64::MAX,
            state: if syn { State::Starting } else { State::Up },
            profile: Profile::NONE,
            low_opened,
            role_known: opens,
            opened: false,
            codes: [None; 2],
            quic: payload.is_some_and(quic::begins).then(Quic::default),
            syn: None,
            id,
            first_at: at,
            handshake: Handshake::default(),
        }
    }

    /// Frees what it holds.
    pub(crate) fn forget(&mut self) {
        (self.stamped, self.acked, self.marks, self.ledger) = (None, None, None, None);
        self.visible = None;
    }

    /// Its number.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Address and port of one end. Without a handshake in sight, the
    /// initiator is the end with the higher port.
    pub fn end(&self, side: Side) -> (IpAddr, u16) {
        if (side == Side::Initiator) == self.low_opened {
            self.ends.low()
        } else {
            self.ends.high()
        }
    }

    /// What its spin bit does; unknown where none was announced.
    pub fn spin_class(&self) -> SpinClass {
        self.marks
            .as_ref()
            .map_or(SpinClass::Unknown, |m| m.spin_class())
    }

    /// Whether `packet` begins another connection on this flow's ports.
    pub(crate) fn is_over_by(&self, packet: &Packet<'_>) -> bool {
        let Some(segment) = packet.segment() else {
            return false;
        };
        if !segment.flags.has(TcpFlags::SYN) || segment.flags.has(TcpFlags::ACK) {
            return false;
        }
        // The initiator's SYN again, or the SYN of a simultaneous open, belongs to it.
        let same = self.syn.is_none_or(|isn| isn == segment.seq);
        let own = self.side(packet.from_low) == Side::Initiator;
        match self.state {
            State::Starting => own && !same,
            State::Up => !(own && same),
            State::Closing | State::Closed => true,
        }
    }

    fn side(&self, from_low: bool) -> Side {
        if from_low == self.low_opened {
            Side::Initiator
        } else {
            Side::Responder
        }
    }

    /// A packet of the flow. Adds the samples that it completes to `out`.
    pub(crate) fn packet(
        &mut self,
        packet: &Packet<'_>,
        now: Now,
        config: &Config,
        out: &mut Vec<Sample>,
    ) {
        self.last_at = self.last_at.max(now.at);
        let side = self.side(packet.from_low);
        let way = &mut self.ways[side.index()];
        way.packets += 1;
        way.bytes += u64::from(packet.length);
        let ecn = &mut way.ecn[packet.ecn as usize];
        *ecn = ecn.saturating_add(1);
        let begun = out.len();
        match &packet.above {
            Above::Tcp(segment) => self.segment(side, segment, packet.ecn, now, config, out),
            Above::Udp(payload) => {
                self.count(side, packet.ecn);
                if !self.numbered(side, payload, now, config, out) {
                    self.datagram(side, payload, packet.length, now, config, out);
                }
            }
        }
        self.take(&out[begun..]);
    }

    /// A datagram of a transport that shows its packet numbers; whether the
    /// flow is of one.
    fn numbered(
        &mut self,
        side: Side,
        payload: &[u8],
        now: Now,
        config: &Config,
        out: &mut Vec<Sample>,
    ) -> bool {
        let floor = self.floor();
        let Some(visible) = &mut self.visible else {
            return false;
        };
        let Some(seen) = visible.read(side, payload) else {
            return true;
        };
        if let Some(serials) = seen.serials {
            visible.serials.packet(side, serials, now, out);
        }
        let loss = visible.shows_loss();
        let marks = self
            .marks
            .get_or_insert_with(|| Box::new(Marks::visible(loss, config)));
        let ledger = self.ledger.as_deref_mut();
        let bits = (seen.bits, (0, 0));
        marks.packet(side, bits, seen.newer, floor, now, ledger, out);
        true
    }

    fn segment(
        &mut self,
        side: Side,
        segment: &Segment,
        ecn: Ecn,
        now: Now,
        config: &Config,
        out: &mut Vec<Sample>,
    ) {
        let flags = segment.flags;
        self.count(side, ecn);
        if flags.has(TcpFlags::RST) {
            self.state = State::Closed;
            return;
        }
        let newest = self.ways[side.index()].end;
        let order = self.ways[side.index()].order(segment);
        if flags.has(TcpFlags::SYN) {
            self.opening(side, segment, now, config, out);
        } else {
            if self.state == State::Starting {
                self.state = State::Up;
            }
            if !self.opened && side == Side::Initiator && flags.has(TcpFlags::ACK) {
                self.opened = true;
                self.handshake.ack(now, out);
            }
        }
        if let Some(pair) = segment.timestamps {
            let stamped = self.stamped.get_or_insert_with(Default::default);
            stamped.timestamps.packet(side, pair, now, out);
        }
        if flags.has(TcpFlags::SYN) {
            return;
        }
        let marked = !self.profile.is_none();
        if !(marked && config.mode == crate::config::Mode::Thesis) {
            self.acknowledged(side, segment, (order, newest), now, out);
        }
        if marked || config.profile.is_some() {
            self.marked(side, segment, order, now, config, out);
        }
        if flags.has(TcpFlags::FIN) {
            self.ways[side.index()].fin = true;
            self.state = if self.ways[side.other().index()].fin {
                State::Closed
            } else {
                State::Closing
            };
        }
    }

    /// A SYN or SYN-ACK.
    fn opening(
        &mut self,
        side: Side,
        segment: &Segment,
        now: Now,
        config: &Config,
        out: &mut Vec<Sample>,
    ) {
        let code = segment.flags.announced_code();
        if segment.flags.has(TcpFlags::ACK) {
            self.handshake.syn_ack(now, out);
            self.codes[1] = Some(code);
            if self.state == State::Starting {
                self.state = State::Up;
            }
        } else {
            self.handshake.syn(now);
            if side == Side::Initiator {
                self.syn = Some(segment.seq);
                self.codes[0] = Some(code);
            }
        }
        self.profile = match (config.profile, self.codes) {
            (Some(profile), _) => profile,
            (None, [Some(asked), Some(answered)])
                if asked == answered || config.negotiated && asked != 0 =>
            {
                Profile::announced_by(answered)
            }
            _ => Profile::NONE,
        };
    }

    fn acknowledged(
        &mut self,
        side: Side,
        segment: &Segment,
        (order, newest): (Order, u32),
        now: Now,
        out: &mut Vec<Sample>,
    ) {
        if segment.payload > 0 {
            let acked = self.acked.get_or_insert_with(Default::default);
            if order.new_data {
                acked.seq_ack.data(side, segment.end(), now);
            } else {
                acked.seq_ack.again(side, newest);
            }
        }
        if let (Some(acked), true) = (&mut self.acked, segment.flags.has(TcpFlags::ACK)) {
            acked.seq_ack.ack(side, segment.ack, now, out);
        }
    }

    fn marked(
        &mut self,
        side: Side,
        segment: &Segment,
        order: Order,
        now: Now,
        config: &Config,
        out: &mut Vec<Sample>,
    ) {
        if let Some(profile) = config.profile {
            self.profile = profile;
        }
        let floor = self.floor();
        let marks = self.marks.get_or_insert_with(|| {
            let mut marks = Box::new(Marks::new(self.profile, config));
            if let Some(right) = self.handshake.parts().1 {
                marks.reached(Side::Responder, right.as_nanos());
            }
            marks
        });
        let ledger = self.ledger.as_deref_mut();
        let bits = (segment.flags.measurement_bits(), (segment.seq, segment.ack));
        marks.packet(side, bits, order.newer, floor, now, ledger, out);
    }

    /// The least full round trip that is sure, in nanoseconds.
    pub(crate) fn floor(&self) -> Option<u64> {
        (self.floor != u64::MAX).then_some(self.floor)
    }

    /// A round trip between the observer and one end, for pairing blocks.
    fn reached(&mut self, part: Quantity, rtt: Duration) {
        let side = match part {
            Quantity::LeftRtt => Side::Initiator,
            Quantity::RightRtt => Side::Responder,
            _ => return,
        };
        if let Some(marks) = &mut self.marks {
            marks.reached(side, rtt.as_nanos());
        }
    }

    /// Adds samples to the means of their techniques.
    fn take(&mut self, samples: &[Sample]) {
        for sample in samples {
            let Measured::Rtt(rtt) = sample.value else {
                continue;
            };
            let ms = rtt.as_millis_f64();
            let full = matches!(sample.quantity, Quantity::FullRtt(_));
            match sample.technique {
                Technique::Handshake => {
                    self.handshake.keep(sample.quantity, rtt);
                    self.reached(sample.quantity, rtt);
                }
                Technique::SeqAck => {
                    self.reached(sample.quantity, rtt);
                    if let Some(acked) = &mut self.acked {
                        match sample.quantity {
                            Quantity::LeftRtt => acked.left.add(ms),
                            _ => acked.right.add(ms),
                        }
                    }
                }
                Technique::TsAll => {
                    if let Some(stamped) = &mut self.stamped {
                        add(&mut stamped.all, sample.quantity, ms);
                    }
                }
                Technique::TsSingle => {
                    if let (Some(stamped), Quantity::FullRtt(side)) =
                        (&mut self.stamped, sample.quantity)
                    {
                        let means = stamped.single.get_or_insert_with(Default::default);
                        means[side.index()].add(ms);
                    }
                }
                Technique::PsnPse => {
                    if let Some(visible) = &mut self.visible {
                        add(&mut visible.serials.means, sample.quantity, ms);
                    }
                }
                _ => {
                    if let Some(marks) = &mut self.marks {
                        add(marks.means(sample.technique), sample.quantity, ms);
                    }
                    continue;
                }
            }
            if full {
                self.floor = self.floor.min(rtt.as_nanos());
            }
        }
    }
}

fn add(means: &mut Option<Box<RttMeans>>, quantity: Quantity, ms: f64) {
    let means = means.get_or_insert_with(Default::default);
    match quantity {
        Quantity::FullRtt(side) => means.full[side.index()].add(ms),
        Quantity::LeftRtt => means.left.add(ms),
        _ => means.right.add(ms),
    }
}
