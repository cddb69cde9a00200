//! The page of a campaign.

use maud::{Markup, html};
use narrows_results::campaign::{
    CampaignResult, CellResult, CheckResult, FigureResult, MetricResult,
};
use narrows_results::folder::CampaignFolder;

use super::command;
use super::findings;
use super::heatmap;
use super::page::{self, Library, count, fact, fixed, number};
use super::rig;
use crate::plot::chart::Chart;
use crate::plot::choice::{figures, shown_metrics};
use crate::plot::{comparison, sweep};

/// Cells from which on measured against published is a figure of its own: fewer
/// are read off the others.
const SCATTER: usize = 8;

/// The whole page.
pub fn html(folder: &CampaignFolder, library: &Library) -> String {
    let campaign = &folder.result;
    let title = format!("{} – Narrows", campaign.name);
    let figures = drawn(campaign);
    let grid = comparison::grid(campaign);
    let shown = shown_metrics(campaign);
    let against = shown
        .iter()
        .map(|m| comparison::against(campaign, &grid, m));
    let against: Vec<Chart> = against.filter(|chart| chart.points() >= SCATTER).collect();
    let any = figures.iter().any(|f| !f.charts.is_empty()) || !against.is_empty();
    let body = html! {
        (header(campaign))
        (findings::html(campaign))
        (in_short(campaign))
        @for figure in &figures {
            @if figure.figure.metrics.iter().all(|m| campaign.is_flag(m)) {
                @if grid.columns.len() < 2 || grid.rows.len() < 2 { (section(campaign, figure, library)) }
            } @else { (section(campaign, figure, library)) }
        }
        (checks(campaign))
        @if grid.columns.len() > 1 && grid.rows.len() > 1 {
            h2 { "Cell by cell" }
            p.note { "A coloured field leads to the report of its cell." }
            @for (place, metric) in shown.iter().enumerate() {
                @if place == 0 { (heatmap::html(campaign, &grid, metric)) }
                @else { details { summary { (campaign.title_of(metric).with_unit()) } (heatmap::html(campaign, &grid, metric)) } }
            }
        }
        @if !against.is_empty() {
            h2 { "Measured against published" }
            p.note { "One mark per cell; on the line both are equal." }
            div.charts { @for chart in &against { (page::figure(chart, library)) } }
        }
        h2 { "Every figure" }
        p.note { "A heading sorts by its column." }
        (table(campaign, shown.first().map(String::as_str)))
        h2 { "What the columns mean" }
        (definitions(campaign))
        h2 { "How to repeat this campaign" }
        (page::command(&command(folder)))
        (facts(folder))
    };
    page::page(&title, any.then_some(library), body)
}

/// A figure that the campaign is about, with its drawings.
struct Drawn {
    figure: FigureResult,
    charts: Vec<Chart>,
}

fn drawn(campaign: &CampaignResult) -> Vec<Drawn> {
    let mut all: Vec<Drawn> = figures(campaign)
        .into_iter()
        .map(|figure| Drawn {
            charts: sweep::charts(campaign, &figure),
            figure,
        })
        .filter(|drawn| !drawn.charts.is_empty())
        .collect();
    // Anchors are unique on the page.
    let mut charts: Vec<Chart> = all.iter().flat_map(|d| d.charts.clone()).collect();
    comparison::named_apart(&mut charts);
    let mut named = charts.into_iter();
    for chart in all.iter_mut().flat_map(|d| &mut d.charts) {
        *chart = named.next().unwrap_or_else(|| chart.clone());
    }
    all
}

fn header(campaign: &CampaignResult) -> Markup {
    let published = campaign.has_published();
    html! {
        header {
            p.kicker { @if published { "Narrows, a campaign: published beside measured" } @else { "Narrows, a campaign" } }
            h1 { (campaign.name) }
            @if let Some(title) = &campaign.title { p { (title) } }
            @if let Some(source) = &campaign.source {
                p.note { @if published { "Published figures: " } @else { "Source: " } (source) }
            }
        }
    }
}

