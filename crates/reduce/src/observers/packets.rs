//! What happened to every packet of the flows of a run: the truth that
//! observers are held against.

#[cfg(test)]
mod tests;

use narrows_core::{EntityId, FlowId, Packet};
use narrows_observe::{Measured, Quantity, Sample, Side};
use narrows_scenario::Plan;
use narrows_units::Instant;

use super::window::Span;

const NEVER: u64 = u64::MAX;
const NONE: u32 = u32::MAX;
/// A codepoint of the ECN field (RFC 3168).
const CE: u8 = 3;

/// One packet, times in nanoseconds of the run.
#[derive(Clone, Copy)]
struct Journey {
    sent: u64,
    received: u64,
    /// The packet of the other side that its sender had got last.
    latest: u32,
    flow: u32,
    /// Its place among those of its side.
    order: u32,
    /// 0 if the opener sent it, 1 if the answerer did.
    way: u8,
    dropped: bool,
    came_with_ce: bool,
}

const UNKNOWN: Journey = Journey {
    sent: NEVER,
    received: NEVER,
    latest: NONE,
    flow: NONE,
    order: NONE,
    way: 0,
    dropped: false,
    came_with_ce: false,
};

/// Packets of one side of a flow.
#[derive(Default)]
struct Way {
    /// Ids in the order of sending.
    sent: Vec<u32>,
    /// The newest that reached the other side.
    newest: Option<u32>,
}

/// When each packet passed one tap, by id: 8 bytes each.
#[derive(Default)]
pub(super) struct Passed(Vec<u64>);

impl Passed {
    /// The lowest bit says whether it had CE; the others are nanoseconds.
    const WITH_CE: u64 = 1;

    /// A packet passes.
    pub(super) fn pass(&mut self, now: Instant, packet: &Packet) {
        let id = packet.id.0 as usize;
        if self.0.len() <= id {
            self.0.resize(id + 1, NEVER);
        }
        let ce = if ecn(packet) == CE { Self::WITH_CE } else { 0 };
        self.0[id] = (now.as_nanos() << 1) + ce;
    }

    fn of(&self, id: u32) -> Option<u64> {
        self.0.get(id as usize).copied().filter(|p| *p != NEVER)
    }

    /// When it passed, in nanoseconds.
    fn at(&self, id: u32) -> Option<u64> {
        self.of(id).map(|p| p >> 1)
    }

    fn seen(&self, id: u32) -> bool {
        self.of(id).is_some()
    }

    fn with_ce(&self, id: u32) -> bool {
        self.of(id).is_some_and(|p| p & Self::WITH_CE != 0)
    }
}

/// All packets of a run, by id: 32 bytes each.
pub(super) struct PacketTable {
    journeys: Vec<Journey>,
    ways: Vec<[Way; 2]>,
    /// Opener and answerer of each flow.
    hosts: Vec<[EntityId; 2]>,
}

/// What a round trip was made of, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundTrip {
    /// The network's part.
    pub network: f64,
    /// How long the ends held the answer.
    pub dwell: f64,
}

impl PacketTable {
    pub(super) fn new(plan: &Plan, names: &[String]) -> Self {
        let entity = |host| {
            let name = format!("host/{}", plan.host(host).name);
            let at = names.iter().position(|n| *n == name);
            EntityId(at.map_or(NONE, |n| n as u32))
        };
        let hosts = plan.flows.iter().map(|flow| {
            let answers = if flow.opens == flow.from {
                flow.to
            } else {
                flow.from
            };
            [entity(flow.opens), entity(answers)]
        });
        Self {
            journeys: Vec::new(),
            ways: plan.flows.iter().map(|_| Default::default()).collect(),
            hosts: hosts.collect(),
        }
    }

    fn journey(&mut self, packet: &Packet) -> &mut Journey {
        let id = packet.id.0 as usize;
        if self.journeys.len() <= id {
            self.journeys.resize(id + 1, UNKNOWN);
        }
        // A copy that the path made was sent when its original was.
        if self.journeys[id].sent == NEVER {
            if let Some(parent) = packet.parent.and_then(|p| self.journeys.get(p.0 as usize)) {
                self.journeys[id] = Journey {
                    received: NEVER,
                    dropped: false,
                    came_with_ce: false,
                    ..*parent
                };
            }
        }
        &mut self.journeys[id]
    }

