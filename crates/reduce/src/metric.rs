//! The metrics of a run as flat, named numbers: for `summary.csv`, for
//! campaigns, for comparisons.
//!
//! A metric is called `METRIC of ENTITY`, as in campaigns: `goodput_mbit of flow/prague`,
//! `rtt_ms.p99 of flow/prague`, `sojourn_ms.p99 of link/access/up/bottleneck`,
//! `low_latency.sojourn_ms.p50 of link/access/up/bottleneck`,
//! `marks.step of link/access/up/bottleneck`, `rtt_ms.p50 of probe/ping`, `jain of run`.
//! `delay.full_rtt_initiator.mean of observe/mid/prague` is of an observer.
//! `queue/` may precede a queue's name, and slashes may stand for the dots.

#[cfg(test)]
mod listed;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::summary::{Distribution, OneWaySummary, RunSummary, TelemetrySummary, millionths};

/// One number of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Full name of what it is about; `run` for the run as a whole.
    pub entity: String,
    /// Its name, `rtt_ms.p99`.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

impl Metric {
    /// `METRIC of ENTITY`.
    pub fn key(&self) -> String {
        key(&self.entity, &self.metric)
    }
}

/// What the metric `metric` of `entity` is called.
fn key(entity: &str, metric: &str) -> String {
    format!("{} of {entity}", metric.replace('/', "."))
}

