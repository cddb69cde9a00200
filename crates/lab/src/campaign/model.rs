//! What a campaign came to: `campaign.json`, of which `cells.csv` is a view.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// A campaign's outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CampaignResult {
    /// `l4s-tests/s1`.
    pub name: String,
    /// A sentence about it.
    #[serde(default)]
    pub title: Option<String>,
    /// Where the published figures are from.
    #[serde(default)]
    pub source: Option<String>,
    /// Seeds of each cell.
    pub seeds: Vec<u64>,
    /// The matrix: its axes in order, each with the values that occur.
    pub axes: Vec<AxisResult>,
    /// Metrics in order of printing.
    pub metrics: Vec<String>,
    /// Cells in the matrix's order, those that were run.
    pub cells: Vec<CellResult>,
    /// How the cells stand to the published figures, group by group.
    pub checks: Vec<CheckResult>,
    /// Cells that were to be run.
    pub planned: usize,
    /// Whether all of them were.
    pub complete: bool,
}

/// One axis of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisResult {
    /// `qdisc`.
    pub name: String,
    /// `dualpi2`, `pfifo`, …
    pub values: Vec<String>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// `50Mbit/160-10/dualpi2/prague-cubic`.
    pub name: String,
    /// Its value on each axis, in the order of the axes.
    pub at: Vec<String>,
    /// Folder of its first seed's run, relative to the campaign's; empty if
    /// none was kept.
    pub folder: String,
    /// One per metric of the campaign, in its order.
    pub metrics: Vec<MetricResult>,
    /// Verdict over all seeds; findings that differ only by seed are one.
    pub verdict: Verdict,
    /// Why there are no figures, if it failed.
    #[serde(default)]
    pub error: Option<String>,
}

/// One metric of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// `share1_pct`.
    pub metric: String,
    /// The published figure.
    pub published: Option<f64>,
    /// Median over the seeds; `None` if no seed has it.
    pub measured: Option<f64>,
    /// Largest less smallest over the seeds; 0 with one seed.
    pub spread: f64,
    /// Each seed's own figure, in the order of the seeds.
    pub by_seed: Vec<Option<f64>>,
    /// Measured less published.
    pub difference: Option<f64>,
    /// The band of this comparison in words, `±5 and odds 1.6×`.
    pub tolerance: Option<String>,
    /// Whether measured lies in the band; `None` where nothing is published
    /// or no band is given.
    pub within: Option<bool>,
}

/// One rule of the campaign about a group of cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The group, `qdisc=dualpi2`.
    pub group: String,
    /// Which metric it judges.
    pub metric: String,
    /// The band in words.
    pub tolerance: String,
    /// Cells of the group that were run and have a published figure.
    pub judged: usize,
    /// Of these, the cells inside the band.
    pub inside: usize,
    /// How many must be.
    pub needed: usize,
    /// Whether they are.
    pub passed: bool,
    /// A sentence with all of this.
    pub line: String,
    /// Names of the cells outside.
    pub outside: Vec<String>,
}

impl CampaignResult {
    /// Whether every check passed and every cell ran.
    pub fn passed(&self) -> bool {
        self.complete
            && self.cells.iter().all(|c| c.error.is_none())
            && self.checks.iter().all(|c| c.passed)
    }

    /// The cell of that name.
    pub fn cell(&self, name: &str) -> Option<&CellResult> {
        self.cells.iter().find(|c| c.name == name)
    }
}

impl CellResult {
    /// That metric of the cell.
    pub fn metric(&self, name: &str) -> Option<&MetricResult> {
        self.metrics.iter().find(|m| m.metric == name)
    }
}
