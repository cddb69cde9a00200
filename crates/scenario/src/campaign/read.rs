//! From a campaign's file to its cells.

use std::collections::BTreeMap;

use narrows_units::WordError;

use super::band::{Band, Between, Tolerance, at_least};
use super::figure::Figure;
use super::formula::{Formula, Metric};
use super::known;
use super::matrix::{self, AxisValues, Template, Words};
use super::published::Published;
use super::shape::{Condition, Shape};
use super::{Axis, Campaign, Cell, Pair, PairedCells, Shelf};
use crate::check::{self, LARGEST_SEED};
use crate::draft::Draft;
use crate::fields::Fields;
use crate::glob::Glob;
use crate::refusal::{Refusal, one_of};
use crate::tree::{self, Node, Value};

/// What a campaign's file may have at the top.
pub(crate) const AT_TOP: &[&str] = &[
    "version",
    "kind",
    "name",
    "title",
    "about",
    "source",
    "seeds",
    "base",
    "scenario",
    "cell",
    "exclude",
    "axis",
    "pair",
    "words",
    "set",
    "metric",
    "figure",
    "published",
    "tolerance",
    "check",
];
/// What a metric may have that is a table.
pub(crate) const METRIC: &[&str] = &["of", "title", "unit"];
/// What `[published]` may have.
pub(crate) const PUBLISHED: &[&str] = &["file", "row", "metric"];
/// What a `[[tolerance]]` may have.
pub(crate) const TOLERANCE: &[&str] = &[
    "name", "between", "cells", "metric", "within", "at_least", "source",
];

/// What a `[[check]]` may have.
pub(crate) const CHECK: &[&str] = &["id", "text", "holds", "gate", "source"];

/// More seeds in a row than anyone has the time for.
const MOST_SEEDS: u64 = 10_000;

/// Reads a campaign.
pub(super) fn campaign(
    name: &str,
    bytes: &[u8],
    shelf: &dyn Shelf,
    sets: &[String],
) -> Result<Campaign, Refusal> {
    let root = tree::read(name, bytes)?;
    let top = Fields::any(&root, "")?;
    if top.text("kind")? != Some("campaign") {
        return Err(top.refuse("kind", "`kind = \"campaign\"`"));
    }
    crate::check::version(&top)?;
    let top = Fields::of(&root, "", AT_TOP)?;
    let called = top
        .text("name")?
        .filter(|n| !n.is_empty() && n.len() <= 200 && n.split('/').all(crate::fields::is_name))
        .ok_or_else(|| top.refuse("name", "a name such as \"l4s-tests/s1\""))?;
    let axes = matrix::axes(&top)?;
    let mut metrics = metrics(&top)?;
    let base = base(&top, shelf)?;
    let mut cells = cells(&top, &axes, base, sets, &metrics, shelf)?;
    match top.get("metric") {
        Some(node) => exist(node, &metrics, &cells)?,
        None => {
            metrics = known::by_default(&cells);
            for cell in &mut cells {
                cell.published = vec![None; metrics.len()];
            }
        }
    }
    let axes: Vec<Axis> = axes.into_iter().map(|a| a.axis).collect();
    let pair = Pair::read(&top, &axes)?;
    let pairs = pair.as_ref().map(|pair| pair.of(&cells));
    Ok(Campaign {
        name: called.to_owned(),
        title: top.text("title")?.map(str::to_owned),
        about: top.text("about")?.map(str::to_owned),
        source: top.text("source")?.map(str::to_owned),
        seeds: seeds(&top)?,
        figures: Figure::read_all(&top, &axes, &metrics, &cells)?,
        tolerances: tolerances(&top, &metrics, &cells, pairs.as_deref())?,
        shapes: shapes(&top, &metrics, &cells)?,
        axes,
        pair,
        metrics,
        cells,
    })
}

fn seeds(top: &Fields<'_>) -> Result<Vec<u64>, Refusal> {
    if let Some((first, last)) = top.get("seeds").and_then(Node::as_text).and_then(range) {
        return Ok((first..=last).collect());
    }
    let mut seeds = Vec::new();
    for node in top.list("seeds") {
        let seed = node
            .as_whole()
            .filter(|s| *s <= LARGEST_SEED)
            .ok_or_else(|| {
                let allowed = format!(
                    "a list of whole numbers, such as [1, 2, 3], or up to {MOST_SEEDS} in a row, \
                     such as \"1 to 200\""
                );
                Refusal::at(&node.spot, "seeds", node.describe(), allowed)
            })?;
        if seeds.contains(&seed) {
            let found = format!("{seed} for the second time");
            return Err(Refusal::at(&node.spot, "seeds", found, "each seed once"));
        }
        seeds.push(seed);
    }
    if seeds.is_empty() {
        if top.get("seeds").is_some() {
            return Err(top.refuse("seeds", "at least one seed"));
        }
        seeds.push(1);
    }
    Ok(seeds)
}

