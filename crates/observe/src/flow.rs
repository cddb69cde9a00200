//! What is kept of one flow.

mod counts;
mod estimators;
mod facts;
mod way;

use std::net::IpAddr;

use narrows_wire::TcpFlags;
use narrows_wire::efm::Profile;

pub(crate) use self::estimators::{Estimators, Opening, Passed};
use self::way::{Order, Way};
use crate::classify::{Above, FlowEnds, Packet, Segment};
use crate::config::ObserverConfig;
use crate::probes::Room;
use crate::quic::{self, Quic};
use crate::sample::{Measured, Now, Sample, Side};
use crate::signals::{Signals, count_packets};
use crate::spin::SpinClass;
use crate::visible::{self, Visible};

/// A flow's number: the order in which flows were first seen, from 0. A
/// connection that reuses the ports of an ended one has a number of its own.
pub type ObservedFlowId = u64;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// A SYN, and nothing from the other side.
    Starting,
    /// Packets of an open connection, or of a flow that is not TCP.
    Up,
    /// One side has sent FIN.
    Closing,
    /// Both have, or there was an RST.
    Closed,
}

impl FlowState {
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

/// A flow: both directions between two ends.
///
/// Where flows are many, the lines of the cache that a packet touches are what
/// it costs. So what every packet needs is in the first line, in the line of
/// its direction and in the one after these.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flow {
    pub(crate) ends: FlowEnds,
    pub(crate) last_at: u64,
    state: FlowState,
    profile: Profile,
    low_opened: bool,
    pub(crate) role_known: bool,
    /// Whether the initiator has acknowledged the handshake.
    opened: bool,
    /// Whether its counts are kept in a ledger.
    counted: bool,
    /// Codes that SYN and SYN-ACK announced.
    codes: [Option<u8>; 2],
    /// What is known of its handshake, if it is QUIC.
    pub(crate) quic: Option<Quic>,
    ways: [Way; 2],
    pub(crate) estimators: Estimators,
    /// Over UDP: a transport that shows its packet numbers.
    pub(crate) visible: Option<Box<Visible>>,
    syn: Option<u32>,
    id: ObservedFlowId,
    pub(crate) first_at: u64,
}

/// Packets of each side by ECN codepoint.
pub(crate) type EcnCounts = [[u32; 4]; 2];

