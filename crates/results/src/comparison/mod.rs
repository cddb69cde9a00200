//! What a comparison came to: `compare.json`, of which `compare.csv` is a view.

mod csv;
mod differences;

use narrows_engine::VirtualKernel;
use serde::{Deserialize, Serialize};

use crate::campaign::{CheckResult, median};
use crate::verdict::{Finding, Verdict, Weight};

pub use csv::csv;
pub use differences::{Differences, differences};

/// The file in the results folder that holds a [`Comparison`].
pub const FILE: &str = "compare.json";

/// Both engines on a scenario or on the cells of a campaign, or both cells of
/// a campaign's pairs on one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scenario's or the campaign's name.
    pub name: String,
    /// A sentence about it.
    pub title: Option<String>,
    /// What the two sides are called: engines (`sim`, `live`, `kernel`), or the values of the
    /// axis by which the sides of a pair differ, the known one first.
    #[serde(default = "engines")]
    pub sides: [String; 2],
    /// Seeds in the simulator, and repetitions live; of pairs, repetitions of
    /// each side.
    pub repetitions: u64,
    /// Narrows' version with its commit, which made both.
    #[serde(default)]
    pub version: String,
    /// Kernel release of the machine.
    #[serde(default)]
    pub kernel: String,
    /// The kernel in virtual time of a side that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_kernel: Option<VirtualKernel>,
    /// What of the scenario's host model the simulator was given otherwise, so that its hosts are
    /// as the other side's: a sentence for each kind of flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Cells in their order, those that were compared; a scenario is one cell.
    pub cells: Vec<CellComparison>,
    /// How the cells compare with the file's tolerances between engines.
    pub checks: Vec<CheckResult>,
    /// Cells that were to be compared.
    pub planned: usize,
    /// Cells that are not, because an engine has not got what they ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Whether all of them were.
    pub complete: bool,
}

/// A cell that one of the engines refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub cell: String,
    /// What the engine has not got.
    pub why: String,
}

/// What the sides are called where they are engines.
pub const ENGINES: [&str; 3] = ["sim", "live", "kernel"];

/// What they are called in comparisons of the two engines that there were at first.
fn engines() -> [String; 2] {
    ["sim", "live"].map(str::to_owned)
}

/// One cell, or one pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellComparison {
    /// Its name.
    pub name: String,
    /// The folders of its simulated runs, relative to the comparison's; none
    /// of a pair.
    pub sim: Vec<String>,
    /// Of each of them `trust: yes`, or why not.
    #[serde(default)]
    pub sim_trust: Vec<String>,
    /// Its live runs in the order in which they were made, those that were made
    /// again included.
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
    /// Whose it is, where both sides are live: one of [`Comparison::sides`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
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

/// One metric of a cell on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `share1_pct` of the file, or `flow/prague/goodput_mbit`.
    pub metric: String,
    /// In the simulator, or of the known cell of a pair.
    #[serde(alias = "sim")]
    pub first: Figure,
    /// Live, or of the judged cell of a pair.
    #[serde(alias = "live")]
    pub second: Figure,
    /// Second less first, of the medians.
    pub difference: Option<f64>,
    /// The file's band in words.
    pub tolerance: Option<String>,
    /// Whether the second figure lies in the band around the first one; `None`
    /// without a band.
    pub within: Option<bool>,
    /// Of two engines, whether their ranges meet or the medians are no further
    /// apart than the live runs among themselves; of a pair, than the runs of the
    /// known side among themselves.
    /// `None` where a side has fewer than two runs, and so no range.
    pub same: Option<bool>,
}

/// A metric over the runs of one side.
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
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Self {
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

    /// How far its runs are apart: the largest less the smallest.
    pub fn spread(&self) -> Option<f64> {
        self.max.zip(self.min).map(|(max, min)| max - min)
    }
}