    pub(super) fn sent(&mut self, now: Instant, host: EntityId, packet: &Packet) {
        let Some(FlowId(flow)) = packet.flow else {
            return;
        };
        let Some(hosts) = self.hosts.get(flow as usize) else {
            return;
        };
        let Some(way) = hosts.iter().position(|h| *h == host) else {
            return;
        };
        let ways = &mut self.ways[flow as usize];
        let latest = ways[1 - way].newest.unwrap_or(NONE);
        let order = ways[way].sent.len() as u32;
        ways[way].sent.push(packet.id.0 as u32);
        let journey = Journey {
            sent: now.as_nanos(),
            latest,
            flow,
            order,
            way: way as u8,
            ..UNKNOWN
        };
        *self.journey(packet) = journey;
    }

    pub(super) fn received(&mut self, now: Instant, packet: &Packet) {
        let journey = self.journey(packet);
        journey.received = now.as_nanos();
        journey.came_with_ce = ecn(packet) == CE;
        let (flow, way) = (journey.flow as usize, usize::from(journey.way));
        if let Some(ways) = self.ways.get_mut(flow) {
            ways[way].newest = Some(packet.id.0 as u32);
        }
    }

    pub(super) fn dropped(&mut self, packet: &Packet) {
        self.journey(packet).dropped = true;
    }

    fn of(&self, id: u64) -> Option<&Journey> {
        self.journeys.get(id as usize).filter(|f| f.sent != NEVER)
    }

    /// What the network did to the two packets that bound a round trip, and in
    /// a full one to the packet between them. `None` if nothing arrived that
    /// could know.
    pub(super) fn round_trip(&self, sample: &Sample) -> Option<RoundTrip> {
        let Measured::Rtt(value) = sample.value else {
            return None;
        };
        let arrived = |f: &&Journey| f.received != NEVER;
        let (probe, answer) = (self.of(sample.first)?, self.of(sample.last)?);
        let ended = sample.at.as_nanos();
        let began = ended.checked_sub(value.as_nanos())?;
        let mut network = self.arrival(probe)?.checked_sub(began)?;
        network += ended.checked_sub(answer.sent)?;
        if let Quantity::FullRtt(_) = sample.quantity {
            let between = self.of(u64::from(answer.latest)).filter(arrived)?;
            network += between.received - between.sent;
        }
        let ms = |ns: u64| ns as f64 / 1e6;
        Some(RoundTrip {
            network: ms(network),
            dwell: ms(value.as_nanos().saturating_sub(network)),
        })
    }

    /// What the network took for a round trip on average, in milliseconds, over *every*
    /// packet that could have ended one, whether a technique took a sample of it or
    /// not: the packet's way from its sender to the tap, that of the packet which its
    /// sender had received last, and of a full round trip that of the one before. Of those
    /// that ended at the tap within `span`.
    pub(super) fn all_round_trips(
        &self,
        flow: usize,
        quantity: Quantity,
        passed: &Passed,
        span: Span,
    ) -> Option<f64> {
        let ends = match quantity {
            Quantity::FullRtt(side) => side,
            Quantity::LeftRtt => Side::Initiator,
            Quantity::RightRtt => Side::Responder,
            _ => return None,
        };
        let known = |id: u32| self.of(u64::from(id)).filter(|f| f.received != NEVER);
        // From the tap to its end, of the packet that began it.
        let beyond = |id: u32| known(id)?.received.checked_sub(passed.at(id)?);
        let trip = |id: u32| {
            let last = self.of(u64::from(id))?;
            let back = passed.at(id)?.checked_sub(last.sent)?;
            let Quantity::FullRtt(_) = quantity else {
                return Some(beyond(last.latest)? + back);
            };
            let between = known(last.latest)?;
            Some(beyond(between.latest)? + (between.received - between.sent) + back)
        };
        let ids = self.ways.get(flow)?[ends.index()].sent.iter();
        let inside = ids.filter(|id| passed.at(**id).is_some_and(|at| span.contains(at)));
        let (mut sum, mut n) = (0.0, 0u64);
        for ns in inside.filter_map(|id| trip(*id)) {
            sum += ns as f64 / 1e6;
            n += 1;
        }
        (n > 0).then(|| sum / n as f64)
    }

