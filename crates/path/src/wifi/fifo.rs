//! One queue for all stations of an access point.
//!
//! Each station reports what becomes of its own packets, so the queue's events are given the
//! station of their packet.

use std::collections::BTreeMap;

use narrows_core::{ElementCounters, EntityId, Event, EventSink, Outlet, Packet, PacketId, Port};
use narrows_units::Instant;

use super::station::{Aggregate, Bounds, Station};
use crate::waiting::Waiting;

/// Whose a packet of the queue is, and what each station counts.
struct Owners {
    of: BTreeMap<PacketId, usize>,
    entities: Vec<EntityId>,
    counters: Vec<ElementCounters>,
    /// Whose packet came or left last.
    last: usize,
}

/// Gives events the station of their packet.
struct ByStation<'a> {
    events: &'a mut dyn EventSink,
    owners: &'a mut Owners,
}

impl EventSink for ByStation<'_> {
    fn record(&mut self, now: Instant, mut event: Event<'_>) {
        let owners = &mut *self.owners;
        match &mut event {
            Event::Dropped {
                element, packet, ..
            } => {
                let station = owners.of.remove(&packet.id).unwrap_or(owners.last);
                owners.counters[station].dropped += 1;
                *element = owners.entities[station];
            }
            Event::Marked { queue, packet, .. } => {
                let station = owners.of.get(&packet.id).copied().unwrap_or(owners.last);
                owners.counters[station].marked += 1;
                *queue = owners.entities[station];
            }
            Event::Dequeued { queue, packet, .. } => {
                owners.last = owners.of.remove(&packet.id).unwrap_or(owners.last);
                *queue = owners.entities[owners.last];
            }
            Event::Enqueued { queue, .. } | Event::QueueSampled { queue, .. } => {
                *queue = owners.entities[owners.last];
            }
            _ => {}
        }
        self.events.record(now, event);
    }
}

/// The queue of all stations: packets leave in the order in which it gives them.
pub(super) struct Fifo {
    pub(super) waiting: Waiting,
    owners: Owners,
    /// A packet that ended an aggregate, as it is for another station.
    held: Option<(usize, Box<Packet>)>,
    /// The station for which was sent last.
    current: usize,
}

impl Fifo {
    pub(super) fn new(waiting: Waiting, entities: Vec<EntityId>) -> Self {
        Self {
            waiting,
            owners: Owners {
                of: BTreeMap::new(),
                counters: vec![ElementCounters::default(); entities.len()],
                entities,
                last: 0,
            },
            held: None,
            current: 0,
        }
    }

    /// Whether anything waits that was not given to a station.
    pub(super) fn has_packets(&self) -> bool {
        self.held.is_some() || self.waiting.queue.backlog().packets > 0
    }

    /// Runs `f` on the queue, whose events are those of stations.
    fn run<T>(
        &mut self,
        out: &mut Outlet<'_>,
        f: impl FnOnce(&mut Waiting, &mut Outlet<'_>) -> T,
    ) -> T {
        let mut events = ByStation {
            events: &mut *out.events,
            owners: &mut self.owners,
        };
        let mut out = Outlet {
            pool: &mut *out.pool,
            events: &mut events,
            sent: &mut *out.sent,
        };
        f(&mut self.waiting, &mut out)
    }

    pub(super) fn push(
        &mut self,
        now: Instant,
        station: usize,
        packet: Box<Packet>,
        out: &mut Outlet<'_>,
    ) {
        let counters = &mut self.owners.counters[station];
        counters.packets_in += 1;
        counters.bytes_in += u64::from(packet.len());
        self.owners.of.insert(packet.id, station);
        self.owners.last = station;
        self.run(out, |waiting, out| waiting.push(now, packet, out));
    }

    fn pull(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<(usize, Box<Packet>)> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        let (packet, _) = self.run(out, |waiting, out| waiting.pull(now, out))?;
        Some((self.owners.last, packet))
    }

    /// The next aggregate and whose it is. What was begun for a station comes before all that
    /// waits, as it does in a driver's queue.
    pub(super) fn next(
        &mut self,
        now: Instant,
        stations: &mut [Station],
        bounds: Bounds,
        out: &mut Outlet<'_>,
    ) -> Option<(usize, Aggregate)> {
        if !stations[self.current].is_ahead() {
            let (station, packet) = self.pull(now, out)?;
            stations[station].put(packet);
            self.current = station;
        }
        let current = self.current;
        let aggregate = stations[current].aggregate(now, bounds, || {
            let (station, packet) = self.pull(now, out)?;
            if station == current {
                return Some(packet);
            }
            self.held = Some((station, packet));
            None
        });
        aggregate.map(|aggregate| (current, aggregate))
    }

    /// A packet has come to its station, to which `port` leads.
    pub(super) fn let_out(
        &mut self,
        station: usize,
        port: Port,
        packet: Box<Packet>,
        out: &mut Outlet<'_>,
    ) {
        let counters = &mut self.owners.counters[station];
        counters.packets_out += 1;
        counters.bytes_out += u64::from(packet.len());
        out.send(port, packet);
    }

    pub(super) fn counters(&self, station: usize) -> ElementCounters {
        self.owners.counters[station]
    }

    /// Reports for `station` what waits: all that it would wait behind.
    pub(super) fn sample(&self, now: Instant, station: usize, events: &mut dyn EventSink) {
        self.waiting
            .sample_as(self.owners.entities[station], now, events);
    }
}

#[cfg(test)]
mod tests {
    use narrows_aqm::QueueSpec;
    use narrows_core::PacketPool;
    use narrows_units::Rate;

    use super::*;
    use crate::testing::{Record, ms, site};

    #[test]
    fn whose_a_packet_is_is_kept_until_it_is_dropped_or_taken() {
        let queue = QueueSpec::parse("pfifo limit 2").unwrap();
        let waiting = Waiting::new(&queue, &site(1), Rate::default(), 0);
        let mut fifo = Fifo::new(waiting, vec![EntityId(0), EntityId(1)]);
        let (mut pool, mut record, mut sent) = (PacketPool::new(), Record::default(), Vec::new());
        for n in 0..5 {
            let packet = pool.take(ms(1), None);
            let mut out = Outlet {
                pool: &mut pool,
                events: &mut record,
                sent: &mut sent,
            };
            fifo.push(ms(1), n % 2, packet, &mut out);
        }
        assert_eq!(fifo.owners.of.len(), 2);
        assert_eq!([0, 1].map(|i| fifo.counters(i).dropped), [2, 1]);
        for station in [0, 1] {
            let mut out = Outlet {
                pool: &mut pool,
                events: &mut record,
                sent: &mut sent,
            };
            let taken = fifo.pull(ms(2), &mut out);
            assert_eq!(taken.map(|(of, _)| of), Some(station));
        }
        assert!(fifo.owners.of.is_empty() && !fifo.has_packets());
    }
}
