//! What flows come to.

use narrows_core::RecoveryEvent;

use super::*;
use crate::summary::{
    CodepointSummary, FieldFigures, FlowSignals, RecoverySummary, TelemetrySummary,
};

/// Two bulk flows, one of so many bytes, and two the other way, of which one is of datagrams.
const FLOWS: &str = r#"
version  = 1
name     = "flows"
duration = "4s"
measure  = "1s..3s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "bottleneck: rate 10Mbit"]
down = ["bottleneck: rate 10Mbit"]

[[flow]]
name = "bulk"
from = "client"
to   = "server"
cc   = "cubic"
start = "250ms"

[[flow]]
name = "second"
from = "client"
to   = "server"
cc   = "reno"
start = "250ms"

[[flow]]
name = "short"
from = "client"
to   = "server"
cc   = "cubic"
bytes = "1Mb"
start = "1s"

[[flow]]
name = "calls"
from = "server"
to   = "client"
traffic = "cbr rate 1Mbit size 200"
start = "1s"

[[flow]]
name = "never"
from = "server"
to   = "client"
cc   = "cubic"
start = "0s"

[[window]]
name = "half"
over = "1s..2s"
"#;

fn plan_of(text: &str) -> Plan {
    let draft = Draft::read("flows.toml", text.as_bytes());
    draft.and_then(|draft| draft.check()).expect("a plan")
}

/// A segment of this flow with this ECN field and so many bytes of payload.
fn segment(flow: u32, ecn: u8, payload: u32) -> Packet {
    let mut bytes = vec![0; 40];
    (bytes[0], bytes[1], bytes[9], bytes[32]) = (0x45, ecn, 6, 0x50);
    Packet {
        flow: Some(FlowId(flow)),
        bytes,
        zero_tail: payload,
        ..Packet::default()
    }
}

const BULK: FlowId = FlowId(0);

/// Its connection is opened by 300 ms, which both ends report.
fn open(reducer: &mut Reducer) {
    for (ms, ecn, accecn) in [(300, true, false), (320, false, true)] {
        let event = Event::Established {
            flow: BULK,
            ecn,
            accecn,
        };
        reducer.record(at(ms), event);
    }
}