/// All numbers of `summary`, in a fixed order. What a run does not have (a
/// flow that never was open, a queue without packets) is left out.
pub fn metrics(summary: &RunSummary) -> Vec<Metric> {
    let mut list = List(Vec::new());
    list.maybe("run", "jain", summary.jain);
    for flow in &summary.flows {
        let e = &flow.name;
        list.maybe(e, "goodput_mbit", flow.goodput_mbit);
        list.maybe(e, "fct_s", flow.fct_s);
        list.maybe(e, "first_byte_ms", flow.first_byte_ms);
        list.distribution(e, "rtt_ms", flow.rtt_ms.as_ref());
        list.count(e, "established", u64::from(flow.established_s.is_some()));
        list.count(e, "ecn", u64::from(flow.ecn));
        list.count(e, "accecn", u64::from(flow.accecn));
        list.count(e, "bytes", flow.bytes);
        list.count(e, "bytes_total", flow.bytes_total);
        list.count(e, "retransmissions", flow.retransmissions);
        list.maybe(e, "mean_window_packets", flow.mean_window_packets);
        list.count(e, "packets", flow.packets);
        list.count(e, "ce_marks", flow.ce_marks);
        list.count(e, "drops", flow.drops);
        list.percent(e, "mark_pct", flow.ce_marks, flow.packets);
        list.percent(e, "loss_pct", flow.drops, flow.packets);
        list.count(e, "fast_retransmits", flow.recovery.fast_retransmits);
        list.count(e, "timeouts", flow.recovery.timeouts);
        list.count(e, "tail_loss_probes", flow.recovery.tail_loss_probes);
        list.count(e, "ecn_reductions", flow.recovery.ecn_reductions);
        list.count(e, "spurious_undos", flow.recovery.spurious_undos);
        list.count(e, "slow_start_exits", flow.recovery.slow_start_exits);
        list.one_way(e, "", flow.one_way.as_ref());
        list.telemetry(e, &flow.telemetry);
    }
    for flow in &summary.windows {
        let e = &flow.name;
        list.maybe(e, "goodput_mbit", Some(flow.goodput_mbit));
        list.maybe(e, "peak_mbit", flow.peak_mbit);
        list.distribution(e, "rtt_ms", flow.rtt_ms.as_ref());
        list.telemetry(e, &flow.telemetry);
    }
    for queue in &summary.queues {
        let e = &queue.name;
        list.distribution(e, "sojourn_ms", queue.sojourn_ms.as_ref());
        for band in &queue.bands {
            let metric = format!("{}.sojourn_ms", band.name);
            list.distribution(e, &metric, band.sojourn_ms.as_ref());
            list.count(e, &format!("{}.packets", band.name), band.packets);
        }
        list.maybe(e, "rate_mbit", queue.rate_mbit);
        list.maybe(e, "utilisation", queue.utilisation);
        list.count(e, "packets", queue.packets);
        list.count(e, "wire_bytes", queue.wire_bytes);
        list.count(e, "marks", queue.marks.total());
        for (cause, n) in queue.marks.by_cause() {
            list.count(e, &format!("marks.{cause}"), n);
        }
        list.count(e, "drops", queue.drops.total());
        for (cause, n) in queue.drops.by_cause() {
            list.count(e, &format!("drops.{cause}"), n);
        }
        list.count(
            e,
            "peak_backlog_packets",
            u64::from(queue.peak_backlog_packets),
        );
        list.count(e, "peak_backlog_bytes", queue.peak_backlog_bytes);
        list.maybe(e, "probability", queue.probability);
    }
    for source in &summary.sources {
        for in_window in std::iter::once(source).chain(&source.windows) {
            list.telemetry(&in_window.name, &in_window.telemetry);
        }
    }
    for probe in &summary.probes {
        list.distribution(&probe.name, "rtt_ms", probe.rtt_ms.as_ref());
        list.count(&probe.name, "lost", probe.lost);
        list.percent(&probe.name, "loss_pct", probe.lost, probe.asked);
        list.one_way(&probe.name, "there.", probe.there.as_ref());
        list.one_way(&probe.name, "back.", probe.back.as_ref());
    }
    for dropper in &summary.droppers {
        list.count(&dropper.name, "drops", dropper.drops.total());
        for (cause, n) in dropper.drops.by_cause().into_iter().filter(|(_, n)| *n > 0) {
            list.count(&dropper.name, &format!("drops.{cause}"), n);
        }
    }
    for counted in &summary.disciplines {
        let e = &counted.element;
        list.count(e, "packets", counted.packets);
        if let Some(marks) = counted.marks {
            list.count(e, "marks", marks);
        }
        list.count(e, "drops", counted.drops);
    }
    for mark in &summary.marks {
        let e = &format!("{}/{}", mark.name, mark.host);
        for (metric, n) in mark.counts() {
            list.count(e, &metric, n);
        }
    }
    for o in &summary.observations {
        let e = &format!("observe/{}/{}", o.observer, o.flow);
        let called = format!("{}.{}", o.technique, o.quantity);
        let kind = match o.unit.as_str() {
            "ms" | "%" => "mean",
            "ratio" => "rate",
            "Mbit/s per s" => "slope",
            _ => "total",
        };
        for (part, value) in [
            (kind, Some(o.value)),
            ("low", o.low),
            ("high", o.high),
            ("n", Some(o.n as f64)),
            ("rejected", Some(o.rejected as f64)),
            ("sd", o.sd),
            ("min", o.min),
            ("p50", o.p50),
            ("p95", o.p95),
            ("truth", o.truth),
            ("truth_sd", o.truth_sd),
            ("error", o.error),
            ("truth_all", o.truth_all),
            ("error_all", o.error_all),
            ("dwell_ms", o.dwell_ms),
            ("error_p025", o.errors.map(|s| s.p025)),
            ("error_p50", o.errors.map(|s| s.p50)),
            ("error_p975", o.errors.map(|s| s.p975)),
            ("error_max", o.errors.map(|s| s.max)),
            // A share of the truth; of one technique held against another there is none.
            (
                "short",
                o.errors.filter(|_| o.unit == "ms").map(|s| s.short),
            ),
        ] {
            list.maybe(e, &format!("{called}.{part}"), value);
        }
    }
    list.0
}

