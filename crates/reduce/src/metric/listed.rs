//! What is computed is what `narrows_scenario::metrics` lists.

use std::collections::BTreeSet;

use narrows_scenario::metrics::{KINDS, words};
use narrows_wire::efm::Signal;

use super::*;
use crate::signals::SignalSummary;
use crate::summary::{
    BandSummary, DropCounts, DropperSummary, ErrorSpread, FieldFigures, FlowInWindow, FlowSummary,
    ObservationSummary, OneWaySummary, ProbeSummary, QueueSummary, SourceSummary, TelemetrySummary,
};

fn choices(word: &str) -> Vec<&'static str> {
    let found = words().into_iter().find(|w| w.word == word);
    let choices = found.expect(word).choices.into_iter();
    choices.map(|choice| &*choice.leak()).collect()
}

/// A summary in which nothing is missing.
fn full() -> RunSummary {
    let ms = Some(Distribution::default());
    let flow = FlowSummary {
        name: "flow/prague".to_owned(),
        goodput_mbit: Some(30.0),
        fct_s: Some(1.0),
        first_byte_ms: Some(1.0),
        rtt_ms: ms,
        mean_window_packets: Some(1.0),
        packets: 1,
        one_way: Some(OneWaySummary::default()),
        telemetry: choices("telemetry")
            .into_iter()
            .map(|name| TelemetrySummary {
                name: name.to_owned(),
                ..TelemetrySummary::default()
            })
            .collect(),
        ..FlowSummary::default()
    };
    let second = FlowSummary {
        name: "flow/cubic".to_owned(),
        goodput_mbit: Some(10.0),
        ..FlowSummary::default()
    };
    let band = |name: &str| BandSummary {
        name: name.to_owned(),
        sojourn_ms: ms,
        ..BandSummary::default()
    };
    let queue = QueueSummary {
        name: "link/access/up/bottleneck".to_owned(),
        utilisation: Some(1.0),
        sojourn_ms: ms,
        bands: choices("band").into_iter().map(band).collect(),
        rate_mbit: Some(1.0),
        probability: Some(0.0),
        ..QueueSummary::default()
    };
    let probe = ProbeSummary {
        name: "probe/ping".to_owned(),
        rtt_ms: ms,
        asked: 2,
        lost: 1,
        there: Some(OneWaySummary::default()),
        back: Some(OneWaySummary::default()),
        ..ProbeSummary::default()
    };
    let dropper = DropperSummary {
        name: "link/access/up/netem".to_owned(),
        drops: DropCounts {
            overflow: 1,
            probability: 1,
            overload: 1,
            loss: 1,
            unreachable: 1,
            policy: 1,
            malformed: 1,
            replay: 1,
            no_socket: 1,
            too_big: 1,
        },
    };
    let mark = SignalSummary {
        name: "mark/efm".to_owned(),
        host: "client".to_owned(),
        set: Signal::ALL.map(|s| (s.word().to_owned(), 1)).into(),
        ..SignalSummary::default()
    };
    let window = FlowInWindow {
        name: "window/mid/prague".to_owned(),
        peak_mbit: Some(1.0),
        rtt_ms: ms,
        telemetry: flow.telemetry.clone(),
        ..FlowInWindow::default()
    };
    let field = |name: &str, figures| TelemetrySummary {
        name: name.to_owned(),
        figures,
        ..TelemetrySummary::default()
    };
    let all = |word, figures| {
        choices(word)
            .into_iter()
            .map(move |name| field(name, figures))
    };
    let samples = all("app_sample", FieldFigures::Sample(Distribution::default()));
    let (total, per_s) = (1.0, 1.0);
    let counters = all("app_counter", FieldFigures::Counter { total, per_s });
    let gauges = all("app_gauge", FieldFigures::default());
    let app = SourceSummary {
        name: "app/web".to_owned(),
        telemetry: samples.chain(counters).chain(gauges).collect(),
        ..SourceSummary::default()
    };
    let host = SourceSummary {
        name: "host/client".to_owned(),
        telemetry: vec![field("no_port", FieldFigures::Counter { total, per_s })],
        ..SourceSummary::default()
    };
    let sample = FieldFigures::Sample(Distribution::default());
    let port = SourceSummary {
        name: queue.name.clone(),
        telemetry: vec![
            field("airtime_ms", FieldFigures::Counter { total, per_s }),
            field("aggregate_bytes", sample),
            field("blocks", FieldFigures::Counter { total, per_s }),
        ],
        ..SourceSummary::default()
    };
    let hosts_drops = DropperSummary {
        name: "host/client".to_owned(),
        ..dropper.clone()
    };
    RunSummary {
        jain: Some(0.8),
        sources: vec![app, host, port],
        flows: vec![flow, second],
        windows: vec![window],
        queues: vec![queue],
        probes: vec![probe],
        droppers: vec![dropper, hosts_drops],
        marks: vec![mark],
        ..RunSummary::default()
    }
}