#[test]
fn a_flow_s_figures_are_of_the_window_but_for_those_of_its_whole_life() {
    let plan = plan_of(FLOWS);
    let (mut reducer, names) = reducer(&plan);
    let id = |name: &str| names.id(name).expect(name);
    let [client, server] = ["host/client", "host/server"].map(id);
    let (up, down) = (
        id("link/access/up/bottleneck"),
        id("link/access/down/bottleneck"),
    );
    let netem = id("link/access/up/netem");
    open(&mut reducer);
    let flow = BULK;
    let mut record = |ms, event: Event<'_>| reducer.record(at(ms), event);
    for (ms, bytes) in [(500, 1_000), (1_000, 2_000), (2_999, 3_000), (3_000, 4_000)] {
        record(ms, Event::Delivered { flow, bytes });
    }
    for (ms, rtt) in [(500, 90), (1_500, 20), (1_600, 40), (3_500, 90)] {
        let rtt = Duration::from_millis(rtt);
        record(ms, Event::RttSample { flow, rtt });
    }
    // By what its sender and its receiver put on the path and got from it.
    for (ms, from, to, ecn) in [
        (500, client, server, [2, 2]),
        (1_500, client, server, [2, 3]),
        (1_600, client, server, [1, 1]),
        (1_700, server, client, [0, 0]),
    ] {
        let [sent, received] = ecn.map(|ecn| segment(0, ecn, 1_000));
        record(
            ms,
            Event::Sent {
                host: from,
                packet: &sent,
            },
        );
        record(
            ms + 10,
            Event::Received {
                host: to,
                packet: &received,
            },
        );
    }
    let packet = &segment(0, 2, 1_000);
    let cause = MarkCause::Step;
    for (ms, queue) in [
        (500, up),
        (1_100, up),
        (1_200, up),
        (1_300, down),
        (3_100, up),
    ] {
        record(
            ms,
            Event::Marked {
                queue,
                packet,
                cause,
            },
        );
    }
    for (ms, element, cause) in [
        (500, up, DropCause::Overflow),
        (1_300, up, DropCause::Overflow),
        (1_400, down, DropCause::Overflow),
        (1_410, down, DropCause::Overflow),
        (1_450, netem, DropCause::Loss),
        (3_100, netem, DropCause::Loss),
    ] {
        record(
            ms,
            Event::Dropped {
                element,
                packet,
                cause,
            },
        );
    }
    for ms in [500, 1_500, 1_501, 1_502, 3_500] {
        record(ms, Event::Retransmitted { flow, bytes: 1_000 });
    }
    for (ms, cwnd) in [(500, 100), (1_500, 10), (2_000, 21), (3_500, 100)] {
        let sample = FlowSample {
            cwnd,
            ..FlowSample::default()
        };
        record(ms, Event::Sampled { flow, sample });
    }
    for (ms, value) in [(500, 100), (1_500, 2), (2_500, 4)] {
        let source = flow.into();
        let event = Event::Telemetry {
            source,
            field: REQUESTS,
            value,
        };
        record(ms, event);
    }
    for (kind, times) in RecoveryEvent::ALL.iter().zip(1..) {
        for _ in 0..times {
            record(3_500, Event::Recovery { flow, event: *kind });
        }
    }
    // In whole seconds: by the receive window, the send buffer, the application.
    for (ms, by) in [
        (900, [1, 2, 3]),
        (1_000, [2, 3, 4]),
        (2_900, [3, 5, 8]),
        (3_000, [9, 9, 9]),
    ] {
        let [receive_window, send_buffer, application] = by.map(Duration::from_secs);
        let event = Event::Limited {
            flow,
            receive_window,
            send_buffer,
            application,
        };
        record(ms, event);
    }
    let reduced = reducer.finish(&plan, "sim", 1, at(4_000));
    let found = &reduced.summary.flows[0];
    let signals = |element: &str, marks, drops| FlowSignals {
        element: element.to_owned(),
        marks,
        drops,
    };
    let mut signalled = [
        (up, signals("link/access/up/bottleneck", 2, 1)),
        (down, signals("link/access/down/bottleneck", 1, 2)),
    ];
    signalled.sort_by_key(|(entity, _)| *entity);
    let limited = |[receive_window_s, send_buffer_s, application_s]: [f64; 3]| LimitedSummary {
        receive_window_s,
        send_buffer_s,
        application_s,
    };
    let requests = TelemetrySummary {
        name: "requests".to_owned(),
        about: "answered".to_owned(),
        figures: FieldFigures::Counter {
            total: 6.0,
            per_s: 3.0,
        },
        ..found.telemetry[0].clone()
    };
    let rtt = found.rtt_ms.expect("samples");
    assert_eq!((rtt.count, rtt.min, rtt.max), (2, 20.0, 40.0));
    let expected = FlowSummary {
        name: "flow/bulk".to_owned(),
        from: "client".to_owned(),
        to: "server".to_owned(),
        cc: "cubic".to_owned(),
        start_s: 0.25,
        established_s: Some(0.3),
        ecn: true,
        accecn: true,
        // 5000 bytes in two seconds.
        goodput_mbit: Some(0.02),
        first_byte_ms: Some(250.0),
        rtt_ms: Some(rtt),
        bytes: 5_000,
        bytes_total: 10_000,
        retransmissions: 3,
        packets: 2,
        mean_window_packets: Some(15.5),
        ce_marks: 3,
        drops: 4,
        signals: signalled.map(|(_, signals)| signals).to_vec(),
        recovery: RecoverySummary {
            fast_retransmits: 1,
            tail_loss_probes: 2,
            timeouts: 3,
            ecn_reductions: 4,
            spurious_undos: 5,
            slow_start_exits: 6,
        },
        limited: limited([9.0, 9.0, 9.0]),
        limited_in_window: limited([2.0, 3.0, 5.0]),
        codepoints: CodepointSummary {
            sent: [1, 1, 2, 0],
            received: [1, 1, 1, 1],
        },
        telemetry: vec![requests],
        ..FlowSummary::default()
    };
    assert_eq!(*found, expected);
    let window = &reduced.summary.windows[0];
    assert_eq!(
        (window.name.as_str(), window.goodput_mbit),
        ("window/half/bulk", 0.016)
    );
    // What has no queue is an element that drops.
    let droppers = &reduced.summary.droppers;
    assert_eq!(droppers.len(), 1);
    assert_eq!(
        (droppers[0].name.as_str(), droppers[0].drops.loss),
        ("link/access/up/netem", 1)
    );
}

