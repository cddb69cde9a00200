//! Sums of one flow of the plan, of one that is not the plan's, and of one of which nothing passed.

use narrows_core::{EntityId, FlowId, FlowSample, Packet, PacketId};
use narrows_observe::{Basis, Interval, Measured, Observer, ObserverConfig, Quantity, Side};
use narrows_scenario::Draft;
use narrows_units::{Duration, Instant};
use narrows_wire::Profile;

use super::*;
use crate::observers::Found;
use crate::observers::packets::Passed;
use crate::observers::seconds::Carried;
use crate::observers::window::Span;

const FULL: Quantity = Quantity::FullRtt(Side::Initiator);
const LOSS: Quantity = Quantity::UpstreamLoss(Side::Initiator);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn packet(id: u64) -> Packet {
    Packet {
        id: PacketId(id),
        flow: Some(FlowId(0)),
        ..Packet::default()
    }
}

fn trip(technique: Technique, ms: u64, weight: u32) -> Entry {
    let sample = Sample {
        at: at(78),
        technique,
        quantity: FULL,
        value: Measured::Rtt(Duration::from_millis(ms)),
        first: 0,
        last: 2,
        weight,
    };
    Entry::Sample(7, sample)
}

fn estimate(technique: Technique, quantity: Quantity, value: f64, unit: Unit) -> Estimate {
    Estimate {
        technique,
        quantity,
        value,
        unit,
        interval: Some(Interval {
            low: value / 2.0,
            high: value * 2.0,
        }),
        n: 11,
        rejected: 3,
        sd: Some(1.5),
        min: Some(0.125),
        median: None,
        p95: None,
        basis: Basis::Learnt,
    }
}

#[test]
fn what_was_seen_and_estimated_of_each_flow_is_held_against_what_happened() {
    let link = ["netem delay 5ms".to_owned(), "rate 1Mbit".to_owned()];
    let plan = Draft::from_words(&link, &["cubic".to_owned()])
        .and_then(|draft| draft.check())
        .expect("a plan");
    let names: Vec<String> = plan
        .hosts
        .iter()
        .map(|h| format!("host/{}", h.name))
        .collect();
    let opener = EntityId(plan.flows[0].opens.0 as u32);
    let answerer = EntityId(plan.flows[0].to.0 as u32);
    let mut ledger = PacketTable::new(&plan, &names);
    let mut passed = Passed::default();
    // A round trip in which the answerer waits for 3 ms and the opener for 5, then two packets
    // of which one is lost before the tap, 10 ms from the opener.
    for (id, from, sent, seen, arrived) in [
        (0, opener, 0, Some(10), Some(30)),
        (1, answerer, 33, Some(53), Some(63)),
        (2, opener, 68, Some(78), Some(98)),
        (3, opener, 100, None, None),
        (4, opener, 101, Some(111), Some(131)),
    ] {
        ledger.sent(at(sent), from, &packet(id));
        if let Some(ms) = seen {
            passed.pass(at(ms), &packet(id));
        }
        match arrived {
            Some(ms) => ledger.received(at(ms), &packet(id)),
            None => ledger.dropped(&packet(id)),
        }
    }
    let mut srtt = SmoothedRtt::new(1);
    for (ms, rtt) in [(500, 20), (1_500, 40)] {
        let sample = FlowSample {
            srtt: Duration::from_millis(rtt),
            ..FlowSample::default()
        };
        srtt.sampled(at(ms), 0, &sample);
    }
    let mut carried = Carried::default();
    for i in 0..200 {
        carried.add(at(100 * i), 5_000 * i.min(100));
    }
    let growth = carried.growth(Span::WHOLE).expect("it grows");
    let mut found = Found::new(&[], Span::WHOLE);
    let marked = Profile::of(&[Signal::Delay]).expect("a profile");
    for (id, plan, profile, packets) in [
        (7, Some(0), marked, 9),
        (8, None, marked, 1),
        (9, Some(0), marked, 0),
    ] {
        let mut seen = Seen::begun("10.0.0.1:5".to_owned(), plan, profile);
        seen.inside = Passing {
            bytes: 3 << 19,
            packets,
            again: 2,
        };
        found.flows.insert(id, seen);
    }
    let of = |flow, estimate| Entry::Estimate(flow, at(200), estimate);
    found.log = vec![
        trip(Technique::Delay, 68, 1),
        trip(Technique::Delay, 61, 1),
        trip(Technique::Delay, 64, 1),
        trip(Technique::Spin, 68, 2),
        of(7, estimate(Technique::Delay, FULL, 70.0, Unit::Ms)),
        of(7, estimate(Technique::Square, LOSS, 0.75, Unit::Ratio)),
        of(99, estimate(Technique::Square, LOSS, 0.75, Unit::Ratio)),
    ];
    let watching = Watching {
        name: "probe".to_owned(),
        tap: "tap/mid".to_owned(),
        at: EntityId(0),
        observer: Observer::new(ObserverConfig::default()),
        passed,
        carried: vec![carried],
        found,
    };
    let mut sums = Vec::new();
    add(&plan, &ledger, &srtt, &watching, &mut sums);
    sums.retain(|sum| sum.unit != "%");
    let name = plan.flows[0].name.as_str();
    let line =
        |flow: &str, technique: &str, quantity: &str, unit: &str, value, n| ObservationSummary {
            observer: "probe".to_owned(),
            tap: "tap/mid".to_owned(),
            flow: flow.to_owned(),
            technique: technique.to_owned(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            basis: "measured".to_owned(),
            value,
            n,
            ..ObservationSummary::default()
        };
    let estimated =
        |technique: Technique, quantity: Quantity, unit: &str, value: f64| ObservationSummary {
            basis: "learnt".to_owned(),
            low: Some(value / 2.0),
            high: Some(value * 2.0),
            rejected: 3,
            sd: Some(1.5),
            min: Some(0.125),
            ..line(name, technique.name(), quantity.name(), unit, value, 11)
        };
    let round_trip = ObservationSummary {
        p50: Some(64.0),
        p95: Some(68.0),
        // The network took 8 ms less than each sample: 60, 53 and 56 ms.
        truth: Some(56.333333),
        truth_sd: Some(2.867442),
        error: Some(8.0),
        dwell_ms: Some(8.0),
        truth_all: Some(60.0),
        error_all: Some(10.0),
        errors: sums.iter().find_map(|sum| sum.errors),
        ..estimated(Technique::Delay, FULL, "ms", 70.0)
    };
    let errors = round_trip.errors.expect("errors");
    assert_eq!((errors.p025, errors.p50, errors.max), (8.0, 8.0, 8.0));
    let loss = ObservationSummary {
        // One of the opener's four.
        truth: Some(0.25),
        error: Some(0.5),
        ..estimated(Technique::Square, LOSS, "ratio", 0.75)
    };
    let smoothed = ObservationSummary {
        sd: Some(10.0),
        ..line(name, "ss", "smoothed_rtt", "ms", 30.0, 2)
    };
    let other = "10.0.0.1:5";
    let expected = [
        line(name, "seen", "ip", "MiB", 1.5, 9),
        line(name, "seen", "again_or_late", "packets", 2.0, 9),
        line(
            name,
            "seen",
            "growth",
            "Mbit/s per s",
            millionths(growth),
            9,
        ),
        smoothed,
        line(other, "seen", "ip", "MiB", 1.5, 1),
        line(other, "seen", "again_or_late", "packets", 2.0, 1),
        line(name, Technique::Delay.name(), "inflated", "samples", 3.0, 3),
        round_trip,
        loss,
    ];
    assert_eq!(sums, expected);
}