impl Row {
    /// The metric `name` in both engines.
    pub fn of(name: String, first: Figure, second: Figure) -> Self {
        let difference = second.median.zip(first.median).map(|(s, f)| s - f);
        let own = second.spread().unwrap_or(0.0);
        let near = difference.is_some_and(|d| d.abs() <= own);
        Self {
            metric: name,
            difference,
            same: first.meets(&second).map(|meet| meet || near),
            first,
            second,
            tolerance: None,
            within: None,
        }
    }

    /// The same of a pair of cells, of which the first is the measure of both.
    pub fn of_pair(name: String, first: Figure, second: Figure) -> Self {
        let row = Self::of(name, first, second);
        let enough = first.runs >= 2 && second.runs >= 2;
        let apart = row.difference.map(f64::abs);
        Self {
            same: apart
                .zip(first.spread())
                .filter(|_| enough)
                .map(|(apart, spread)| apart <= spread),
            ..row
        }
    }

    /// In words.
    pub fn verdict(&self) -> &'static str {
        match (self.same, self.first.median.zip(self.second.median)) {
            (Some(true), _) => "same within the spread",
            (Some(false), _) => "differs",
            (None, Some(_)) => "no spread from one run",
            (None, None) if self.first.median.or(self.second.median).is_none() => "on neither side",
            (None, None) => "on one side only",
        }
    }
}

impl CellComparison {
    /// That row.
    pub fn row(&self, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|r| r.metric == metric)
    }

    /// The folders of all its runs, relative to the comparison's.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        let live = self.live.iter().map(|l| l.folder.as_str());
        self.sim.iter().map(String::as_str).chain(live)
    }

    /// The folders of the runs that count on one of the two `sides`: 0 or 1.
    pub fn used_on(&self, sides: &[String; 2], side: usize) -> Vec<&str> {
        let live = self.live.iter().filter(|l| l.used);
        let mine = live.filter(|l| match &l.side {
            Some(of) => sides.get(side) == Some(of),
            None => side == 1,
        });
        let sim = self.sim.iter().filter(|_| side == 0);
        let live = mine.map(|l| l.folder.as_str());
        sim.map(String::as_str).chain(live).collect()
    }

    /// Live runs that count although they are not trusted.
    pub fn doubtful(&self) -> impl Iterator<Item = &Live> {
        self.live.iter().filter(|l| l.used && !l.trusted())
    }
}

impl Live {
    /// Whether its verdict trusts it.
    pub fn trusted(&self) -> bool {
        is_trusted(&self.trust)
    }
}

/// Whether the line of a verdict is that of a run that can be trusted.
pub fn is_trusted(line: &str) -> bool {
    line == "trust: yes"
}

impl Comparison {
    /// Why cells were left out, each reason once, with the cells that have it.
    pub fn left_out_by_reason(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for LeftOut { cell, why } in &self.left_out {
            match reasons.iter_mut().find(|(reason, _)| reason == why) {
                Some((_, cells)) => cells.push(cell),
                None => reasons.push((why, vec![cell])),
            }
        }
        reasons
    }

    /// Whether the sides agree as far as the file asks: its tolerances hold;
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

    /// Whether both sides are live: the cells of pairs.
    pub fn is_paired(&self) -> bool {
        let are_engines = |side: &String| ENGINES.contains(&side.as_str());
        !self.sides.iter().all(are_engines)
    }

    /// The verdict on it: a finding for each live run that cannot be trusted and counts all
    /// the same.
    pub fn verdict(&self) -> Verdict {
        let mut verdict = match self.complete {
            true => Verdict::default(),
            false => Verdict::interrupted(),
        };
        for cell in &self.cells {
            verdict.findings.extend(cell.doubtful().map(|run| {
                let (trust, run) = (&run.trust, &run.folder);
                let why = trust.strip_prefix("trust: no, because ").unwrap_or(trust);
                Finding {
                    weight: Weight::Distrust,
                    check: "doubtful-runs".to_owned(),
                    entity: run.clone(),
                    line: format!("{run} cannot be trusted: {why}"),
                }
            }));
        }
        verdict
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
        assert_eq!(row(&[1.0, 2.0], &[4.0, 5.0]).verdict(), "differs");
        assert_eq!(row(&[1.0], &[1.0, 2.0]).verdict(), "no spread from one run");
        assert_eq!(row(&[], &[1.0, 2.0]).verdict(), "on one side only");
        assert_eq!(row(&[], &[]).verdict(), "on neither side");
        assert_eq!(row(&[1.0, 2.0, 9.0], &[4.0, 4.0]).difference, Some(2.0));
    }

