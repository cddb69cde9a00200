//! From a campaign's document to its cells.

use std::collections::BTreeSet;

use super::band::{Between, Tolerance};
use super::document;
use super::expression::Expression;
use super::figure::Figure;
use super::formula::{self, Formula, Metric};
use super::key_finding::KeyFinding;
use super::known;
use super::matrix::{self, AxisValues, Template, Words};
use super::published::Published;
use super::shape::{Condition, Shape};
use super::{Axis, Campaign, Cell, Pair, PairedCells, Shelf};
use crate::check;
use crate::document::{At, Places};
use crate::draft::Draft;
use crate::glob::Glob;
use crate::names::is_name;
use crate::refusal::{Refusal, one_of};
use crate::tree::{self, Key, Node, Value};

/// A campaign's document with all that is needed to say where it is wrong.
struct Reader<'a> {
    root: &'a Node,
    given: &'a At<document::Campaign>,
    places: &'a Places,
    shelf: &'a dyn Shelf,
}

/// Reads a campaign.
pub(super) fn campaign(
    name: &str,
    bytes: &[u8],
    shelf: &dyn Shelf,
    sets: &[String],
) -> Result<Campaign, Refusal> {
    let root = tree::read(name, bytes)?;
    root.is_kind("campaign", "`kind = \"campaign\"`")?;
    let (given, places) = crate::document::read::<document::Campaign>(&root)?;
    let reader = Reader {
        root: &root,
        given: &given,
        places: &places,
        shelf,
    };
    reader.campaign(sets)
}

/// How many cells the campaign in `root` has. None is checked.
pub(crate) fn count_cells(root: &Node, shelf: &dyn Shelf) -> Result<usize, Refusal> {
    let (given, places) = crate::document::read::<document::Campaign>(root)?;
    let reader = Reader {
        root,
        given: &given,
        places: &places,
        shelf,
    };
    let axes = matrix::axes(&given, &places)?;
    Ok(reader.named(&axes)?.len())
}

/// A cell that has its name, and nothing else yet.
struct Named {
    name: String,
    /// The index of its value on each axis.
    at: Vec<usize>,
    words: Words,
}

