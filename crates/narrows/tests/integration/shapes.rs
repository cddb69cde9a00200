//! The published tables on the real simulator, a fast part of them: true
//! length, seed 1, the campaigns' own tolerances. And what that is worth: a
//! model that knows nothing and plausible wrong rules fail the same cells.
//!
//! Source of all published figures: heistp/l4s-tests (README.md, S1 and S6).
//! What each wrong rule does to the tables is in `docs/campaigns.md`.

use crate::support::{ModelEngine, equal_shares, unwatched};
use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_results::campaign::CampaignResult;
use narrows_results::{Engine, RunOptions, RunResult, run_scenario};
use narrows_scenario::{Campaign, catalog};
use narrows_sim::SimEngine;

/// Two flows for 180 s; share of the first.
const S1: &str = "l4s-tests/s1";
/// Prague in the queues of RFC 3168 for 60 s; ratio of the rates.
const S6: &str = "l4s-tests/s6";

/// Cells in which equal shares are outside of the band.
const DUALPI2: &[&str] = &[
    "50Mbit/10-10/dualpi2/{cubic-prague,prague-cubic}",
    "50Mbit/20-20/dualpi2/prague-cubic",
    "50Mbit/160-10/dualpi2/prague-prague",
];
/// Its seeds differ by six points, more than its band is wide on either side.
const DUALPI2_MEDIAN: &[&str] = &["50Mbit/20-20/dualpi2/cubic-prague"];
const PFIFO: &[&str] = &["50Mbit/{10-10,80-80}/pfifo/{cubic-prague,prague-cubic}"];
const FQ_CODEL: &[&str] = &[
    "50Mbit/80-80/fq_codel/{cubic-prague,prague-cubic}",
    "50Mbit/160-10/fq_codel/{cubic-cubic,cubic-prague}",
];
const CNQ_CODEL_AF: &[&str] = &[
    "50Mbit/80-80/cnq_codel_af/{cubic-prague,prague-cubic}",
    "50Mbit/160-10/cnq_codel_af/{cubic-cubic,cubic-prague}",
];
/// CUBIC lives on about four packets here, in its Reno-friendly region.
const RFC_3168: &[&str] = &["fq_codel(1q,1ms/20ms)/prague-cubic-*"];

/// A campaign of the catalogue with some of its words replaced.
pub(crate) fn campaign(name: &str, only: &[&str], edits: &[(&str, &str)]) -> Campaign {
    let entry = catalog::entry(name).unwrap();
    let mut text = entry.text.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{name} does not say {from}");
        text = text.replace(from, to);
    }
    let mut campaign = Campaign::read(&entry.file(), text.as_bytes(), &entry.shelf(), &[])
        .unwrap_or_else(|e| panic!("{e}"));
    let only: Vec<String> = only.iter().map(|&o| o.to_owned()).collect();
    campaign.only(&only).unwrap_or_else(|e| panic!("{e}"));
    campaign
}

pub(crate) fn judged(engine: &dyn Engine, campaign: &Campaign) -> CampaignResult {
    judged_over(engine, campaign, 1)
}

/// By the medians of seeds 1 to `seeds`.
fn judged_over(engine: &dyn Engine, campaign: &Campaign, seeds: u64) -> CampaignResult {
    let options = CampaignOptions {
        seeds: (1..=seeds).collect(),
        ..CampaignOptions::default()
    };
    let result = unwatched(|watch| run_campaign(engine, campaign, &options, watch))
        .unwrap()
        .result;
    assert!(result.complete && result.cells.iter().all(|c| c.error.is_none()));
    result
}

/// All checks of the result in words, and the figures behind them.
pub(crate) fn account(result: &CampaignResult) -> String {
    let mut text = String::new();
    for check in &result.checks {
        text += &format!("{}\n", check.line);
    }
    for cell in &result.cells {
        for row in cell.metrics.iter().filter(|m| m.within.is_some()) {
            text += &format!(
                "  {} {}: published {:.1?}, measured {:.1?}\n",
                cell.name, row.metric, row.published, row.measured
            );
        }
    }
    text
}

fn keeps(name: &str, only: &[&str]) {
    keeps_over(name, only, 1);
}

fn keeps_over(name: &str, only: &[&str], seeds: u64) {
    let campaign = campaign(name, only, &[]);
    let result = judged_over(&SimEngine, &campaign, seeds);
    assert!(
        !result.checks.is_empty() && result.passed(),
        "{}",
        account(&result)
    );
    let null = judged(&ModelEngine::new(equal_shares), &campaign);
    for check in &null.checks {
        assert_eq!(check.inside, 0, "equal shares pass: {}", account(&null));
    }
}

#[test]
fn dualpi2_has_the_published_shares() {
    keeps(S1, DUALPI2);
    keeps_over(S1, DUALPI2_MEDIAN, 3);
}

#[test]
fn pfifo_has_the_published_shares() {
    keeps(S1, PFIFO);
}

