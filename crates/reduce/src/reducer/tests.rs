//! Whole runs of made-up events.

mod cut;
mod flows;
mod probes;
mod queues;

use narrows_core::{Band, FlowSample, MarkCause, Reduce};
use narrows_scenario::{Draft, NameTable};

use super::*;
use crate::metric::lookup;
use crate::series::Series;

fn plan(more: &[&str]) -> Plan {
    let link = ["netem delay 5ms".to_owned(), "rate 10Mbit".to_owned()];
    let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).expect("words");
    for set in ["duration=4s", "measure=1s..3s"].iter().chain(more) {
        draft.set(set).expect(set);
    }
    draft.check().expect("a good plan")
}

fn reducer(plan: &Plan) -> (Reducer, NameTable) {
    let names = NameTable::of(plan);
    let setup = Setup {
        names: names.as_slice().to_vec(),
        interval: Duration::from_millis(500),
    };
    (Reducer::new(plan, setup), names)
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

const RESPONSE: TelemetryField =
    TelemetryField::new("response", "ms", "time to the answer", Reduce::Sample).in_parts(1000);
const REQUESTS: TelemetryField = TelemetryField::new("requests", "", "answered", Reduce::Counter);

/// The host and the queue of the plan report, as an application of theirs would.
#[test]
fn whatever_has_a_name_reports_by_it_and_nobody_between_knows_the_field() {
    let plan = plan(&[]);
    let (mut reducer, names) = reducer(&plan);
    let host = names.id("host/client").expect("a host");
    let queue = names.id("link/access/up/bottleneck").expect("a queue");
    let mut report = |ms, source: EntityId, field, value| {
        let source = source.into();
        let event = Event::Telemetry {
            source,
            field,
            value,
        };
        reducer.record(at(ms), event);
    };
    for ms in 0..4000 {
        report(ms, host, RESPONSE, i64::from(ms as u32 % 100 + 1) * 1000);
        report(ms, host, REQUESTS, 1);
    }
    report(1500, queue, REQUESTS, 3);
    reducer.record(
        at(1600),
        Event::Enqueued {
            queue,
            backlog_packets: 1,
            backlog_bytes: 1500,
        },
    );
    let reduced = reducer.finish(&plan, "sim", 1, at(4000));
    let of = |name: &str| lookup(&reduced.summary, name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(of("response_ms.min of host/client"), 1.0);
    assert_eq!(of("response_ms.max of host/client"), 100.0);
    assert_eq!(of("response_ms.mean of host/client"), 50.5);
    assert!((of("response_ms.p99 of host/client") / 99.0 - 1.0).abs() < 0.002);
    assert_eq!(of("requests.total of host/client"), 2000.0);
    assert_eq!(of("requests.per_s of host/client"), 1000.0);
    assert_eq!(of("requests.total of link/access/up/bottleneck"), 3.0);
    let series = Series::of(&reduced);
    let track = |entity, metric| &series.track(entity, metric).expect(metric).value;
    assert_eq!(track("host/client", "response_ms")[1], 50.5);
    assert_eq!(track("host/client", "requests").len(), 8);
    // It stands with the queue's own series.
    assert_eq!(track("link/access/up/bottleneck", "requests"), &[3.0]);
    let entities: Vec<_> = reduced.columns.iter().map(|c| c.entity.as_str()).collect();
    let once: BTreeSet<_> = entities.iter().collect();
    assert_eq!(entities.len(), once.len(), "{entities:?}");
}

#[test]
fn what_a_source_reports_is_written_and_read_again() {
    let plan = plan(&[]);
    let (mut reducer, names) = reducer(&plan);
    let source = names.id("host/server").expect("a host").into();
    for (field, value) in [(RESPONSE, 1_234), (REQUESTS, 2)] {
        let event = Event::Telemetry {
            source,
            field,
            value,
        };
        reducer.record(at(1500), event);
    }
    let summary = reducer.finish(&plan, "sim", 1, at(4000)).summary;
    assert_eq!(summary.sources[0].telemetry.len(), 2);
    let text = serde_json::to_string(&summary).expect("JSON");
    let read: RunSummary = serde_json::from_str(&text).expect(&text);
    assert_eq!(read, summary);
}

const TINS: &[&str] = &["bulk", "best_effort", "video", "voice"];

/// What a queue comes to of which packets leave by these bands after so many ms each.
fn of_bands(packets: &[(u64, &'static [&'static str], u8, u64)]) -> Reduced {
    let plan = plan(&[]);
    let (mut reducer, names) = reducer(&plan);
    let queue = names.id("link/access/up/bottleneck").expect("a queue");
    for (ms, names, band, sojourn) in packets {
        let event = Event::Dequeued {
            queue,
            packet: &Packet::default(),
            sojourn: Duration::from_millis(*sojourn),
            wire_bytes: 100,
            band: Band::new(names, *band),
        };
        reducer.record(at(*ms), event);
    }
    reducer.finish(&plan, "sim", 1, at(4000))
}

#[test]
fn bands_that_carry_packets_have_figures_and_series_by_their_names() {
    let reduced = of_bands(&[
        (1100, TINS, 3, 1),
        (1200, TINS, 1, 20),
        (1300, TINS, 1, 40),
        (1400, TINS, 3, 3),
        (3900, TINS, 1, 5),
    ]);
    let queue = &reduced.summary.queues[0];
    let bands: Vec<_> = queue
        .bands
        .iter()
        .map(|b| (b.name.as_str(), b.packets, b.wire_bytes))
        .collect();
    assert_eq!(bands, [("best_effort", 2, 200), ("voice", 2, 200)]);
    let of = |name: &str| lookup(&reduced.summary, name);
    let entity = "link/access/up/bottleneck";
    assert_eq!(
        of(&format!("best_effort.sojourn_ms.mean of {entity}")),
        Some(30.0)
    );
    assert_eq!(of(&format!("voice.sojourn_ms.max of {entity}")), Some(3.0));
    assert_eq!(of(&format!("bulk.packets of {entity}")), None);
    assert_eq!(of(&format!("sojourn_ms.mean of {entity}")), Some(16.0));
    let series = Series::of(&reduced);
    let of_queue = series.tracks.iter().filter(|t| t.entity == entity);
    let metrics: Vec<&str> = of_queue.map(|t| t.metric.as_str()).collect();
    assert_eq!(
        metrics,
        [
            "sojourn_ms",
            "sojourn_max_ms",
            "sojourn_best_effort_ms",
            "sojourn_best_effort_max_ms",
            "sojourn_voice_ms",
            "sojourn_voice_max_ms",
            "throughput_mbit",
        ]
    );
    let track = |metric| &series.track(entity, metric).expect(metric).value;
    assert_eq!(track("sojourn_best_effort_ms"), &[30.0, 5.0]);
    assert_eq!(track("sojourn_voice_max_ms"), &[3.0]);
}

#[test]
fn one_band_that_carries_packets_is_the_queue_itself() {
    let reduced = of_bands(&[(1100, TINS, 1, 20), (1200, TINS, 1, 20)]);
    let queue = &reduced.summary.queues[0];
    assert_eq!((queue.packets, queue.bands.len()), (2, 0));
    let series = Series::of(&reduced);
    assert!(series.tracks.iter().all(|t| !t.metric.contains("best")));
}

/// A queue whose parameters change in mid-run has other bands from then on.
#[test]
fn bands_keep_their_figures_when_the_queue_names_others() {
    const FEWER: &[&str] = &["voice", "bulk"];
    let reduced = of_bands(&[
        (1100, TINS, 3, 1),
        (1200, TINS, 0, 20),
        (1300, FEWER, 0, 3),
        (1400, FEWER, 1, 40),
    ]);
    let bands = &reduced.summary.queues[0].bands;
    let bands: Vec<_> = bands
        .iter()
        .map(|b| (b.name.as_str(), b.packets, b.sojourn_ms.expect("some").mean))
        .collect();
    assert_eq!(bands, [("bulk", 2, 30.0), ("voice", 2, 2.0)]);
}

/// Half of the stretch before it is begun anew: rates, delays and acknowledged bytes of it are
/// forgotten, marks, drops and retransmissions are not.
#[test]
fn a_stretch_that_begins_anew_keeps_its_counts_alone() {
    let plan = plan(&[]);
    let names = NameTable::of(&plan);
    let queue = names.id("link/access/up/bottleneck").expect("a queue");
    let host = names.id("host/server").expect("a host");
    let mut cut = Cut::new(&plan, names.as_slice().to_vec());
    let flow = FlowId(0);
    let packet = Packet {
        flow: Some(flow),
        ..Packet::default()
    };
    let (ecn, accecn) = (true, false);
    cut.record(at(0), Event::Established { flow, ecn, accecn });
    // The second half is ten times as fast, of a tenth of the delay.
    for (half, (bytes, ms)) in [(1_000, 20), (10_000, 2)].into_iter().enumerate() {
        let time = Duration::from_millis(ms);
        for step in 0..10 {
            let now = at(half as u64 * 1000 + step * 100 + 1);
            let sample = FlowSample {
                bytes_acked: (half as u64 * 1_000 + (step + 1) * bytes / 10) * 10,
                ..FlowSample::default()
            };
            let band = Band::new(&["all"], 0);
            let (wire_bytes, sojourn) = (bytes as u32, time);
            for event in [
                Event::Delivered { flow, bytes },
                Event::RttSample { flow, rtt: time },
                Event::Sampled { flow, sample },
                Event::Retransmitted {
                    flow,
                    bytes: wire_bytes,
                },
                Event::Received {
                    host,
                    packet: &packet,
                },
                Event::Dequeued {
                    queue,
                    packet: &packet,
                    sojourn,
                    wire_bytes,
                    band,
                },
                Event::Marked {
                    queue,
                    packet: &packet,
                    cause: MarkCause::Probability,
                },
                Event::Dropped {
                    element: queue,
                    packet: &packet,
                    cause: DropCause::Overflow,
                },
            ] {
                cut.record(now, event);
            }
        }
        if half == 0 {
            cut.restart(at(1000));
        }
    }
    let found = cut.at(at(2000));
    let of = |entity: &str, metric: &str| {
        let values = &found
            .iter()
            .find(|of| of.entity == entity)
            .expect(entity)
            .values;
        values
            .iter()
            .find(|(name, _)| name == metric)
            .expect(metric)
            .1
    };
    let (flow, queue) = ("flow/cubic", "link/access/up/bottleneck");
    for (entity, metric, expected) in [
        (flow, "goodput_mbit", 0.8),
        (flow, "rtt_ms", 2.0),
        (flow, "delivery_rate_mbit", 0.8),
        (flow, "retransmissions", 20.0),
        (flow, "ce_marks", 20.0),
        (flow, "drops", 20.0),
        (queue, "throughput_mbit", 0.8),
        (queue, "sojourn_ms", 2.0),
        (queue, "sojourn_max_ms", 2.0),
        (queue, "marks", 20.0),
        (queue, "drops", 20.0),
        (queue, "load", 0.08),
    ] {
        assert_eq!(of(entity, metric), expected, "{entity} {metric}");
    }
}
