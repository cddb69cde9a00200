//! The running radio: of a link, or of an access point.

use narrows_core::{
    Change, Element, ElementCounters, Event, EventSink, Outlet, Packet, Port, Reduce,
    TelemetryField,
};
use narrows_units::{Duration, Instant, Rng, WordError, Words};

use super::fifo::Fifo;
use super::medium::Medium;
use super::node::AccessPointSpec;
use super::scheduler::{AirtimeRule, DEFAULT_QUANTUM, Rounds};
use super::spec::WifiSpec;
use super::station::{Aggregate, Bounds, Frame, Station};
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

/// Where packets for a port wait.
enum Gate {
    /// Nowhere: the port is a wire, which counts what passes.
    Wire(ElementCounters),
    /// In a queue of the station's own.
    Own(Waiting),
    /// In the queue of all.
    Shared,
}

/// Who is served next.
enum Rule {
    Airtime(Rounds),
    Fifo(Box<Fifo>),
}

/// A radio that sends aggregates of what waits, to one station after the other.
pub struct WifiRadio {
    /// One for each port, of which a wire's has nothing to do.
    stations: Vec<Station>,
    gates: Vec<Gate>,
    rule: Rule,
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
        Self {
            stations: vec![Station::new(spec, site.entity)],
            gates: vec![Gate::Own(waiting)],
            rule: Rule::Airtime(Rounds::new(DEFAULT_QUANTUM, 1)),
            ..Self::bare(spec, site)
        }
    }

    /// That of an access point with these ports, of which others have none.
    pub(super) fn node(spec: &AccessPointSpec, site: &Site<'_>, ports: &[PortSite<'_>]) -> Self {
        let ports = ports.iter().filter_map(|port| match port.spec {
            crate::ElementSpec::AccessPoint(spec) => Some((spec, &port.site)),
            _ => None,
        });
        let ports: Vec<_> = ports.collect();
        let rule = match spec.scheduler {
            AirtimeRule::Airtime => Rule::Airtime(Rounds::new(spec.quantum, ports.len())),
            AirtimeRule::Fifo => {
                // One queue is for stations of several rates; what it derives from a rate it
                // derives from the first one's.
                let rates = ports.iter().map(|(port, _)| port.station.mean_rate());
                let rate = rates.clone().find(|rate| rate.as_bits() > 0);
                let rate = rate.unwrap_or_default();
                let waiting = Waiting::new(&spec.station.queue, site, rate, 0);
                let entities = ports.iter().map(|(_, site)| site.entity).collect();
                Rule::Fifo(Box::new(Fifo::new(waiting, entities)))
            }
        };
        let gate = |(port, site): &(&AccessPointSpec, &Site<'_>)| match spec.scheduler {
            _ if port.is_wire() => Gate::Wire(ElementCounters::default()),
            AirtimeRule::Fifo => Gate::Shared,
            AirtimeRule::Airtime => {
                let (queue, rate) = (&port.station.queue, port.station.mean_rate());
                Gate::Own(Waiting::new(queue, site, rate, 0))
            }
        };
        let stations = ports.iter();
        let stations = stations.map(|(port, site)| Station::new(&port.station, site.entity));
        Self {
            stations: stations.collect(),
            gates: ports.iter().map(gate).collect(),
            rule,
            is_node: true,
            ..Self::bare(&spec.station, site)
        }
    }

    /// One without stations.
    fn bare(spec: &WifiSpec, site: &Site<'_>) -> Self {
        let rng = Rng::for_name(site.seed, site.name);
        Self {
            stations: Vec::new(),
            gates: Vec::new(),
            rule: Rule::Airtime(Rounds::new(DEFAULT_QUANTUM, 0)),
            bounds: spec.bounds,
            medium: Medium::new(rng, spec.stations, spec.theirs),
            phase: Phase::Idle,
            retry: None,
            is_node: false,
        }
    }

    /// Whether there is anything to send that can be sent now.
    fn is_busy(&self, now: Instant) -> bool {
        let waits = |(station, gate): (&Station, &Gate)| {
            let waits = match gate {
                Gate::Own(waiting) => waiting.queue.backlog().packets > 0,
                Gate::Shared | Gate::Wire(_) => false,
            };
            (waits || station.is_ahead()) && station.mcs(now).is_some()
        };
        let any = self.stations.iter().zip(&self.gates).any(waits);
        any || matches!(&self.rule, Rule::Fifo(fifo) if fifo.is_busy())
    }

    /// Waits for the medium if there is anything to send.
    fn contend(&mut self, now: Instant, was_idle: bool) {
        if self.is_busy(now) {
            let until = now + self.medium.access(was_idle);
            self.phase = Phase::Contends { until };
            return;
        }
        self.phase = Phase::Idle;
        if let Rule::Airtime(rounds) = &mut self.rule {
            rounds.settle();
        }
    }

    /// The aggregate of whose turn it is, and that station.
    fn next(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<(usize, Aggregate)> {
        let (stations, bounds) = (&mut self.stations, self.bounds);
        let rounds = match &mut self.rule {
            Rule::Fifo(fifo) => return fifo.next(now, stations, bounds, out),
            Rule::Airtime(rounds) => rounds,
        };
        // Also those whose queue had packets and gave none when it was their turn.
        for (i, gate) in self.gates.iter().enumerate() {
            if matches!(gate, Gate::Own(waiting) if waiting.queue.backlog().packets > 0) {
                rounds.list(i);
            }
        }
        let mut built = None;
        let turn = rounds.next(|i| {
            if let Gate::Own(waiting) = &mut self.gates[i] {
                let pull = || waiting.pull(now, out).map(|(packet, _)| packet);
                built = stations[i].aggregate(now, bounds, pull);
            }
            built.is_some()
        });
        let (station, aggregate) = turn.zip(built)?;
        rounds.charge(station, aggregate.airtime);
        Some((station, aggregate))
    }

    /// Sends an aggregate of what there is.
    fn send(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.retry = None;
        let Some((station, aggregate)) = self.next(now, out) else {
            // A queue that shapes by itself says when; never now again.
            let soonest = now + Duration::from_nanos(1);
            let next = self.queues().map(|w| w.queue.next_dequeue(now));
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
        let (gate, rule) = (&mut self.gates[to], &mut self.rule);
        let pass = |packet, out: &mut Outlet<'_>| match (&mut *gate, &mut *rule) {
            (Gate::Shared, Rule::Fifo(fifo)) => fifo.let_out(to, packet, out),
            (Gate::Own(waiting), _) => {
                waiting.let_out(packet, out);
                if let Some((leaves_by, _)) = out.sent.last_mut() {
                    *leaves_by = to as Port;
                }
            }
            // Nothing is sent over the air for a wire.
            _ => out.pool.give(packet),
        };
        let station = &mut self.stations[to];
        let arrived = station.receive(now, frames, &mut self.medium.rng, out, pass);
        self.medium.ended(arrived);
    }

    /// All queues.
    fn queues(&self) -> impl Iterator<Item = &Waiting> {
        let own = self.gates.iter().filter_map(|gate| match gate {
            Gate::Own(waiting) => Some(waiting),
            Gate::Shared | Gate::Wire(_) => None,
        });
        let shared = match &self.rule {
            Rule::Fifo(fifo) => Some(&fifo.waiting),
            Rule::Airtime(_) => None,
        };
        own.chain(shared)
    }

    /// What was counted at a port.
    fn counters_of(&self, port: usize) -> ElementCounters {
        let counters = match (&self.gates[port], &self.rule) {
            (Gate::Wire(passed), _) => *passed,
            (Gate::Own(waiting), _) => waiting.counters(),
            (Gate::Shared, Rule::Fifo(fifo)) => fifo.counters(port),
            (Gate::Shared, Rule::Airtime(_)) => ElementCounters::default(),
        };
        ElementCounters {
            dropped: counters.dropped + self.stations[port].lost,
            ..counters
        }
    }
}

