//! Figures that are computed of a summary.

use super::*;

/// Flows by turns in two groups, with goodputs 1, 2, 3, … .
fn two_groups(flows: usize) -> RunSummary {
    let name = |n: usize| format!("flow/f{n}");
    let group = |rest| DirectionSummary {
        flows: (0..flows).filter(|n| n % 2 == rest).map(name).collect(),
        ..DirectionSummary::default()
    };
    let flow = |n: usize| FlowSummary {
        name: name(n),
        goodput_mbit: Some((n + 1) as f64),
        ..FlowSummary::default()
    };
    RunSummary {
        directions: vec![group(0), group(1)],
        flows: (0..flows).map(flow).collect(),
        ..RunSummary::default()
    }
}

#[test]
fn a_share_is_of_those_that_a_flow_competes_with() {
    let mut summary = two_groups(4);
    // 1 and 3, and 2 and 4, compete.
    let shares = summary.shares_pct();
    assert_eq!(shares[0], Some(25.0));
    assert_eq!(shares[3], Some(100.0 * 4.0 / 6.0));
    assert_eq!(summary.share_pct(&summary.flows[3]), shares[3]);
    summary.flows[0].goodput_mbit = None;
    assert_eq!(
        summary.shares_pct()[..3],
        [None, Some(100.0 / 3.0), Some(100.0)]
    );
    summary.directions.clear();
    assert_eq!(summary.shares_pct()[1], Some(100.0 * 2.0 / 9.0));
}

#[test]
fn shares_of_a_hundred_thousand_flows_come_to_an_end() {
    // A search through all flows for each pair of them would be 10¹⁵ comparisons.
    let shares = two_groups(100_000).shares_pct();
    let sum: f64 = shares.into_iter().flatten().sum();
    assert!((sum - 200.0).abs() < 1e-6, "{sum}");
}

fn named(name: &str) -> FlowSummary {
    FlowSummary {
        name: name.to_owned(),
        ..FlowSummary::default()
    }
}

fn queue(name: &str) -> QueueSummary {
    QueueSummary {
        name: name.to_owned(),
        ..QueueSummary::default()
    }
}

#[test]
fn flows_are_found_by_full_and_short_name_and_queues_by_their_full_one() {
    let summary = RunSummary {
        flows: vec![named("flow/a"), named("flow/b")],
        queues: vec![queue("link/l/up/rate"), queue("link/l/down/rate")],
        ..RunSummary::default()
    };
    for (name, found) in [
        ("flow/b", Some("flow/b")),
        ("b", Some("flow/b")),
        ("a", Some("flow/a")),
        ("c", None),
        ("probe/b", None),
    ] {
        let flow = summary.flow(name).map(|f| f.name.as_str());
        assert_eq!(flow, found, "{name}");
    }
    let down = summary.queue("link/l/down/rate");
    assert_eq!(down, Some(&summary.queues[1]));
    assert_eq!(summary.queue("rate"), None);
}

#[test]
fn what_an_element_signalled_is_nothing_where_it_is_not_listed() {
    let signals = |element: &str, marks, drops| FlowSignals {
        element: element.to_owned(),
        marks,
        drops,
    };
    let flow = FlowSummary {
        signals: vec![signals("first", 1, 2), signals("second", 3, 4)],
        ..FlowSummary::default()
    };
    assert_eq!(flow.signals_at("second"), signals("second", 3, 4));
    assert_eq!(flow.signals_at("third"), FlowSignals::default());
}

#[test]
fn marks_and_drops_are_those_of_all_queues_and_elements() {
    let mut summary = RunSummary {
        queues: vec![queue("a"), queue("b")],
        droppers: vec![DropperSummary::default()],
        ..RunSummary::default()
    };
    summary.queues[0].marks.step = 3;
    summary.queues[1].marks.overflow = 4;
    summary.queues[0].drops.overflow = 10;
    summary.queues[1].drops.probability = 20;
    summary.droppers[0].drops.loss = 30;
    assert_eq!(summary.signals(), (7, 60));
}

