//! What a campaign came to: `campaign.json`, of which `cells.csv` is a view.

mod axis;
mod check;
mod csv;
mod key_finding;
mod title;

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

pub use axis::numbers;
pub use check::{CheckResult, ConditionResult, Outcome, in_words};
pub use csv::cells_csv;
pub use key_finding::KeyFindingResult;

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
    /// What each metric is called, in the same order.
    #[serde(default)]
    pub titles: Vec<MetricTitle>,
    /// The figures that the file asks for.
    #[serde(default)]
    pub figures: Vec<FigureResult>,
    /// What it shows, in sentences with what was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_findings: Vec<KeyFindingResult>,
    /// Cells in the matrix's order, those that were run.
    pub cells: Vec<CellResult>,
    /// How the cells compare with the published figures, group by group.
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

/// What a metric is called on pages and plots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricTitle {
    /// In a few words, without unit.
    pub title: String,
    /// `ms`; empty for what has none.
    pub unit: String,
}

/// Metrics drawn against an axis of the matrix; all by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureResult {
    /// What it shows, in a line.
    pub title: Option<String>,
    /// What is drawn upwards; of several, each is a line.
    pub metrics: Vec<String>,
    /// The axis that is drawn across.
    pub x: String,
    /// The axes whose values are lines.
    pub by: Vec<String>,
    /// The axes whose values have drawings of their own.
    pub panels: Vec<String>,
    /// The pattern of the cells that are drawn; all without one.
    pub cells: Option<String>,
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
    /// What was found in each seed's run, in the order of the seeds.
    #[serde(default)]
    pub by_seed: Vec<SeedResult>,
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
    /// The least and the greatest figure that lies in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<(f64, f64)>,
    /// Whether measured lies in the band; `None` where nothing is published
    /// or no band is given.
    pub within: Option<bool>,
}

/// What the verdict on one seed's run of a cell says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedResult {
    /// Whether the run is trusted.
    pub trusted: bool,
    /// The names of all findings, each once; notes and what was expected are among them.
    pub findings: Vec<String>,
}

impl CampaignResult {
    /// Whether every check passed and every cell ran.
    pub fn passed(&self) -> bool {
        self.complete
            && self.cells.iter().all(|c| c.error.is_none())
            && self.checks.iter().all(|c| c.passed)
    }

    /// What that metric is called; of results of older versions, what its name
    /// says.
    pub fn title_of(&self, metric: &str) -> MetricTitle {
        let place = self.metrics.iter().position(|m| m == metric);
        let known = place.and_then(|place| self.titles.get(place)).cloned();
        known.unwrap_or_else(|| MetricTitle::of_name(metric))
    }

    /// Digits after the decimal point with which that metric is printed: none of
    /// what is counted, else three significant ones of the largest figure or so.
    pub fn decimals(&self, metric: &str) -> usize {
        let rows = self.cells.iter().filter_map(|c| c.metric(metric));
        let figures = rows.flat_map(|m| [m.published, m.measured]).flatten();
        let figures: Vec<f64> = figures.filter(|v| v.is_finite()).collect();
        let largest = figures.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        match largest {
            _ if metric == "jain" => 3,
            _ if figures.iter().all(|v| v.fract() == 0.0) => 0,
            0.0..0.1 => 4,
            0.1..2.0 => 3,
            2.0..100.0 => 2,
            100.0..1000.0 => 1,
            _ => 0,
        }
    }

