//! The running radio: of a link, or of an access point.

use narrows_core::{
    Change, Element, ElementCounters, Event, EventSink, Outlet, Packet, Port, Reduce,
    TelemetryField,
};
use narrows_units::{Duration, Instant, Rng, WordError, Words};

use super::fifo::Fifo;
use super::medium::Medium;
use super::node::AccessPointSpec;
use super::scheduler::{AirtimeRule, DEFAULT_QUANTUM};
use super::spec::{CHANNELS_MCS, WifiSpec};
use super::station::{Bounds, Frame, Station};
use super::turns::{ByAirtime, Turns};
use crate::site::{PortSite, Site};
use crate::waiting::{Waiting, earliest};

/// How long frames for a station were on the air.
const AIRTIME: TelemetryField = TelemetryField::new(
    "airtime",
    "ms",
    "how long PPDUs for the station were on the air",
    Reduce::Counter,
)
.in_parts(1_000_000);

/// What an aggregate had.
const AGGREGATE: TelemetryField = TelemetryField::new(
    "aggregate",
    "bytes",
    "bytes of IP in an A-MPDU for the station",
    Reduce::Sample,
);

/// What the radio does.
enum Phase {
    /// There is nothing to send.
    Idle,
    /// It waits for its turn on the medium.
    Contends { until: Instant },
    /// These frames arrive at a station at that time, and are answered for so long.
    Sends {
        until: Instant,
        station: usize,
        frames: Vec<Frame>,
        answer: Duration,
    },
    /// A block ack comes, up to that time.
    Answered { until: Instant },
}

/// What a port leads to.
enum Gate {
    /// No station: what passes is counted, and goes on at once.
    Wire(ElementCounters),
    /// The station of this index.
    Station(usize),
}

/// A radio that sends aggregates of what waits, to one station after the other.
pub struct WifiRadio {
    /// One for each port.
    gates: Vec<Gate>,
    stations: Vec<Station>,
    turns: Turns,
    bounds: Bounds,
    medium: Medium,
    phase: Phase,
    /// When a queue that holds packets back may give one.
    retry: Option<Instant>,
    /// Whether it is an access point, which reports airtime.
    is_node: bool,
}

impl WifiRadio {
    /// That of a link at `site`.
    pub(super) fn link(spec: &WifiSpec, site: &Site<'_>) -> Self {
        let waiting = Waiting::new(&spec.queue, site, spec.mean_rate(), 0);
        let turns = Turns::Airtime(ByAirtime::new(DEFAULT_QUANTUM, vec![waiting]));
        let mut radio = Self::new(spec, site, turns);
        radio.gates.push(Gate::Station(0));
        radio.stations.push(Station::new(spec, site.entity, 0));
        radio
    }

    /// That of an access point with these ports.
    pub(super) fn node(spec: &AccessPointSpec, site: &Site<'_>, ports: &[PortSite<'_>]) -> Self {
        let (mut gates, mut stations, mut sites) = (Vec::new(), Vec::new(), Vec::new());
        for (port, number) in ports.iter().zip(0..=Port::MAX) {
            let crate::ElementSpec::AccessPoint(own) = port.spec else {
                continue;
            };
            if own.is_wire() {
                gates.push(Gate::Wire(ElementCounters::default()));
                continue;
            }
            gates.push(Gate::Station(stations.len()));
            stations.push(Station::new(&own.station, port.site.entity, number));
            sites.push((&own.station, &port.site));
        }
        let turns = match spec.scheduler {
            AirtimeRule::Airtime => {
                let queues = sites.iter();
                let queues = queues
                    .map(|(own, site)| Waiting::new(&own.queue, site, own.mean_rate(), 0))
                    .collect();
                Turns::Airtime(ByAirtime::new(spec.quantum, queues))
            }
            AirtimeRule::Fifo => {
                // One queue is for stations of several rates; what it derives from a rate it
                // derives from the first one's.
                let rate = sites.first().map(|(own, _)| own.mean_rate());
                let rate = rate.unwrap_or_default();
                let waiting = Waiting::new(&spec.station.queue, site, rate, 0);
                let entities = stations.iter().map(|station| station.entity).collect();
                Turns::Fifo(Box::new(Fifo::new(waiting, entities)))
            }
        };
        Self {
            gates,
            stations,
            is_node: true,
            ..Self::new(&spec.station, site, turns)
        }
    }

    /// One that has no ports yet.
    fn new(spec: &WifiSpec, site: &Site<'_>, turns: Turns) -> Self {
        let rng = Rng::for_name(site.seed, site.name);
        Self {
            gates: Vec::new(),
            stations: Vec::new(),
            turns,
            bounds: spec.bounds,
            medium: Medium::new(rng, spec.stations, spec.theirs),
            phase: Phase::Idle,
            retry: None,
            is_node: false,
        }
    }

    /// Waits for the medium if there is anything to send.
    fn contend(&mut self, now: Instant, was_idle: bool) {
        if self.turns.is_busy(now, &self.stations) {
            let until = now + self.medium.access(was_idle);
            self.phase = Phase::Contends { until };
        } else {
            self.phase = Phase::Idle;
            self.turns.rest();
        }
    }

    /// Sends an aggregate of what there is.
    fn send(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.retry = None;
        let next = self.turns.next(now, &mut self.stations, self.bounds, out);
        let Some((station, aggregate)) = next else {
            // A queue that shapes by itself says when; never now again.
            let soonest = now + Duration::from_nanos(1);
            let queues = self.turns.queues().iter();
            let next = queues.map(|waiting| waiting.queue.next_dequeue(now));
            self.retry = next.fold(None, earliest).map(|at| at.max(soonest));
            self.phase = Phase::Idle;
            return;
        };
        if self.is_node {
            let packets = aggregate.frames.iter();
            let bytes: u64 = packets.map(|frame| u64::from(frame.packet.len())).sum();
            let airtime = aggregate.airtime.as_nanos();
            for (field, value) in [(AIRTIME, airtime), (AGGREGATE, bytes)] {
                let (source, value) = (self.stations[station].entity.into(), value as i64);
                out.events.record(
                    now,
                    Event::Telemetry {
                        source,
                        field,
                        value,
                    },
                );
            }
        }
        self.phase = Phase::Sends {
            until: now + aggregate.airtime,
            station,
            frames: aggregate.frames,
            answer: aggregate.answer,
        };
    }

    /// An aggregate has come to its end.
    fn receive(&mut self, now: Instant, to: usize, frames: Vec<Frame>, out: &mut Outlet<'_>) {
        let (station, turns) = (&mut self.stations[to], &mut self.turns);
        let port = station.port;
        let pass = |packet, out: &mut Outlet<'_>| turns.let_out(to, port, packet, out);
        let arrived = station.receive(now, frames, &mut self.medium.rng, out, pass);
        self.medium.ended(arrived);
    }

    /// What was counted at a port.
    fn counters_of(&self, gate: &Gate) -> ElementCounters {
        match gate {
            Gate::Wire(passed) => *passed,
            Gate::Station(i) => {
                let counters = self.turns.counters(*i);
                ElementCounters {
                    dropped: counters.dropped + self.stations[*i].lost,
                    ..counters
                }
            }
        }
    }

    /// The index of the gate of `port`: a link has one, for either direction.
    fn gate_at(&self, port: Port) -> usize {
        if self.is_node { usize::from(port) } else { 0 }
    }
}

