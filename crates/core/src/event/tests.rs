//! What follows from a declaration alone, of events that no run has.

use std::collections::{BTreeSet, VecDeque};

use super::*;

events! {
    /// A terminal went over to
    /// another cell.
    Handover = "handover", by element: EntityId, Counter {
        /// How long nothing was sent to it.
        outage: Duration, "ms", Sample;
        /// Packets that were lost meanwhile.
        lost: u32, "packets", Counter;
        /// Whether it asked for it.
        asked: bool;
    }
    /// A cell has sent a packet to a terminal.
    Served = "served" of packet, by element: EntityId, None {
        /// Its rate.
        rate: f64, "mbit", Gauge;
    }
    /// A flow has stalled.
    Stalled = "stalled", by flow: FlowId, None {}
}

/// Keeps numbers, and the packet's as one.
#[derive(Default)]
struct Numbers(VecDeque<u64>);

impl Encoder for Numbers {
    fn number(&mut self, value: u64) {
        self.0.push_back(value);
    }

    fn text(&mut self, text: &str) {
        panic!("no field is a text: {text}");
    }

    fn packet(&mut self, packet: &Packet) {
        self.0.push_back(packet.id.0);
    }

    fn field(&mut self, field: TelemetryField) {
        panic!("no field is one of telemetry: {field:?}");
    }

    fn names(&mut self, names: &'static [&'static str]) {
        panic!("no field is a band: {names:?}");
    }
}

impl Decoder for Numbers {
    fn number(&mut self) -> Result<u64, Malformed> {
        self.0.pop_front().ok_or(Malformed)
    }

    fn text(&mut self) -> Result<&str, Malformed> {
        Err(Malformed)
    }

    fn packet(&mut self) -> Result<(), Malformed> {
        Decoder::number(self).map(|_| ())
    }

    fn field(&mut self) -> Result<TelemetryField, Malformed> {
        Err(Malformed)
    }

    fn names(&mut self) -> Result<&'static [&'static str], Malformed> {
        Err(Malformed)
    }
}

const HANDOVER: Event<'static> = Event::Handover {
    element: EntityId(4),
    outage: Duration::from_micros(1_500),
    lost: 3,
    asked: true,
};

const STALLED: Event<'static> = Event::Stalled { flow: FlowId(2) };

fn served(packet: &Packet) -> Event<'_> {
    Event::Served {
        element: EntityId(4),
        packet,
        rate: 2.5,
    }
}

fn reports(event: Event<'_>) -> Vec<(Source, TelemetryField, i64)> {
    let mut all = Vec::new();
    event.reports(&mut |source, field, value| all.push((source, field, value)));
    all
}

#[test]
fn an_event_is_counted_and_its_fields_with_a_unit_are_reduced_as_declared() {
    let source = Source::Entity(EntityId(4));
    let count = TelemetryField::new(
        "handover",
        "",
        "A terminal went over to another cell.",
        Reduce::Counter,
    );
    let outage = TelemetryField::new(
        "handover_outage",
        "ms",
        "How long nothing was sent to it.",
        Reduce::Sample,
    );
    let outage = outage.in_parts(1_000_000);
    let lost = TelemetryField::new(
        "handover_lost",
        "packets",
        "Packets that were lost meanwhile.",
        Reduce::Counter,
    );
    assert_eq!(
        reports(HANDOVER),
        [
            (source, count, 1),
            (source, outage, 1_500_000),
            (source, lost, 3)
        ]
    );
    assert_eq!(outage.in_units(1_500_000), 1.5);
    let [(_, rate, value)] = reports(served(&Packet::EMPTY))[..] else {
        panic!("the rate alone")
    };
    assert_eq!((rate.name, rate.in_units(value)), ("served_rate", 2.5));
    assert_eq!(reports(STALLED), []);
}

#[test]
fn an_event_is_taken_apart_and_put_together_again() {
    let packet = Packet {
        id: crate::PacketId(9),
        ..Packet::default()
    };
    let (without, about) = served(&packet).parts();
    assert_eq!(without, served(&NO_PACKET));
    assert_eq!(about, Some(&packet));
    assert_eq!(without.about(&packet), served(&packet));
    assert_eq!(HANDOVER.parts(), (HANDOVER, None));
    assert_eq!(HANDOVER.about(&packet), HANDOVER);
    // What an element reports is about the path; a flow's is of itself.
    assert_eq!(HANDOVER.of_itself(), None);
    assert_eq!(served(&packet).of_itself(), None);
    assert_eq!(STALLED.of_itself(), Some(STALLED));
}

#[test]
fn an_event_goes_through_bytes() {
    for event in [HANDOVER, served(&NO_PACKET), STALLED] {
        let mut numbers = Numbers::default();
        event.write(&mut numbers);
        for kept in 0..numbers.0.len() {
            let mut short = Numbers(numbers.0.iter().take(kept).copied().collect());
            assert_eq!(Event::read(event.number(), &mut short), Err(Malformed));
        }
        assert_eq!(Event::read(event.number(), &mut numbers), Ok(event));
        assert!(numbers.0.is_empty(), "all of it");
    }
    let unknown = EVENTS.len() as u8;
    let read = Event::read(unknown, &mut Numbers::default());
    assert_eq!(read, Err(Malformed));
}

/// Sinks that reduce nothing by hand drop no event: only these come to no figure, because
/// what they are about is in captures, series of observers, or samples as a whole, or is
/// for who follows a run alone.
#[test]
fn every_event_of_a_run_comes_to_figures_or_is_one_of_a_few() {
    let kinds = super::EVENTS.iter();
    let unreduced = kinds.filter(|kind| !kind.counted);
    let unreduced = unreduced.filter(|kind| kind.fields.iter().all(|f| f.reduced.is_none()));
    let names: Vec<&str> = unreduced.map(|kind| kind.name).collect();
    let few = [
        "translated",
        "tapped",
        "sampled",
        "telemetry",
        "rule_sampled",
    ];
    assert_eq!(names, few);
}

#[test]
fn events_and_their_fields_have_names_of_their_own_and_a_sentence() {
    let names: BTreeSet<&str> = super::EVENTS.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), super::EVENTS.len());
    for kind in super::EVENTS {
        assert!(kind.about.ends_with('.'), "{}", kind.name);
        for field in kind.fields {
            assert!(field.about.ends_with('.'), "{}", field.name);
        }
    }
}