    /// How the checks came out, and how many published figures none of them judges, in
    /// words: `9 of 11 checks pass, 2 differ (not required), 1 published figure is not
    /// judged`; `None` where there is nothing to say.
    pub fn checks_in_words(&self) -> Option<String> {
        let unjudged = match self.unjudged() {
            0 => None,
            1 => Some("1 published figure is not judged".to_owned()),
            n => Some(format!("{n} published figures are not judged")),
        };
        let words: Vec<String> = in_words(&self.checks).into_iter().chain(unjudged).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Published figures beside which something was to be measured, and which neither a
    /// tolerance nor a condition of a check judges.
    pub fn unjudged(&self) -> usize {
        let named: std::collections::BTreeSet<&str> = self
            .checks
            .iter()
            .flat_map(|check| &check.conditions)
            .flat_map(|condition| &condition.figures)
            .map(String::as_str)
            .collect();
        let judged = |cell: &CellResult, m: &MetricResult| {
            m.within.is_some() || named.contains(format!("{}[{}]", m.metric, cell.name).as_str())
        };
        let of = |cell: &CellResult| {
            let rows = cell.metrics.iter();
            rows.filter(|m| m.published.is_some() && !judged(cell, m))
                .count()
        };
        self.cells.iter().map(of).sum()
    }

    /// How many published figures have a measured one within `part` of them (0.25: a quarter),
    /// and how many there are beside which something was to be measured. Figures of 0 are
    /// left out.
    pub fn near(&self, part: f64) -> (usize, usize) {
        let rows = self.cells.iter().flat_map(|c| &c.metrics);
        let published = rows.filter_map(|m| Some((m.published.filter(|p| *p != 0.0)?, m.measured)));
        published.fold((0, 0), |(near, all), (published, measured)| {
            let is_near = |m: f64| (m / published - 1.0).abs() <= part;
            (near + usize::from(measured.is_some_and(is_near)), all + 1)
        })
    }

    /// Whether that metric says yes or no of each cell: every figure is 0 or 1.
    pub fn is_flag(&self, metric: &str) -> bool {
        let rows = self.cells.iter().filter_map(|c| c.metric(metric));
        let mut figures = rows
            .flat_map(|m| [m.published, m.measured])
            .flatten()
            .peekable();
        figures.peek().is_some() && figures.all(|v| v == 0.0 || v == 1.0)
    }

    /// Whether a check that is not required did not hold.
    pub fn differs(&self) -> bool {
        let mut checks = self.checks.iter();
        checks.any(|check| check.outcome() == Outcome::Differs)
    }

    /// Whether anything is published.
    pub fn has_published(&self) -> bool {
        let rows = self.cells.iter().flat_map(|c| &c.metrics);
        rows.into_iter().any(|m| m.published.is_some())
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

impl MetricResult {
    /// The least and the greatest figure of the seeds; `None` without any.
    pub fn range(&self) -> Option<(f64, f64)> {
        let seen = self.by_seed.iter().flatten().copied();
        seen.fold(None, |range: Option<(f64, f64)>, v| {
            Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        })
    }
}

/// The middle of sorted values; the mean of the two middle ones of an even
/// number.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_figure_is_near_within_a_part_of_it() {
        let row = |published, measured| MetricResult {
            published,
            measured,
            ..MetricResult::default()
        };
        let campaign = CampaignResult {
            cells: vec![CellResult {
                metrics: vec![
                    row(Some(4.0), Some(4.0)),
                    row(Some(4.0), Some(5.0)),
                    row(Some(4.0), Some(5.1)),
                    row(Some(-4.0), Some(-3.0)),
                    row(Some(4.0), None),
                    row(Some(0.0), Some(0.0)),
                    row(None, Some(1.0)),
                ],
                ..CellResult::default()
            }],
            ..CampaignResult::default()
        };
        assert_eq!(campaign.near(0.25), (3, 5));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }

    /// A campaign of one cell with the measured figures `values` of the metric `name`, none of
    /// which is published.
    fn of(name: &str, values: &[f64]) -> CampaignResult {
        let rows = values.iter().map(|v| MetricResult {
            metric: name.to_owned(),
            measured: Some(*v),
            ..MetricResult::default()
        });
        let cells = rows.enumerate().map(|(i, row)| CellResult {
            name: format!("cell {i}"),
            metrics: vec![row],
            ..CellResult::default()
        });
        CampaignResult {
            complete: true,
            cells: cells.collect(),
            ..CampaignResult::default()
        }
    }

    #[test]
    fn a_campaign_passes_when_all_cells_ran_and_all_checks_passed() {
        let check = |passed| CheckResult {
            passed,
            ..CheckResult::default()
        };
        let sound = CampaignResult {
            checks: vec![check(true), check(true)],
            ..of("x", &[1.0, 2.0])
        };
        assert!(sound.passed());
        let mut incomplete = sound.clone();
        incomplete.complete = false;
        let mut failed = sound.clone();
        failed.cells[1].error = Some("it could not be built".to_owned());
        let mut missed = sound;
        missed.checks[0] = check(false);
        for campaign in [incomplete, failed, missed] {
            assert!(!campaign.passed(), "{campaign:?}");
        }
    }

    #[test]
    fn a_metric_is_called_as_the_file_calls_it_or_else_by_its_name() {
        let title = |title: &str| MetricTitle {
            title: title.to_owned(),
            unit: String::new(),
        };
        let campaign = CampaignResult {
            metrics: vec!["a".to_owned(), "b_ms".to_owned(), "c_ms".to_owned()],
            titles: vec![title("first"), title("second")],
            ..CampaignResult::default()
        };
        let words = |metric| campaign.title_of(metric).with_unit();
        assert_eq!(words("a"), "first");
        assert_eq!(words("b_ms"), "second");
        assert_eq!(words("c_ms"), "c (ms)");
    }

    #[test]
    fn a_metric_is_printed_with_three_significant_digits_of_its_largest_figure() {
        for (figures, digits) in [
            (&[0.09, 0.01][..], 4),
            (&[0.1, 0.01], 3),
            (&[1.9, 0.01], 3),
            (&[2.0, 0.01], 2),
            (&[-99.9, 0.01], 2),
            (&[100.0, 0.01], 1),
            (&[999.9, 0.01], 1),
            (&[1000.0, 0.01], 0),
            // What is counted has none.
            (&[0.0, 7.0], 0),
            (&[], 0),
        ] {
            assert_eq!(of("x", figures).decimals("x"), digits, "{figures:?}");
        }
        // Jain's index always has three, and other metrics have no part in it.
        assert_eq!(of("jain", &[1.0]).decimals("jain"), 3);
        assert_eq!(of("x", &[0.25]).decimals("y"), 0);
    }

    #[test]
    fn a_flag_is_a_metric_of_which_every_figure_is_0_or_1() {
        for (figures, is_flag) in [
            (&[0.0, 1.0][..], true),
            (&[1.0, 1.0], true),
            (&[0.0, 0.0], true),
            (&[0.0, 0.5], false),
            (&[1.0, 2.0], false),
            (&[], false),
        ] {
            assert_eq!(of("x", figures).is_flag("x"), is_flag, "{figures:?}");
        }
        assert!(!of("x", &[1.0]).is_flag("y"));
    }

    #[test]
    fn cells_and_their_metrics_are_found_by_name_and_a_published_figure_wherever_it_is() {
        let mut campaign = of("x", &[1.0, 2.0]);
        assert_eq!(campaign.cell("cell 1"), Some(&campaign.cells[1]));
        assert_eq!(campaign.cell("cell 2"), None);
        let cell = &campaign.cells[1];
        assert_eq!(cell.metric("x"), Some(&cell.metrics[0]));
        assert_eq!(cell.metric("y"), None);
        assert!(!campaign.has_published());
        campaign.cells[1].metrics[0].published = Some(2.0);
        assert!(campaign.has_published());
    }

    #[test]
    fn a_campaign_differs_where_a_check_that_is_not_required_does_not_hold() {
        let check = |inside, needed| CheckResult {
            judged: 2,
            inside,
            needed,
            passed: inside >= needed,
            ..CheckResult::default()
        };
        let differs = |checks: &[CheckResult]| {
            let checks = checks.to_vec();
            let campaign = CampaignResult {
                checks,
                ..CampaignResult::default()
            };
            campaign.differs()
        };
        assert!(!differs(&[]));
        assert!(!differs(&[check(2, 2), check(1, 2)]), "it failed");
        assert!(differs(&[check(2, 2), check(1, 0)]));
        let words = [Outcome::Pass, Outcome::Differs, Outcome::Fail].map(Outcome::word);
        assert_eq!(words, ["pass", "differs, not required", "FAIL"]);
    }

    #[test]
    fn the_range_of_a_metric_is_that_of_the_seeds_that_have_it() {
        let range = |by_seed: &[Option<f64>]| {
            let by_seed = by_seed.to_vec();
            let metric = MetricResult {
                by_seed,
                ..MetricResult::default()
            };
            metric.range()
        };
        assert_eq!(range(&[]), None);
        assert_eq!(range(&[None, None]), None);
        assert_eq!(range(&[None, Some(4.0)]), Some((4.0, 4.0)));
        assert_eq!(range(&[Some(4.0), Some(2.5), Some(7.0)]), Some((2.5, 7.0)));
    }
}