impl Element for WifiRadio {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        let at = self.gate_at(port);
        match &mut self.gates[at] {
            Gate::Wire(passed) => {
                let bytes = u64::from(packet.len());
                passed.packets_in += 1;
                passed.bytes_in += bytes;
                passed.packets_out += 1;
                passed.bytes_out += bytes;
                out.send(port, packet);
            }
            Gate::Station(station) => {
                self.turns.push(now, *station, packet, out);
                if matches!(self.phase, Phase::Idle) {
                    self.contend(now, true);
                }
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Idle => self.retry,
            Phase::Contends { until } | Phase::Sends { until, .. } | Phase::Answered { until } => {
                Some(*until)
            }
        };
        let queues = self.turns.queues().iter();
        let ticks = queues.map(|waiting| waiting.queue.next_tick());
        ticks.fold(phase, earliest)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        for waiting in self.turns.queues_mut() {
            waiting.tick(now);
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Contends { until } if until <= now => self.send(now, out),
            Phase::Sends {
                until,
                station,
                frames,
                answer,
            } if until <= now => {
                self.receive(now, station, frames, out);
                let until = now + answer;
                self.phase = Phase::Answered { until };
            }
            Phase::Answered { until } if until <= now => self.contend(now, false),
            Phase::Idle if self.retry.is_some_and(|at| at <= now) => {
                self.retry = None;
                self.contend(now, true);
            }
            phase => self.phase = phase,
        }
    }

    /// `mcs N` and `queue …`, either or both, of one station.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let mut words = Words::new(&change.words);
        let allowed = "wifi mcs N or wifi queue …";
        match words.take() {
            Some(word) if word.text == "wifi" => {}
            Some(word) => return Err(word.refused(allowed)),
            None => return Err(words.ended(allowed)),
        }
        if self.is_node {
            words.take_if("ap");
        }
        let mut queue = None;
        if words.peek().is_none() {
            return Err(words.ended("mcs N or queue …"));
        }
        let Gate::Station(at) = self.gates[self.gate_at(change.port)] else {
            let found = "a change of a wire";
            let allowed = "one of a station, whose link says its MCS";
            return Err(WordError::new(0..change.words.len(), found, allowed));
        };
        let mut mcs = None;
        while let Some(word) = words.take() {
            match word.text {
                "mcs" => {
                    let phy = self.stations[at].phy;
                    let fits =
                        |mcs: &u32| u8::try_from(*mcs).is_ok_and(|mcs| phy.bits(mcs).is_some());
                    mcs = Some(words.value_where(CHANNELS_MCS, fits)? as u8);
                }
                "queue" => {
                    let rest = words.rest();
                    if rest.text.is_empty() {
                        return Err(words.ended("what the queue is to have, such as limit 100"));
                    }
                    queue = Some((rest.text, rest.start));
                    break;
                }
                _ => return Err(word.refused("mcs N or queue …")),
            }
        }
        self.turns.queue_of(at).change(now, queue)?;
        if let Some(mcs) = mcs {
            self.stations[at].set_mcs(mcs);
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.gates.iter().map(|gate| self.counters_of(gate)).sum()
    }

    fn port_counters(&self, port: Port) -> ElementCounters {
        self.counters_of(&self.gates[self.gate_at(port)])
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for station in 0..self.stations.len() {
            self.turns.sample(now, station, events);
        }
    }
}