impl Reader<'_> {
    fn campaign(&self, sets: &[String]) -> Result<Campaign, Refusal> {
        let (given, places) = (self.given, self.places);
        let allowed = "a name such as \"l4s-tests/s1\"";
        let name = places.required(given, "name", &given.name, allowed)?;
        if name.is_empty() || name.len() > 200 || !name.split('/').all(is_name) {
            return Err(places.refuse(name, allowed));
        }
        let axes = matrix::axes(given, places)?;
        let mut metrics = self.metrics()?;
        let mut cells = self.cells(&axes, self.base()?, sets, &metrics)?;
        if given.metric.is_some() {
            self.exist(&metrics, &cells)?;
        } else {
            metrics = known::by_default(&cells);
            for cell in &mut cells {
                cell.published = vec![None; metrics.len()];
            }
        }
        for table in &given.expected {
            self.expect(table, &mut cells)?;
        }
        let axes: Vec<Axis> = axes.into_iter().map(|a| a.axis).collect();
        let pair = given.pair.as_ref();
        let pair = pair
            .map(|table| Pair::read(table, places, &axes))
            .transpose()?;
        let pairs = pair.as_ref().map(|pair| pair.of(&cells));
        let figures = given.figure.iter();
        let figures = figures.map(|table| Figure::read(table, places, &axes, &metrics, &cells));
        let tolerances = given.tolerance.iter();
        let tolerances =
            tolerances.map(|table| self.tolerance(table, &metrics, &cells, pairs.as_deref()));
        let shapes = given
            .check
            .iter()
            .map(|table| self.shape(table, &metrics, &cells));
        let tolerances = tolerances.collect::<Result<Vec<_>, _>>()?;
        let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
        let named = tolerances.iter().map(|t| t.name.as_str());
        let named: Vec<&str> = named.chain(shapes.iter().map(|s| s.id.as_str())).collect();
        let found = given.key_finding.iter();
        let found = found.map(|table| KeyFinding::read(table, places, &metrics, &cells, &named));
        Ok(Campaign {
            name: name.to_string(),
            title: given.title.as_deref().cloned(),
            about: given.about.as_deref().cloned(),
            source: given.source.as_deref().cloned(),
            seeds: self.seeds()?,
            figures: figures.collect::<Result<_, _>>()?,
            key_findings: found.collect::<Result<_, _>>()?,
            tolerances,
            shapes,
            axes,
            pair,
            metrics,
            cells,
        })
    }

    fn seeds(&self) -> Result<Vec<u64>, Refusal> {
        let Some(given) = &self.given.seeds else {
            return Ok(vec![1]);
        };
        let mut taken = BTreeSet::new();
        let mut seeds = Vec::new();
        for range in given.iter() {
            for seed in range.0..=range.1 {
                if !taken.insert(seed) {
                    let found = format!("{seed} for the second time");
                    return Err(self.places.found(range, found, "each seed once"));
                }
                seeds.push(seed);
            }
        }
        match seeds.is_empty() {
            true => Err(self.places.refuse(given, "at least one seed")),
            false => Ok(seeds),
        }
    }

    /// Reads `[metric]`; nothing where it is left out.
    fn metrics(&self) -> Result<Vec<Metric>, Refusal> {
        const ALLOWED: &str = "at least one, such as `rate_mbit = \"goodput_mbit of flow/prague\"`";
        let (given, places) = (self.given, self.places);
        let Some(table) = &given.metric else {
            return match &given.published {
                None => Ok(Vec::new()),
                Some(_) => {
                    let help = "[published] compares metrics, so [metric] has to name them";
                    Err(places.missing(given, "metric", ALLOWED).with_help(help))
                }
            };
        };
        let named = |(name, entry): (&String, &At<document::Metric>)| Metric {
            name: name.clone(),
            title: entry.title.as_deref().cloned(),
            unit: entry.unit.as_deref().cloned(),
            // Until it is read, which takes the names of all.
            formula: Formula::Sum(Expression::Number(0.0)),
        };
        let mut metrics: Vec<Metric> = table.iter().map(named).collect();
        let mut formulas = Vec::new();
        for (_, entry) in table.iter() {
            let of = places.required(entry, "of", &entry.of, "the metric's formula")?;
            let formula = Formula::parse(of, &metrics);
            let formula = formula.map_err(|error| places.refused_words(of, error))?;
            formulas.push((of, formula));
        }
        for (metric, (_, formula)) in metrics.iter_mut().zip(&formulas) {
            metric.formula = formula.clone();
        }
        if let Some(index) = formula::circular(&metrics) {
            let found = format!("`{}`, which is worked out of itself", metrics[index].name);
            let allowed = "a formula over other metrics";
            return Err(places.found(formulas[index].0, found, allowed));
        }
        match metrics.is_empty() {
            true => Err(places.missing(table, "metric", ALLOWED)),
            false => Ok(metrics),
        }
    }

    /// Checks that what `metrics` read is there in at least one cell.
    fn exist(&self, metrics: &[Metric], cells: &[Cell]) -> Result<(), Refusal> {
        let given = self.given.metric.iter().flat_map(|table| table.iter());
        for (metric, (_, entry)) in metrics.iter().zip(given) {
            if let Some(of) = &*entry.of {
                known::check(&metric.formula, of, cells)
                    .map_err(|error| self.places.refused_words(of, error))?;
            }
        }
        Ok(())
    }

    /// The scenario that the cells start from: `base` names its file, or
    /// `[scenario]` is it.
    fn base(&self) -> Result<Draft, Refusal> {
        const ALLOWED: &str = "either `base`, a scenario's file, or [scenario] itself";
        let own = self
            .root
            .at("scenario")
            .filter(|_| self.given.scenario.is_some());
        match (&self.given.base, own) {
            (None, None) => Err(self.places.missing(self.given, "base", ALLOWED)),
            (Some(base), Some(_)) => Err(self.places.refuse(base, ALLOWED)),
            (Some(path), None) => {
                let bytes = self.shelf.open(path).map_err(|why| {
                    let allowed = "the file of a scenario";
                    self.places.refuse(path, allowed).with_help(why)
                })?;
                Draft::read(path, &bytes)
            }
            (None, Some(node)) => {
                let mut root = node.clone();
                // The rest of the document is read with each cell's values in it.
                let given = [
                    ("version", Value::Whole(1)),
                    ("name", Value::Text("cell".into())),
                ];
                for (key, value) in given {
                    if root.at(key).is_none() {
                        let spot = node.spot.clone();
                        root.put(key, Node { value, spot });
                    }
                }
                Ok(Draft::of(root))
            }
        }
    }

    /// The cells of the matrix that no pattern excludes.
    fn named(&self, axes: &[AxisValues]) -> Result<Vec<Named>, Refusal> {
        let (given, places) = (self.given, self.places);
        let allowed = "the name of a cell, such as \"{rate}/{qdisc}\"";
        let name = places.required(given, "cell", &given.cell, allowed)?;
        let template = Template::of(name, places);
        let common = matrix::common(given, places, axes)?;
        let pattern = |at: &At<String>| Glob::parse(at).map_err(|_| places.refuse(at, "a pattern"));
        let exclude: Vec<Glob> = given
            .exclude
            .iter()
            .map(pattern)
            .collect::<Result<_, _>>()?;
        let mut names = BTreeSet::new();
        let mut cells = Vec::new();
        for at in matrix::combinations(axes) {
            let mut words = matrix::words_at(axes, &at);
            words.extend(common.clone());
            let called = template.fill(&words)?;
            if !is_cell_name(&called) {
                let allowed = "a name of letters, digits and `_-.,()=/`";
                return Err(places.found(name, format!("the cell `{called}`"), allowed));
            }
            if !names.insert(called.clone()) {
                let found = format!("the cell `{called}` for the second time");
                return Err(places.found(name, found, "a name that holds every axis"));
            }
            if exclude.iter().any(|g| g.matches(&called)) {
                continue;
            }
            cells.push(Named {
                name: called,
                at,
                words,
            });
        }
        if cells.is_empty() {
            let found = "patterns that leave no cell of the matrix";
            let spot = given
                .exclude
                .first()
                .map_or(places.spot(given), |at| places.spot(at));
            return Err(Refusal::at(spot, "exclude", found, "at least one cell"));
        }
        Ok(cells)
    }

    /// The same, each checked.
    fn cells(
        &self,
        axes: &[AxisValues],
        base: Draft,
        sets: &[String],
        metrics: &[Metric],
    ) -> Result<Vec<Cell>, Refusal> {
        let (given, places) = (self.given, self.places);
        let named = self.named(axes)?;
        let published = given.published.as_ref();
        let published = published
            .map(|table| Published::read(table, places, self.shelf, metrics))
            .transpose()?;
        let mut used = vec![false; published.as_ref().map_or(0, Published::rows)];
        let mut cells = Vec::new();
        for Named {
            name: called,
            at,
            words,
        } in named
        {
            let mut draft = base.clone();
            self.set(&mut draft, &words, &called)?;
            for set in sets {
                draft.set(set)?;
            }
            let mut plan = check::plan(&draft.root, self.shelf).map_err(|e| e.in_cell(&called))?;
            plan.name.clone_from(&called);
            let row = match &published {
                Some(table) => table.row(&words)?.map(|row| (table, row)),
                None => None,
            };
            let figures = match row {
                None => vec![None; metrics.len()],
                Some((table, row)) => {
                    if std::mem::replace(&mut used[row], true) {
                        let found = format!("one row for `{called}` and for another cell");
                        let allowed = "one row for each cell";
                        return Err(places.missing(given, "published", allowed).with_help(found));
                    }
                    table.figures(row, metrics)?
                }
            };
            let values = axes.iter().zip(&at);
            cells.push(Cell {
                name: called,
                at: values
                    .map(|(a, value)| a.axis.values[*value].clone())
                    .collect(),
                plan,
                expected: Vec::new(),
                published: figures,
            });
        }
        if let Some(table) = published.filter(|_| given.exclude.is_empty()) {
            table.all_used(&used)?;
        }
        Ok(cells)
    }

    /// Sets in a cell's scenario what `[set]` says.
    fn set(&self, draft: &mut Draft, words: &Words, cell: &str) -> Result<(), Refusal> {
        let Some(Value::Table(table)) = self.root.at("set").map(|n| &n.value) else {
            return Ok(());
        };
        for (Key { name, spot }, node) in &table.0 {
            let template = |text, spot, key: &str| {
                let key = key.to_owned();
                Template { text, spot, key }
            };
            let value = match node.as_text() {
                None => node.clone(),
                Some(text) => {
                    let template = template(text, &node.spot, name);
                    let at = node.spot.clone();
                    let at = if template.has_words() {
                        at.rewritten()
                    } else {
                        at
                    };
                    Node::raw(&template.fill(words)?, at)
                }
            };
            let name = template(name, spot, "set").fill(words)?;
            crate::set::set(&mut draft.root, &name, spot, value).map_err(|e| e.in_cell(cell))?;
        }
        Ok(())
    }

    /// Notes in the cells of an `[[expected]]` what is to be found in their verdicts.
    fn expect(&self, table: &At<document::Expected>, cells: &mut [Cell]) -> Result<(), Refusal> {
        let places = self.places;
        if table.cells.iter().next().is_none() {
            return Err(places.missing(table, "cells", "a pattern over the names of cells"));
        }
        if table.verdict.iter().next().is_none() {
            let allowed = "at least one finding, such as \"never-started\"";
            return Err(places.missing(table, "verdict", allowed));
        }
        for pattern in table.cells.iter() {
            let glob = Glob::parse(pattern).map_err(|e| places.refuse(pattern, e.allowed()))?;
            let mut any = false;
            for cell in cells.iter_mut().filter(|cell| glob.matches(&cell.name)) {
                any = true;
                for finding in table.verdict.iter() {
                    for list in [&mut cell.expected, &mut cell.plan.expected] {
                        if !list.contains(&finding.0) {
                            list.push(finding.0.clone());
                        }
                    }
                }
            }
            if !any {
                return Err(places.refuse(pattern, "a pattern that fits a cell"));
            }
        }
        Ok(())
    }

    fn tolerance(
        &self,
        table: &At<document::Tolerance>,
        metrics: &[Metric],
        cells: &[Cell],
        pairs: Option<&[PairedCells]>,
    ) -> Result<Tolerance, Refusal> {
        let places = self.places;
        let allowed = "a pattern over the names of cells";
        let pattern = places.required(table, "cells", &table.cells, allowed)?;
        let glob = Glob::parse(pattern).map_err(|e| places.refuse(pattern, e.allowed()))?;
        let known = || metrics.iter().map(|m| m.name.as_str());
        let metric = places.required(table, "metric", &table.metric, &one_of(known()))?;
        let metric = known().position(|m| m == **metric).ok_or_else(|| {
            places
                .refuse(metric, one_of(known()))
                .did_you_mean(metric, known())
        })?;
        let between = match &table.between {
            None => Between::Published,
            Some(at) if **at == Between::Pair && pairs.is_none() => {
                return Err(places
                    .refuse(at, "`published` or `engines`")
                    .with_help("[pair] has to say which cells are pairs"));
            }
            Some(at) => **at,
        };
        let fitting = cells.iter().filter(|c| glob.matches(&c.name));
        let (group, allowed) = match between {
            Between::Engines => (fitting.count(), "a pattern that fits a cell"),
            Between::Published => (
                fitting.filter(|c| c.published[metric].is_some()).count(),
                "a pattern that fits a cell with a published figure",
            ),
            Between::Pair => {
                let pairs = pairs.unwrap_or_default().iter();
                (
                    pairs.filter(|p| glob.matches(&p.name)).count(),
                    "a pattern that fits a pair: the values of its other axes, with `/`",
                )
            }
        };
        if group == 0 {
            return Err(places.refuse(pattern, allowed));
        }
        let least = places
            .parsed(&table.at_least)?
            .map_or((group, group), |at| (at.0, at.1));
        if let Some(at) = table.at_least.as_ref().filter(|_| least.1 != group) {
            let allowed = format!("`N of {group}`, which is how many cells the pattern fits");
            return Err(places.refuse(at, allowed));
        }
        let mut bands = Vec::new();
        for band in table.within.iter().flat_map(|list| list.iter()) {
            bands.push(*places.words(band)?);
        }
        // Between pairs without any, the known side's own spread is the band.
        if bands.is_empty() && (between != Between::Pair || table.within.is_some()) {
            let allowed = "at least one band, such as \"5 points\"";
            return Err(places.missing(table, "within", allowed));
        }
        Ok(Tolerance {
            name: table.name.as_ref().unwrap_or(pattern).to_string(),
            between,
            cells: glob,
            metric,
            bands,
            at_least: least,
            source: table.source.as_deref().cloned(),
        })
    }

    fn shape(
        &self,
        table: &At<document::Check>,
        metrics: &[Metric],
        cells: &[Cell],
    ) -> Result<Shape, Refusal> {
        let places = self.places;
        let mut conditions = Vec::new();
        for at in table.holds.iter() {
            let read = Condition::parse_all(at, metrics, cells);
            conditions.extend(read.map_err(|error| places.refused_words(at, error))?);
        }
        if conditions.is_empty() {
            return Err(places.missing(table, "holds", "at least one comparison"));
        }
        let id = places.required(table, "id", &table.id, "a name such as \"AC1\"")?;
        let text = places.required(table, "text", &table.text, "a line about what is checked")?;
        Ok(Shape {
            id: id.to_string(),
            text: text.to_string(),
            conditions,
            gate: table.gate.as_ref().is_none_or(|at| **at),
            source: table.source.as_deref().cloned(),
        })
    }
}

/// A cell's name is a folder, too.
fn is_cell_name(name: &str) -> bool {
    name.len() <= 200
        && name.split('/').all(|part| {
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || "_-.,()=".contains(c))
        })
}