/// What `summary` has of the entity whose name starts with `prefix`.
fn computed(summary: &RunSummary, prefix: &str) -> BTreeSet<String> {
    let all = metrics(summary).into_iter();
    let of = all.filter(|m| m.entity.starts_with(prefix));
    of.map(|m| m.metric).collect()
}

fn listed(entity: &str, about: &str) -> BTreeSet<String> {
    let mut kinds = KINDS.iter();
    let kind = kinds.find(|k| k.entity.starts_with(entity) && k.about.contains(about));
    kind.expect("a kind").names(2).into_iter().collect()
}

#[test]
fn the_list_of_metrics_is_what_a_summary_has() {
    let summary = full();
    for (entity, about, prefix) in [
        ("flow/", "", "flow/prague"),
        ("window/", "", "window/mid/prague"),
        ("link/", "with a rate", "link/access/up/bottleneck"),
        ("link/", "without a rate", "link/access/up/netem"),
        ("host/", "", "host/client"),
        ("app/", "", "app/web"),
        ("probe/", "", "probe/ping"),
        ("mark/", "", "mark/efm"),
    ] {
        assert_eq!(
            listed(entity, about),
            computed(&summary, prefix),
            "{prefix}"
        );
    }
    for name in listed("run", "") {
        assert!(figure(&summary, "run", &name).is_some(), "{name}");
    }
}

#[test]
fn the_list_of_metrics_is_what_an_observer_says() {
    let errors = Some(ErrorSpread::default());
    let of = |technique: &str, quantity: &str, unit: &str| {
        let some = |what: bool| what.then_some(0.0);
        let trip = unit == "ms" && technique != "ss";
        let rate = unit == "ratio";
        ObservationSummary {
            observer: "mid".to_owned(),
            flow: "prague".to_owned(),
            technique: technique.to_owned(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            low: some(trip || rate),
            high: some(trip || rate),
            sd: some(unit == "ms"),
            min: some(trip),
            p50: some(trip),
            p95: some(trip),
            truth: some(trip || rate),
            truth_sd: some(trip),
            error: some(trip || rate),
            dwell_ms: some(trip),
            truth_all: some(trip),
            error_all: some(trip),
            errors: errors.filter(|_| trip || unit == "%"),
            ..ObservationSummary::default()
        }
    };
    let mut all = vec![
        of("seen", "ip", "MiB"),
        of("seen", "again_or_late", "packets"),
        of("seen", "growth", "Mbit/s per s"),
        of("ss", "smoothed_rtt", "ms"),
        of("delay", "inflated", "samples"),
        of("vec", "inflated", "samples"),
    ];
    for technique in choices("rtt_technique") {
        for quantity in choices("rtt") {
            all.push(of(technique, quantity, "ms"));
        }
    }
    for (techniques, quantities) in [("loss_technique", "loss"), ("ce_technique", "ce")] {
        for technique in choices(techniques) {
            for quantity in choices(quantities) {
                for side in choices("side") {
                    all.push(of(technique, &format!("{quantity}_{side}"), "ratio"));
                }
            }
        }
    }
    for spin in ["spin", "vec"] {
        for other in ["ts-single", "ts-all", "psn-pse"] {
            for side in choices("side") {
                let pair = format!("{spin}-to-{other}");
                all.push(of(&pair, &format!("full_rtt_{side}"), "%"));
            }
        }
    }
    let summary = RunSummary {
        observations: all,
        ..RunSummary::default()
    };
    assert_eq!(listed("observe/", ""), computed(&summary, "observe/"));
}

#[test]
fn the_words_of_observers_are_the_observers_own() {
    use narrows_observe::{Quantity, Side, Technique};
    let techniques = ["rtt_technique", "loss_technique", "ce_technique"].map(choices);
    for technique in Technique::ALL {
        let name = technique.name();
        assert!(techniques.iter().any(|t| t.contains(&name)), "{name}");
    }
    for side in Side::BOTH {
        for (word, quantities) in [
            (
                "rtt",
                vec![
                    Quantity::FullRtt(side),
                    Quantity::LeftRtt,
                    Quantity::RightRtt,
                ],
            ),
            (
                "loss",
                vec![
                    Quantity::UpstreamLoss(side),
                    Quantity::DownstreamLoss(side),
                    Quantity::EndToEndLoss(side),
                    Quantity::ThreeQuarterLoss(side),
                    Quantity::HalfRoundTripLoss(side),
                    Quantity::RoundTripLoss(side),
                ],
            ),
            (
                "ce",
                vec![
                    Quantity::UpstreamCe(side),
                    Quantity::EndToEndCe(side),
                    Quantity::DownstreamCe(side),
                ],
            ),
        ] {
            for quantity in quantities {
                let name = quantity.name();
                let bare = name.strip_suffix(&format!("_{}", side.name()));
                let known = choices(word);
                let there = known.contains(&name) || bare.is_some_and(|b| known.contains(&b));
                assert!(there, "{name}");
            }
        }
    }
}
