//! What metrics are called on pages and plots.

use narrows_scenario::{Formula, Metric};

use super::MetricTitle;

/// Endings of names with their unit.
const UNITS: [(&str, &str); 6] = [
    ("_pct", "%"),
    ("_mbit", "Mbit/s"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_mb", "MB"),
    ("_packets", "packets"),
];

/// Words that are spelled otherwise than in names.
const SPELLINGS: [(&str, &str); 8] = [
    ("rtt", "RTT"),
    ("ce", "CE"),
    ("ecn", "ECN"),
    ("fct", "FCT"),
    ("sd", "standard deviation"),
    ("p50", "median"),
    ("vec", "VEC"),
    ("jain", "Jain's index"),
];

impl MetricTitle {
    /// As the file says; else by what the metric is.
    pub fn of(metric: &Metric) -> Self {
        let by_itself = match &metric.formula {
            Formula::Figure { column, entity } => Self::of_figure(column, entity),
            Formula::Sum(_) => Self::of_name(&metric.name),
        };
        Self {
            title: metric.title.clone().unwrap_or(by_itself.title),
            unit: metric.unit.clone().unwrap_or(by_itself.unit),
        }
    }

    /// Of a figure of a run's summary: `goodput of prague` in Mbit/s.
    fn of_figure(column: &str, entity: &str) -> Self {
        if entity == "run" {
            return Self::of_name(column);
        }
        let mut unit = "";
        let mut parts = Vec::new();
        for part in column.split('.') {
            let (stem, own) = without_unit(part);
            if !own.is_empty() {
                unit = own;
            }
            parts.push(spelled(stem));
        }
        let place = match entity.split('/').collect::<Vec<_>>()[..] {
            ["observe", observer, flow] => format!("{flow} at {observer}"),
            ["flow" | "link" | "probe", ref rest @ ..] => rest.join("/"),
            _ => entity.to_owned(),
        };
        Self {
            title: format!("{} of {place}", parts.join(", ")),
            unit: unit.to_owned(),
        }
    }

    /// By the unit that the name of a metric ends with, if any.
    pub fn of_name(name: &str) -> Self {
        let known = match name {
            "share1_pct" => Some(("share of flow 1 in the total rate", "%")),
            "rate1_mbit" => Some(("rate of flow 1", "Mbit/s")),
            "rate2_mbit" => Some(("rate of flow 2", "Mbit/s")),
            "jain" => Some(("Jain's index", "1 = equal")),
            "ratio" => Some(("ratio of the rates", "flow 1 : flow 2")),
            "utilisation" => Some(("utilisation", "share of the rate")),
            _ => None,
        };
        let (title, unit) = match known {
            Some((title, unit)) => (title.to_owned(), unit),
            None => {
                let (stem, unit) = without_unit(name);
                (spelled(stem), unit)
            }
        };
        Self {
            title,
            unit: unit.to_owned(),
        }
    }

    /// The title with its unit in parentheses, if it has one.
    pub fn with_unit(&self) -> String {
        match self.unit.as_str() {
            "" => self.title.clone(),
            unit => format!("{} ({unit})", self.title),
        }
    }
}

fn without_unit(name: &str) -> (&str, &'static str) {
    let mut endings = UNITS.iter();
    endings
        .find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)))
        .unwrap_or((name, ""))
}

/// A name in words.
fn spelled(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let known = SPELLINGS.iter().find(|(short, _)| *short == word);
        known.map_or(word, |(_, long)| long)
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(column: &str, entity: &str) -> String {
        MetricTitle::of_figure(column, entity).with_unit()
    }

    #[test]
    fn a_metric_is_called_by_what_it_is() {
        for (column, entity, title) in [
            ("goodput_mbit", "flow/prague", "goodput of prague (Mbit/s)"),
            ("rtt_ms.p99", "flow/prague", "RTT, p99 of prague (ms)"),
            (
                "sojourn_ms.p50",
                "link/access/up/bottleneck",
                "sojourn, median of access/up/bottleneck (ms)",
            ),
            (
                "spin.full_rtt_initiator.mean",
                "observe/mid/cubic",
                "spin, full RTT initiator, mean of cubic at mid",
            ),
            ("jain", "run", "Jain's index (1 = equal)"),
            ("share1_pct", "run", "share of flow 1 in the total rate (%)"),
            ("rate1_mbit", "run", "rate of flow 1 (Mbit/s)"),
            ("rate2_mbit", "run", "rate of flow 2 (Mbit/s)"),
            ("ratio", "run", "ratio of the rates (flow 1 : flow 2)"),
            ("utilisation", "run", "utilisation (share of the rate)"),
        ] {
            assert_eq!(of(column, entity), title);
        }
    }

    #[test]
    fn the_file_has_the_last_word() {
        let mut metric = Metric {
            name: "x".to_owned(),
            title: None,
            unit: Some("s".to_owned()),
            formula: Formula::Figure {
                column: "goodput_mbit".to_owned(),
                entity: "flow/a".to_owned(),
            },
        };
        assert_eq!(MetricTitle::of(&metric).with_unit(), "goodput of a (s)");
        metric.title = Some("throughput".to_owned());
        metric.unit = Some(String::new());
        assert_eq!(MetricTitle::of(&metric).with_unit(), "throughput");
    }
}