#[test]
fn each_element_without_a_queue_has_its_drops() {
    let plan = plan_of(FLOWS);
    let (mut reducer, names) = reducer(&plan);
    let elements = ["link/access/up/netem", "host/server"];
    let packet = &segment(0, 2, 1_000);
    for (ms, element, cause) in [
        (1_100, 0, DropCause::Loss),
        (1_200, 1, DropCause::NoSocket),
        (1_300, 0, DropCause::Loss),
        (1_400, 1, DropCause::NoSocket),
        (1_500, 0, DropCause::Loss),
    ] {
        let element = names.id(elements[element]).expect("an element");
        reducer.record(
            at(ms),
            Event::Dropped {
                element,
                packet,
                cause,
            },
        );
    }
    let summary = reducer.finish(&plan, "sim", 1, at(4_000)).summary;
    let mut drops: Vec<_> = summary
        .droppers
        .iter()
        .map(|d| (d.name.as_str(), d.drops.loss, d.drops.total()))
        .collect();
    drops.sort_unstable();
    assert_eq!(
        drops,
        [("host/server", 0, 2), ("link/access/up/netem", 3, 3)]
    );
}

/// 2500 bytes by 2.5 s, at which the second flow ends: goodput is over the 1.5 s in which it was
/// open in the window.
#[test]
fn a_flow_that_ends_has_a_completion_time_and_its_last_row_in_that_interval() {
    let plan = plan_of(FLOWS);
    let (mut reducer, _) = reducer(&plan);
    let flow = FlowId(1);
    let (ecn, accecn) = (false, false);
    let mut record = |ms, event: Event<'_>| reducer.record(at(ms), event);
    record(700, Event::Established { flow, ecn, accecn });
    // The end of an interval belongs to it.
    for (ms, bytes) in [(1_000, 500), (1_500, 1_000), (2_100, 1_000)] {
        record(ms, Event::Delivered { flow, bytes });
    }
    for (ms, complete) in [(2_500, true), (2_600, false)] {
        let bytes = 2_500;
        record(
            ms,
            Event::Finished {
                flow,
                bytes,
                complete,
            },
        );
    }
    let reduced = reducer.finish(&plan, "sim", 1, at(4_000));
    let found = &reduced.summary.flows[1];
    assert_eq!((found.finished_s, found.complete), (Some(2.5), true));
    assert_eq!(
        (found.fct_s, found.first_byte_ms),
        (Some(2.25), Some(750.0))
    );
    assert_eq!((found.goodput_mbit, found.bytes), (Some(0.013_333), 2_500));
    let series = Series::of(&reduced);
    let goodput = series.track("flow/second", "goodput_mbit").expect("rows");
    // From the interval in which it was established to that in which it ended.
    assert_eq!(goodput.t_s, [1.0, 1.5, 2.0, 2.5]);
    assert_eq!(goodput.value, [0.008, 0.016, 0.0, 0.016]);
    let of_others = series.tracks.iter().map(|t| t.entity.as_str());
    let others: BTreeSet<_> = of_others.filter(|name| *name != "flow/second").collect();
    // Those that were never established have none; datagrams need no handshake.
    assert_eq!(others, BTreeSet::from(["flow/calls"]));
}

