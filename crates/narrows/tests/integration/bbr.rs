//! Checks of the BBR campaigns fail for a control that is no BBR: CUBIC in its place.

use crate::support::unwatched;
use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_scenario::{Campaign, catalog};
use narrows_sim::SimEngine;

/// Lines of the checks of campaign `name` in `cells`, where `from` of its text is `to`.
fn lines(name: &str, from: &str, to: &str, cells: &[&str]) -> Vec<String> {
    let entry = catalog::entry(name).unwrap();
    let text = entry.text.replace(from, to);
    assert!(from == to || text != entry.text, "{name} has no {from}");
    let mut campaign = Campaign::read(&entry.file(), text.as_bytes(), &entry.shelf(), &[])
        .unwrap_or_else(|e| panic!("{e}"));
    let cells: Vec<String> = cells.iter().map(|&cell| cell.to_owned()).collect();
    campaign.only(&cells).unwrap_or_else(|e| panic!("{e}"));
    let options = CampaignOptions {
        seeds: vec![1],
        ..CampaignOptions::default()
    };
    let ended = unwatched(|watch| run_campaign(&SimEngine, &campaign, &options, watch));
    let checks = ended.unwrap().result.checks;
    checks.into_iter().map(|check| check.line).collect()
}

/// The line of the check `id`, if it was judged.
fn of<'a>(lines: &'a [String], id: &str) -> Option<&'a String> {
    lines.iter().find(|line| line.contains(&format!("{id}:")))
}

/// By BBR each of `checks` passes, by CUBIC in its place none does.
fn judge(name: &str, own: &str, cells: &[&str], checks: &[&str]) {
    let by_bbr = lines(name, own, own, cells);
    let by_cubic = lines(name, own, "\"cubic\"", cells);
    for check in checks {
        let line = of(&by_bbr, check).unwrap_or_else(|| panic!("no {check} in {by_bbr:#?}"));
        assert!(line.starts_with("pass"), "BBR: {line}");
        if let Some(line) = of(&by_cubic, check) {
            assert!(!line.starts_with("pass"), "CUBIC: {line}");
        }
    }
}

#[test]
fn cubic_fails_the_cases_of_the_draft() {
    judge(
        "bbr/draft",
        "\"bbr variant draft-06\"",
        &["{A1,A2,A5,A8,A10,A11,A15,A20,A21}/{draft-06,linux-v3}"],
        &["A1", "A2", "A5", "A8", "A10", "A11", "A15", "A20", "A21"],
    );
}

#[test]
fn cubic_fails_what_bbr_is_known_for_in_googles_set() {
    judge(
        "bbr/nsperf",
        "\"bbr variant draft-06\"",
        &["{loss-0.2,loss-1,bloat-10,bloat-50}/{draft-06,linux-v3}"],
        &["loss-v3", "bufferbloat"],
    );
}
