//! The queue in front of a link, and the record of what goes in and out of it.

use narrows_aqm::{LinkFacts, QueueSpec};
use narrows_core::{
    Band, ElementCounters, EntityId, Event, EventSink, Outlet, Packet, Port, Queue,
};
use narrows_units::{Instant, Rate, Rng, WordError, Words};

use crate::site::Site;

/// Packets that wait for a link, and the link's counters.
pub(crate) struct Waiting {
    entity: EntityId,
    /// Bytes that the link counts for each packet above its IP length.
    pub(crate) overhead: u32,
    pub(crate) queue: Box<dyn Queue>,
    counters: ElementCounters,
}

/// The generator of the queue of the element `name` in a run with `seed`.
pub(crate) fn rng_of(seed: u64, name: &str) -> Rng {
    Rng::for_name(seed, &format!("{name}/queue"))
}

impl Waiting {
    /// Nobody waits yet at `site`, before a link of `rate`, on average.
    pub(crate) fn new(queue: &QueueSpec, site: &Site<'_>, rate: Rate, overhead: u32) -> Self {
        let link = LinkFacts {
            rate,
            overhead,
            mtu: site.mtu,
        };
        let rng = rng_of(site.seed, site.name);
        Self {
            entity: site.entity,
            overhead,
            queue: queue.build(site.entity, link, rng),
            counters: ElementCounters::default(),
        }
    }

    /// A packet comes, and is dropped or waits.
    pub(crate) fn push(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        if self.queue.enqueue(now, packet, out) {
            let backlog = self.queue.backlog();
            out.events.record(
                now,
                Event::Enqueued {
                    queue: self.entity,
                    backlog_packets: backlog.packets,
                    backlog_bytes: backlog.bytes,
                },
            );
        }
    }

    /// The packet whose turn it is, and its bytes as the link counts them.
    pub(crate) fn pull(
        &mut self,
        now: Instant,
        out: &mut Outlet<'_>,
    ) -> Option<(Box<Packet>, u32)> {
        let packet = self.queue.dequeue(now, out)?;
        let wire_bytes = packet.len() + self.overhead;
        out.events.record(
            now,
            Event::Dequeued {
                queue: self.entity,
                packet: &packet,
                sojourn: now.since(packet.held_since),
                wire_bytes,
                band: Band::new(self.queue.bands(), self.queue.band_of(&packet)),
            },
        );
        Some((packet, wire_bytes))
    }

    /// A packet has passed the link.
    pub(crate) fn let_out(&mut self, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.let_out_by(0, packet, out);
    }

    /// A packet leaves a node by `port`.
    pub(crate) fn let_out_by(&mut self, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(packet.len());
        out.send(port, packet);
    }

    /// Gives the queue new parameters, from a place in their line.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        words: Option<(&str, usize)>,
    ) -> Result<(), WordError> {
        match words {
            Some((words, at)) => self.queue.change(now, words).map_err(|e| e.shifted(at)),
            None => Ok(()),
        }
    }

    /// Lets the queue's clock go on if it is due. Each tick moves the next one; a
    /// queue whose clock stood still would hang the run, so one tick a call is
    /// enough.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.queue.next_tick().is_some_and(|t| t <= now) {
            self.queue.tick(now);
        }
    }

    pub(crate) fn counters(&self) -> ElementCounters {
        let counts = self.queue.counts();
        ElementCounters {
            dropped: counts.dropped,
            marked: counts.marked,
            ..self.counters
        }
    }

    pub(crate) fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        self.sample_as(self.entity, now, events);
    }

    /// The same for `queue`, one of several whose packets wait here.
    pub(crate) fn sample_as(&self, queue: EntityId, now: Instant, events: &mut dyn EventSink) {
        let backlog = self.queue.backlog();
        events.record(
            now,
            Event::QueueSampled {
                queue,
                backlog_packets: backlog.packets,
                backlog_bytes: backlog.bytes,
                probability: self.queue.probability(),
            },
        );
    }
}

/// Reads what follows `queue` in a link's words.
pub(crate) fn read_queue(words: &Words<'_>) -> Result<QueueSpec, WordError> {
    let rest = words.rest();
    if rest.text.is_empty() {
        return Err(words.ended("a queue such as fq_codel"));
    }
    QueueSpec::parse(rest.text).map_err(|e| e.shifted(rest.start))
}

pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
