//! The page of a comparison.

use maud::{Markup, html};
use narrows_results::Error;
use narrows_results::campaign::{MetricTitle, in_words};
use narrows_results::comparison::{CellComparison, Comparison, Row, differences};
use narrows_results::folder::{ComparisonFolder, RunResult, open_run};

use super::page::{self, Library, fact, fixed, number};
use super::{command, pairs, rig};
use crate::plot::chart::{Body, Chart, Range};
use crate::plot::figures;
use crate::table::{made_of, side_lines};

/// Figures over time, side by side.
const OVER_TIME: [&str; 3] = ["throughput", "rtt", "sojourn"];

/// What a page shows of a cell's runs.
#[derive(Default)]
pub(super) struct CellRuns {
    /// All of them.
    runs: Vec<RunLine>,
    /// The figures over time of the first run that counts, of each side.
    charts: [Vec<Chart>; 2],
}

/// A run in the table of runs.
struct RunLine {
    side: String,
    folder: String,
    trust: String,
    trusted: bool,
    used: bool,
}

/// Reads the runs of a comparison one after the other; `each` is given every
/// run with its cell and its folder. Runs that are not there any more are
/// passed over.
pub(super) fn read(
    folder: &ComparisonFolder,
    mut each: impl FnMut(&str, &str, &RunResult) -> Result<(), Error>,
) -> Result<Vec<CellRuns>, Error> {
    let mut cells = Vec::new();
    for cell in &folder.result.cells {
        let mut shown = CellRuns::default();
        let first = [0, 1].map(|side| {
            let used = cell.used_on(&folder.result.sides, side);
            used.first().map(|folder| (*folder).to_owned())
        });
        for at in cell.folders() {
            let dir = folder.dir.join(at);
            if !dir.join("run.json").is_file() {
                continue;
            }
            let run = open_run(&dir)?;
            each(&cell.name, at, &run)?;
            for (place, first) in first.iter().enumerate() {
                if first.as_deref() == Some(at) {
                    shown.charts[place] = over_time(&run, &cell.name, place);
                }
            }
            shown.runs.push(line(&folder.result, cell, at, &run));
        }
        let [left, right] = &mut shown.charts;
        same_axes(left, right);
        cells.push(shown);
    }
    Ok(cells)
}

fn line(comparison: &Comparison, cell: &CellComparison, at: &str, run: &RunResult) -> RunLine {
    let live = cell.live.iter().find(|l| l.folder == at);
    let side = match live {
        None => comparison.sides[0].clone(),
        Some(live) => live
            .side
            .clone()
            .unwrap_or_else(|| comparison.sides[1].clone()),
    };
    RunLine {
        side,
        folder: at.to_owned(),
        trust: run.record.verdict.line(),
        trusted: run.record.verdict.trusted(),
        used: live.is_none_or(|l| l.used),
    }
}

/// The figures of a run that are shown beside the other side's.
fn over_time(run: &RunResult, cell: &str, side: usize) -> Vec<Chart> {
    let mut charts = figures::of_run(run);
    charts.retain(|chart| OVER_TIME.contains(&chart.id.as_str()));
    let anchor: String = cell
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    for chart in &mut charts {
        chart.id = format!("{anchor}-{side}-{}", chart.id);
    }
    charts
}

/// The same figure of two sides spans the same values, or the eye is misled.
fn same_axes(left: &mut [Chart], right: &mut [Chart]) {
    for a in left {
        let kind = |chart: &Chart| chart.title.clone();
        let Some(b) = right.iter_mut().find(|b| kind(b) == kind(a)) else {
            continue;
        };
        let ((a0, a1), (b0, b1)) = (a.y_range(), b.y_range());
        let (low, high) = (a0.min(b0), a1.max(b1));
        let range = match a.y.range.is_log() && b.y.range.is_log() {
            true => Range::LogFixed(low, high),
            false => Range::Fixed(low, high),
        };
        for chart in [a, b] {
            chart.y.range = range;
        }
    }
}