    #[test]
    fn what_lies_within_the_live_runs_own_spread_is_no_difference() {
        let row = |sim: &[f64], live: &[f64]| Row::of("x".to_owned(), figure(sim), figure(live));
        // The ranges do not meet, but live runs differ among themselves by more.
        assert_eq!(row(&[1.0, 2.0], &[2.1, 3.0, 6.1]).same, Some(true));
        // Seeds that scatter are no excuse for a live side that does not.
        assert_eq!(row(&[1.0, 9.0], &[9.5, 9.6]).same, Some(false));
    }

    #[test]
    fn a_pair_is_the_same_while_its_medians_are_no_further_apart_than_the_known_runs() {
        let row = |known: &[f64], judged: &[f64]| {
            Row::of_pair("x".to_owned(), figure(known), figure(judged)).same
        };
        let known = [10.0, 11.0, 12.0];
        assert_eq!(row(&known, &[12.5, 13.0, 14.0]), Some(true));
        assert_eq!(row(&known, &[12.5, 13.1, 14.0]), Some(false));
        // A judged side that scatters widely has no excuse in that.
        assert_eq!(row(&known, &[1.0, 13.1, 99.0]), Some(false));
        assert_eq!(row(&[0.0, 0.0], &[0.0, 0.0]), Some(true));
        for (known, judged) in [
            (&[1.0][..], &[1.0][..]),
            (&[1.0], &[1.0, 1.0]),
            (&[1.0, 1.0], &[1.0]),
        ] {
            assert_eq!(row(known, judged), None, "one run has no spread");
        }
    }

    #[test]
    fn a_comparison_is_not_trusted_where_a_run_that_counts_is_not() {
        let mut comparison = Comparison {
            complete: true,
            cells: vec![CellComparison {
                live: vec![Live {
                    folder: "cells/c/live/1".to_owned(),
                    trust: "trust: no, because the sender had no time to send".to_owned(),
                    used: false,
                    ..Live::default()
                }],
                ..CellComparison::default()
            }],
            ..Comparison::default()
        };
        assert!(comparison.verdict().trusted(), "it was made again");
        comparison.cells[0].live[0].used = true;
        assert_eq!(
            comparison.verdict().line(),
            "trust: no, because cells/c/live/1 cannot be trusted: the sender had no time to send"
        );
        comparison.cells.clear();
        comparison.complete = false;
        assert!(!comparison.verdict().trusted());
    }

