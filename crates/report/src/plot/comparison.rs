//! The figures of a campaign: published beside measured.

use narrows_results::campaign::{CampaignResult, CellResult};

use super::chart::{Axis, Chart, Curve, Heat, Range, Scale, Shape};
use super::choice::{figures, shown_metrics, values_of};
use super::sweep;

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

/// Names of an axis of bottlenecks: it goes across.
const QUEUE_AXES: [&str; 4] = ["qdisc", "queue", "aqm", "bottleneck"];

/// So many columns fit on paper (our choice); an axis with more values goes down the side.
const MOST_COLUMNS: usize = 12;

/// Lays out the cells of a campaign.
pub fn grid(campaign: &CampaignResult) -> Grid<'_> {
    let names: Vec<&str> = campaign.axes.iter().map(|a| a.name.as_str()).collect();
    let queues = names.iter().position(|name| QUEUE_AXES.contains(name));
    let fits = |axis: &usize| campaign.axes[*axis].values.len() <= MOST_COLUMNS;
    let across = queues.filter(fits);
    let across = across.or_else(|| (0..names.len()).rev().find(fits));
    let across = across.or(queues).or(names.len().checked_sub(1));
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

/// The colour scale of a metric over the values that occur. Its ends are never so
/// near that the spread over seeds, a tolerance, or a small part of the value
/// itself would have different colours.
pub fn scale(campaign: &CampaignResult, metric: &str) -> Scale {
    /// How often a spread, or half a tolerance, goes into the scale.
    const TIMES: f64 = 4.0;
    let rows = || campaign.cells.iter().filter_map(|cell| cell.metric(metric));
    let values = rows()
        .flat_map(|m| [m.published, m.measured])
        .flatten()
        .filter(|v| v.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    let (from, neutral, to, log) = match metric {
        "jain" => (0.5, 1.0, 1.0, false),
        "ratio" if high > 1.0 => (1.0, 1.0, high, true),
        name if name.starts_with("share") && name.ends_with("_pct") => (0.0, 50.0, 100.0, false),
        _ if low <= high => {
            let noise = rows().map(|m| {
                let band = m.band.map_or(0.0, |(low, high)| (high - low) / 2.0);
                TIMES * m.spread.max(band)
            });
            let small = SMALL * low.abs().max(high.abs());
            let least = noise.fold(small, f64::max);
            let reach = (high - low).max(least);
            (
                low,
                low,
                if reach > 0.0 { low + reach } else { low + 1.0 },
                false,
            )
        }
        _ => (0.0, 0.0, 1.0, false),
    };
    Scale {
        from,
        neutral,
        to,
        log,
    }
}

/// The value of an axis that stands for the path as it is, without what the axis varies.
const NOTHING: &str = "none";

/// The axis that has a value `none` beside others, whose cells the others' are held
/// against.
pub fn reference(campaign: &CampaignResult) -> Option<usize> {
    let cells: Vec<&CellResult> = campaign.cells.iter().collect();
    (0..campaign.axes.len()).find(|axis| {
        let values = values_of(campaign, *axis, &cells);
        values.len() > 1 && values.iter().any(|value| value == NOTHING)
    })
}

/// What was measured in the cell that differs from `cell` in nothing but having `none` on
/// that axis.
pub fn beside(
    campaign: &CampaignResult,
    cell: &CellResult,
    axis: usize,
    metric: &str,
) -> Option<f64> {
    let mut at = cell.at.clone();
    *at.get_mut(axis)? = NOTHING.to_owned();
    let known = campaign.cells.iter().find(|other| other.at == at)?;
    known.metric(metric)?.measured
}

/// The colour scale of the differences from `none` on that axis; equal reach on both
/// sides, never finer than [`scale`] would be.
pub fn scale_of_differences(campaign: &CampaignResult, axis: usize, metric: &str) -> Scale {
    let own = scale(campaign, metric);
    let least = SMALL * own.from.abs().max(own.to.abs());
    let far = campaign.cells.iter().filter_map(|cell| {
        let measured = cell.metric(metric)?.measured?;
        Some((measured - beside(campaign, cell, axis, metric)?).abs())
    });
    let reach = far.filter(|v| v.is_finite()).fold(least, f64::max);
    let reach = if reach > 0.0 { reach } else { 1.0 };
    Scale {
        from: -reach,
        neutral: 0.0,
        to: reach,
        log: false,
    }
}

/// Part of the largest value that is no news.
const SMALL: f64 = 0.1;

/// All figures of a campaign that have data: what it is about against its axes,
/// then for each of these metrics the heat-map of what was measured and of what was
/// published, and one against the other.
pub fn of_campaign(campaign: &CampaignResult) -> Vec<Chart> {
    let grid = grid(campaign);
    let figures = figures(campaign);
    let mut charts: Vec<Chart> = figures
        .iter()
        .flat_map(|f| sweep::charts(campaign, f))
        .collect();
    for metric in &shown_metrics(campaign) {
        charts.push(heat(campaign, &grid, metric, "measured"));
        charts.push(heat(campaign, &grid, metric, "published"));
        charts.push(against(campaign, &grid, metric));
    }
    charts.retain(|chart| !chart.is_empty());
    named_apart(&mut charts);
    charts
}

/// Numbers the charts that have one name, so that each has a file of its own.
pub fn named_apart(charts: &mut [Chart]) {
    let mut taken = std::collections::BTreeSet::new();
    for chart in charts {
        let stem = chart.id.clone();
        let mut n = 1;
        while !taken.insert(chart.id.clone()) {
            n += 1;
            chart.id = format!("{stem}-{n}");
        }
    }
}

fn heat(campaign: &CampaignResult, grid: &Grid, metric: &str, which: &str) -> Chart {
    let title = campaign.title_of(metric);
    let words = &title.title;
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
        quantity: Axis::of(&format!("{words}, {which}"), &title.unit).label(),
        scale: scale(campaign, metric),
        digits: campaign.decimals(metric),
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
        title.with_unit(),
        grid.down,
        grid.across
    ))
}

/// Measured against published, a mark per cell, a colour per column.
pub fn against(campaign: &CampaignResult, grid: &Grid, metric: &str) -> Chart {
    let title = campaign.title_of(metric);
    let (words, unit) = (&title.title, &title.unit);
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
        title.with_unit()
    ))
}