/// The whole page. `cells` are what [`read`] gave.
pub(super) fn html(folder: &ComparisonFolder, cells: &[CellRuns], library: &Library) -> String {
    let comparison = &folder.result;
    let title = format!("{} – Narrows", comparison.name);
    let any = cells.iter().flat_map(|c| &c.charts).any(|c| !c.is_empty());
    let body = html! {
        header {
            p.kicker { "Narrows, a comparison: " (made_of(comparison)) }
            h1 { (page::path(&comparison.name)) }
            @if let Some(title) = &comparison.title { p { (title) } }
            @for line in side_lines(comparison).iter().chain(&comparison.hosts) { p.note { (line) } }
        }
        (checks(comparison))
        (trust(cells))
        (facts(folder))
        @if comparison.cells.len() > 1 { (far_apart(comparison)) }
        h2 { "Cell by cell" }
        (legend(comparison))
        p.note { "A mark is the median of a side's runs, a line their range. ✗ stands where the sides differ by more than the spread." }
        div.pairs { @for metric in shown_metrics(comparison) { (plot(comparison, &metric)) } }
        h2 { "Every figure" }
        p.note { "A heading sorts by its column." }
        (table(comparison))
        @if any {
            h2 { "Over time" }
            p.note { "The first run that counts of each side; both have the same axes." }
            @for (cell, runs) in comparison.cells.iter().zip(cells) { (beside(comparison, cell, runs, library, comparison.cells.len() == 1)) }
        }
        h2 { "The runs" }
        (runs(comparison, cells))
        h2 { "What the words mean" }
        (definitions(comparison))
        h2 { "How to repeat this comparison" }
        (page::command(&made_by(folder)))
    };
    page::page(&title, any.then_some(library), body)
}

/// The command that made it.
pub(super) fn made_by(folder: &ComparisonFolder) -> String {
    if !folder.record.command.is_empty() {
        return command::line(&folder.record.command);
    }
    let (name, n) = (&folder.result.name, folder.result.repetitions.max(1));
    command::line(&["narrows", "compare", name, "--seeds", &n.to_string()].map(str::to_owned))
}

fn judged(comparison: &Comparison) -> (usize, usize) {
    let rows = comparison.cells.iter().flat_map(|c| &c.rows);
    rows.filter_map(|row| row.same)
        .fold((0, 0), |(same, n), s| (same + usize::from(s), n + 1))
}

/// The verdict: do the two sides agree?
fn checks(comparison: &Comparison) -> Markup {
    let good = comparison.passed();
    let words = in_words(&comparison.checks);
    let (same, rows) = judged(comparison);
    let failed = comparison.cells.iter().filter(|c| c.error.is_some());
    html! {
        section.verdict.yes[good].no[!good] aria-label="Verdict of the comparison" {
            strong {
                @match (&words, good) {
                    (None, true) => "✓ the two sides are the same within the spread",
                    (None, false) => "✗ the two sides differ, or not all was compared",
                    (Some(words), true) => { "✓ the two sides agree: " (words) },
                    (Some(words), false) => { "✗ " (words) },
                }
            }
            @if rows > 0 { p { (same) " of " (rows) " figures are the same within the spread." } }
            @if !comparison.complete {
                p { "Incomplete: " (comparison.cells.len()) " of " (comparison.planned) " cells were compared." }
            }
            @for (why, cells) in comparison.left_out_by_reason() {
                p { "Left out, " (cells.len()) " cells: " (why) " "
                    details { summary { "which" } ul { @for cell in cells { li { (page::path(cell)) } } } } }
            }
            @for cell in failed {
                p { (cell.name) " could not be run: " (cell.error.as_deref().unwrap_or_default()) }
            }
            @if words.is_some() { ul.checks { @for check in &comparison.checks { li {
                @if check.passed { span.badge.yes { "✓ pass" } } @else { span.badge.no { "✗ fail" } }
                (check.line.trim_start_matches("pass: ").trim_start_matches("FAIL: "))
                @if !check.outside.is_empty() {
                    details { summary { (check.outside.len()) " outside" }
                        ul { @for name in &check.outside { li { (page::path(name)) } } } }
                }
            } } } }
        }
    }
}

/// Whether the runs that count can be trusted.
fn trust(cells: &[CellRuns]) -> Markup {
    let used: Vec<&RunLine> = cells
        .iter()
        .flat_map(|c| &c.runs)
        .filter(|r| r.used)
        .collect();
    let doubted = used.iter().filter(|r| !r.trusted).count();
    html! {
        @if !used.is_empty() {
            section.verdict.yes[doubted == 0].no[doubted > 0] aria-label="Trust" {
                @if doubted == 0 { strong { "✓ trust: yes" } ", in every run that counts." }
                @else { strong { "✗ trust: no, in " (doubted) " of " (used.len()) " runs" } " – why, the table of runs says." }
            }
        }
    }
}

fn facts(folder: &ComparisonFolder) -> Markup {
    let (record, comparison) = (&folder.record, &folder.result);
    html! {
        dl.facts {
            (fact("sides", comparison.sides.join(", ")))
            (fact("repetitions", comparison.repetitions))
            (fact("cells", format!("{} of {}", comparison.cells.len(), comparison.planned)))
            (fact("version", format!("narrows {}", record.version())))
            (rig::kernel(record))
            (fact("took", format!("{} s", fixed(record.wall_s, 0))))
            @if !record.started_utc.is_empty() { (fact("started (UTC)", &record.started_utc)) }
        }
    }
}

