//! The page of a campaign.

use maud::{Markup, html};

use crate::campaign::{CampaignResult, CellResult, MetricResult};
use crate::plot::comparison::{self, Grid};
use crate::results::CampaignFolder;

use super::command;
use super::heatmap;
use super::page::{self, Library, count, fact, fixed, number};

/// The whole page.
pub fn html(folder: &CampaignFolder, library: &Library) -> String {
    let campaign = &folder.result;
    let grid = comparison::grid(campaign);
    let leading = comparison::leading_metric(campaign);
    let against = leading
        .map(|metric| comparison::against(campaign, &grid, metric))
        .filter(|chart| !chart.is_empty());
    let title = format!("{} – Narrows", campaign.name);
    let figure = against.as_ref().map(|chart| page::figure(chart, library));
    let library = figure.as_ref().map(|_| library);
    page::page(&title, library, body(folder, &grid, leading, figure))
}

fn body(
    folder: &CampaignFolder,
    grid: &Grid,
    leading: Option<&str>,
    against: Option<Markup>,
) -> Markup {
    let campaign = &folder.result;
    html! {
        header {
            p.kicker { "Narrows, a campaign: published beside measured" }
            h1 { (campaign.name) }
            @if let Some(title) = &campaign.title { p { (title) } }
            @if let Some(source) = &campaign.source { p.note { "Published figures: " (source) } }
        }
        (checks(campaign))
        (trust(campaign))
        (facts(folder))
        @if let Some(metric) = leading {
            h2 { "Heat-map" }
            p.note { "A coloured field leads to the report of its cell." }
            (heatmap::html(campaign, grid, metric))
            @for other in campaign.metrics.iter().filter(|m| m.as_str() != metric) {
                @let (words, unit) = comparison::quantity(other);
                details { summary { (comparison::with_unit(&words, unit)) } (heatmap::html(campaign, grid, other)) }
            }
        }
        @if let Some(figure) = against {
            h2 { "Measured against published" }
            p.note { "One mark per cell; on the line both are equal." }
            (figure)
        }
        h2 { "Every comparison" }
            p.note { "A heading sorts by its column." }
        (table(campaign, leading))
        h2 { "What the columns mean" }
        (definitions(campaign))
        h2 { "How to repeat this campaign" }
        (page::command(&command(folder)))
    }
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

/// The verdict: do the figures reproduce the published ones?
fn checks(campaign: &CampaignResult) -> Markup {
    let failed = campaign.cells.iter().filter(|c| c.error.is_some()).count();
    let passed = campaign.checks.iter().filter(|c| c.passed).count();
    let all = campaign.checks.len();
    let good = campaign.passed();
    let line = match (all, good) {
        (0, true) => "✓ complete; this campaign has no checks".to_owned(),
        (0, false) => "✗ not all cells have figures".to_owned(),
        (_, true) => format!("✓ the published figures are met: {passed} of {all} checks pass"),
        (_, false) if passed < all => {
            format!("✗ the published figures are not met: {passed} of {all} checks pass")
        }
        (_, false) => format!("✗ {passed} of {all} checks pass, but not all cells have figures"),
    };
    html! {
        section.verdict.yes[good].no[!good] aria-label="Verdict of the checks" {
            strong { (line) }
            @if !campaign.complete {
                p { "Incomplete: " (campaign.cells.len()) " of " (campaign.planned) " cells were run." }
            }
            @if failed > 0 { p { (failed) " cells failed." } }
            @if all > 0 { ul.checks { @for check in &campaign.checks { li {
                @if check.passed { span.badge.yes { "✓ pass" } } @else { span.badge.no { "✗ fail" } }
                (bare(&check.line))
                @if !check.outside.is_empty() {
                    details { summary { (check.outside.len()) " outside" }
                        ul { @for name in &check.outside { li { (cell_link(campaign.cell(name), name)) } } } }
                }
            } } } }
        }
    }
}

/// A check's line without the word that its badge says.
fn bare(line: &str) -> &str {
    ["pass: ", "fail: ", "PASS: ", "FAIL: "]
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

/// Whether the rigs of the cells can be trusted.
fn trust(campaign: &CampaignResult) -> Markup {
    let doubted: Vec<&CellResult> = campaign
        .cells
        .iter()
        .filter(|cell| !cell.verdict.trusted())
        .collect();
    html! {
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

fn facts(folder: &CampaignFolder) -> Markup {
    let (record, campaign) = (&folder.record, &folder.result);
    let seeds: Vec<String> = campaign.seeds.iter().map(u64::to_string).collect();
    html! {
        dl.facts {
            (fact("engine", &record.engine))
            (fact("seeds", seeds.join(", ")))
            (fact("version", format!("narrows {}", record.narrows)))
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

fn table(campaign: &CampaignResult, leading: Option<&str>) -> Markup {
    html! {
        div.controls data-for="comparison" hidden {
            label { "Filter cells " input type="search" placeholder="50Mbit dualpi2" size="18"; }
            label { "Metric " select {
                option value="" { "all" }
                @for metric in &campaign.metrics { option value=(metric) selected[leading == Some(metric.as_str())] { (metric) } }
            } }
            label { input type="checkbox"; " only outside" }
            output {}
        }
        div.scroll tabindex="0" role="region" aria-label="Table of comparisons" {
            table.data.sortable id="comparison" {
                thead { tr {
                    th scope="col" { "cell" } th.left scope="col" { "metric" }
                    @for name in ["published", "measured", "spread", "difference"] { th scope="col" { (name) } }
                    th.left scope="col" { "tolerance" } th.left scope="col" { "within" } th.left scope="col" { "trust" }
                } }
                tbody { @for cell in &campaign.cells {
                    @if let Some(error) = &cell.error {
                        tr { th scope="row" { (cell_link(Some(cell), &cell.name)) } td.left.no-text colspan="8" { "failed: " (error) } }
                    }
                    @for metric in &cell.metrics { (row(cell, metric)) }
                } }
            }
        }
    }
}

fn row(cell: &CellResult, found: &MetricResult) -> Markup {
    let decimals = comparison::decimals(&found.metric);
    let within = match found.within {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let exact = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    html! {
        tr data-metric=(found.metric) data-within=(within) {
            th scope="row" { (cell_link(Some(cell), &cell.name)) }
            td.left { (found.metric) }
            td data-sort=(exact(found.published)) { (number(found.published, decimals)) }
            td data-sort=(exact(found.measured)) { (number(found.measured, decimals)) }
            td data-sort=(found.spread) { (number(Some(found.spread), decimals)) }
            td data-sort=(exact(found.difference.map(f64::abs))) { (number(found.difference, decimals)) }
            td.left { (found.tolerance.as_deref().unwrap_or("")) }
            td.left { @match found.within {
                Some(true) => span.yes-text { "✓ yes" },
                Some(false) => span.no-text { "✗ no" },
                None => {},
            } }
            td.left { @if cell.verdict.trusted() { "yes" } @else { span.no-text title=(cell.verdict.line()) { "✗ no" } } }
        }
    }
}

fn definitions(campaign: &CampaignResult) -> Markup {
    html! {
        dl.definitions {
            dt { "published" } dd { "the figure of the published table; empty where there is none" }
            dt { "measured" } dd { "the median over the seeds, each taken over the steady window" }
            dt { "spread" } dd { "largest less smallest over the seeds" }
            dt { "difference" } dd { "measured less published; sorted by its size" }
            dt { "tolerance" } dd { "the band in which measured must lie for within to be yes" }
            @for metric in &campaign.metrics {
                @let (words, unit) = comparison::quantity(metric);
                dt { (metric) } dd { (comparison::with_unit(&words, unit)) }
            }
        }
    }
}
