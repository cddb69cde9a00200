//! The figures of a campaign: published beside measured.

use crate::campaign::{CampaignResult, CellResult};

use super::chart::{Axis, Chart, Curve, Heat, Range, Scale, Shape};

/// A campaign's cells laid out as a table: one axis along the top, the
/// product of the others down the side.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid<'a> {
    /// What the columns are, `qdisc`.
    pub across: String,
    /// What the rows are, `rate · rtt · cc`.
    pub down: String,
    /// Values of the axis across.
    pub columns: Vec<String>,
    /// The rows that hold any cell.
    pub rows: Vec<GridRow<'a>>,
}

/// One row of a [`Grid`].
#[derive(Clone, Debug, PartialEq)]
pub struct GridRow<'a> {
    /// Its values on the axes down the side.
    pub at: Vec<String>,
    /// One field per column.
    pub cells: Vec<Option<&'a CellResult>>,
}

impl GridRow<'_> {
    /// The row's values in one string.
    pub fn label(&self) -> String {
        self.at.join(" ")
    }
}

/// Names of an axis that tells bottlenecks apart: it goes across.
const QUEUE_AXES: [&str; 4] = ["qdisc", "queue", "aqm", "bottleneck"];

/// Lays out the cells of a campaign.
pub fn grid(campaign: &CampaignResult) -> Grid<'_> {
    let names: Vec<&str> = campaign.axes.iter().map(|a| a.name.as_str()).collect();
    let across = names
        .iter()
        .position(|name| QUEUE_AXES.contains(name))
        .or(names.len().checked_sub(1));
    let value = |cell: &CellResult, axis: usize| cell.at.get(axis).cloned().unwrap_or_default();
    let columns: Vec<String> = match across {
        Some(axis) => campaign.axes[axis]
            .values
            .iter()
            .filter(|v| campaign.cells.iter().any(|c| value(c, axis) == **v))
            .cloned()
            .collect(),
        None => vec![String::new()],
    };
    let mut rows: Vec<GridRow> = Vec::new();
    for cell in &campaign.cells {
        let at: Vec<String> = match across {
            // A campaign without axes still has names.
            None => vec![cell.name.clone()],
            Some(across) => (0..names.len())
                .filter(|axis| *axis != across)
                .map(|axis| value(cell, axis))
                .collect(),
        };
        let column = across
            .and_then(|axis| columns.iter().position(|v| *v == value(cell, axis)))
            .unwrap_or(0);
        let row = match rows.iter().position(|row| row.at == at) {
            Some(row) => row,
            None => {
                rows.push(GridRow {
                    at,
                    cells: vec![None; columns.len()],
                });
                rows.len() - 1
            }
        };
        rows[row].cells[column] = Some(cell);
    }
    Grid {
        across: across.map_or_else(String::new, |axis| names[axis].to_owned()),
        down: names
            .iter()
            .enumerate()
            .filter(|(axis, _)| Some(*axis) != across)
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join(" · "),
        columns,
        rows,
    }
}

/// What a campaign's metric is in words and in which unit, from the unit that
/// its name carries; without a unit if it carries none, for nobody knows it.
pub fn quantity(metric: &str) -> (String, &'static str) {
    let known = match metric {
        "share1_pct" => Some(("share of flow 1 in the total rate", "%")),
        "rate1_mbit" => Some(("rate of flow 1", "Mbit/s")),
        "rate2_mbit" => Some(("rate of flow 2", "Mbit/s")),
        "jain" => Some(("Jain's index", "1 = equal")),
        "ratio" => Some(("ratio of the rates", "flow 1 : flow 2")),
        _ => None,
    };
    if let Some((words, unit)) = known {
        return (words.into(), unit);
    }
    for (ending, unit) in [
        ("_pct", "%"),
        ("_mbit", "Mbit/s"),
        ("_ms", "ms"),
        ("_s", "s"),
        ("_mb", "MB"),
        ("_packets", "packets"),
    ] {
        if let Some(stem) = metric.strip_suffix(ending) {
            return (stem.replace('_', " "), unit);
        }
    }
    (metric.replace('_', " "), "")
}

/// `words (unit)`, or the words alone if there is no unit.
pub fn with_unit(words: &str, unit: &str) -> String {
    Axis::of(words, unit).label()
}

/// Digits after the decimal point with which a metric is printed.
pub fn decimals(metric: &str) -> usize {
    match metric {
        "jain" => 3,
        "ratio" | "share1_pct" => 1,
        _ => 2,
    }
}