impl Element for WifiRadio {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        // A link has one station in either direction.
        let at = if self.is_node { usize::from(port) } else { 0 };
        match (&mut self.gates[at], &mut self.rule) {
            (Gate::Wire(passed), _) => {
                let bytes = u64::from(packet.len());
                passed.packets_in += 1;
                passed.bytes_in += bytes;
                passed.packets_out += 1;
                passed.bytes_out += bytes;
                return out.send(port, packet);
            }
            (Gate::Own(waiting), rule) => {
                waiting.push(now, packet, out);
                if let Rule::Airtime(rounds) = rule {
                    rounds.list(at);
                }
            }
            (Gate::Shared, Rule::Fifo(fifo)) => fifo.push(now, at, packet, out),
            // The gates of turns by airtime are stations' own.
            (Gate::Shared, Rule::Airtime(_)) => out.pool.give(packet),
        }
        if matches!(self.phase, Phase::Idle) {
            self.contend(now, true);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Idle => self.retry,
            Phase::Contends { until } | Phase::Sends { until, .. } | Phase::Answered { until } => {
                Some(*until)
            }
        };
        let ticks = self.queues().map(|waiting| waiting.queue.next_tick());
        ticks.fold(phase, earliest)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        for gate in &mut self.gates {
            if let Gate::Own(waiting) = gate {
                waiting.tick(now);
            }
        }
        if let Rule::Fifo(fifo) = &mut self.rule {
            fifo.waiting.tick(now);
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
        if words.take_if("wifi") && self.is_node {
            words.take_if("ap");
        }
        let mut queue = None;
        if words.peek().is_none() {
            return Err(words.ended("mcs N or queue …"));
        }
        let at = if self.is_node {
            usize::from(change.port)
        } else {
            0
        };
        let mut mcs = None;
        while let Some(word) = words.take() {
            match word.text {
                "mcs" => {
                    let phy = self.stations[at].phy;
                    let fits =
                        |mcs: &u32| u8::try_from(*mcs).is_ok_and(|mcs| phy.bits(mcs).is_some());
                    mcs = Some(words.checked_value("an MCS of the channel", fits)? as u8);
                }
                "queue" => {
                    let rest = words.rest();
                    queue = Some((rest.text, rest.start));
                    break;
                }
                _ => return Err(word.refused("mcs N or queue …")),
            }
        }
        match (&mut self.gates[at], &mut self.rule) {
            (Gate::Own(waiting), _) => waiting.change(now, queue)?,
            (Gate::Shared, Rule::Fifo(fifo)) => fifo.waiting.change(now, queue)?,
            _ => {
                let found = "a change of a wire";
                let allowed = "one of a station, whose link says its MCS";
                return Err(WordError::new(0..change.words.len(), found, allowed));
            }
        }
        if let Some(mcs) = mcs {
            self.stations[at].set_mcs(mcs);
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        (0..self.gates.len())
            .map(|port| self.counters_of(port))
            .sum()
    }

    fn port_counters(&self, port: Port) -> ElementCounters {
        match self.is_node {
            true => self.counters_of(usize::from(port)),
            false => self.counters(),
        }
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for (station, gate) in self.gates.iter().enumerate() {
            match (gate, &self.rule) {
                (Gate::Own(waiting), _) => waiting.sample(now, events),
                (Gate::Shared, Rule::Fifo(fifo)) => fifo.sample(now, station, events),
                _ => {}
            }
        }
    }
}
