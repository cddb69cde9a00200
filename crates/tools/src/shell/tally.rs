//! What passes a shell's path, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use narrows_core::{EntityId, Event, EventSink};
use narrows_engine::{DropCounts, MarkCounts};
use narrows_path::LinkRate;
use narrows_scenario::{ElementSpec, NameTable, Plan};
use narrows_units::{Duration, Histogram, Instant, Rate};

/// Running figures, to be read from another thread. Only the path's
/// thread writes them.
#[derive(Debug, Default)]
pub struct Gauge {
    up_bytes: AtomicU64,
    down_bytes: AtomicU64,
    marks: AtomicU64,
    drops: AtomicU64,
    up_sojourn_ns: AtomicU64,
    down_sojourn_ns: AtomicU64,
}

/// What a [`Gauge`] showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of IP that reached the outside since the start.
    pub up_bytes: u64,
    /// Bytes of IP that reached the inside since the start.
    pub down_bytes: u64,
    /// Packets that were marked since the start.
    pub marks: u64,
    /// Packets that were dropped since the start.
    pub drops: u64,
    /// The longest that a packet on its way up waited in a queue since the
    /// last reading.
    pub up_sojourn: Duration,
    /// The same for packets on their way down.
    pub down_sojourn: Duration,
}

impl Gauge {
    /// Reads it. The longest sojourns start anew, so there is one reader.
    pub fn read(&self) -> Reading {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let longest = |ns: &AtomicU64| Duration::from_nanos(ns.swap(0, Ordering::Relaxed));
        Reading {
            up_bytes: of(&self.up_bytes),
            down_bytes: of(&self.down_bytes),
            marks: of(&self.marks),
            drops: of(&self.drops),
            up_sojourn: longest(&self.up_sojourn_ns),
            down_sojourn: longest(&self.down_sojourn_ns),
        }
    }
}

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
    /// From the first arrival to the last.
    pub busy: Duration,
}

impl Way {
    /// The mean rate of IP bytes between the first arrival and the last, in
    /// Mbit/s; none with fewer than two packets.
    pub fn mean_mbit(&self) -> Option<f64> {
        per_second(self.bytes, self.busy).map(|bits| bits / 1e6)
    }
}

fn per_second(bytes: u64, over: Duration) -> Option<f64> {
    let seconds = over.as_nanos() as f64 / 1e9;
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds)
}

/// What an element did to packets.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementTally {
    /// Its name: `link/access/up/bottleneck`.
    pub name: String,
    /// Its queue, if packets passed one.
    pub queue: Option<QueueTally>,
    /// Packets marked, by cause.
    pub marks: MarkCounts,
    /// Packets dropped, by cause.
    pub drops: DropCounts,
}

/// What passed a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueTally {
    /// Packets that left it.
    pub packets: u64,
    /// The share of the link's rate that was used from the first of them to
    /// the last, by what the link counts (IP bytes and overhead); none with
    /// fewer than two packets, or where the rate changes.
    pub utilisation: Option<f64>,
    /// Median sojourn in milliseconds.
    pub sojourn_p50_ms: f64,
    /// 99th percentile.
    pub sojourn_p99_ms: f64,
    /// The longest.
    pub sojourn_max_ms: f64,
}

/// All that was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// From the inside to the outside.
    pub up: Way,
    /// From the outside to the inside.
    pub down: Way,
    /// Elements that queued, marked or dropped packets, in order of travel, up
    /// before down.
    pub elements: Vec<ElementTally>,
}

#[derive(Clone, Copy, Default)]
struct Span {
    first: Option<Instant>,
    last: Instant,
}

impl Span {
    fn see(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.last = now;
    }

    fn length(&self) -> Duration {
        self.first.map_or(Duration::ZERO, |f| self.last.since(f))
    }
}

#[derive(Default)]
struct Queue {
    sojourn: Histogram,
    wire_bytes: u64,
    /// Of them those of the first packet, which were sent before it was seen.
    first_wire_bytes: u64,
    span: Span,
}

impl Queue {
    fn tally(&self, rate: Option<Rate>) -> QueueTally {
        let at = |permille| self.sojourn.quantile(permille).unwrap_or(Duration::ZERO);
        let sent = per_second(self.wire_bytes - self.first_wire_bytes, self.span.length());
        QueueTally {
            packets: self.sojourn.count(),
            utilisation: rate.zip(sent).map(|(r, sent)| sent / r.as_bits() as f64),
            sojourn_p50_ms: at(500).as_millis_f64(),
            sojourn_p99_ms: at(990).as_millis_f64(),
            sojourn_max_ms: self.sojourn.max().as_millis_f64(),
        }
    }
}

