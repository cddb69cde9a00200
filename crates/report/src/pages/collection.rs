//! The page of a collection: the key findings of its campaigns, one after the other.

use maud::{Markup, html};
use narrows_results::campaign::CampaignResult;
use narrows_results::collection::CollectionFolder;
use narrows_results::folder::CampaignFolder;

use super::{FILE, command, findings, page};

/// A measured figure within a quarter of the published one is near it.
const NEAR: f64 = 0.25;

/// The whole page.
pub fn html(folder: &CollectionFolder) -> String {
    let result = &folder.result;
    let any = folder
        .campaigns
        .iter()
        .any(|(_, c)| !c.result.key_findings.is_empty());
    let body = html! {
        header {
            p.kicker { "Narrows, a collection of campaigns" }
            h1 { (result.name) }
            @if let Some(title) = &result.title { p { (title) } }
            @if let Some(about) = &result.about { p { (about) } }
            @if let Some(source) = &result.source { p.note { "Source: " (source) } }
        }
        (in_short(folder))
        @if any { h2 { "Findings" } (overview(folder)) }
        h2 { "Campaigns" }
        (campaigns(folder))
        h2 { "How to repeat all of it" }
        (page::command(&match folder.record.command.as_slice() {
            [] => format!("narrows campaign {} --check", result.name),
            words => command::line(words),
        }))
        dl.facts {
            (page::fact("version", format!("narrows {}", folder.record.version())))
            (page::fact("network time", format!("{} s", page::fixed(folder.record.virtual_s, 0))))
            (page::fact("took", format!("{} s", page::fixed(folder.record.wall_s, 1))))
            (page::fact("events", page::count(folder.record.events)))
            @if !folder.record.digest.is_empty() {
                div.wide { dt { "digest of the data files (SHA-256)" } dd { code { (folder.record.digest) } } }
            }
        }
    };
    page::page(&format!("{} – Narrows", result.name), None, body)
}

/// How the checks of all campaigns came out together.
fn in_short(folder: &CollectionFolder) -> Markup {
    let all = || folder.campaigns.iter().map(|(_, c)| &c.result);
    let checks: Vec<_> = all().flat_map(|c| c.checks.clone()).collect();
    let good = folder.result.complete && all().all(CampaignResult::passed);
    let differs = all().any(CampaignResult::differs);
    let (near, of) = all()
        .map(|c| c.near(NEAR))
        .fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    html! {
        section.verdict.yes[good && !differs].differs[good && differs].no[!good] aria-label="Verdict of the checks" {
            strong {
                (match (good, differs) { (true, false) => "✓ ", (true, true) => "≠ ", (false, _) => "✗ " })
                (narrows_results::campaign::in_words(&checks).unwrap_or_else(|| "no checks".to_owned()))
            }
            @if !folder.result.complete {
                p { "Incomplete: " (folder.campaigns.iter().filter(|(_, c)| c.record.complete).count()) " of " (folder.result.folders.len()) " campaigns were run." }
            }
            @if of > 0 { p { "Of " (of) " published figures " (near) " are met within a quarter." } }
        }
    }
}

/// A row for each finding: the risk as measured, when it is there, and what cures it.
fn overview(folder: &CollectionFolder) -> Markup {
    let all = folder.campaigns.iter();
    let findings = all.flat_map(|(at, c)| c.result.key_findings.iter().map(move |f| (at, c, f)));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of findings" {
            table.data.findings {
                thead { tr {
                    th scope="col" { "" } th.left scope="col" { "finding" } th.left scope="col" { "as measured" }
                    th.left scope="col" { "when" } th.left scope="col" { "cure" } th.left scope="col" { "checks" }
                } }
                tbody { @for (place, (at, campaign, finding)) in findings.enumerate() { tr {
                    td { (place + 1) }
                    th.left scope="row" { (finding.title) br; (link(at, campaign)) }
                    td.left { (finding.severity) }
                    td.left { (finding.when.as_deref().unwrap_or("")) }
                    td.left { (finding.cure.as_deref().unwrap_or("")) }
                    td.left { (findings::badge(campaign.result.outcome_of(finding))) }
                } } }
            }
        }
    }
}

fn link(at: &str, campaign: &CampaignFolder) -> Markup {
    html! { a href=(page::link(&format!("{at}/{FILE}"))) { (page::path(&campaign.result.name)) } }
}

fn campaigns(folder: &CollectionFolder) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of campaigns" {
            table.data {
                thead { tr {
                    th.left scope="col" { "campaign" } th.left scope="col" { "about" } th scope="col" { "cells" }
                    th.left scope="col" { "checks" } th scope="col" { "published figures" } th scope="col" { "within a quarter" }
                    th scope="col" { "trust" } th scope="col" { "took (s)" }
                } }
                tbody { @for (at, campaign) in &folder.campaigns {
                    @let (near, of) = campaign.result.near(NEAR);
                    @let doubted = campaign.result.cells.iter().filter(|c| !c.verdict.trusted()).count();
                    tr {
                        th.left scope="row" { (link(at, campaign)) }
                        td.left { (campaign.result.title.as_deref().unwrap_or("")) }
                        td { (campaign.result.cells.len()) }
                        td.left { (campaign.result.checks_in_words().unwrap_or_default()) }
                        td { @if of > 0 { (of) } }
                        td { @if of > 0 { (near) } }
                        td {
                            @if !campaign.record.complete { span.no-text { "not finished" } }
                            @else if doubted == 0 { "yes" }
                            @else { span.no-text { "no, in " (doubted) } }
                        }
                        td { (page::fixed(campaign.record.wall_s, 1)) }
                    }
                } }
            }
        }
    }
}
