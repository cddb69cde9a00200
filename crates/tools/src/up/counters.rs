//! What passes the elements of a topology, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use narrows_core::{EntityId, Event, EventSink};
use narrows_scenario::NameTable;
use narrows_units::Instant;

use super::figures::ElementFigures;

/// What one element did.
#[derive(Debug, Default)]
struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
    marks: AtomicU64,
    drops: AtomicU64,
    sojourn_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// Running figures of all elements. Only the path's thread writes them.
#[derive(Debug)]
pub(super) struct Counters {
    names: NameTable,
    /// By entity.
    all: Vec<Counter>,
}

impl Counters {
    pub(super) fn new(names: NameTable) -> Self {
        let all = names.as_slice().iter().map(|_| Counter::default());
        Self {
            all: all.collect(),
            names,
        }
    }

    fn of(&self, entity: EntityId) -> Option<&Counter> {
        self.all.get(entity.0 as usize)
    }

    /// What the element `name` did.
    pub(super) fn figures(&self, name: &str) -> ElementFigures {
        let counter = self.names.id(name).and_then(|id| self.of(id));
        let of = |get: fn(&Counter) -> &AtomicU64| {
            counter.map_or(0, |counter| get(counter).load(Ordering::Relaxed))
        };
        let packets = of(|c| &c.packets);
        let ms = |ns: u64| ns as f64 / 1e6;
        let longest = of(|c| &c.longest_ns);
        let waited = packets > 0 && longest > 0;
        ElementFigures {
            name: name.to_owned(),
            packets,
            bytes: of(|c| &c.bytes),
            marks: of(|c| &c.marks),
            drops: of(|c| &c.drops),
            sojourn_mean_ms: waited.then(|| ms(of(|c| &c.sojourn_ns)) / packets as f64),
            sojourn_max_ms: waited.then(|| ms(longest)),
        }
    }
}

/// Hands events to [`Counters`].
pub(super) struct Counting(pub Arc<Counters>);

impl EventSink for Counting {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        let add = |counter: &AtomicU64, n: u64| {
            // Nobody else writes.
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        match event {
            Event::Dequeued {
                queue,
                packet,
                sojourn,
                ..
            } => {
                let Some(counter) = self.0.of(queue) else {
                    return;
                };
                add(&counter.packets, 1);
                add(&counter.bytes, u64::from(packet.len()));
                add(&counter.sojourn_ns, sojourn.as_nanos());
                let longest = &counter.longest_ns;
                longest.fetch_max(sojourn.as_nanos(), Ordering::Relaxed);
            }
            Event::Tapped { tap, packet, .. } => {
                if let Some(counter) = self.0.of(tap) {
                    add(&counter.packets, 1);
                    add(&counter.bytes, u64::from(packet.len()));
                }
            }
            Event::Marked { queue, .. } => {
                if let Some(counter) = self.0.of(queue) {
                    add(&counter.marks, 1);
                }
            }
            Event::Dropped { element, .. } => {
                if let Some(counter) = self.0.of(element) {
                    add(&counter.drops, 1);
                }
            }
            _ => {}
        }
    }
}