    #[test]
    fn what_an_older_version_wrote_is_read_as_the_two_engines() {
        let text = r#"{"name":"x","title":null,"repetitions":3,"cells":[{"name":"c","sim":[],
            "live":[],"rows":[{"metric":"jain","sim":{"runs":1,"median":0.5,"min":0.5,"max":0.5},
            "live":{"runs":0,"median":null,"min":null,"max":null},"difference":null,
            "tolerance":null,"within":null,"same":null}],"asked":1,"error":null}],
            "checks":[],"planned":1,"complete":true}"#;
        let read: Comparison = serde_json::from_str(text).unwrap();
        assert_eq!(read.sides, engines());
        assert_eq!(read.cells[0].rows[0].first.median, Some(0.5));
    }

    fn live(side: Option<&str>, folder: &str, used: bool) -> Live {
        Live {
            side: side.map(str::to_owned),
            folder: folder.to_owned(),
            used,
            trust: "trust: yes".to_owned(),
            ..Live::default()
        }
    }

    #[test]
    fn the_runs_that_count_on_a_side_are_found_by_its_name_or_by_what_made_them() {
        let sides = |of: [&str; 2]| of.map(str::to_owned);
        let engines = CellComparison {
            sim: vec!["sim/1".to_owned(), "sim/2".to_owned()],
            live: vec![live(None, "live/1", false), live(None, "live/2", true)],
            ..CellComparison::default()
        };
        let of = sides(["sim", "live"]);
        assert_eq!(engines.used_on(&of, 0), ["sim/1", "sim/2"]);
        assert_eq!(engines.used_on(&of, 1), ["live/2"]);
        let pair = CellComparison {
            live: vec![
                live(Some("cubic"), "a/1", true),
                live(Some("prague"), "b/1", true),
                live(Some("prague"), "b/2", false),
            ],
            ..CellComparison::default()
        };
        let of = sides(["cubic", "prague"]);
        assert_eq!(pair.used_on(&of, 0), ["a/1"]);
        assert_eq!(pair.used_on(&of, 1), ["b/1"]);
        assert_eq!(pair.used_on(&of, 2), [""; 0]);
    }

    #[test]
    fn a_live_run_is_trusted_by_the_line_of_its_verdict_alone() {
        let mut run = live(None, "live/1", true);
        assert!(run.trusted());
        let cell = |run: &Live| CellComparison {
            live: vec![run.clone()],
            ..CellComparison::default()
        };
        assert_eq!(cell(&run).doubtful().count(), 0);
        run.trust = "trust: no, because it was interrupted".to_owned();
        assert!(!run.trusted());
        assert_eq!(cell(&run).doubtful().count(), 1);
    }

    #[test]
    fn each_reason_for_leaving_cells_out_is_given_once_with_all_its_cells() {
        let left_out = [("a", "no QUIC"), ("b", "no kernel"), ("c", "no QUIC")];
        let left_out = left_out.map(|(cell, why)| LeftOut {
            cell: cell.to_owned(),
            why: why.to_owned(),
        });
        let comparison = Comparison {
            left_out: left_out.to_vec(),
            ..Comparison::default()
        };
        assert_eq!(
            comparison.left_out_by_reason(),
            [("no QUIC", vec!["a", "c"]), ("no kernel", vec!["b"])]
        );
    }

    #[test]
    fn sides_agree_by_the_checks_of_the_file_and_without_any_by_the_spread() {
        let row = |same| Row {
            same,
            ..Row::default()
        };
        let check = |passed| CheckResult {
            passed,
            ..CheckResult::default()
        };
        let of = |rows: &[Option<bool>], checks: &[bool]| Comparison {
            complete: true,
            cells: vec![CellComparison {
                rows: rows.iter().copied().map(row).collect(),
                ..CellComparison::default()
            }],
            checks: checks.iter().copied().map(check).collect(),
            ..Comparison::default()
        };
        let same = [Some(true), None];
        let apart = [Some(true), Some(false)];
        assert!(of(&same, &[]).passed());
        assert!(!of(&apart, &[]).passed());
        assert!(of(&apart, &[true]).passed(), "its tolerances hold");
        assert!(!of(&same, &[true, false]).passed());
        let mut incomplete = of(&same, &[]);
        incomplete.complete = false;
        assert!(!incomplete.passed());
        let mut failed = of(&same, &[]);
        failed.cells[0].error = Some("it could not be built".to_owned());
        assert!(!failed.passed());
    }

    #[test]
    fn a_comparison_is_of_pairs_where_a_side_is_no_engine() {
        let of = |sides: [&str; 2]| Comparison {
            sides: sides.map(str::to_owned),
            ..Comparison::default()
        };
        assert!(!of(["sim", "live"]).is_paired());
        assert!(!of(["sim", "kernel"]).is_paired());
        assert!(of(["sim", "prague"]).is_paired());
        assert!(of(["cubic", "prague"]).is_paired());
    }
}
