//! What a comparison came to: `compare.json`, of which `compare.csv` is a view.

use serde::{Deserialize, Serialize};

use crate::campaign::{CheckResult, median};

/// Both engines on a scenario, or on the cells of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scenario's or the campaign's name.
    pub name: String,
    /// A sentence about it.
    pub title: Option<String>,
    /// Seeds in the simulator, and repetitions live.
    pub repetitions: u64,
    /// Cells in their order, those that were compared; a scenario is one cell.
    pub cells: Vec<CellComparison>,
    /// How the cells stand to the file's tolerances between engines.
    pub checks: Vec<CheckResult>,
    /// Cells that were to be compared.
    pub planned: usize,
    /// Whether all of them were.
    pub complete: bool,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellComparison {
    /// Its name.
    pub name: String,
    /// The folders of its simulated runs, relative to the comparison's.
    pub sim: Vec<String>,
    /// Its live runs, those that were made again included.
    pub live: Vec<Live>,
    /// What the file measures, then what every run has.
    pub rows: Vec<Row>,
    /// How many of the rows the file itself asks for.
    pub asked: usize,
    /// Why it could not be compared, if so.
    pub error: Option<String>,
}

/// A live run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Which repetition, from 1.
    pub repetition: u64,
    /// Its folder, relative to the comparison's.
    pub folder: String,
    /// `trust: yes`, or why not.
    pub trust: String,
    /// Whether its figures count: it is trusted, or nothing better could be
    /// had.
    pub used: bool,
}

/// One metric of a cell in both engines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `share1_pct` of the file, or `flow/prague/goodput_mbit`.
    pub metric: String,
    /// In the simulator.
    pub sim: Figure,
    /// Live.
    pub live: Figure,
    /// Live less simulated, of the medians.
    pub difference: Option<f64>,
    /// The file's band in words.
    pub tolerance: Option<String>,
    /// Whether the live figure lies in the band around the simulated one;
    /// `None` without a band.
    pub within: Option<bool>,
    /// Whether the two ranges meet; `None` where one engine has fewer than two
    /// runs, and so no range.
    pub same: Option<bool>,
}

/// A metric over the runs of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Runs that have it.
    pub runs: usize,
    /// The middle one.
    pub median: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

impl Figure {
    /// Of these runs; those without the metric do not count.
    pub(super) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut known: Vec<f64> = values.into_iter().flatten().collect();
        known.sort_by(f64::total_cmp);
        Self {
            runs: known.len(),
            median: median(&known),
            min: known.first().copied(),
            max: known.last().copied(),
        }
    }

    /// Whether the ranges of two figures meet.
    fn meets(&self, other: &Self) -> Option<bool> {
        if self.runs < 2 || other.runs < 2 {
            return None;
        }
        let (low, high) = (self.min?.max(other.min?), self.max?.min(other.max?));
        Some(low <= high)
    }
}

impl Row {
    /// The metric `name` in both engines.
    pub(super) fn of(name: String, sim: Figure, live: Figure) -> Self {
        Self {
            metric: name,
            difference: live.median.zip(sim.median).map(|(l, s)| l - s),
            same: sim.meets(&live),
            sim,
            live,
            tolerance: None,
            within: None,
        }
    }

    /// In words.
    pub fn verdict(&self) -> &'static str {
        match (self.same, self.sim.median.zip(self.live.median)) {
            (Some(true), _) => "same within the spread",
            (Some(false), _) => "differs",
            (None, Some(_)) => "no spread from one run",
            (None, None) => "in one engine only",
        }
    }
}

impl CellComparison {
    /// That row.
    pub fn row(&self, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|r| r.metric == metric)
    }

    /// Live runs that count although they are not trusted.
    pub fn doubtful(&self) -> impl Iterator<Item = &Live> {
        self.live.iter().filter(|l| l.used && !l.trusted())
    }
}

impl Live {
    /// Whether its verdict trusts it.
    pub fn trusted(&self) -> bool {
        self.trust == "trust: yes"
    }
}

impl Comparison {
    /// Whether the engines agree as far as the file asks: its tolerances hold;
    /// where it has none, nothing differs by more than the spread.
    pub fn passed(&self) -> bool {
        let agree = |cell: &CellComparison| match self.checks.is_empty() {
            true => cell.rows.iter().all(|r| r.same != Some(false)),
            false => true,
        };
        self.complete
            && self.cells.iter().all(|c| c.error.is_none() && agree(c))
            && self.checks.iter().all(|c| c.passed)
    }

    /// Whether every live figure comes from runs that are trusted.
    pub fn trusted(&self) -> bool {
        self.cells.iter().all(|c| c.doubtful().next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(values: &[f64]) -> Figure {
        Figure::of(values.iter().copied().map(Some))
    }

    #[test]
    fn engines_are_the_same_where_their_ranges_meet() {
        let row = |sim: &[f64], live: &[f64]| Row::of("x".to_owned(), figure(sim), figure(live));
        assert_eq!(row(&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0]).same, Some(true));
        assert_eq!(row(&[4.0, 5.0], &[1.0, 6.0]).same, Some(true));
        assert_eq!(row(&[1.0, 2.0], &[2.1, 4.0]).verdict(), "differs");
        assert_eq!(row(&[1.0], &[1.0, 2.0]).verdict(), "no spread from one run");
        assert_eq!(row(&[], &[1.0, 2.0]).verdict(), "in one engine only");
        assert_eq!(row(&[1.0, 2.0, 9.0], &[4.0, 4.0]).difference, Some(2.0));
    }
}