#[test]
fn a_row_has_what_its_interval_had_of_each_metric() {
    let plan = plan_of(FLOWS);
    let (mut reducer, names) = reducer(&plan);
    let [client, server] = ["host/client", "host/server"].map(|n| names.id(n).expect(n));
    open(&mut reducer);
    let flow = BULK;
    let data = &segment(0, 2, 1_000);
    let mut record = |ms, event: Event<'_>| reducer.record(at(ms), event);
    for ms in [600, 700] {
        record(
            ms,
            Event::Received {
                host: server,
                packet: data,
            },
        );
    }
    // What its sender gets is no throughput.
    record(
        800,
        Event::Received {
            host: client,
            packet: data,
        },
    );
    for (ms, srtt, pacing_rate, bytes_acked) in [(900, 30, 125_000, 5_000), (1_400, 0, 0, 6_000)] {
        let sample = FlowSample {
            cwnd: 10,
            in_flight: 7,
            srtt: Duration::from_millis(srtt),
            pacing_rate,
            bytes_acked,
            ..FlowSample::default()
        };
        record(ms, Event::Sampled { flow, sample });
    }
    let reduced = reducer.finish(&plan, "sim", 1, at(1_700));
    let series = Series::of(&reduced);
    for (metric, rows) in [
        // Payload that arrived, in half a second; from the interval on in which any did.
        ("throughput_mbit", &[(1.0, 0.032), (1.5, 0.0)][..]),
        ("delivery_rate_mbit", &[(1.0, 0.08), (1.5, 0.016)]),
        ("srtt_ms", &[(1.0, 30.0)]),
        ("pacing_rate_mbit", &[(1.0, 1.0)]),
        ("cwnd_packets", &[(1.0, 10.0), (1.5, 10.0)]),
        ("in_flight_packets", &[(1.0, 7.0), (1.5, 7.0)]),
        ("goodput_mbit", &[(0.5, 0.0), (1.0, 0.0), (1.5, 0.0)]),
    ] {
        let track = series.track("flow/bulk", metric).expect(metric);
        let found: Vec<_> = track
            .t_s
            .iter()
            .copied()
            .zip(track.value.iter().copied())
            .collect();
        assert_eq!(found, rows, "{metric}");
    }
    for metric in ["rtt_ms", "retransmissions", "ce_marks", "drops"] {
        assert_eq!(series.track("flow/bulk", metric), None, "{metric}");
    }
}

/// Two datagrams of which the second takes 16 ms longer, so that the jitter is 1 ms, and a copy.
#[test]
fn a_flow_of_datagrams_has_delay_and_jitter_and_rows_from_its_start_on() {
    let plan = plan_of(FLOWS);
    let (mut reducer, names) = reducer(&plan);
    let host = names.id("host/client").expect("a host");
    for (ms, took, parent) in [
        (1_500, 10, None),
        (1_530, 26, None),
        (1_540, 36, Some(narrows_core::PacketId(1))),
        (2_100, 26, None),
    ] {
        let packet = &Packet {
            flow: Some(FlowId(3)),
            parent,
            born: at(ms - took),
            ..Packet::default()
        };
        reducer.record(at(ms), Event::Received { host, packet });
    }
    let reduced = reducer.finish(&plan, "sim", 1, at(3_000));
    let way = reduced.summary.flows[3].one_way.expect("datagrams");
    assert_eq!(
        (way.one_way_ms.count, way.one_way_ms.min, way.one_way_ms.max),
        (3, 10.0, 26.0)
    );
    assert_eq!(way.jitter_max_ms, 1.0);
    assert_eq!(reduced.summary.flows[0].one_way, None);
    let series = Series::of(&reduced);
    let rows = |metric| {
        let track = series.track("flow/calls", metric).expect(metric);
        (track.t_s.clone(), track.value.clone())
    };
    assert_eq!(
        rows("one_way_ms"),
        (vec![1.5, 2.0, 2.5], vec![10.0, 26.0, 26.0])
    );
    assert_eq!(
        rows("jitter_ms"),
        (vec![1.5, 2.0, 2.5], vec![0.0, 1.0, 0.9375])
    );
    assert_eq!(rows("goodput_mbit").0, [1.5, 2.0, 2.5, 3.0]);
}