/// One number of `summary` by its name, `METRIC of ENTITY` as in [`metrics`], or one that speaks of the flows by their order, as published
/// tables do:
/// - `rate1_mbit`, `rate2_mbit`, …: goodput of the first, second, … flow;
/// - `share1_pct`, …: that flow's percentage of the goodput of all that it
///   competes with;
/// - `ratio`: the first flow's goodput to the second's;
/// - `jain`: Jain's index of all, where all compete;
/// - `window_s`: how long the steady window is.
///
/// `None` if the run has no such number.
pub fn lookup(summary: &RunSummary, name: &str) -> Option<f64> {
    let flow = |n: usize| summary.flows.get(n.checked_sub(1)?);
    let goodput = |n: usize| flow(n)?.goodput_mbit;
    let numbered = |prefix: &str, suffix: &str| -> Option<usize> {
        name.strip_prefix(prefix)?
            .strip_suffix(suffix)?
            .parse()
            .ok()
    };
    if let Some(n) = numbered("rate", "_mbit") {
        return goodput(n);
    }
    if let Some(n) = numbered("share", "_pct") {
        return summary.share_pct(flow(n)?);
    }
    match name {
        "jain" => return summary.jain,
        "window_s" => return Some(millionths(summary.window.to_s - summary.window.from_s)),
        "ratio" => {
            let (first, second) = (goodput(1)?, goodput(2)?);
            return (second > 0.0).then_some(first / second);
        }
        _ => {}
    }
    let mut all = metrics(summary).into_iter();
    let found = match name.split_once(" of ") {
        Some((column, entity)) => {
            let entity = entity.strip_prefix("queue/").unwrap_or(entity);
            let column = column.replace('/', ".");
            all.find(|m| m.entity == entity && m.metric == column)
        }
        // As it was once written: `flow/prague/rtt_ms/p99`.
        None => {
            let name = name.strip_prefix("queue/").unwrap_or(name);
            let slashed = |m: &Metric| format!("{}/{}", m.entity, m.metric.replace('.', "/"));
            all.find(|m| slashed(m) == name)
        }
    };
    found.map(|m| m.value)
}

/// The figure `column` of `entity`, as campaigns spell it: `goodput_mbit` of
/// `flow/prague`, `rtt_ms.p99` of `flow/prague`, `jain` or `share1_pct` of `run`.
pub fn figure(summary: &RunSummary, entity: &str, column: &str) -> Option<f64> {
    lookup(summary, &key(entity, column))
        .or_else(|| (entity == "run").then(|| lookup(summary, column))?)
}

/// The same for many figures of one run, whose numbers are listed only once.
pub struct Figures<'a> {
    summary: &'a RunSummary,
    by_name: BTreeMap<String, f64>,
}

impl<'a> Figures<'a> {
    /// Those of a run, found by name.
    pub fn of(summary: &'a RunSummary) -> Self {
        let mut by_name = BTreeMap::new();
        for m in metrics(summary) {
            by_name.entry(m.key()).or_insert(m.value);
        }
        Self { summary, by_name }
    }

    /// As [`figure`].
    pub fn figure(&self, entity: &str, column: &str) -> Option<f64> {
        let known = self.by_name.get(&key(entity, column)).copied();
        let other = || figure(self.summary, entity, column);
        known.or_else(|| (entity == "run").then(other).flatten())
    }
}

/// `summary.csv`: `entity,metric,value`.
pub fn to_csv(summary: &RunSummary) -> String {
    let mut text = "entity,metric,value\n".to_owned();
    for m in metrics(summary) {
        // Entity names have no comma or quote (scenario names are checked).
        writeln!(text, "{},{},{}", m.entity, m.metric, m.value).ok();
    }
    text
}

struct List(Vec<Metric>);

