//! The fairness heat-map of a campaign: a table whose fields are coloured and
//! lead to the cells, published beside measured.

use maud::{Markup, html};
use narrows_results::campaign::{CampaignResult, CellResult, MetricResult, MetricTitle};

use super::page::{fixed, link};
use crate::plot::chart::Scale;
use crate::plot::comparison::{self, Grid, GridRow};
use crate::plot::palette;

/// Parts of the drawn scale.
const PARTS: usize = 24;

/// The heat-map of one metric: a table for each value of the first axis, if
/// there are several.
pub fn html(campaign: &CampaignResult, grid: &Grid, metric: &str) -> Markup {
    let reference = comparison::reference(campaign);
    let shown = Shown {
        campaign,
        metric,
        title: campaign.title_of(metric),
        scale: match reference {
            Some(axis) => comparison::scale_of_differences(campaign, axis, metric),
            None => comparison::scale(campaign, metric),
        },
        reference,
        flag: campaign.is_flag(metric),
        published: publishes(campaign.cells.iter(), metric),
        decimals: campaign.decimals(metric),
    };
    let axes = grid.rows.first().map_or(0, |row| row.at.len());
    let first = |row: &GridRow| row.at.first().cloned();
    let grouped = axes > 1
        && grid
            .rows
            .iter()
            .any(|row| first(row) != first(&grid.rows[0]));
    let groups: Vec<&[GridRow]> = match grouped {
        true => grid.rows.chunk_by(|a, b| first(a) == first(b)).collect(),
        false => vec![&grid.rows],
    };
    let down = match (grouped, grid.down.split_once(" · ")) {
        (true, Some((_, rest))) => rest,
        _ => &grid.down,
    };
    html! {
        (legend(&shown, campaign))
        div.heats { @for rows in groups {
            @let name = rows.first().filter(|_| grouped).map(|row| row.at[0].as_str());
            (table(grid, rows, name, down, &shown))
        } }
    }
}

/// What a map shows.
struct Shown<'a> {
    campaign: &'a CampaignResult,
    /// The axis whose value `none` is what the others are coloured against, if there is one.
    reference: Option<usize>,
    /// Whether figures are yes or no.
    flag: bool,
    /// Whether any cell has a published figure.
    published: bool,
    metric: &'a str,
    title: MetricTitle,
    scale: Scale,
    decimals: usize,
}

/// Whether one of `cells` has a published figure of `metric`.
fn publishes<'a>(mut cells: impl Iterator<Item = &'a CellResult>, metric: &str) -> bool {
    cells.any(|cell| cell.metric(metric).is_some_and(|m| m.published.is_some()))
}

/// One table of fields.
fn table(
    grid: &Grid,
    rows: &[GridRow],
    name: Option<&str>,
    down: &str,
    shown: &Shown<'_>,
) -> Markup {
    let (metric, words) = (shown.metric, &shown.title.title);
    let cells = rows.iter().flat_map(|row| row.cells.iter().flatten());
    let published = publishes(cells.copied(), metric);
    let span = published.then_some("2");
    html! {
        div.scroll tabindex="0" role="region"
            aria-label=(format!("Heat-map of {words} {}", name.unwrap_or_default())) {
            table.heat {
                @if let Some(name) = name { caption { (name)
                    @if shown.published && !published { " " span.note { "– nothing published" } } } }
                thead {
                    tr {
                        th scope="col" rowspan=[span] { (down) }
                        @for column in &grid.columns {
                            th.gap scope="colgroup" colspan=[span] { (column) }
                        }
                    }
                    @if published { tr { @for _ in &grid.columns {
                        th.gap scope="col" { small { "publ." } } th scope="col" { small { "meas." } }
                    } } }
                }
                tbody { @for row in rows { tr {
                    th scope="row" { @for value in &row.at[usize::from(name.is_some())..] { span { (value) } } }
                    @for cell in &row.cells { (fields(*cell, shown, published)) }
                } } }
            }
        }
    }
}