/// `1 to 200`: the first and the last of seeds in a row.
fn range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once(" to ")?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last <= LARGEST_SEED && last - first < MOST_SEEDS).then_some((first, last))
}

/// Reads `[metric]`; nothing where it is left out.
fn metrics(top: &Fields<'_>) -> Result<Vec<Metric>, Refusal> {
    const ALLOWED: &str = "at least one, such as `rate_mbit = \"goodput_mbit of flow/prague\"`";
    let Some(node) = top.get("metric") else {
        return match top.get("published") {
            None => Ok(Vec::new()),
            Some(_) => {
                let help = "[published] compares metrics, so [metric] has to name them";
                Err(top.missing("metric", ALLOWED).with_help(help))
            }
        };
    };
    let fields = Fields::any(node, "metric")?;
    let mut metrics = Vec::new();
    for (key, node) in fields.entries() {
        let path = format!("metric/{}", key.name);
        let of = |node: &Node, path: String| {
            let text = node.as_text().ok_or_else(|| {
                let allowed = "a formula, or a table with `of`, `title` and `unit`";
                Refusal::at(&node.spot, path.as_str(), node.describe(), allowed)
            })?;
            Formula::parse(text, &metrics).map_err(|e| Refusal::words(&node.spot, path, e))
        };
        let metric = match &node.value {
            Value::Table(_) => {
                let fields = Fields::of(node, &path, METRIC)?;
                let formula = fields
                    .get("of")
                    .ok_or_else(|| fields.missing("of", "the metric's formula"))?;
                Metric {
                    name: key.name.clone(),
                    title: fields.text("title")?.map(str::to_owned),
                    unit: fields.text("unit")?.map(str::to_owned),
                    formula: of(formula, fields.name_of("of"))?,
                }
            }
            _ => Metric {
                name: key.name.clone(),
                title: None,
                unit: None,
                formula: of(node, path)?,
            },
        };
        metrics.push(metric);
    }
    if metrics.is_empty() {
        return Err(fields.missing("metric", ALLOWED));
    }
    Ok(metrics)
}

/// Checks that what `metrics` read is there in at least one cell; `node` is
/// `[metric]`.
fn exist(node: &Node, metrics: &[Metric], cells: &[Cell]) -> Result<(), Refusal> {
    let fields = Fields::any(node, "metric")?;
    for (metric, (_, node)) in metrics.iter().zip(fields.entries()) {
        let node = match &node.value {
            Value::Table(table) => table.get("of").unwrap_or(node),
            _ => node,
        };
        let text = node.as_text().unwrap_or_default();
        known::check(&metric.formula, text, cells)
            .map_err(|e| Refusal::words(&node.spot, format!("metric/{}", metric.name), e))?;
    }
    Ok(())
}

/// The scenario that the cells start from: `base` names its file, or
/// `[scenario]` is it.
fn base(top: &Fields<'_>, shelf: &dyn Shelf) -> Result<Draft, Refusal> {
    const ALLOWED: &str = "either `base`, a scenario's file, or [scenario] itself";
    match (top.text("base")?, top.get("scenario")) {
        (None, None) => Err(top.missing("base", ALLOWED)),
        (Some(_), Some(_)) => Err(top.refuse("base", ALLOWED)),
        (Some(path), None) => {
            let bytes = shelf.open(path).ok_or_else(|| {
                top.refuse("base", "the file of a scenario")
                    .with_help("there is no such file, or it cannot be read")
            })?;
            Draft::read(path, &bytes)
        }
        (None, Some(node)) => {
            let mut root = node.clone();
            if let Value::Table(table) = &mut root.value {
                for (key, value) in [
                    ("version", Value::Whole(1)),
                    ("name", Value::Text("cell".into())),
                ] {
                    if table.get(key).is_none() {
                        let spot = node.spot.clone();
                        table.put(key, Node { value, spot });
                    }
                }
            }
            Ok(Draft {
                root,
                folder: std::path::PathBuf::new(),
                set_notes: Vec::new(),
            })
        }
    }
}

