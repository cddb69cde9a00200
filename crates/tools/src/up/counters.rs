//! What passes the elements of a topology, counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use narrows_core::{ElementCounters, EntityId, Event, EventSink};
use narrows_live::World;
use narrows_live::datapath::Tally;
use narrows_scenario::NameTable;
use narrows_units::Instant;

use super::figures::ElementFigures;

/// How long the path may take to say what its elements have counted; it looks every 20 ms.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the Ethernet header, which the kernel counts on the devices of its own links.
const ETHERNET: u64 = 14;

/// What an element does not count itself.
#[derive(Debug, Default)]
struct Reported {
    /// Packets that left its queue.
    dequeued: AtomicU64,
    sojourn_ns: AtomicU64,
    longest_ns: AtomicU64,
    /// Packets that a link dropped by itself.
    drops: AtomicU64,
}

/// Running figures of all elements.
#[derive(Debug)]
pub(super) struct Counters {
    names: NameTable,
    /// By entity. Only the path's thread writes them.
    reported: Vec<Reported>,
    /// What the elements count themselves.
    pub(super) tally: Arc<Tally>,
}

impl Counters {
    pub(super) fn new(names: NameTable) -> Self {
        let reported = names.as_slice().iter().map(|_| Reported::default());
        Self {
            reported: reported.collect(),
            names,
            tally: Arc::default(),
        }
    }

    fn of(&self, entity: EntityId) -> Option<&Reported> {
        self.reported.get(entity.0 as usize)
    }

    /// Packets that the link `name` dropped by itself.
    pub(super) fn dropped_by_link(&self, name: &str) -> u64 {
        let id = self.names.id(&format!("link/{name}"));
        let reported = id.and_then(|id| self.of(id));
        reported.map_or(0, |reported| reported.drops.load(Ordering::Relaxed))
    }

    /// What each element has done by now, by its name. None of those of which it is not known:
    /// where neither the path nor the kernel answers.
    pub(super) fn figures(&self, world: &World) -> BTreeMap<String, ElementFigures> {
        let counted = self.tally.ask(PATIENCE).unwrap_or_default();
        let own = counted.into_iter().map(|(entity, counted)| {
            let name = self.names.name(entity).to_owned();
            (name.clone(), self.own(name, entity, &counted))
        });
        let kernels = world.counted().into_iter().map(|(name, counted)| {
            let figures = ElementFigures {
                name: name.clone(),
                packets: counted.packets,
                bytes: counted.bytes.saturating_sub(ETHERNET * counted.packets),
                marks: counted.marks,
                drops: counted.drops,
                ..ElementFigures::default()
            };
            (name, figures)
        });
        own.chain(kernels).collect()
    }

    fn own(&self, name: String, entity: EntityId, counted: &ElementCounters) -> ElementFigures {
        let of = |get: fn(&Reported) -> &AtomicU64| {
            let reported = self.of(entity);
            reported.map_or(0, |reported| get(reported).load(Ordering::Relaxed))
        };
        let ms = |ns: u64| ns as f64 / 1e6;
        let (dequeued, longest) = (of(|r| &r.dequeued), of(|r| &r.longest_ns));
        let waited = dequeued > 0 && longest > 0;
        ElementFigures {
            name,
            packets: counted.packets_out,
            bytes: counted.bytes_out,
            marks: Some(counted.marked),
            drops: counted.dropped,
            sojourn_mean_ms: waited.then(|| ms(of(|r| &r.sojourn_ns)) / dequeued as f64),
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
            Event::Dequeued { queue, sojourn, .. } => {
                if let Some(reported) = self.0.of(queue) {
                    add(&reported.dequeued, 1);
                    add(&reported.sojourn_ns, sojourn.as_nanos());
                    let longest = &reported.longest_ns;
                    longest.fetch_max(sojourn.as_nanos(), Ordering::Relaxed);
                }
            }
            Event::Dropped { element, .. } => {
                if let Some(reported) = self.0.of(element) {
                    add(&reported.drops, 1);
                }
            }
            _ => {}
        }
    }
}