/// A cell's one or two fields.
fn fields(cell: Option<&CellResult>, map: &Shown<'_>, published: bool) -> Markup {
    let found = cell.and_then(|cell| cell.metric(map.metric));
    let (scale, exact) = (&map.scale, map.decimals);
    // A share's tenths are noise between runs; the table below has them.
    let decimals = if map.metric.ends_with("_pct") {
        0
    } else {
        exact
    };
    let shown = |value: Option<f64>| value.filter(|v| v.is_finite());
    // How far the value is from that of the reference; the value itself where there is none.
    let compared = |value: f64| match map.reference {
        None => Some(value),
        Some(axis) => comparison::beside(map.campaign, cell?, axis, map.metric).map(|r| value - r),
    };
    let fixed = |value: f64, decimals: usize| match (map.flag, value == 0.0) {
        (true, true) => "no".to_owned(),
        (true, false) => "yes".to_owned(),
        _ => fixed(value, decimals),
    };
    let style = |value: f64| {
        let place = compared(value).map_or(0.5, |value| scale.place(value));
        let ground = palette::diverging(place);
        format!(
            "background:{};color:{}",
            palette::hex(ground),
            palette::hex(palette::ink_on(ground))
        )
    };
    html! {
        @if published {
            @match shown(found.and_then(|m| m.published)) {
                Some(value) => td.gap style=(style(value)) { (fixed(value, decimals)) },
                None => td.gap.faint { "–" },
            }
        }
        @match (cell, found, shown(found.and_then(|m| m.measured))) {
            (Some(cell), Some(found), Some(value)) => td.gap[!published].outside[found.within == Some(false)]
                style=(style(value)) title=(sentence(cell, found, exact)) {
                @if cell.folder.is_empty() { span { (fixed(value, decimals)) } }
                @else { a href=(link(&format!("{}/report.html", cell.folder))) { (fixed(value, decimals)) } }
            },
            (Some(cell), ..) if cell.error.is_some() => td.gap[!published].no-text title=[cell.error.as_deref()] { "failed" },
            _ => td.gap[!published].faint { "–" },
        }
    }
}

/// What a field says when it is pointed at.
fn sentence(cell: &CellResult, found: &MetricResult, decimals: usize) -> String {
    let text = |value: Option<f64>| value.map_or("–".into(), |v| fixed(v, decimals));
    let mut said = format!("{}: measured {}", cell.name, text(found.measured));
    if found.published.is_some() {
        said += &format!(", published {}", text(found.published));
    }
    if let Some(difference) = found.difference {
        said += &format!(", difference {}", fixed(difference, decimals));
    }
    match (found.within, &found.tolerance) {
        (Some(true), Some(band)) => said += &format!(", within {band}"),
        (Some(false), Some(band)) => said += &format!(", outside {band}"),
        _ => {}
    }
    said
}

fn legend(shown: &Shown<'_>, campaign: &CampaignResult) -> Markup {
    let (scale, title) = (&shown.scale, &shown.title);
    let judged = campaign
        .cells
        .iter()
        .flat_map(|c| &c.metrics)
        .any(|m| m.within == Some(false));
    let colour = |part: usize| {
        let value = scale.value((part as f64 + 0.5) / PARTS as f64);
        palette::hex(palette::diverging(scale.place(value)))
    };
    let end = |value: f64| {
        let text = fixed(value, 2);
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    };
    html! {
        p.scale {
            (title.with_unit())
            @if let Some(axis) = shown.reference {
                ", coloured by the difference from " (campaign.axes[axis].name) " none"
            }
            span { (end(scale.from)) }
            span aria-hidden="true" { @for part in 0..PARTS { i style=(format!("background:{}", colour(part))) {} } }
            span { (end(scale.to)) }
            @if judged { span { "✗ outside its band" } }
        }
    }
}