#[test]
fn fq_codel_has_the_published_shares() {
    keeps(S1, FQ_CODEL);
}

#[test]
fn cnq_codel_af_has_the_published_shares() {
    keeps(S1, CNQ_CODEL_AF);
}

#[test]
fn a_shared_rfc_3168_queue_has_the_published_ratio() {
    keeps(S6, RFC_3168);
}

/// Wrong rules are judged between hosts that send each segment by itself, where
/// the rule and not the rig's hosts decides the figure.
const PLAIN_HOSTS: (&str, &str) = (
    "segmentation = \"tso defer 1s\"\nsmall_queues = \"unreported\"\nsend_buffer  = \"auto\"",
    "segmentation = \"one\"",
);

/// Demands that `campaign` with one wrong rule fails a tolerance that it keeps
/// with the right ones: the cells are some of those that the tests above run.
fn fails(name: &str, only: &[&str], right: &str, wrong: &str) {
    let edits = [(right, wrong), PLAIN_HOSTS];
    let result = judged(&SimEngine, &campaign(name, only, &edits));
    assert!(
        result.checks.iter().any(|c| !c.passed),
        "{wrong} keeps the tolerances:\n{}",
        account(&result)
    );
}

const MIXED_10_10: &[&str] = &["50Mbit/10-10/dualpi2/{cubic-prague,prague-cubic}"];
const MIXED_20_20: &[&str] = &["50Mbit/20-20/dualpi2/{cubic-prague,prague-cubic}"];
const PRAGUE: &str = "\"prague variant 2020\"";
const LINUX_2020: &str = "\"dualpi2 variant linux-2020\"";

#[test]
fn mutant_rounds_fails_the_table() {
    let wrong = "\"prague_rounds variant 2020\"";
    fails(S1, MIXED_10_10, PRAGUE, wrong);
    fails(S1, MIXED_20_20, PRAGUE, wrong);
}

#[test]
fn mutant_scale_fails_the_table() {
    fails(S1, MIXED_10_10, PRAGUE, "\"prague_scale variant 2020\"");
}

#[test]
fn an_uncoupled_dualpi2_fails_the_table() {
    let wrong = "\"dualpi2 variant linux-2020 coupling_factor 1\"";
    fails(S1, MIXED_10_10, LINUX_2020, wrong);
}

#[test]
fn a_pfifo_without_a_limit_fails_the_table() {
    let only = &["50Mbit/10-10/pfifo/{cubic-prague,prague-cubic}"];
    fails(S1, only, "pfifo limit {limit}", "pfifo limit 100000");
}

/// The cells of S1 whose names fit `only`, each as a run of its own.
fn runs(only: &[&str], edits: &[(&str, &str)]) -> Vec<RunResult> {
    let options = RunOptions {
        seed: Some(1),
        ..RunOptions::default()
    };
    campaign(S1, only, edits)
        .cells
        .iter()
        .map(|cell| {
            unwatched(|watch| run_scenario(&SimEngine, &cell.plan, &options, watch)).unwrap()
        })
        .collect()
}

/// Share of the first flow that the coupling predicts, in percent, from the
/// measured RTTs: p_C = p′² gives CUBIC W = 1.22/p′ (Mathis et al. 1997),
/// p_L = 2p′ gives Prague W = (1 + √3)/2p′, the CWR hold of Linux.
fn coupled_share(run: &RunResult) -> f64 {
    let rate = |i: usize| {
        let flow = &run.summary.flows[i];
        let window = if flow.cc.starts_with("prague") {
            (1.0 + 3f64.sqrt()) / 2.0
        } else {
            1.5f64.sqrt()
        };
        window / flow.rtt_ms.unwrap().mean
    };
    100.0 * rate(0) / (rate(0) + rate(1))
}

fn share(run: &RunResult) -> f64 {
    let rate = |i: usize| run.summary.flows[i].goodput_mbit.unwrap();
    100.0 * rate(0) / (rate(0) + rate(1))
}

/// A frame lasts 1.2 ms at 10 Mbit/s, so that a step at 1 ms marks every
/// packet that found another one waiting, unless the gate spares it. At
/// 50 Mbit/s the gate spares nothing that the step would mark.
#[test]
fn a_step_without_a_gate_breaks_the_coupling_at_10_mbit() {
    let only = &["10Mbit/20-20/dualpi2/{cubic-prague,prague-cubic}"];
    // What the variant is but for the gate: half the gain.
    let ungated = (LINUX_2020, "\"dualpi2 alpha 0.08 beta 1.6\"");
    for run in runs(only, &[]) {
        let (found, law) = (share(&run), coupled_share(&run));
        assert!((found - law).abs() <= 5.0, "{found:.1} %, law {law:.1} %");
    }
    for run in runs(only, &[ungated]) {
        let (found, law) = (share(&run), coupled_share(&run));
        assert!((found - law).abs() > 10.0, "{found:.1} %, law {law:.1} %");
    }
}