/// The metric that a fairness heat-map shows first.
pub fn leading_metric(campaign: &CampaignResult) -> Option<&str> {
    let judged = campaign.checks.iter().map(|check| check.metric.as_str());
    let fair = ["share1_pct", "ratio", "jain"].into_iter();
    let any = campaign.metrics.iter().map(String::as_str);
    let mut wanted = judged.chain(fair).chain(any);
    wanted.find_map(|name| campaign.metrics.iter().find(|m| *m == name).map(|m| &**m))
}

/// The colour scale of a metric over the values that occur.
pub fn scale(campaign: &CampaignResult, metric: &str) -> Scale {
    let values = campaign
        .cells
        .iter()
        .filter_map(|cell| cell.metric(metric))
        .flat_map(|m| [m.published, m.measured])
        .flatten()
        .filter(|v| v.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    let (from, neutral, to, log) = match metric {
        "jain" => (0.5, 1.0, 1.0, false),
        "ratio" if high > 1.0 => (1.0, 1.0, high, true),
        name if name.ends_with("_pct") => (0.0, 50.0, 100.0, false),
        _ if low < high => (low, low, high, false),
        _ => (0.0, 0.0, 1.0, false),
    };
    Scale {
        from,
        neutral,
        to,
        log,
    }
}

/// All figures of a campaign that have data: for each metric the heat-map of
/// what was measured and of what was published, and one against the other.
pub fn of_campaign(campaign: &CampaignResult) -> Vec<Chart> {
    let grid = grid(campaign);
    let mut charts = Vec::new();
    for metric in &campaign.metrics {
        charts.push(heat(campaign, &grid, metric, "measured"));
        charts.push(heat(campaign, &grid, metric, "published"));
        charts.push(against(campaign, &grid, metric));
    }
    charts.retain(|chart| !chart.is_empty());
    charts
}

fn heat(campaign: &CampaignResult, grid: &Grid, metric: &str, which: &str) -> Chart {
    let (words, unit) = quantity(metric);
    let of = |cell: &CellResult| {
        let found = cell.metric(metric)?;
        match which {
            "published" => found.published,
            _ => found.measured,
        }
    };
    let map = Heat {
        columns: grid.columns.clone(),
        rows: grid.rows.iter().map(GridRow::label).collect(),
        values: grid
            .rows
            .iter()
            .map(|row| row.cells.iter().map(|cell| cell.and_then(of)).collect())
            .collect(),
        quantity: with_unit(&format!("{words}, {which}"), unit),
        scale: scale(campaign, metric),
        digits: decimals(metric),
    };
    Chart::heat(
        &format!("{metric}-{which}"),
        &format!("{}: {words}, {which}", campaign.name),
        Axis::names(&grid.across),
        Axis::names(&grid.down),
        map,
    )
    .describe(format!(
        "Table of {} as {which}: rows are {}, columns are {}.",
        with_unit(&words, unit),
        grid.down,
        grid.across
    ))
}

/// Measured against published, a mark per cell, a colour per column.
pub fn against(campaign: &CampaignResult, grid: &Grid, metric: &str) -> Chart {
    let (words, unit) = quantity(metric);
    let mut curves: Vec<Curve> = Vec::new();
    for (column, name) in grid.columns.iter().enumerate() {
        let mut curve = Curve::new(name.clone(), Vec::new());
        curve.colour = Some(column);
        for cell in grid.rows.iter().filter_map(|row| row.cells[column]) {
            let values = cell
                .metric(metric)
                .and_then(|m| Some((m.published?, m.measured?)));
            if let Some((published, measured)) = values {
                curve.points.push([published, measured]);
                curve.labels.push(cell.name.clone());
            }
        }
        if !curve.points.is_empty() {
            curves.push(curve);
        }
    }
    // Both axes show the same stretch, or the line between them would lie.
    let values = || curves.iter().flat_map(|c| c.points.iter().flatten());
    let low = values().copied().fold(f64::INFINITY, f64::min);
    let high = values().copied().fold(f64::NEG_INFINITY, f64::max);
    let room = ((high - low) * 0.05).max(1e-9);
    let range = match scale(campaign, metric).log {
        _ if low > high => Range::Data,
        true if low > 0.0 => Range::LogFixed(low / 1.2, high * 1.2),
        _ if metric.ends_with("_pct") => Range::Fixed(0.0, 100.0),
        _ => Range::Fixed(low - room, high + room),
    };
    let pairs: usize = curves.iter().map(|c| c.points.len()).sum();
    Chart::curves(
        &format!("{metric}-against-published"),
        &format!("{}: {words}, measured against published", campaign.name),
        Axis::of(&format!("published {words}"), unit).over(range),
        Axis::of(&format!("measured {words}"), unit).over(range),
        Shape::Points,
        curves,
    )
    .diagonal()
    .describe(format!(
        "Measured against published {} of {pairs} cells; on the line both are equal.",
        with_unit(&words, unit)
    ))
}
