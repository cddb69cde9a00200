//! The box as an element of a path.

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, Event, EventSink, Outlet, Packet, Port,
};
use narrows_units::{Instant, WordError};

use crate::command::commands;
use crate::middlebox::Middlebox;

/// A box on a link: a two-way element.
#[derive(Debug)]
pub struct LinkBox {
    entity: EntityId,
    middlebox: Middlebox,
    counters: ElementCounters,
}

impl LinkBox {
    /// Rules of a box that are sampled, the first ones: more than a person reads, and few enough to
    /// be looked at each time.
    pub const SAMPLED_RULES: usize = 256;

    /// `middlebox`, which reports as `entity`.
    pub fn new(entity: EntityId, middlebox: Middlebox) -> Self {
        Self {
            entity,
            middlebox,
            counters: ElementCounters::default(),
        }
    }

    fn dropped(
        &mut self,
        now: Instant,
        packet: Box<Packet>,
        cause: DropCause,
        out: &mut Outlet<'_>,
    ) {
        self.counters.dropped += 1;
        out.drop(now, self.entity, packet, cause);
    }
}

impl Element for LinkBox {
    fn push(&mut self, now: Instant, port: Port, mut packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        let Packet {
            bytes, zero_tail, ..
        } = &mut *packet;
        let outcome = self.middlebox.process(now, port, bytes, zero_tail);
        if let Some(cause) = outcome.dropped {
            return self.dropped(now, packet, cause, out);
        }
        if let Some((protocol, addresses)) = outcome.translated {
            let event = Event::Translated {
                element: self.entity,
                flow: packet.flow,
                protocol,
                addresses,
            };
            out.events.record(now, event);
        }
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(packet.len());
        out.send(port, packet);
    }

    /// Commands with `;` between them: rules come and go.
    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        let commands = commands(&change.words).map_err(|e| e.error.shifted(e.offset))?;
        self.middlebox.apply(&commands).map_err(|refused| {
            let span = 0..change.words.len();
            WordError::new(span, format!("`{}`", change.words), refused.to_string())
        })
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }

    /// What each of the first rules did since the start.
    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for (rule, hits) in (1..).zip(self.middlebox.hits().take(Self::SAMPLED_RULES)) {
            if hits.packets > 0 {
                let event = Event::RuleSampled {
                    element: self.entity,
                    rule,
                    packets: hits.packets,
                    dropped: hits.dropped,
                };
                events.record(now, event);
            }
        }
    }
}