impl Flow {
    pub(crate) fn new(packet: &Packet<'_>, id: ObservedFlowId, at: u64) -> Self {
        let flags = packet.segment().map_or(TcpFlags(0), |s| s.flags);
        let syn = flags.has(TcpFlags::SYN);
        let payload = packet.datagram();
        let opening = payload.and_then(visible::opening);
        let answers = syn && flags.has(TcpFlags::ACK) || opening == Some(true);
        let opens = syn || opening.is_some() || quic::opens(packet);
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
            state: if syn {
                FlowState::Starting
            } else {
                FlowState::Up
            },
            profile: Profile::NONE,
            low_opened,
            role_known: opens,
            opened: false,
            counted: false,
            codes: [None; 2],
            quic: quic::begins(packet).then(Quic::default),
            ways: Default::default(),
            estimators: Estimators::default(),
            visible: payload.and_then(Visible::of).map(Box::new),
            syn: None,
            id,
            first_at: at,
        }
    }

    /// Frees what it holds.
    pub(crate) fn forget(&mut self) {
        self.estimators = Estimators::default();
        self.visible = None;
    }

    /// Its number.
    pub fn id(&self) -> ObservedFlowId {
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
        let signals = self.estimators.signals.as_ref();
        signals.map_or(SpinClass::Unknown, |m| m.spin_class())
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
            FlowState::Starting => own && !same,
            FlowState::Up => !(own && same),
            FlowState::Closing | FlowState::Closed => true,
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
        config: &ObserverConfig,
        room: &mut Room,
        out: &mut Vec<Sample>,
    ) {
        match &packet.above {
            Above::Tcp(segment) => {
                let passed = self.segment(packet, segment, now, config);
                if passed.counting {
                    let early = self.counts_before(passed.side, packet.ecn);
                    self.estimators.begin_ledger(&early);
                }
                self.estimators.segment(&passed, config, room, out);
            }
            Above::Udp(payload) => {
                let side = self.pass(packet, now);
                let counts = self.estimators.signals.as_ref().is_some_and(|m| m.counts());
                if self.begins_counting(counts) {
                    let early = self.counts_before(side, packet.ecn);
                    self.estimators.begin_ledger(&early);
                }
                self.estimators.count(side, packet.ecn);
                let begun = out.len();
                if !self.numbered(side, payload, now, config, out) {
                    self.datagram(side, packet, now, config, out);
                }
                self.estimators.take(out, begun, false);
            }
        }
    }

    /// Counts a packet, and says whose it is.
    fn pass(&mut self, packet: &Packet<'_>, now: Now) -> Side {
        self.last_at = self.last_at.max(now.at);
        let side = self.side(packet.from_low);
        let way = &mut self.ways[side.index()];
        way.packets += 1;
        way.bytes += u64::from(packet.length);
        let ecn = &mut way.ecn[packet.ecn as usize];
        *ecn = ecn.saturating_add(1);
        side
    }

    /// A datagram of a transport that shows its packet numbers; whether the
    /// flow is of one.
    fn numbered(
        &mut self,
        side: Side,
        payload: &[u8],
        now: Now,
        config: &ObserverConfig,
        out: &mut Vec<Sample>,
    ) -> bool {
        let floor = self.estimators.floor();
        let Some(visible) = &mut self.visible else {
            return false;
        };
        let Some(seen) = visible.read(side, payload) else {
            return true;
        };
        if let Some(serials) = seen.serials {
            let begun = out.len();
            visible.serials.packet(side, serials, now, out);
            for sample in &out[begun..] {
                if let Measured::Rtt(rtt) = sample.value {
                    let means = &mut visible.serials.means;
                    estimators::add(means, sample.quantity, rtt.as_millis_f64());
                }
            }
        }
        let loss = visible.shows_loss();
        let Estimators {
            signals, batches, ..
        } = &mut self.estimators;
        let signals = signals.get_or_insert_with(|| Box::new(Signals::visible(loss, config)));
        let batches = batches.as_deref_mut();
        let bits = (seen.bits, (0, 0));
        signals.packet(side, bits, seen.newer, floor, now, batches, out);
        true
    }

    /// A segment of the flow: keeps what is known of the connection, and gives
    /// what the estimators need to know of it.
    #[inline]
    pub(crate) fn segment(
        &mut self,
        packet: &Packet<'_>,
        segment: &Segment,
        now: Now,
        config: &ObserverConfig,
    ) -> Passed {
        let side = self.pass(packet, now);
        let counts = count_packets(self.profile.bits());
        let counting = self.begins_counting(counts);
        let flags = segment.flags;
        let newest = self.ways[side.index()].end;
        let mut passed = Passed {
            now,
            segment: *segment,
            newest,
            side,
            ecn: packet.ecn,
            order: Order::default(),
            profile: self.profile,
            marked: false,
            counting,
            opening: Opening::None,
        };
        if flags.has(TcpFlags::RST) {
            self.state = FlowState::Closed;
            return passed;
        }
        passed.order = self.ways[side.index()].order(segment);
        if flags.has(TcpFlags::SYN) {
            passed.opening = self.opening(side, segment, config);
            return passed;
        }
        if self.state == FlowState::Starting {
            self.state = FlowState::Up;
        }
        if !self.opened && side == Side::Initiator && flags.has(TcpFlags::ACK) {
            self.opened = true;
            passed.opening = Opening::Acknowledged;
        }
        passed.marked = !self.profile.is_none();
        if let Some(profile) = config.profile {
            self.profile = profile;
        }
        passed.profile = self.profile;
        if flags.has(TcpFlags::FIN) {
            self.ways[side.index()].fin = true;
            self.state = if self.ways[side.other().index()].fin {
                FlowState::Closed
            } else {
                FlowState::Closing
            };
        }
        passed
    }

    /// A SYN or SYN-ACK.
    fn opening(&mut self, side: Side, segment: &Segment, config: &ObserverConfig) -> Opening {
        let code = segment.flags.announced_code();
        let opening = if segment.flags.has(TcpFlags::ACK) {
            self.codes[1] = Some(code);
            if self.state == FlowState::Starting {
                self.state = FlowState::Up;
            }
            Opening::Answered
        } else {
            if side == Side::Initiator {
                self.syn = Some(segment.seq);
                self.codes[0] = Some(code);
            }
            Opening::Asked
        };
        self.profile = match (config.profile, self.codes) {
            (Some(profile), _) => profile,
            (None, [Some(asked), Some(answered)])
                if asked == answered || config.negotiated && asked != 0 =>
            {
                Profile::announced_by(answered)
            }
            _ => Profile::NONE,
        };
        opening
    }
}