fn cells(
    top: &Fields<'_>,
    axes: &[AxisValues],
    base: Draft,
    sets: &[String],
    metrics: &[Metric],
    shelf: &dyn Shelf,
) -> Result<Vec<Cell>, Refusal> {
    let name = template(top, "cell")?;
    let assignments = assignments(top)?;
    let common = matrix::common(top, axes)?;
    let exclude = exclude(top)?;
    let published = top
        .get("published")
        .map(|node| Published::read(&Fields::of(node, "published", PUBLISHED)?, shelf, metrics))
        .transpose()?;
    let mut used = vec![false; published.as_ref().map_or(0, Published::rows)];
    let mut names: BTreeMap<String, ()> = BTreeMap::new();
    let mut cells = Vec::new();
    for at in matrix::combinations(axes) {
        let mut words = matrix::words_at(axes, &at);
        words.extend(common.clone());
        let called = name.fill(&words)?;
        if !is_cell_name(&called) {
            let allowed = "a name of letters, digits and `_-.,()=/`";
            return Err(Refusal::at(
                name.spot,
                "cell",
                format!("the cell `{called}`"),
                allowed,
            ));
        }
        if names.insert(called.clone(), ()).is_some() {
            let found = format!("the cell `{called}` for the second time");
            return Err(Refusal::at(
                name.spot,
                "cell",
                found,
                "a name that holds every axis",
            ));
        }
        if exclude.iter().any(|g| g.matches(&called)) {
            continue;
        }
        let mut draft = base.clone();
        apply(&mut draft, &assignments, &words, &called)?;
        for set in sets {
            draft.set(set)?;
        }
        let mut plan = check::plan(&draft.root, shelf).map_err(|e| e.in_cell(&called))?;
        plan.name.clone_from(&called);
        let figures = match &published {
            None => vec![None; metrics.len()],
            Some(table) => match table.row(&words)? {
                None => vec![None; metrics.len()],
                Some(row) => {
                    if std::mem::replace(&mut used[row], true) {
                        let found = format!("one row for `{called}` and for another cell");
                        return Err(top
                            .missing("published", "one row for each cell")
                            .with_help(found));
                    }
                    table.figures(row, metrics)?
                }
            },
        };
        cells.push(Cell {
            name: called,
            at: axes
                .iter()
                .zip(&at)
                .map(|(a, value)| a.axis.values[*value].clone())
                .collect(),
            plan,
            published: figures,
        });
    }
    if cells.is_empty() {
        let found = "patterns that leave no cell of the matrix";
        let spot = top.get("exclude").map_or(top.spot(), |n| &n.spot);
        return Err(Refusal::at(spot, "exclude", found, "at least one cell"));
    }
    if let Some(table) = published.filter(|_| exclude.is_empty()) {
        table.all_used(&used)?;
    }
    Ok(cells)
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

fn template<'a>(top: &Fields<'a>, key: &str) -> Result<Template<'a>, Refusal> {
    const ALLOWED: &str = "the name of a cell, such as \"{rate}/{qdisc}\"";
    let text = top.text(key)?.ok_or_else(|| top.missing(key, ALLOWED))?;
    Ok(Template {
        text,
        spot: top.get(key).map_or(top.spot(), |n| &n.spot),
        key: key.to_owned(),
    })
}

fn exclude(top: &Fields<'_>) -> Result<Vec<Glob>, Refusal> {
    top.list("exclude")
        .iter()
        .map(|node| {
            node.as_text()
                .and_then(|t| Glob::parse(t).ok())
                .ok_or_else(|| Refusal::at(&node.spot, "exclude", node.describe(), "a pattern"))
        })
        .collect()
}

/// The names that are set in each cell, with what they are set to.
fn assignments<'a>(top: &Fields<'a>) -> Result<Vec<(&'a tree::Key, &'a Node)>, Refusal> {
    let Some(node) = top.get("set") else {
        return Ok(Vec::new());
    };
    let fields = Fields::any(node, "set")?;
    Ok(fields.entries().iter().map(|(k, n)| (k, n)).collect())
}

fn apply(
    draft: &mut Draft,
    assignments: &[(&tree::Key, &Node)],
    words: &Words,
    cell: &str,
) -> Result<(), Refusal> {
    for (key, node) in assignments {
        let value = match node.as_text() {
            None => (*node).clone(),
            Some(text) => {
                let template = Template {
                    text,
                    spot: &node.spot,
                    key: key.name.clone(),
                };
                let spot = node.spot.clone();
                let spot = if template.has_words() {
                    spot.rewritten()
                } else {
                    spot
                };
                Node::raw(&template.fill(words)?, spot)
            }
        };
        let name = Template {
            text: &key.name,
            spot: &key.spot,
            key: "set".to_owned(),
        }
        .fill(words)?;
        crate::set::set(&mut draft.root, &name, &key.spot, value).map_err(|e| e.in_cell(cell))?;
    }
    Ok(())
}

