//! A part of `efm/coverage`: intervals of loss rates hold what really happened,
//! for signals whose senders are too much of a machine to model by hand.

use crate::support::unwatched;
use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_results::campaign::CampaignResult;
use narrows_scenario::{Campaign, catalog};
use narrows_sim::SimEngine;

/// Seeds: enough to distinguish 95 % from 75.
const SEEDS: u64 = 50;

fn run(campaign: &str, cell: &str, seeds: u64) -> CampaignResult {
    let entry = catalog::entry(campaign).unwrap();
    let mut campaign =
        Campaign::read(&entry.file(), entry.text.as_bytes(), &entry.shelf(), &[]).unwrap();
    campaign.only(&[cell.to_owned()]).unwrap();
    let options = CampaignOptions {
        seeds: (1..=seeds).collect(),
        ..CampaignOptions::default()
    };
    let folder = unwatched(|w| run_campaign(&SimEngine, &campaign, &options, w)).unwrap();
    folder.result
}

/// Of the seeds whose flow carries marks (its SYN was not lost), the percentage
/// whose interval holds the mean of the truths, and how far the mean of the
/// values is from it, as a part of it.
fn covered(result: &CampaignResult, cell: &str, metric: &str) -> (f64, f64) {
    let cell = result.cell(cell).unwrap();
    let of = |name: &str| -> Vec<f64> {
        let row = cell.metric(name).unwrap();
        row.by_seed.iter().flatten().copied().collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (low, high) = (of(&format!("{metric}_low")), of(&format!("{metric}_high")));
    let (values, truths) = (of(metric), of(&format!("{metric}_truth")));
    let all = [low.len(), high.len(), values.len(), truths.len()];
    assert!(all.iter().all(|n| *n == all[0] && *n >= 45), "{all:?}");
    let truth = mean(&truths);
    let held = low.iter().zip(&high);
    let held = held.filter(|(low, high)| **low <= truth && truth <= **high);
    let percent = 100.0 * held.count() as f64 / low.len() as f64;
    (percent, mean(&values) / truth - 1.0)
}

#[test]
fn the_round_trip_loss_bit_errs_no_more_than_its_interval_says() {
    let result = run("efm/coverage", "random/t", SEEDS);
    let (held, bias) = covered(&result, "random/t", "t");
    assert!(held >= 84.0, "{held} %");
    // It read 75 % too much where trains were paired in the wrong order.
    assert!(bias.abs() < 0.25, "{bias}");
}

#[test]
fn the_reflected_square_wave_errs_no_more_than_its_interval_says() {
    let result = run("efm/coverage", "random/q-r", SEEDS);
    for metric in ["q", "r", "qr_end"] {
        let (held, bias) = covered(&result, "random/q-r", metric);
        assert!(held >= 84.0, "{metric}: {held} %");
        assert!(bias.abs() < 0.05, "{metric}: {bias}");
    }
}

#[test]
fn an_r_block_speaks_of_the_q_blocks_that_its_sender_had() {
    let result = run("efm/loss", "burst-0.1/q-r", 1);
    let cell = result.cell("burst-0.1/q-r").unwrap();
    let of = |name: &str| cell.metric(name).unwrap().by_seed[0].unwrap();
    let (measured, truth) = (of("r"), of("r_truth"));
    // It read 6.7 % too little by the Q blocks that passed the observer meanwhile.
    assert!(
        (measured / truth - 1.0).abs() < 0.03,
        "{measured} of {truth}"
    );
}
