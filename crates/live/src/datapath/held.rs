//! Events that wait for others of earlier times.

use narrows_core::{Event, EventSink, Packet};
use narrows_units::Instant;

/// Events on their way to a sink, in whatever order they are recorded. Each keeps a copy of
/// its packet, which goes on meanwhile.
pub(super) struct InOrder<'s> {
    sink: &'s mut dyn EventSink,
    /// In the order in which they were recorded.
    waiting: Vec<(Instant, Event<'static>, Option<Box<Packet>>)>,
    /// Packets to copy into.
    // They wait as boxes, and would be boxed again.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Packet>>,
    /// The time until which the sink has all.
    passed_on: Instant,
    /// Whether they are recorded in order anyway.
    direct: bool,
}

impl<'s> InOrder<'s> {
    /// For events that are recorded in order: they go to `sink` at once.
    pub(super) fn direct(sink: &'s mut dyn EventSink) -> Self {
        Self {
            direct: true,
            ..Self::new(sink)
        }
    }

    /// For events that are recorded in any order.
    pub(super) fn new(sink: &'s mut dyn EventSink) -> Self {
        Self {
            direct: false,
            sink,
            waiting: Vec::new(),
            spare: Vec::new(),
            passed_on: Instant::ZERO,
        }
    }

    /// Hands the sink what happened until `until`; of equal times, what was recorded first
    /// comes first. What happened earlier and is recorded later counts as of then.
    pub(super) fn pass_on(&mut self, until: Instant) {
        self.waiting.sort_by_key(|(at, ..)| *at);
        let ready = self.waiting.partition_point(|(at, ..)| *at <= until);
        for (at, event, packet) in self.waiting.drain(..ready) {
            match packet {
                None => self.sink.record(at, event),
                Some(packet) => {
                    self.sink.record(at, event.about(&packet));
                    self.spare.push(packet);
                }
            }
        }
        self.passed_on = self.passed_on.max(until);
    }
}

impl EventSink for InOrder<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if self.direct {
            self.sink.record(now, event);
            return;
        }
        let (event, packet) = event.parts();
        let packet = packet.map(|packet| {
            let mut copy = self.spare.pop().unwrap_or_default();
            let mut bytes = std::mem::take(&mut copy.bytes);
            bytes.clear();
            bytes.extend_from_slice(&packet.bytes);
            *copy = Packet { bytes, ..*packet };
            copy
        });
        let at = now.max(self.passed_on);
        self.waiting.push((at, event, packet));
    }
}

#[cfg(test)]
mod tests {
    use narrows_core::{EntityId, FlowId};

    use super::*;

    #[derive(Default)]
    struct Seen(Vec<(u64, String)>);

    impl EventSink for Seen {
        fn record(&mut self, now: Instant, event: Event<'_>) {
            let what = match event {
                Event::Sent { packet, .. } => format!("sent {:?}", packet.bytes),
                Event::Delivered { bytes, .. } => format!("delivered {bytes}"),
                other => format!("{other:?}"),
            };
            self.0.push((now.as_nanos(), what));
        }
    }

    #[test]
    fn events_come_in_order_of_time_and_with_the_packets_of_then() {
        let at = Instant::from_nanos;
        let mut seen = Seen::default();
        let mut order = InOrder::new(&mut seen);
        let mut packet = Packet {
            bytes: vec![1],
            ..Packet::default()
        };
        let host = EntityId(1);
        let delivered = |bytes| Event::Delivered {
            flow: FlowId(0),
            bytes,
        };
        order.record(at(30), delivered(30));
        order.record(
            at(10),
            Event::Sent {
                host,
                packet: &packet,
            },
        );
        packet.bytes[0] = 2;
        order.record(at(20), delivered(1));
        order.record(at(20), delivered(2));
        order.pass_on(at(25));
        // Too late to come before what was passed on.
        order.record(at(5), delivered(5));
        order.record(
            at(30),
            Event::Sent {
                host,
                packet: &packet,
            },
        );
        order.pass_on(at(40));
        let expected = [
            (10, "sent [1]"),
            (20, "delivered 1"),
            (20, "delivered 2"),
            (25, "delivered 5"),
            (30, "delivered 30"),
            (30, "sent [2]"),
        ];
        assert_eq!(seen.0, expected.map(|(at, what)| (at, what.to_owned())));
    }
}
