//! Checks of yielding fail for a transfer that does not yield: plain CUBIC in its place.

#[path = "../../results/tests/support/mod.rs"]
mod support;

use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_results::SimEngine;
use narrows_scenario::{Campaign, catalog};
use support::unwatched;

/// The lines of the checks of `dalbe/queues` of one cell, with the transfer's control so.
fn lines(control: Option<&str>) -> Vec<String> {
    let entry = catalog::entry("dalbe/queues").unwrap();
    let words = "dalbe over cubic policy {policy} deadline {deadline} size {size}";
    assert!(entry.text.contains(words));
    let text = entry.text.replace(words, control.unwrap_or(words));
    let mut campaign = Campaign::read(&entry.file(), text.as_bytes(), &entry.shelf(), &[])
        .unwrap_or_else(|e| panic!("{e}"));
    campaign
        .only(&["one/fifo-1/10ms/mbc".to_owned()])
        .unwrap_or_else(|e| panic!("{e}"));
    let options = CampaignOptions {
        seeds: vec![1],
        ..CampaignOptions::default()
    };
    let ended = unwatched(|watch| run_campaign(&SimEngine, &campaign, &options, watch));
    let checks = ended.unwrap().result.checks;
    checks.into_iter().map(|check| check.line).collect()
}

#[test]
fn plain_cubic_in_the_place_of_the_transfer_is_neither_on_time_nor_yields() {
    for (control, passes) in [(None, true), (Some("cubic"), false)] {
        let lines = lines(control);
        for check in ["on-time:", "yields:"] {
            let line = lines.iter().find(|line| line.contains(check));
            let line = line.unwrap_or_else(|| panic!("no {check} in {lines:#?}"));
            assert_eq!(line.starts_with("pass"), passes, "{control:?}: {line}");
        }
    }
}