#[derive(Default)]
struct Place {
    down: bool,
    rate: Option<Rate>,
    queue: Option<Queue>,
    marks: MarkCounts,
    drops: DropCounts,
}

/// Counts a path's events, and keeps none.
pub(super) struct Counter {
    names: NameTable,
    outside: EntityId,
    gauge: Arc<Gauge>,
    up: (Way, Span),
    down: (Way, Span),
    /// By entity.
    places: Vec<Option<Place>>,
    /// Entities of elements in order of travel, up before down.
    order: Vec<EntityId>,
}

impl Counter {
    /// For a plan of one link, whose second end is the outside.
    pub(super) fn new(plan: &Plan, gauge: Arc<Gauge>) -> Self {
        let names = NameTable::of(plan);
        let id = |name: &str| names.id(name).unwrap_or_default();
        let link = &plan.links[0];
        let outside = id(&format!("host/{}", plan.host(link.ends.1).name));
        let mut places: Vec<Option<Place>> = Vec::new();
        let mut order = Vec::new();
        let mut stand = |entity: EntityId, down: bool, rate: Option<Rate>| {
            let at = entity.0 as usize;
            if places.len() <= at {
                places.resize_with(at + 1, || None);
            }
            if places[at].is_none() {
                order.push(entity);
            }
            places[at] = Some(Place {
                down,
                rate,
                ..Place::default()
            });
        };
        for (elements, down) in [(&link.up, false), (&link.down, true)] {
            for element in elements {
                stand(id(&element.name), down, rate(&element.spec));
            }
        }
        stand(id(&format!("link/{}", link.name)), false, None);
        Self {
            outside,
            gauge,
            up: Default::default(),
            down: Default::default(),
            places,
            order,
            names,
        }
    }

    fn place(&mut self, entity: EntityId) -> Option<&mut Place> {
        self.places.get_mut(entity.0 as usize)?.as_mut()
    }

    /// What was counted.
    pub(super) fn tally(&self) -> Tally {
        let way = |(way, span): &(Way, Span)| Way {
            busy: span.length(),
            ..*way
        };
        let elements = self.order.iter().filter_map(|entity| {
            let place = self.places[entity.0 as usize].as_ref()?;
            let signals = place.marks.total() + place.drops.total();
            (place.queue.is_some() || signals > 0).then(|| ElementTally {
                name: self.names.name(*entity).to_owned(),
                queue: place.queue.as_ref().map(|q| q.tally(place.rate)),
                marks: place.marks,
                drops: place.drops,
            })
        });
        Tally {
            up: way(&self.up),
            down: way(&self.down),
            elements: elements.collect(),
        }
    }
}

impl EventSink for Counter {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        let add = |counter: &AtomicU64, n: u64| {
            // Nobody else writes.
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        match event {
            Event::Received { host, packet } => {
                let bytes = u64::from(packet.len());
                let (way, counter) = if host == self.outside {
                    (&mut self.up, &self.gauge.up_bytes)
                } else {
                    (&mut self.down, &self.gauge.down_bytes)
                };
                // The first packet starts the time that the others' bytes took.
                way.0.packets += 1;
                way.0.bytes += bytes;
                way.1.see(now);
                add(counter, bytes);
            }
            Event::Dequeued {
                queue,
                sojourn,
                wire_bytes,
                ..
            } => {
                let gauge = Arc::clone(&self.gauge);
                let Some(place) = self.place(queue) else {
                    return;
                };
                let longest = if place.down {
                    &gauge.down_sojourn_ns
                } else {
                    &gauge.up_sojourn_ns
                };
                longest.fetch_max(sojourn.as_nanos(), Ordering::Relaxed);
                let queue = place.queue.get_or_insert_with(Queue::default);
                queue.sojourn.record(sojourn);
                queue.wire_bytes += u64::from(wire_bytes);
                if queue.span.first.is_none() {
                    queue.first_wire_bytes = u64::from(wire_bytes);
                }
                queue.span.see(now);
            }
            Event::Marked { queue, cause, .. } => {
                add(&self.gauge.marks, 1);
                if let Some(place) = self.place(queue) {
                    place.marks.count(cause);
                }
            }
            Event::Dropped { element, cause, .. } => {
                add(&self.gauge.drops, 1);
                if let Some(place) = self.place(element) {
                    place.drops.count(cause);
                }
            }
            _ => {}
        }
    }
}

/// The rate of an element that has one which stays as it is.
fn rate(spec: &ElementSpec) -> Option<Rate> {
    match spec.facts().link?.rate {
        LinkRate::Constant(rate) => Some(rate),
        LinkRate::Recorded(_) => None,
    }
}
