//! What a campaign asks for.

use narrows_scenario::Plan;

use super::band::Band;

/// A campaign, expanded to its cells.
#[derive(Clone, Debug, Default)]
pub struct CampaignPlan {
    /// `l4s-tests/s1`.
    pub name: String,
    /// A sentence about it.
    pub title: Option<String>,
    /// Where the published figures are from.
    pub source: Option<String>,
    /// Names of the matrix's axes.
    pub axes: Vec<String>,
    /// Metrics to tabulate, in order; names as [`lookup`](crate::metric::lookup)
    /// knows them.
    pub metrics: Vec<String>,
    /// The cells to run, in order.
    pub cells: Vec<CellPlan>,
    /// Rules that compare cells with their published figures.
    pub rules: Vec<Rule>,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct CellPlan {
    /// `50Mbit/160-10/dualpi2/prague-cubic`; unique.
    pub name: String,
    /// Its value on each axis, in the order of the axes.
    pub at: Vec<String>,
    /// What to run.
    pub plan: Plan,
    /// Published figures by metric.
    pub published: Vec<(String, f64)>,
}

/// A rule about a group of cells: so many of them within a band.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The group's name, for the table.
    pub group: String,
    /// Which cells belong to it: values that they must have on the named
    /// axes. No condition: all cells.
    pub only: Vec<(String, String)>,
    /// Which metric is judged.
    pub metric: String,
    /// All of these bands must hold for a cell to be inside.
    pub bands: Vec<Band>,
    /// How many cells with a published figure the whole group has.
    pub of: usize,
    /// How many of these must be inside.
    pub needed: usize,
}

impl Rule {
    /// Whether a cell with the values `at` on `axes` belongs to the group.
    pub fn covers(&self, axes: &[String], at: &[String]) -> bool {
        self.only.iter().all(|(axis, value)| {
            let index = axes.iter().position(|a| a == axis);
            index.and_then(|i| at.get(i)) == Some(value)
        })
    }
}

impl CampaignPlan {
    /// The published figure of `metric` in `cell`.
    pub(super) fn published(cell: &CellPlan, metric: &str) -> Option<f64> {
        cell.published
            .iter()
            .find(|(m, _)| m == metric)
            .map(|(_, v)| *v)
    }
}