impl List {
    fn maybe(&mut self, entity: &str, metric: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.0.push(Metric {
                entity: entity.to_owned(),
                metric: metric.to_owned(),
                value,
            });
        }
    }

    fn telemetry(&mut self, entity: &str, fields: &[TelemetrySummary]) {
        for field in fields {
            for (part, value) in field.figures.named() {
                self.maybe(entity, &format!("{}.{part}", field.name), Some(value));
            }
        }
    }

    fn count(&mut self, entity: &str, metric: &str, value: u64) {
        self.maybe(entity, metric, Some(value as f64));
    }

    /// So many of so many, where there are any.
    fn percent(&mut self, entity: &str, metric: &str, part: u64, of: u64) {
        let value = (of > 0).then(|| millionths(100.0 * part as f64 / of as f64));
        self.maybe(entity, metric, value);
    }

    /// Delay and jitter one way; names begin with `way`.
    fn one_way(&mut self, entity: &str, way: &str, of: Option<&OneWaySummary>) {
        let Some(o) = of else { return };
        let delay = &o.one_way_ms;
        self.distribution(entity, &format!("{way}one_way_ms"), Some(delay));
        for (part, value) in [
            ("jitter_ms.mean", o.jitter_mean_ms),
            ("jitter_ms.max", o.jitter_max_ms),
            ("variation_ms.p50", o.variation_ms(delay.p50)),
            ("variation_ms.p95", o.variation_ms(delay.p95)),
            ("variation_ms.p99", o.variation_ms(delay.p99)),
        ] {
            self.maybe(entity, &format!("{way}{part}"), Some(value));
        }
    }

    fn distribution(&mut self, entity: &str, metric: &str, of: Option<&Distribution>) {
        let Some(d) = of else { return };
        for (part, value) in d.named() {
            self.maybe(entity, &format!("{metric}.{part}"), Some(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{FlowSummary, QueueSummary};

    fn two_flows(first: f64, second: f64) -> RunSummary {
        let flow = |name: &str, mbit| FlowSummary {
            name: name.to_owned(),
            goodput_mbit: Some(mbit),
            ..FlowSummary::default()
        };
        RunSummary {
            jain: crate::fairness::jain(&[first, second]),
            flows: vec![flow("flow/prague", first), flow("flow/cubic", second)],
            queues: vec![QueueSummary {
                name: "link/access/up/bottleneck".to_owned(),
                utilisation: Some(0.99),
                ..QueueSummary::default()
            }],
            ..RunSummary::default()
        }
    }

    #[test]
    fn published_tables_are_spoken_by_the_order_of_flows() {
        let summary = two_flows(30.0, 10.0);
        assert_eq!(lookup(&summary, "rate1_mbit"), Some(30.0));
        assert_eq!(lookup(&summary, "rate2_mbit"), Some(10.0));
        assert_eq!(lookup(&summary, "share1_pct"), Some(75.0));
        assert_eq!(lookup(&summary, "share2_pct"), Some(25.0));
        assert_eq!(lookup(&summary, "ratio"), Some(3.0));
        assert_eq!(lookup(&summary, "jain"), Some(0.8));
    }

    #[test]
    fn what_is_not_there_is_not_invented() {
        let summary = two_flows(30.0, 0.0);
        for name in [
            "rate3_mbit",
            "rate0_mbit",
            "ratio",
            "bytes of flow/bbr",
            "x",
        ] {
            assert_eq!(lookup(&summary, name), None, "{name}");
        }
        assert_eq!(lookup(&two_flows(0.0, 0.0), "share1_pct"), None);
    }

    #[test]
    fn what_a_kernels_discipline_counted_is_its_elements() {
        let counted = |element: &str, marks| crate::summary::DisciplineFacts {
            element: element.to_owned(),
            packets: 1_000,
            drops: 3,
            marks,
            ..Default::default()
        };
        let summary = RunSummary {
            disciplines: vec![
                counted("link/a/up/marks", Some(8)),
                counted("link/a/up/fifo", None),
            ],
            ..RunSummary::default()
        };
        let of = |element, column| figure(&summary, element, column);
        assert_eq!(of("link/a/up/marks", "marks"), Some(8.0));
        assert_eq!(of("link/a/up/marks", "drops"), Some(3.0));
        assert_eq!(of("link/a/up/fifo", "packets"), Some(1_000.0));
        assert_eq!(of("link/a/up/fifo", "marks"), None, "a FIFO counts none");
    }

    #[test]
    fn every_number_is_found_under_its_key() {
        let summary = two_flows(30.0, 10.0);
        for m in metrics(&summary) {
            assert_eq!(lookup(&summary, &m.key()), Some(m.value), "{}", m.key());
        }
        for name in [
            "utilisation of queue/link/access/up/bottleneck",
            "queue/link/access/up/bottleneck/utilisation",
            "link/access/up/bottleneck/utilisation",
        ] {
            assert_eq!(lookup(&summary, name), Some(0.99), "{name}");
        }
    }

    #[test]
    fn campaigns_and_tables_spell_figures_alike() {
        let summary = RunSummary {
            queues: vec![QueueSummary {
                name: "link/access/up/bottleneck".to_owned(),
                marks: crate::summary::MarkCounts {
                    step: 7,
                    ..Default::default()
                },
                ..QueueSummary::default()
            }],
            ..two_flows(30.0, 10.0)
        };
        let of = |entity, column| figure(&summary, entity, column);
        assert_eq!(of("run", "jain"), Some(0.8));
        assert_eq!(of("run", "share1_pct"), Some(75.0));
        assert_eq!(of("flow/prague", "goodput_mbit"), Some(30.0));
        assert_eq!(of("link/access/up/bottleneck", "marks.step"), Some(7.0));
        assert_eq!(of("link/access/up/bottleneck", "marks/step"), Some(7.0));
        assert_eq!(of("flow/prague", "rtt_ms.p99"), None);
        let csv = to_csv(&summary);
        assert!(
            csv.contains("\nlink/access/up/bottleneck,marks.step,7\n"),
            "{csv}"
        );
        let figures = Figures::of(&summary);
        for (entity, column) in [
            ("run", "jain"),
            ("run", "share1_pct"),
            ("flow/prague", "goodput_mbit"),
            ("link/access/up/bottleneck", "marks.step"),
            ("flow/prague", "rtt_ms.p99"),
        ] {
            assert_eq!(figures.figure(entity, column), of(entity, column));
        }
    }

    #[test]
    fn marks_and_losses_of_a_flow_are_percentages_of_its_packets_where_there_are_any() {
        let mut summary = two_flows(30.0, 10.0);
        summary.flows[0].packets = 8;
        summary.flows[0].ce_marks = 1;
        summary.flows[0].drops = 3;
        assert_eq!(lookup(&summary, "mark_pct of flow/prague"), Some(12.5));
        assert_eq!(lookup(&summary, "loss_pct of flow/prague"), Some(37.5));
        assert_eq!(lookup(&summary, "mark_pct of flow/cubic"), None);
    }

    #[test]
    fn the_window_is_as_long_as_from_its_beginning_to_its_end() {
        let mut summary = two_flows(30.0, 10.0);
        summary.window.from_s = 2.0;
        summary.window.to_s = 6.0;
        assert_eq!(lookup(&summary, "window_s"), Some(4.0));
    }

    #[test]
    fn an_element_that_drops_has_the_causes_that_occurred() {
        let summary = RunSummary {
            droppers: vec![crate::summary::DropperSummary {
                name: "link/access/up/netem".to_owned(),
                drops: crate::summary::DropCounts {
                    loss: 2,
                    ..Default::default()
                },
            }],
            ..RunSummary::default()
        };
        let rows: Vec<_> = metrics(&summary)
            .into_iter()
            .filter(|m| m.entity == "link/access/up/netem")
            .map(|m| (m.metric, m.value))
            .collect();
        let expected = [("drops", 2.0), ("drops.loss", 2.0)];
        assert_eq!(rows, expected.map(|(metric, v)| (metric.to_owned(), v)));
    }
}