/// One figure: its drawings beside each other.
fn section(campaign: &CampaignResult, drawn: &Drawn, library: &Library) -> Markup {
    let titles = drawn
        .figure
        .metrics
        .iter()
        .map(|m| campaign.title_of(m).title);
    let title = match &drawn.figure.title {
        Some(title) => title.clone(),
        None => titles.collect::<Vec<_>>().join(", "),
    };
    let published = drawn.charts.iter().any(Chart::has_published);
    let judged = published && drawn.charts.iter().any(Chart::has_tolerance);
    let seeds = campaign.seeds.len();
    html! {
        h2 { (capitalised(&title)) }
        p.note {
            @match seeds {
                0 | 1 => { "Filled marks: measured, one seed." },
                n => { "Filled marks: measured, the median of " (n) " seeds; bars reach from the least to the greatest." },
            }
            @if published { " Hollow marks: published" @if judged { ", with the tolerance" } "." }
        }
        div.charts { @match drawn.charts.as_slice() {
            [only] => (page::wide(only, library)),
            panels => @for chart in panels {
                @let panel = chart.title.strip_prefix(&format!("{title}: ")).unwrap_or(&chart.title);
                (page::half(chart, panel, library))
            }
        } }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// The command that made the campaign; where that is not known, one that runs
/// all of it.
fn command(folder: &CampaignFolder) -> String {
    let campaign = &folder.result;
    if !folder.record.command.is_empty() {
        return command::line(&folder.record.command);
    }
    format!(
        "narrows campaign {} --seeds {} --check",
        campaign.name,
        campaign.seeds.len().max(1)
    )
}

/// Whether the checks pass and the cells can be trusted, in a line each.
fn in_short(campaign: &CampaignResult) -> Markup {
    let failed = campaign.cells.iter().filter(|c| c.error.is_some()).count();
    let good = campaign.passed();
    let doubted: Vec<&CellResult> = campaign
        .cells
        .iter()
        .filter(|cell| !cell.verdict.trusted())
        .collect();
    let words = campaign.checks_in_words();
    let differs = campaign.differs();
    html! {
        section.verdict.yes[good && !differs].differs[good && differs].no[!good] aria-label="Verdict of the checks" {
            strong {
                (match (good, differs) { (true, false) => "✓ ", (true, true) => "≠ ", (false, _) => "✗ " })
                @match (&words, good) {
                    (Some(words), _) => { (words) },
                    (None, true) => { "complete; this campaign has no checks" },
                    (None, false) => { "not all cells have figures" },
                }
            }
            @if !campaign.complete {
                p { "Incomplete: " (campaign.cells.len()) " of " (campaign.planned) " cells were run." }
            }
            @if failed > 0 { p { (failed) " cells failed." } }
        }
        section.verdict.yes[doubted.is_empty()].no[!doubted.is_empty()] aria-label="Trust" {
            @if doubted.is_empty() {
                strong { "✓ trust: yes" } ", in every cell that was run."
            } @else {
                strong { "✗ trust: no, in " (doubted.len()) " of " (campaign.cells.len()) " cells" }
                details { summary { "which, and why" }
                    ul { @for cell in doubted {
                        li { (cell_link(Some(cell), &cell.name)) ": " (cell.verdict.line()) }
                    } }
                }
            }
        }
    }
}

/// The checks one by one.
fn checks(campaign: &CampaignResult) -> Markup {
    html! {
        @if !campaign.checks.is_empty() {
            h2 { "Checks" }
            ul.checks { @for check in &campaign.checks { li {
                (findings::badge(Some(check.outcome())))
                @if !check.conditions.is_empty() { (conditions(check)) }
                @else { (bare(&check.line)) }
                @if check.conditions.is_empty() && !check.outside.is_empty() {
                    details { summary { (check.outside.len()) " outside" }
                        ul { @for name in &check.outside { li { (cell_link(campaign.cell(name), name)) } } } }
                }
            } } }
        }
    }
}

/// What a check says, and its conditions as a table: each as the file spells it, and what
/// was measured. Those that do not hold come first.
fn conditions(check: &CheckResult) -> Markup {
    let mut rows: Vec<_> = check.conditions.iter().collect();
    rows.sort_by_key(|condition| condition.holds);
    let open = check.inside < check.judged || rows.len() <= FEW;
    html! {
        strong { (check.group) } " " (check.metric)
        @if check.needed == 0 { span.note { " (not required)" } }
        details open[open] {
            summary { (check.inside) " of " (check.judged) " conditions hold" }
            div.scroll tabindex="0" role="region" aria-label=(format!("Conditions of {}", check.group)) {
                table.conditions {
                    thead { tr { th scope="col" { "condition" } th.left scope="col" { "measured" } th.left scope="col" { "holds" } } }
                    tbody { @for condition in rows { tr {
                        th scope="row" { code { (condition.text) } }
                        td.left { (condition.measured) }
                        td.left { @if condition.holds { span.yes-text { "✓ yes" } } @else { span.no-text { "✗ no" } } }
                    } } }
                }
            }
        }
    }
}

/// Conditions of a check that are shown without being asked for.
const FEW: usize = 4;

/// A check's line without the word that its badge says.
pub(super) fn bare(line: &str) -> &str {
    ["pass: ", "FAIL: ", "differs, not required: "]
        .iter()
        .find_map(|word| line.strip_prefix(word))
        .unwrap_or(line)
}

fn cell_link(cell: Option<&CellResult>, name: &str) -> Markup {
    html! {
        @match cell {
            Some(cell) if !cell.folder.is_empty() =>
                a href=(page::link(&format!("{}/report.html", cell.folder))) { (page::path(name)) },
            _ => (page::path(name)),
        }
    }
}

fn facts(folder: &CampaignFolder) -> Markup {
    let (record, campaign) = (&folder.record, &folder.result);
    let seeds: Vec<String> = campaign.seeds.iter().map(u64::to_string).collect();
    html! {
        dl.facts {
            (fact("engine", &record.engine))
            @if record.engine != "sim" { (rig::kernel(record)) }
            (fact("seeds", seeds.join(", ")))
            (fact("version", format!("narrows {}", record.version())))
            (fact("cells", format!("{} of {}", campaign.cells.len(), campaign.planned)))
            (fact("network time", format!("{} s", fixed(record.virtual_s, 0))))
            (fact("took", format!("{} s", fixed(record.wall_s, 1))))
            (fact("events", count(record.events)))
            @if !record.started_utc.is_empty() { (fact("started (UTC)", &record.started_utc)) }
            @if !record.digest.is_empty() {
                div.wide { dt { "digest of the data files (SHA-256)" } dd { code { (record.digest) } } }
            }
        }
    }
}

/// Which columns the table of figures has.
struct Columns {
    /// What is published, and the difference from it.
    published: bool,
    /// Tolerances, and whether they are kept.
    judged: bool,
    /// The spread over seeds.
    spread: bool,
}

impl Columns {
    fn of(campaign: &CampaignResult) -> Self {
        let mut rows = campaign.cells.iter().flat_map(|c| &c.metrics);
        Self {
            published: campaign.has_published(),
            judged: rows.any(|m| m.tolerance.is_some()),
            spread: campaign.seeds.len() > 1,
        }
    }

    /// How many there are beside the cell's name.
    fn count(&self) -> usize {
        3 + 2 * usize::from(self.published)
            + 2 * usize::from(self.judged)
            + usize::from(self.spread)
    }
}

fn table(campaign: &CampaignResult, leading: Option<&str>) -> Markup {
    let columns = Columns::of(campaign);
    let options = campaign
        .metrics
        .iter()
        .map(|metric| (metric, campaign.title_of(metric).title));
    html! {
        div.controls data-for="comparison" hidden {
            label { "Filter cells " input type="search" size="18"; }
            label { "Metric " select {
                option value="" { "all" }
                @for (metric, title) in options { option value=(metric) selected[leading == Some(metric.as_str())] { (title) } }
            } }
            @if columns.judged { label { input type="checkbox"; " only outside" } }
            output {}
        }
        div.scroll tabindex="0" role="region" aria-label="Table of figures" {
            table.data.sortable id="comparison" {
                thead { tr {
                    th scope="col" { "cell" } th.left scope="col" { "metric" }
                    @if columns.published { th scope="col" { "published" } }
                    th scope="col" { "measured" }
                    @if columns.spread { th scope="col" { "spread" } }
                    @if columns.published { th scope="col" { "difference" } }
                    @if columns.judged { th.left scope="col" { "tolerance" } th.left scope="col" { "within" } }
                    th.left scope="col" { "trust" }
                } }
                tbody { @for cell in &campaign.cells {
                    @if let Some(error) = &cell.error {
                        tr { th scope="row" { (cell_link(Some(cell), &cell.name)) } td.left.no-text colspan=(columns.count()) { "failed: " (error) } }
                    }
                    @for metric in &cell.metrics { (row(campaign, &columns, cell, metric)) }
                } }
            }
        }
    }
}

fn row(
    campaign: &CampaignResult,
    columns: &Columns,
    cell: &CellResult,
    found: &MetricResult,
) -> Markup {
    let decimals = campaign.decimals(&found.metric);
    let title = campaign.title_of(&found.metric);
    let within = match found.within {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let exact = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    html! {
        tr data-metric=(found.metric) data-within=(within) {
            th scope="row" { (cell_link(Some(cell), &cell.name)) }
            td.left title=(found.metric) { (title.with_unit()) }
            @if columns.published { td data-sort=(exact(found.published)) { (number(found.published, decimals)) } }
            td data-sort=(exact(found.measured)) { (number(found.measured, decimals)) }
            @if columns.spread { td data-sort=(found.spread) { (number(found.measured.map(|_| found.spread), decimals)) } }
            @if columns.published { td data-sort=(exact(found.difference.map(f64::abs))) { (number(found.difference, decimals)) } }
            @if columns.judged {
                td.left { (found.tolerance.as_deref().unwrap_or("")) }
                td.left { @match found.within {
                    Some(true) => span.yes-text { "✓ yes" },
                    Some(false) => span.no-text { "✗ no" },
                    None if found.published.is_some() => span.faint { "not by a tolerance" },
                    None => {},
                } }
            }
            td.left { @if cell.verdict.trusted() { "yes" } @else { span.no-text title=(cell.verdict.line()) { "✗ no" } } }
        }
    }
}

fn definitions(campaign: &CampaignResult) -> Markup {
    let columns = Columns::of(campaign);
    html! {
        dl.definitions {
            @if columns.published { dt { "published" } dd { "the figure of the published table; empty where there is none" } }
            dt { "measured" } dd {
                @if columns.spread { "the median over the seeds, each taken over the steady window" }
                @else { "the figure of the one seed that was run, taken over the steady window" }
            }
            @if columns.spread { dt { "spread" } dd { "largest less smallest over the seeds" } }
            @if columns.published { dt { "difference" } dd { "measured less published; sorted by its size" } }
            @if columns.judged { dt { "tolerance" } dd { "the band in which measured must lie for within to be yes" } }
            dt { "trust" } dd { "whether the verdict on the cell's runs trusts them" }
            @for metric in &campaign.metrics {
                dt { (metric) } dd { (campaign.title_of(metric).with_unit()) }
            }
        }
    }
}