#[test]
fn delay_one_way_is_of_flows_with_their_loss_and_of_probes_there_and_back() {
    let delay = |min| OneWaySummary {
        one_way_ms: Distribution {
            min,
            ..Distribution::default()
        },
        ..OneWaySummary::default()
    };
    let flow = |name: &str, packets, one_way| FlowSummary {
        packets,
        drops: 5,
        one_way,
        ..named(name)
    };
    let probe = |name: &str, there, back| ProbeSummary {
        name: name.to_owned(),
        there,
        back,
        ..ProbeSummary::default()
    };
    let summary = RunSummary {
        flows: vec![
            flow("flow/bulk", 9, None),
            flow("flow/call", 40, Some(delay(1.0))),
            flow("flow/unseen", 0, Some(delay(2.0))),
        ],
        probes: vec![
            probe("probe/both", Some(delay(3.0)), Some(delay(4.0))),
            probe("probe/lost", Some(delay(5.0)), None),
        ],
        ..RunSummary::default()
    };
    let of = |name: &str, min, lost| (name.to_owned(), delay(min), lost);
    assert_eq!(
        summary.one_way(),
        [
            of("flow/call", 1.0, Some(12.5)),
            of("flow/unseen", 2.0, None),
            of("probe/both there", 3.0, None),
            of("probe/both back", 4.0, None),
            of("probe/lost there", 5.0, None),
        ]
    );
    // RFC 5481: by how much a delay is longer than the least.
    assert_eq!(delay(3.0).variation_ms(7.5), 4.5);
}

#[test]
fn what_held_a_sender_back_since_then_is_never_negative() {
    let of = |receive_window_s, send_buffer_s, application_s| LimitedSummary {
        receive_window_s,
        send_buffer_s,
        application_s,
    };
    let since = of(5.0, 7.0, 9.0).since(of(2.0, 3.0, 4.0));
    assert_eq!(since, of(3.0, 4.0, 5.0));
    assert_eq!(
        of(1.0, 1.0, 1.0).since(of(2.0, 2.0, 2.0)),
        of(0.0, 0.0, 0.0)
    );
}

#[test]
fn a_direction_names_up_to_three_hosts_and_leaves_out_that_it_has_no_bulk_flow() {
    let hosts = |n: usize| (1..=n).map(|i| format!("h{i}")).collect();
    let direction = |from, to, bulk_flows| DirectionSummary {
        from: hosts(from),
        to: hosts(to),
        bulk_flows,
        ..DirectionSummary::default()
    };
    assert_eq!(direction(1, 3, 0).label(), "h1 → h1, h2, h3");
    assert_eq!(direction(4, 1, 0).label(), "4 hosts → h1");
    let count = |of: DirectionSummary| {
        let json = serde_json::to_value(of).expect("JSON");
        json.get("bulk_flows").cloned()
    };
    assert_eq!(count(direction(1, 1, 0)), None);
    assert_eq!(count(direction(1, 1, 2)), Some(2.into()));
}

#[test]
fn each_kind_of_figure_has_its_names_in_the_order_of_tables() {
    use narrows_core::Reduce;
    let sample = FieldFigures::Sample(Distribution {
        count: 9,
        min: 1.0,
        mean: 2.0,
        p50: 3.0,
        p95: 4.0,
        p99: 5.0,
        max: 6.0,
    });
    let counter = FieldFigures::Counter {
        total: 8.0,
        per_s: 2.0,
    };
    let gauge = FieldFigures::Gauge {
        mean: 5.0,
        min: 4.0,
        max: 6.0,
    };
    let named = |figures: FieldFigures| figures.named().collect::<Vec<_>>();
    let of_sample = [
        ("min", 1.0),
        ("mean", 2.0),
        ("p50", 3.0),
        ("p95", 4.0),
        ("p99", 5.0),
        ("max", 6.0),
    ];
    assert_eq!(named(sample), of_sample);
    assert_eq!(named(counter), [("total", 8.0), ("per_s", 2.0)]);
    assert_eq!(named(gauge), [("min", 4.0), ("mean", 5.0), ("max", 6.0)]);
    let kinds = [sample, counter, gauge].map(|f| f.reduce());
    assert_eq!(kinds, [Reduce::Sample, Reduce::Counter, Reduce::Gauge]);
    assert_eq!(gauge.get("max"), Some(6.0));
    assert_eq!(gauge.get("total"), None);
    let least = [sample, counter, gauge].map(|f| f.min());
    assert_eq!(least, [Some(1.0), None, Some(4.0)]);
    let source = |figures: &[FieldFigures]| SourceSummary {
        telemetry: figures
            .iter()
            .map(|figures| TelemetrySummary {
                figures: *figures,
                ..TelemetrySummary::default()
            })
            .collect(),
        ..SourceSummary::default()
    };
    let heads = |sources: &[SourceSummary]| SourceSummary::figures(sources);
    assert!(heads(&[]).is_empty());
    assert_eq!(heads(&[source(&[gauge])]), ["min", "mean", "max"]);
    assert_eq!(
        heads(&[source(&[counter, gauge]), source(&[sample])]),
        ["min", "mean", "p50", "p95", "p99", "max", "total", "per_s"]
    );
}