/// How far the sides lie apart over all cells, for each metric that the file asks for.
fn far_apart(comparison: &Comparison) -> Markup {
    let all = differences(comparison);
    html! {
        @if !all.is_empty() {
            h2 { "How far apart" }
            p.note { "Differences over all cells, in each metric's unit: the signed median, then sizes, of which half and 95 of 100 cells have at most so much." }
            div.scroll tabindex="0" role="region" aria-label="Table of differences" {
                table.data id="differences" {
                    thead { tr {
                        th scope="col" { "difference of" } th scope="col" { "cells" } th scope="col" { "signed, median" }
                        th scope="col" { "median" } th scope="col" { "95 %" } th scope="col" { "largest" } th.left scope="col" { "in" }
                    } }
                    tbody { @for of in &all { tr {
                        th scope="row" { (page::path(&of.metric)) }
                        td { (of.cells) } td { (fixed(of.bias, 2)) } td { (fixed(of.median, 2)) }
                        td { (fixed(of.p95, 2)) } td { (fixed(of.max, 2)) } td.left { (page::path(&of.furthest)) }
                    } } }
                }
            }
        }
    }
}

fn legend(comparison: &Comparison) -> Markup {
    let [first, second] = &comparison.sides;
    html! {
        p.sides {
            span { span.swatch style="background:var(--series-0)" {} (first) }
            span { span.swatch style="background:var(--series-1)" {} (second) }
        }
    }
}

/// The metrics that are drawn: those that the file asks for, or of any run
/// rates, shares, round trips, time in queues and use.
fn shown_metrics(comparison: &Comparison) -> Vec<String> {
    const FIGURES: [&str; 5] = [
        "share1_pct",
        "goodput_mbit",
        "rtt_ms.p50",
        "sojourn_ms.mean",
        "utilisation",
    ];
    let mut names: Vec<String> = Vec::new();
    for cell in &comparison.cells {
        let wanted = cell.rows.iter().enumerate().filter(|(place, row)| {
            let figure = row.metric.split(" of ").next().unwrap_or_default();
            match cell.asked {
                0 => FIGURES.contains(&figure),
                asked => *place < asked,
            }
        });
        for (_, row) in wanted {
            if !names.contains(&row.metric) {
                names.push(row.metric.clone());
            }
        }
    }
    names
}

fn plot(comparison: &Comparison, metric: &str) -> Markup {
    let rows: Vec<(&str, &Row)> = comparison
        .cells
        .iter()
        .filter_map(|cell| Some((cell.name.as_str(), cell.row(metric)?)))
        .collect();
    html! { @if let Some(drawing) = pairs::draw(&title(metric), &rows) { (drawing) } }
}

/// What a metric is called: of the file's by its name, else in full, as the tables
/// have it, with its unit.
fn title(metric: &str) -> MetricTitle {
    let Some((column, _)) = metric.split_once(" of ") else {
        return MetricTitle::of_name(metric);
    };
    // Of a percentile or a mean, the unit is in the part before it.
    let quantity = match column.rsplit_once('.') {
        Some((quantity, _)) if quantity.ends_with("_ms") => quantity,
        _ => column,
    };
    MetricTitle {
        title: metric.to_owned(),
        unit: MetricTitle::of_name(quantity).unit,
    }
}

fn table(comparison: &Comparison) -> Markup {
    let [first, second] = &comparison.sides;
    let metrics = shown_metrics(comparison);
    let asked = comparison.cells.iter().any(|c| c.asked > 0);
    html! {
        div.controls data-for="comparison" hidden {
            label { "Filter cells " input type="search" size="18"; }
            label { "Metric " select {
                option value="" { "all" }
                @for metric in &metrics { option value=(metric) { (metric) } }
            } }
            label { input type="checkbox"; " only what differs" }
            output {}
        }
        div.scroll tabindex="0" role="region" aria-label="Table of figures" {
            table.data.sortable id="comparison" {
                thead { tr {
                    th scope="col" { "cell" } th.left scope="col" { "metric" }
                    th scope="col" { (first) } th.left scope="col" { "min to max" }
                    th scope="col" { (second) } th.left scope="col" { "min to max" }
                    th scope="col" { "difference" }
                    @if asked { th.left scope="col" { "tolerance" } }
                    th.left scope="col" { "verdict" }
                } }
                tbody { @for cell in &comparison.cells { @for row in &cell.rows { (table_row(cell, row, asked)) } } }
            }
        }
    }
}

