//! Campaigns: one base scenario, a matrix of values, a published table and
//! the tolerance of each comparison.

mod band;
pub(crate) mod document;
mod expression;
mod figure;
mod formula;
mod key_finding;
mod known;
mod matrix;
mod pair;
mod published;
mod read;
mod shape;

use crate::glob::Glob;
use crate::plan::Plan;
use crate::refusal::{Refusal, nearest};

pub use band::{Band, Between, Judgement, Tolerance};
pub use expression::Expression;
pub use figure::Figure;
pub use formula::{Formula, Metric};
pub use key_finding::{KeyFinding, Sentence};
pub use pair::{Pair, PairedCells};
pub(crate) use read::count_cells;
pub use shape::{Condition, Held, Measured, Seen, Shape};

/// A campaign, checked: every cell is a plan that can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    /// `l4s-tests/s1`.
    pub name: String,
    /// What it shows, in a line.
    pub title: Option<String>,
    /// What it is, in a paragraph.
    pub about: Option<String>,
    /// Where its figures come from.
    pub source: Option<String>,
    /// The seeds that each cell runs with unless others are asked for.
    pub seeds: Vec<u64>,
    /// The matrix.
    pub axes: Vec<Axis>,
    /// Which of its cells are held against each other, if any are.
    pub pair: Option<Pair>,
    /// What is measured in each cell.
    pub metrics: Vec<Metric>,
    /// What it is about: metrics against axes.
    pub figures: Vec<Figure>,
    /// What it shows, in sentences.
    pub key_findings: Vec<KeyFinding>,
    /// What is judged.
    pub tolerances: Vec<Tolerance>,
    /// Shapes that measured figures must have among themselves.
    pub shapes: Vec<Shape>,
    /// The cells, the last axis running fastest.
    pub cells: Vec<Cell>,
}

/// One axis of a campaign's matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// `qdisc`.
    pub name: String,
    /// `dualpi2`, `pfifo`, …
    pub values: Vec<String>,
}

/// One cell of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// `50Mbit/160-10/dualpi2/prague-cubic`.
    pub name: String,
    /// Its value on each axis.
    pub at: Vec<String>,
    /// What runs.
    pub plan: Plan,
    /// Findings that the verdict on it must have, as the campaign says; the plan expects
    /// them, too.
    pub expected: Vec<String>,
    /// The published figure for each metric of the campaign, in its order.
    pub published: Vec<Option<f64>>,
}

/// Where a campaign finds the files that it names.
pub trait Shelf {
    /// The contents of the file at `path`, as the campaign spells it.
    ///
    /// # Errors
    /// Why there are none, in words.
    fn open(&self, path: &str) -> Result<Vec<u8>, String>;
}

/// Why a shelf has no file, where there is no more to say.
pub(crate) fn no_such_file() -> String {
    "there is no such file".to_owned()
}

impl Campaign {
    /// Reads the bytes of a campaign's file; `name` is its name in messages.
    /// `sets` are `NAME=VALUE` assignments to the scenario of every cell.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with a file that it names, or
    /// with the scenario of a cell.
    pub fn read(
        name: &str,
        bytes: &[u8],
        shelf: &dyn Shelf,
        sets: &[String],
    ) -> Result<Self, Refusal> {
        read::campaign(name, bytes, shelf, sets)
    }

    /// A campaign whose only cell is `plan`, and that measures nothing of its
    /// own.
    pub fn of_one(plan: Plan) -> Self {
        Self {
            name: plan.name.clone(),
            title: plan.title.clone(),
            about: plan.about.clone(),
            source: plan.source.clone(),
            seeds: vec![plan.seed],
            axes: Vec::new(),
            pair: None,
            metrics: Vec::new(),
            figures: Vec::new(),
            key_findings: Vec::new(),
            tolerances: Vec::new(),
            shapes: Vec::new(),
            cells: vec![Cell {
                name: plan.name.clone(),
                at: Vec::new(),
                plan,
                expected: Vec::new(),
                published: Vec::new(),
            }],
        }
    }

    /// Whether `pattern` fits one of its cells.
    ///
    /// # Errors
    /// If it is no pattern.
    pub fn has(&self, pattern: &str) -> Result<bool, Refusal> {
        let glob = Glob::parse(pattern)?;
        Ok(self.cells.iter().any(|cell| glob.matches(&cell.name)))
    }

    /// Keeps the cells that one of `patterns` fits, as `--only` does; all of
    /// them if there is no pattern.
    ///
    /// # Errors
    /// If a pattern is none, or fits no cell.
    pub fn only(&mut self, patterns: &[String]) -> Result<(), Refusal> {
        if patterns.is_empty() {
            return Ok(());
        }
        let mut kept = vec![false; self.cells.len()];
        for pattern in patterns {
            let glob = Glob::parse(pattern)?;
            let mut any = false;
            for (cell, kept) in self.cells.iter().zip(&mut kept) {
                if glob.matches(&cell.name) {
                    *kept = true;
                    any = true;
                }
            }
            if !any {
                return Err(self.fits_nothing(pattern));
            }
        }
        let mut kept = kept.into_iter();
        self.cells.retain(|_| kept.next().unwrap_or(false));
        Ok(())
    }

    fn fits_nothing(&self, pattern: &str) -> Refusal {
        let names = || self.cells.iter().map(|c| c.name.as_str());
        let example = nearest(pattern, names()).or_else(|| names().next());
        let found = format!("`{pattern}`, which fits none of {} cells", self.cells.len());
        Refusal::new("--only", found, "a pattern that fits a cell's name").with_help(format!(
            "a cell is called `{}`; `*` stands for any letters",
            example.unwrap_or("")
        ))
    }

    /// The value of every metric, in order. `figure(entity, column)` is the
    /// figure of a run's summary of that name.
    pub fn evaluate(&self, figure: &mut dyn FnMut(&str, &str) -> Option<f64>) -> Vec<Option<f64>> {
        formula::values(
            &self.metrics,
            &mut |index| match &self.metrics[index].formula {
                Formula::Figure { column, entity } => Some(figure(entity, column)),
                Formula::Sum(_) => None,
            },
        )
    }

    /// The pairs of cells that `[pair]` holds against each other, among those
    /// that are there; none without it.
    pub fn pairs(&self) -> Vec<PairedCells> {
        let pair = self.pair.as_ref();
        pair.map_or_else(Vec::new, |pair| pair.of(&self.cells))
    }

    /// The index of the metric `name`.
    pub fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|m| m.name == name)
    }
}
