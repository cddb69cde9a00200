//! The campaigns of the split proxy on the real simulator, a fast part of each: true length,
//! one seed, the campaigns' own tolerances and checks.
//!
//! Source of the published figures: J. Bayer, MSc thesis, Univ. of Oslo, 2023.

use crate::support::unwatched;
use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_results::campaign::CampaignResult;
use narrows_scenario::{Campaign, catalog};
use narrows_sim::SimEngine;

/// The cells `only` of a campaign of the catalogue, with some of its words replaced.
fn run(name: &str, only: &str, edits: &[(&str, &str)]) -> CampaignResult {
    let entry = catalog::entry(name).unwrap();
    let mut text = entry.text.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{name} does not say {from}");
        text = text.replace(from, to);
    }
    let mut campaign = Campaign::read(&entry.file(), text.as_bytes(), &entry.shelf(), &[])
        .unwrap_or_else(|e| panic!("{e}"));
    campaign
        .only(&[only.to_owned()])
        .unwrap_or_else(|e| panic!("{e}"));
    let options = CampaignOptions {
        seeds: vec![1],
        ..CampaignOptions::default()
    };
    let folder = unwatched(|w| run_campaign(&SimEngine, &campaign, &options, w)).unwrap();
    assert_eq!(
        folder.record.verdict.reasons().count(),
        0,
        "{}",
        folder.record.verdict.line()
    );
    folder.result
}

fn measured(result: &CampaignResult, cell: &str, metric: &str) -> f64 {
    let row = result.cell(cell).unwrap().metric(metric).unwrap();
    row.measured
        .unwrap_or_else(|| panic!("{cell} has no {metric}"))
}

#[test]
fn the_first_byte_is_there_when_the_formulas_say() {
    let result = run("pep/handshake", "*", &[]);
    assert_eq!(result.checks.len(), 6);
    assert!(result.passed());
}

/// What the table is worth: a request that waits for the handshake after all.
#[test]
fn without_fast_open_the_handshake_table_fails() {
    let result = run(
        "pep/handshake",
        "*",
        &[("fast_open  = true", "fast_open  = false")],
    );
    assert!(!result.passed());
}

#[test]
fn a_step_of_the_rate_is_used_by_the_proxy_and_hardly_by_a_direct_flow() {
    let result = run("pep/step", "32MB/fq_codel-150ms/*", &[]);
    let fct = |way| measured(&result, &format!("32MB/fq_codel-150ms/{way}"), "fct_s");
    assert!(
        fct("pep") <= 0.85 * fct("direct"),
        "{} {}",
        fct("pep"),
        fct("direct")
    );
    let bound = measured(&result, "32MB/fq_codel-150ms/pep", "to_bound");
    assert!((1.0..=1.1).contains(&bound), "{bound}");
    assert!(measured(&result, "32MB/fq_codel-150ms/pep", "probe_max_ms") <= 123.0);
}

#[test]
fn links_before_a_proxy_are_as_busy_as_calculated() {
    let result = run("pep/utilisation", "*", &[]);
    assert_eq!(result.checks.len(), 3);
    assert!(result.passed());
}

#[test]
fn a_proxy_carries_what_a_link_with_blockages_could() {
    let edit = [("\"120s\"", "\"30s\""), ("\"0s..120s\"", "\"1s..30s\"")];
    let result = run("pep/mmwave", "long/{fq_codel,pep}", &edit);
    let of = |cell| measured(&result, cell, "of_capacity");
    assert!((0.93..=1.0).contains(&of("long/pep")), "{}", of("long/pep"));
    assert!(
        of("long/pep") >= 1.3 * of("long/fq_codel"),
        "{}",
        of("long/fq_codel")
    );
}

#[test]
fn a_leg_that_is_told_the_new_rate_has_it_after_half_a_second() {
    let result = run("pep/controls", "cubic/{cubic,quickstart}", &[]);
    // 90 % of what 70 Mbit/s carry.
    let after = |far: &str| measured(&result, &format!("cubic/{far}"), "half_mbit");
    assert!(after("quickstart") >= 60.3, "{}", after("quickstart"));
    assert!(after("cubic") < 60.3, "{}", after("cubic"));
    let later = measured(&result, "cubic/quickstart", "s4_mbit");
    assert!(later >= 60.3, "{later}");
    let probe = measured(&result, "cubic/quickstart", "probe_ms");
    assert!((120.0..=121.0).contains(&probe), "{probe}");
}