/// Decimals with which a row is printed: rates of marks are small.
fn places(row: &Row) -> usize {
    let ends = [row.first, row.second]
        .into_iter()
        .flat_map(|f| [f.min, f.max]);
    let largest = ends.flatten().fold(0.0, |most: f64, v| most.max(v.abs()));
    match largest {
        0.0 => 0,
        0.0..1.0 => 4,
        1.0..10.0 => 3,
        _ => 2,
    }
}

fn table_row(cell: &CellComparison, row: &Row, asked: bool) -> Markup {
    let places = places(row);
    let exact = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let differs = row.within == Some(false) || row.within.is_none() && row.same == Some(false);
    let range = |figure: &narrows_results::comparison::Figure| {
        html! {
            (number(figure.min, places)) " to " (number(figure.max, places))
        }
    };
    html! {
        tr data-metric=(row.metric) data-within=(if differs { "no" } else { "yes" }) {
            th scope="row" { (page::path(&cell.name)) }
            td.left { (page::path(&row.metric)) }
            td data-sort=(exact(row.first.median)) { (number(row.first.median, places)) }
            td.left { (range(&row.first)) }
            td data-sort=(exact(row.second.median)) { (number(row.second.median, places)) }
            td.left { (range(&row.second)) }
            td data-sort=(exact(row.difference.map(f64::abs))) { (number(row.difference, places)) }
            @if asked { td.left {
                (row.tolerance.as_deref().unwrap_or(""))
                @match row.within {
                    Some(true) => { " " span.yes-text { "✓ inside" } },
                    Some(false) => { " " span.no-text { "✗ outside" } },
                    None => {},
                }
            } }
            td.left { @match row.same {
                Some(false) => span.no-text { (row.verdict()) },
                _ => (row.verdict()),
            } }
        }
    }
}

/// The two sides of a cell over time.
fn beside(
    comparison: &Comparison,
    cell: &CellComparison,
    runs: &CellRuns,
    library: &Library,
    open: bool,
) -> Markup {
    let [left, right] = &runs.charts;
    let drawn = |chart: &Chart| matches!(&chart.body, Body::Curves { .. });
    let titles = left.iter().chain(right).filter(|c| drawn(c));
    let mut kinds: Vec<&str> = Vec::new();
    for chart in titles {
        if !kinds.contains(&chart.title.as_str()) {
            kinds.push(&chart.title);
        }
    }
    let of = |side: usize, charts: &[Chart], kind: &str| {
        let mut chart = charts.iter().find(|c| c.title == kind)?.clone();
        chart.title = format!("{}: {kind}", comparison.sides[side]);
        Some(page::half(&chart, &chart.title, library))
    };
    html! {
        @if !kinds.is_empty() {
            details open[open] {
                summary { (page::path(&cell.name)) }
                div.charts { @for kind in kinds { @for (side, charts) in [left, right].into_iter().enumerate() {
                    @match of(side, charts, kind) {
                        Some(figure) => (figure),
                        None => p.note { (comparison.sides[side]) ": nothing is known of this." },
                    }
                } } }
            }
        }
    }
}

fn runs(comparison: &Comparison, cells: &[CellRuns]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of runs" {
            table.data id="runs" {
                thead { tr {
                    th scope="col" { "cell" } th.left scope="col" { "side" } th.left scope="col" { "run" }
                    th.left scope="col" { "counts" } th.left scope="col" { "trust" }
                } }
                tbody { @for (cell, shown) in comparison.cells.iter().zip(cells) { @for run in &shown.runs { tr {
                    th scope="row" { (page::path(&cell.name)) }
                    td.left { (run.side) }
                    td.left { a href=(page::link(&format!("{}/report.html", run.folder))) { (run.folder.rsplit('/').next().unwrap_or_default()) } }
                    td.left { @if run.used { "yes" } @else { "made again" } }
                    td.left.words { @if run.trusted { "yes" } @else { span.no-text { "✗ " (run.trust.trim_start_matches("trust: ")) } } }
                } } } }
            }
        }
    }
}

fn definitions(comparison: &Comparison) -> Markup {
    let pair = comparison.is_paired();
    let [known, judged] = &comparison.sides;
    html! {
        dl.definitions {
            dt { (known) ", " (judged) } dd { "the median over the runs of that side, each taken over the steady window" }
            dt { "min to max" } dd { "the range of these runs: how far the side differs from itself" }
            dt { "difference" } dd { (judged) " less " (known) ", of the medians; sorted by its size" }
            dt { "same within the spread" }
            dd {
                @if pair { "the medians are no further apart than the runs of " (known) " among themselves" }
                @else { "the two ranges meet" }
            }
            @if pair { dt { "own spread" } dd { "the range of the runs of " (known) } }
        }
    }
}
