//! What an observer finds as metrics in Prometheus's text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>, version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::observer::ObserverCounters;
use crate::sample::{Measured, Sample};

/// Upper edges of the buckets of round trips, in seconds: from a machine's own to those
/// that only timeouts explain.
const EDGES: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0,
    2.5, 10.0,
];

#[derive(Default)]
struct Histogram {
    /// Values up to each edge, and above the one before.
    counts: [u64; EDGES.len()],
    n: u64,
    sum_s: f64,
}

/// A point, a technique, a quantity.
type Key = (String, &'static str, &'static str);

/// Round trips and blocks of packets of all flows.
#[derive(Default)]
pub(super) struct Metrics {
    rtt: BTreeMap<Key, Histogram>,
    /// Packets that were sent, and that came to the observer.
    blocks: BTreeMap<Key, (u64, u64)>,
}

impl Metrics {
    pub fn sample(&mut self, tap: &str, sample: &Sample) {
        let key = (
            tap.to_owned(),
            sample.technique.name(),
            sample.quantity.name(),
        );
        match sample.value {
            Measured::Rtt(rtt) => {
                let seconds = rtt.as_secs_f64();
                let histogram = self.rtt.entry(key).or_default();
                // A sample counts for those that there was no room to wait for.
                let count = u64::from(sample.weight);
                if let Some(at) = EDGES.iter().position(|edge| seconds <= *edge) {
                    histogram.counts[at] += count;
                }
                histogram.n += count;
                histogram.sum_s += seconds * count as f64;
            }
            Measured::Block { sent, received } => {
                let block = self.blocks.entry(key).or_default();
                block.0 += u64::from(sent);
                block.1 += u64::from(received);
            }
        }
    }

    /// The text of all metrics, with what was counted at each point and how many flows
    /// there are at it now.
    pub fn text<'a>(
        &self,
        taps: impl Iterator<Item = (&'a str, &'a ObserverCounters, u64)>,
    ) -> String {
        let mut text = String::new();
        let taps: Vec<_> = taps.collect();
        let names = ObserverCounters::default().named();
        for (at, (name, _)) in names.iter().enumerate() {
            let metric = format!("narrows_observe_{name}_total");
            head(
                &mut text,
                &metric,
                "counter",
                "a counter of narrows observe",
            );
            for (tap, counters, _) in &taps {
                let value = counters.named()[at].1;
                line(&mut text, &metric, &[("tap", tap)], value as f64);
            }
        }
        let metric = "narrows_observe_flows";
        head(&mut text, metric, "gauge", "flows that are followed now");
        for (tap, _, flows) in &taps {
            line(&mut text, metric, &[("tap", tap)], *flows as f64);
        }
        let metric = "narrows_observe_rtt_seconds";
        head(&mut text, metric, "histogram", "round trips of all flows");
        for (key, histogram) in &self.rtt {
            let with = |edge: &str| -> Vec<(&str, String)> {
                let mut labels = labels(key)
                    .map(|(name, value)| (name, value.to_owned()))
                    .to_vec();
                labels.push(("le", edge.to_owned()));
                labels
            };
            let mut line_of = |edge: &str, n: u64| {
                let labels = with(edge);
                let labels: Vec<_> = labels.iter().map(|(n, v)| (*n, v.as_str())).collect();
                line(&mut text, &format!("{metric}_bucket"), &labels, n as f64);
            };
            let mut so_far = 0;
            for (edge, count) in EDGES.iter().zip(histogram.counts) {
                so_far += count;
                line_of(&edge.to_string(), so_far);
            }
            line_of("+Inf", histogram.n);
            line(
                &mut text,
                &format!("{metric}_sum"),
                &labels(key),
                histogram.sum_s,
            );
            line(
                &mut text,
                &format!("{metric}_count"),
                &labels(key),
                histogram.n as f64,
            );
        }
        for (which, help) in [
            (
                "sent",
                "packets of complete blocks of loss bits, as the sender counted them",
            ),
            (
                "received",
                "packets of complete blocks of loss bits that came here",
            ),
        ] {
            let metric = format!("narrows_observe_block_packets_{which}_total");
            head(&mut text, &metric, "counter", help);
            for (key, (sent, received)) in &self.blocks {
                let value = if which == "sent" { *sent } else { *received };
                line(&mut text, &metric, &labels(key), value as f64);
            }
        }
        text
    }
}

fn labels(key: &Key) -> [(&'static str, &str); 3] {
    [("tap", &key.0), ("technique", key.1), ("quantity", key.2)]
}

fn head(text: &mut String, metric: &str, kind: &str, help: &str) {
    // Writing to memory does not fail.
    let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
}

fn line(text: &mut String, metric: &str, labels: &[(&str, &str)], value: f64) {
    text.push_str(metric);
    for (at, (name, value)) in labels.iter().enumerate() {
        let value = value
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', r"\n");
        let _ = write!(
            text,
            "{}{name}=\"{value}\"",
            if at == 0 { "{" } else { "," }
        );
    }
    let _ = writeln!(text, "}} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Quantity, Technique};
    use narrows_units::{Duration, Instant};

    #[test]
    fn buckets_are_cumulative_and_labels_escaped() {
        let mut metrics = Metrics::default();
        let mut add = |value, weight| {
            metrics.sample(
                "a\"b",
                &Sample {
                    at: Instant::from_nanos(0),
                    technique: Technique::SeqAck,
                    quantity: Quantity::RightRtt,
                    value,
                    first: 0,
                    last: 0,
                    weight,
                },
            );
        };
        for (ms, weight) in [(1, 1), (15, 2), (18, 1), (20_000, 1)] {
            add(Measured::Rtt(Duration::from_millis(ms)), weight);
        }
        let block = Measured::Block {
            sent: 64,
            received: 60,
        };
        add(block, 1);
        let counters = ObserverCounters {
            packets: 7,
            ..ObserverCounters::default()
        };
        let text = metrics.text([("a\"b", &counters, 3)].into_iter());
        let labels = r#"tap="a\"b",technique="seq-ack",quantity="right_rtt""#;
        for wanted in [
            r#"narrows_observe_packets_total{tap="a\"b"} 7"#.to_owned(),
            r#"narrows_observe_flows{tap="a\"b"} 3"#.to_owned(),
            format!("narrows_observe_rtt_seconds_bucket{{{labels},le=\"0.001\"}} 1"),
            format!("narrows_observe_rtt_seconds_bucket{{{labels},le=\"0.02\"}} 4"),
            format!("narrows_observe_rtt_seconds_bucket{{{labels},le=\"10\"}} 4"),
            format!("narrows_observe_rtt_seconds_bucket{{{labels},le=\"+Inf\"}} 5"),
            format!("narrows_observe_rtt_seconds_count{{{labels}}} 5"),
            format!("narrows_observe_rtt_seconds_sum{{{labels}}} 20.049"),
            format!("narrows_observe_block_packets_received_total{{{labels}}} 60"),
        ] {
            assert!(text.lines().any(|l| l == wanted), "{wanted}\n{text}");
        }
    }
}