fn established(reducer: &mut Reducer, flows: &[(u32, u64)]) {
    for (flow, bytes) in flows {
        let flow = FlowId(*flow);
        let (ecn, accecn, bytes) = (false, false, *bytes);
        reducer.record(at(1_000), Event::Established { flow, ecn, accecn });
        reducer.record(at(2_000), Event::Delivered { flow, bytes });
    }
}

#[test]
fn flows_that_compete_have_a_sum_and_bulk_flows_of_them_a_fairness() {
    let plan = plan_of(FLOWS);
    let (mut both, _) = reducer(&plan);
    // Goodputs of 1, 3 and 2 Mbit/s; the third is of so many bytes.
    established(&mut both, &[(0, 250_000), (1, 750_000), (2, 500_000)]);
    let summary = both.finish(&plan, "sim", 1, at(4_000)).summary;
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    // (1 + 3)² / (2 · (1² + 3²))
    let fairness = Some(0.8);
    let there = DirectionSummary {
        from: names(&["client"]),
        to: names(&["server"]),
        flows: names(&["flow/bulk", "flow/second", "flow/short"]),
        goodput_mbit: Some(6.0),
        jain: fairness,
        bulk_flows: 2,
    };
    let back = DirectionSummary {
        from: names(&["server"]),
        to: names(&["client"]),
        flows: names(&["flow/calls", "flow/never"]),
        // Of datagrams none came.
        goodput_mbit: Some(0.0),
        jain: None,
        bulk_flows: 0,
    };
    assert_eq!(summary.directions, [there, back]);
    assert_eq!(summary.jain, fairness);
    // One bulk flow is fair to nobody, and where both ways have some there is no one fairness.
    let (mut one, _) = reducer(&plan);
    established(&mut one, &[(0, 250_000)]);
    let summary = one.finish(&plan, "sim", 1, at(4_000)).summary;
    let of = |d: &DirectionSummary| (d.bulk_flows, d.jain);
    assert_eq!(of(&summary.directions[0]), (1, None));
    assert_eq!(summary.jain, None);
    let (mut ways, _) = reducer(&plan);
    established(&mut ways, &[(0, 250_000), (1, 750_000), (4, 1_000)]);
    let summary = ways.finish(&plan, "sim", 1, at(4_000)).summary;
    assert_eq!(of(&summary.directions[0]), (2, fairness));
    assert_eq!(of(&summary.directions[1]), (1, None));
    assert_eq!(summary.jain, None);
}

#[test]
fn flows_without_a_goodput_have_no_sum_of_them() {
    let text = FLOWS.replace("traffic = \"cbr rate 1Mbit size 200\"", "cc = \"reno\"");
    let plan = plan_of(&text);
    let (reducer, _) = reducer(&plan);
    let summary = reducer.finish(&plan, "sim", 1, at(4_000)).summary;
    let sums: Vec<_> = summary.directions.iter().map(|d| d.goodput_mbit).collect();
    assert_eq!(sums, [None, None]);
    // Nor has one that is established as the window ends.
    let (mut late, _) = super::reducer(&plan);
    let (flow, ecn, accecn) = (FlowId(0), false, false);
    late.record(at(500), Event::Established { flow, ecn, accecn });
    let summary = late.finish(&plan, "sim", 1, at(1_000)).summary;
    assert_eq!(summary.flows[0].goodput_mbit, None);
}
