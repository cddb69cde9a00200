//! What waits at a radio, and the station to which it sends next.

use narrows_core::{ElementCounters, EventSink, Outlet, Packet, Port};
use narrows_units::{Duration, Instant};

use super::fifo::Fifo;
use super::scheduler::Rounds;
use super::station::{Aggregate, Bounds, Station};
use crate::waiting::Waiting;

/// Packets that wait, and the rule by which they are taken. Stations are named by their index.
pub(super) enum Turns {
    Airtime(ByAirtime),
    Fifo(Box<Fifo>),
}

/// Stations take turns by airtime, each with a queue of its own.
pub(super) struct ByAirtime {
    rounds: Rounds,
    queues: Vec<Waiting>,
}

impl ByAirtime {
    /// With a queue for each station.
    pub(super) fn new(quantum: Duration, queues: Vec<Waiting>) -> Self {
        Self {
            rounds: Rounds::new(quantum, queues.len()),
            queues,
        }
    }

    fn next(
        &mut self,
        now: Instant,
        stations: &mut [Station],
        bounds: Bounds,
        out: &mut Outlet<'_>,
    ) -> Option<(usize, Aggregate)> {
        let Self { rounds, queues } = self;
        // Also those whose queue had packets and gave none when it was their turn.
        for (i, waiting) in queues.iter().enumerate() {
            if waiting.queue.backlog().packets > 0 {
                rounds.list(i);
            }
        }
        let mut built = None;
        let turn = rounds.next(|i| {
            let pull = || queues[i].pull(now, out).map(|(packet, _)| packet);
            built = stations[i].aggregate(now, bounds, pull);
            built.is_some()
        });
        let (station, aggregate) = turn.zip(built)?;
        rounds.charge(station, aggregate.airtime);
        Some((station, aggregate))
    }
}

impl Turns {
    /// A packet comes for `station`, and is dropped or waits.
    pub(super) fn push(
        &mut self,
        now: Instant,
        station: usize,
        packet: Box<Packet>,
        out: &mut Outlet<'_>,
    ) {
        match self {
            Self::Airtime(by) => {
                by.queues[station].push(now, packet, out);
                by.rounds.list(station);
            }
            Self::Fifo(fifo) => fifo.push(now, station, packet, out),
        }
    }

    /// Whether there is anything to send that can be sent now.
    pub(super) fn is_busy(&self, now: Instant, stations: &[Station]) -> bool {
        let can_send = |station: &Station| station.mcs(now).is_some();
        match self {
            Self::Airtime(by) => {
                let mut all = stations.iter().zip(&by.queues);
                all.any(|(station, waiting)| {
                    let waits = waiting.queue.backlog().packets > 0 || station.is_ahead();
                    waits && can_send(station)
                })
            }
            Self::Fifo(fifo) => {
                let mut ahead = stations.iter().filter(|station| station.is_ahead());
                fifo.has_packets() || ahead.any(can_send)
            }
        }
    }

    /// Nothing waits for any station.
    pub(super) fn rest(&mut self) {
        if let Self::Airtime(by) = self {
            by.rounds.settle();
        }
    }

    /// The next aggregate, and the station that it is for.
    pub(super) fn next(
        &mut self,
        now: Instant,
        stations: &mut [Station],
        bounds: Bounds,
        out: &mut Outlet<'_>,
    ) -> Option<(usize, Aggregate)> {
        match self {
            Self::Airtime(by) => by.next(now, stations, bounds, out),
            Self::Fifo(fifo) => fifo.next(now, stations, bounds, out),
        }
    }

    /// A packet has come to `station`, to which `port` leads.
    pub(super) fn let_out(
        &mut self,
        station: usize,
        port: Port,
        packet: Box<Packet>,
        out: &mut Outlet<'_>,
    ) {
        match self {
            Self::Airtime(by) => by.queues[station].let_out_by(port, packet, out),
            Self::Fifo(fifo) => fifo.let_out(station, port, packet, out),
        }
    }

    /// All queues.
    pub(super) fn queues(&self) -> &[Waiting] {
        match self {
            Self::Airtime(by) => &by.queues,
            Self::Fifo(fifo) => std::slice::from_ref(&fifo.waiting),
        }
    }

    /// All queues, whose clocks may go on.
    pub(super) fn queues_mut(&mut self) -> &mut [Waiting] {
        match self {
            Self::Airtime(by) => &mut by.queues,
            Self::Fifo(fifo) => std::slice::from_mut(&mut fifo.waiting),
        }
    }

    /// The queue in which packets for `station` wait.
    pub(super) fn queue_of(&mut self, station: usize) -> &mut Waiting {
        match self {
            Self::Airtime(by) => &mut by.queues[station],
            Self::Fifo(fifo) => &mut fifo.waiting,
        }
    }

    /// What was counted of packets for `station`.
    pub(super) fn counters(&self, station: usize) -> ElementCounters {
        match self {
            Self::Airtime(by) => by.queues[station].counters(),
            Self::Fifo(fifo) => fifo.counters(station),
        }
    }

    pub(super) fn sample(&self, now: Instant, station: usize, events: &mut dyn EventSink) {
        match self {
            Self::Airtime(by) => by.queues[station].sample(now, events),
            Self::Fifo(fifo) => fifo.sample(now, station, events),
        }
    }
}