fn tolerances(
    top: &Fields<'_>,
    metrics: &[Metric],
    cells: &[Cell],
    pairs: Option<&[PairedCells]>,
) -> Result<Vec<Tolerance>, Refusal> {
    let mut tolerances = Vec::new();
    for (number, node) in top.tables("tolerance")?.iter().enumerate() {
        let fields = Fields::of(node, &format!("tolerance {}", number + 1), TOLERANCE)?;
        let pattern = fields
            .text("cells")?
            .ok_or_else(|| fields.missing("cells", "a pattern over the names of cells"))?;
        let glob =
            Glob::parse(pattern).map_err(|e| fields.refuse("cells", e.allowed().to_owned()))?;
        let metric = metric(&fields, metrics)?;
        let between = match fields.text("between")? {
            None | Some("published") => Between::Published,
            Some("engines") => Between::Engines,
            Some("pair") if pairs.is_some() => Between::Pair,
            Some("pair") => {
                return Err(fields
                    .refuse("between", "`published` or `engines`")
                    .with_help("[pair] has to say which cells are pairs"));
            }
            Some(_) => return Err(fields.refuse("between", "`published`, `engines` or `pair`")),
        };
        let of_cells = |wanted: &dyn Fn(&Cell) -> bool| {
            let fit = cells.iter().filter(|c| glob.matches(&c.name) && wanted(c));
            fit.count()
        };
        let (group, allowed) = match between {
            Between::Engines => (of_cells(&|_| true), "a pattern that fits a cell"),
            Between::Published => (
                of_cells(&|c| c.published[metric].is_some()),
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
            return Err(fields.refuse("cells", allowed));
        }
        let at_least = fields
            .words("at_least", "`N of M`", at_least)?
            .unwrap_or((group, group));
        if at_least.1 != group {
            let allowed = format!("`N of {group}`, which is how many cells the pattern fits");
            return Err(fields.refuse("at_least", allowed));
        }
        tolerances.push(Tolerance {
            name: fields.text("name")?.unwrap_or(pattern).to_owned(),
            between,
            cells: glob,
            metric,
            bands: match (between, fields.get("within")) {
                // Then the known side's own spread is the band.
                (Between::Pair, None) => Vec::new(),
                _ => bands(&fields)?,
            },
            at_least,
            source: fields.text("source")?.map(str::to_owned),
        });
    }
    Ok(tolerances)
}

fn shapes(top: &Fields<'_>, metrics: &[Metric], cells: &[Cell]) -> Result<Vec<Shape>, Refusal> {
    let mut shapes = Vec::new();
    for (number, node) in top.tables("check")?.iter().enumerate() {
        let fields = Fields::of(node, &format!("check {}", number + 1), CHECK)?;
        let needed = |key: &str, allowed: &str| {
            let text = fields.text(key)?;
            text.map(str::to_owned)
                .ok_or_else(|| fields.missing(key, allowed))
        };
        let mut conditions = Vec::new();
        for node in fields.list("holds") {
            let key = fields.name_of("holds");
            let condition = match node.as_text() {
                Some(text) => Condition::parse(text, metrics, cells),
                None => Err(WordError::new(
                    0..0,
                    node.describe(),
                    "a comparison in words",
                )),
            };
            conditions.push(condition.map_err(|e| Refusal::words(&node.spot, key, e))?);
        }
        if conditions.is_empty() {
            return Err(fields.missing("holds", "at least one comparison"));
        }
        shapes.push(Shape {
            id: needed("id", "a name such as \"AC1\"")?,
            text: needed("text", "a line about what is checked")?,
            conditions,
            gate: fields.flag("gate")?.unwrap_or(true),
            source: fields.text("source")?.map(str::to_owned),
        });
    }
    Ok(shapes)
}

fn metric(fields: &Fields<'_>, metrics: &[Metric]) -> Result<usize, Refusal> {
    let known = || metrics.iter().map(|m| m.name.as_str());
    let name = fields
        .text("metric")?
        .ok_or_else(|| fields.missing("metric", one_of(known())))?;
    known().position(|m| m == name).ok_or_else(|| {
        fields
            .refuse("metric", one_of(known()))
            .did_you_mean(name, known())
    })
}

fn bands(fields: &Fields<'_>) -> Result<Vec<Band>, Refusal> {
    let mut bands = Vec::new();
    for node in fields.list("within") {
        let key = fields.name_of("within");
        let band = match node.as_text() {
            Some(text) => Band::parse(text),
            None => Err(WordError::new(0..0, node.describe(), "a band in words")),
        };
        bands.push(band.map_err(|e| Refusal::words(&node.spot, key, e))?);
    }
    if bands.is_empty() {
        return Err(fields.missing("within", "at least one band, such as \"5 points\""));
    }
    Ok(bands)
}
