//! Two results side by side.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::metric::metrics;
use crate::results::Results;
use crate::text::{Align, TextTable, number};

/// Where two results differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// What the first is called.
    pub a: String,
    /// What the second is called.
    pub b: String,
    /// Whether all data files are the same, byte for byte.
    pub identical: bool,
    /// One per number that either has, in the first one's order.
    pub rows: Vec<DiffRow>,
}

/// One number of two results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiffRow {
    /// `flow/prague/goodput_mbit`; of a campaign with the cell before it.
    pub metric: String,
    /// In the first.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
    /// Second less first.
    pub difference: Option<f64>,
    /// The difference in percent of the first.
    pub percent: Option<f64>,
}

/// Compares two runs, or two campaigns.
///
/// # Errors
/// When they are not of a kind, or comparisons, which hold two sides each.
pub fn diff(a: &Results, b: &Results) -> Result<Diff, LabError> {
    let (record_a, record_b) = (a.record(), b.record());
    let (left, right) = match (a, b) {
        (Results::Run(a), Results::Run(b)) => (numbers_of_run(a), numbers_of_run(b)),
        (Results::Campaign(a), Results::Campaign(b)) => {
            (numbers_of_campaign(a), numbers_of_campaign(b))
        }
        _ => {
            return Err(LabError::Refused(
                "only two runs or two campaigns can be told apart; name two of a kind".to_owned(),
            ));
        }
    };
    let in_b: BTreeMap<&str, f64> = right.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let in_a: BTreeMap<&str, f64> = left.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let only_b = right.iter().filter(|(k, _)| !in_a.contains_key(k.as_str()));
    let rows = left
        .iter()
        .chain(only_b)
        .map(|(key, _)| row(key, in_a.get(key.as_str()), in_b.get(key.as_str())))
        .collect();
    Ok(Diff {
        a: record_a.title(),
        b: record_b.title(),
        identical: !record_a.digest.is_empty() && record_a.digest == record_b.digest,
        rows,
    })
}

fn row(metric: &str, a: Option<&f64>, b: Option<&f64>) -> DiffRow {
    let both = a.zip(b);
    DiffRow {
        metric: metric.to_owned(),
        a: a.copied(),
        b: b.copied(),
        difference: both.map(|(a, b)| b - a),
        percent: both
            .filter(|(a, _)| **a != 0.0)
            .map(|(a, b)| 100.0 * (b - a) / a.abs()),
    }
}

fn numbers_of_run(run: &crate::RunResult) -> Vec<(String, f64)> {
    metrics(&run.summary)
        .into_iter()
        .map(|m| (m.key(), m.value))
        .collect()
}

fn numbers_of_campaign(campaign: &crate::results::CampaignFolder) -> Vec<(String, f64)> {
    let mut numbers = Vec::new();
    for cell in &campaign.result.cells {
        for m in &cell.metrics {
            if let Some(value) = m.measured {
                numbers.push((format!("{}: {}", cell.name, m.metric), value));
            }
        }
    }
    numbers
}

impl Diff {
    /// The rows whose numbers are not the same.
    pub fn changed(&self) -> impl Iterator<Item = &DiffRow> {
        self.rows.iter().filter(|r| r.a != r.b)
    }

    /// The table of what differs.
    pub fn table(&self) -> String {
        if self.identical {
            return format!("{} and {} are identical\n", self.a, self.b);
        }
        let mut table = TextTable::new(&[
            ("metric", Align::Left),
            ("A", Align::Right),
            ("B", Align::Right),
            ("difference", Align::Right),
            ("percent", Align::Right),
        ]);
        for r in self.changed() {
            table.row(vec![
                r.metric.clone(),
                number(r.a),
                number(r.b),
                number(r.difference),
                r.percent.map_or("-".to_owned(), |p| format!("{p:+.1}")),
            ]);
        }
        let head = format!("A: {}\nB: {}\n\n", self.a, self.b);
        let same = self.rows.len() - self.changed().count();
        if table.is_empty() {
            return format!("{head}all {same} numbers are the same\n");
        }
        format!(
            "{head}{}\n{same} more numbers are the same\n",
            table.render()
        )
    }
}
