//! An observation point.

use narrows_core::{Change, Element, ElementCounters, EntityId, Event, Outlet, Packet, Port};
use narrows_units::{Instant, WordError};

/// Reports each packet and lets it pass at once. The taps of one name in both
/// directions are one observation point and report by one entity.
#[derive(Clone, Debug)]
pub struct Tap {
    entity: EntityId,
    forward: bool,
    counters: ElementCounters,
}

impl Tap {
    /// A tap that reports as `entity`, in the link's up direction or not.
    pub fn new(entity: EntityId, forward: bool) -> Self {
        Self {
            entity,
            forward,
            counters: ElementCounters::default(),
        }
    }
}

impl Element for Tap {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        pass(&mut self.counters, &packet);
        out.events.record(
            now,
            Event::Tapped {
                tap: self.entity,
                forward: self.forward,
                packet: &packet,
            },
        );
        out.send(0, packet);
    }

    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        Err(nothing_to_change(&change.words, "a tap"))
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

/// Counts a packet in and out of an element that never holds one.
pub(crate) fn pass(counters: &mut ElementCounters, packet: &Packet) {
    let bytes = u64::from(packet.len());
    counters.packets_in += 1;
    counters.bytes_in += bytes;
    counters.packets_out += 1;
    counters.bytes_out += bytes;
}

pub(crate) fn nothing_to_change(words: &str, what: &str) -> WordError {
    WordError::new(
        0..words.len(),
        format!("`{words}`"),
        format!("no change: {what} has no parameters"),
    )
}