    /// When a packet arrived; of one that was lost, when it would have, had it
    /// taken as long as the next of its side that arrived. A round trip that
    /// began with a packet that was lost behind the observer is the less exact
    /// one: without its truth the worst errors would not be counted.
    fn arrival(&self, packet: &Journey) -> Option<u64> {
        if packet.received != NEVER {
            return Some(packet.received);
        }
        let way = &self.ways.get(packet.flow as usize)?[usize::from(packet.way)];
        let later = way.sent.get(packet.order as usize + 1..)?;
        let mut journeys = later.iter().filter_map(|id| self.of(u64::from(*id)));
        let next = journeys.find(|f| f.received != NEVER)?;
        Some(packet.sent + (next.received - next.sent))
    }

    /// The share of the packets between the two that bound a block, both
    /// counted, that was dropped before the tap. `None` for other quantities.
    pub(super) fn block(&self, sample: &Sample, passed: &Passed) -> Option<f64> {
        let Quantity::UpstreamLoss(_) = sample.quantity else {
            return None;
        };
        let (first, last) = (self.of(sample.first)?, self.of(sample.last)?);
        let way = &self.ways.get(first.flow as usize)?[usize::from(first.way)];
        let between = way.sent.get(first.order as usize..=last.order as usize)?;
        share(between, |_| true, |id| self.lost(id) && !passed.seen(id))
    }

    fn lost(&self, id: u32) -> bool {
        self.journeys.get(id as usize).is_some_and(|f| f.dropped)
    }

    /// What really happened to the packets of `flow` that were sent within `span`, for a rate.
    pub(super) fn rate(
        &self,
        flow: usize,
        quantity: Quantity,
        passed: &Passed,
        span: Span,
    ) -> Option<f64> {
        let ways = self.ways.get(flow)?;
        // Packets are sent one after the other.
        let way = |side: Side| {
            let ids = &ways[side.index()].sent;
            let sent = |id: &u32| self.of(u64::from(*id)).map_or(NEVER, |f| f.sent);
            let from = ids.partition_point(|id| sent(id) < span.from());
            &ids[from..][..ids[from..].partition_point(|id| span.contains(sent(id)))]
        };
        let upstream = |side| share(way(side), |_| true, |id| self.lost(id) && !passed.seen(id));
        let downstream = |side| share(way(side), |id| passed.seen(id), |id| self.lost(id));
        let end_to_end = |side| share(way(side), |_| true, |id| self.lost(id));
        let came = |id: u32| {
            self.journeys
                .get(id as usize)
                .is_some_and(|f| f.received != NEVER)
        };
        let came_ce = |id: u32| {
            self.journeys
                .get(id as usize)
                .is_some_and(|f| f.came_with_ce)
        };
        let both = |a: f64, b: f64| 1.0 - (1.0 - a) * (1.0 - b);
        match quantity {
            Quantity::UpstreamLoss(side) => upstream(side),
            Quantity::DownstreamLoss(side) => downstream(side),
            Quantity::EndToEndLoss(side) => end_to_end(side),
            Quantity::ThreeQuarterLoss(side) => {
                Some(both(end_to_end(side.other())?, upstream(side)?))
            }
            Quantity::HalfRoundTripLoss(side) => {
                Some(both(downstream(side)?, upstream(side.other())?))
            }
            Quantity::RoundTripLoss(side) => {
                Some(both(end_to_end(side)?, end_to_end(side.other())?))
            }
            Quantity::UpstreamCe(side) => {
                share(way(side), |id| passed.seen(id), |id| passed.with_ce(id))
            }
            Quantity::EndToEndCe(side) => share(way(side), came, came_ce),
            Quantity::DownstreamCe(side) => {
                share(way(side), |id| came(id) && !passed.with_ce(id), came_ce)
            }
            Quantity::FullRtt(_) | Quantity::LeftRtt | Quantity::RightRtt => None,
        }
    }
}

/// Of those of `ids` that are `of`, the share that is `hit`.
fn share(ids: &[u32], of: impl Fn(u32) -> bool, hit: impl Fn(u32) -> bool) -> Option<f64> {
    let (mut all, mut hits) = (0u64, 0u64);
    for id in ids.iter().copied().filter(|id| of(*id)) {
        all += 1;
        hits += u64::from(hit(id));
    }
    (all > 0).then(|| hits as f64 / all as f64)
}

/// The ECN field of an IP header.
fn ecn(packet: &Packet) -> u8 {
    match packet.bytes.as_slice() {
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 3,
        [_, second, ..] => second & 3,
        _ => 0,
    }
}
