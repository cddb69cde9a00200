//! Checks of the DA-LBE campaigns fail for a transfer that knows no deadline and does not yield:
//! plain CUBIC in its place.
//!
//! Rates are a tenth of the catalogue's where those are 100 Mbit/s, and cells are few, so that
//! each campaign is judged twice in seconds.

use crate::support::unwatched;
use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_scenario::{Campaign, catalog};
use narrows_sim::SimEngine;

/// A campaign that judges transfers with a deadline.
struct Judged {
    name: &'static str,
    /// Its words at a tenth of its rates.
    scaled: &'static [(&'static str, &'static str)],
    set: &'static [&'static str],
    cells: &'static [&'static str],
    seeds: u64,
    /// Checks that the law passes in these cells, and plain CUBIC does not.
    checks: &'static [&'static str],
    /// Checks that plain CUBIC may pass, and why.
    passes: &'static [(&'static str, &'static str)],
}

/// `text` with plain CUBIC wherever it has DA-LBE with a deadline.
fn by_cubic(text: &str) -> String {
    let mut parts = text.split("\"dalbe ");
    let mut all = parts.next().unwrap().to_owned();
    for part in parts {
        let (_, rest) = part.split_once('"').unwrap();
        all += "\"cubic\"";
        all += rest;
    }
    assert_ne!(all, text, "it has none");
    all
}

impl Judged {
    /// The lines of its checks.
    fn lines(&self, cubic: bool) -> Vec<String> {
        let entry = catalog::entry(self.name).unwrap();
        let mut text = entry.text.to_owned();
        for (words, scaled) in self.scaled {
            assert!(text.contains(words), "{}: {words}", self.name);
            text = text.replace(words, scaled);
        }
        if cubic {
            text = by_cubic(&text);
        }
        let set: Vec<String> = self.set.iter().map(|&words| words.to_owned()).collect();
        let mut campaign = Campaign::read(&entry.file(), text.as_bytes(), &entry.shelf(), &set)
            .unwrap_or_else(|e| panic!("{e}"));
        let cells: Vec<String> = self.cells.iter().map(|&cell| cell.to_owned()).collect();
        campaign.only(&cells).unwrap_or_else(|e| panic!("{e}"));
        let options = CampaignOptions {
            seeds: (1..=self.seeds).collect(),
            ..CampaignOptions::default()
        };
        let ended = unwatched(|watch| run_campaign(&SimEngine, &campaign, &options, watch));
        let checks = ended.unwrap().result.checks;
        checks.into_iter().map(|check| check.line).collect()
    }

    fn judge(&self) {
        let by_law = self.lines(false);
        let by_cubic = self.lines(true);
        for check in self.checks {
            let line = by_law
                .iter()
                .find(|line| line.contains(&format!("{check}:")));
            let line = line.unwrap_or_else(|| panic!("no {check} in {by_law:#?}"));
            assert!(line.starts_with("pass"), "the law: {line}");
        }
        let judged = |line: &&String| {
            let may = |(check, _): &(&str, &str)| line.contains(&format!("{check}:"));
            !self.passes.iter().any(may)
        };
        for line in by_cubic.iter().filter(judged) {
            assert!(!line.starts_with("pass"), "plain CUBIC: {line}");
        }
        assert!(by_cubic.len() >= self.checks.len(), "{by_cubic:#?}");
    }
}

/// 10 Mbit/s in the place of 100 where `dalbe/beside-cubic` is the base.
const A_TENTH: [&str; 3] = [
    "link/path/up/bottleneck=rate 10Mbit queue pfifo limit 25",
    "flow/transfer/traffic=bytes 162500000b",
    "flow/noise/traffic=poisson rate 1Mbit",
];
const SIZE: (&str, &str) = ("1625000000b", "162500000b");

#[test]
fn plain_cubic_fails_each_check_of_transfers_through_queues() {
    Judged {
        name: "dalbe/queues",
        scaled: &[],
        set: &[],
        cells: &[
            "one/{fifo-1,pie,fq_codel}/10ms/mbc",
            "reverse/fifo-1/30ms/mbc",
            "{limited,four}/dualpi2/30ms/mbc",
            "ten/pie/30ms/mbc",
            "infeasible/fq_codel/30ms/mbc",
        ],
        seeds: 1,
        checks: &[
            "on-time",
            "on-time-aqm",
            "on-time-fq_codel",
            "on-time-reverse",
            "on-time-limited",
            "on-time-four",
            "on-time-ten",
            "announced",
            "no-alarm",
            "yields",
            "AC10",
        ],
        passes: &[],
    }
    .judge();
}

#[test]
fn plain_cubic_fails_each_check_of_completion() {
    Judged {
        name: "dalbe/completion",
        scaled: &[SIZE],
        set: &A_TENTH,
        cells: &["improved/*"],
        seeds: 1,
        checks: &["AC1", "AC3", "on-time", "AC10"],
        passes: &[],
    }
    .judge();
}

#[test]
fn plain_cubic_fails_each_check_of_fairness() {
    Judged {
        name: "dalbe/fairness",
        scaled: &[
            SIZE,
            ("85.8 - 21.67", "8.58 - 2.167"),
            ("\"51.5 <=", "\"5.15 <="),
        ],
        set: &A_TENTH,
        cells: &["improved/*"],
        // A deviation is one of two runs or more.
        seeds: 2,
        checks: &["AC4", "AC6", "AC10"],
        passes: &[],
    }
    .judge();
}

#[test]
fn plain_cubic_fails_each_check_of_efficiency() {
    Judged {
        name: "dalbe/efficiency",
        scaled: &[
            SIZE,
            (
                "rate 100Mbit queue pfifo limit 250",
                "rate 10Mbit queue pfifo limit 25",
            ),
            ("poisson rate 10Mbit", "poisson rate 1Mbit"),
            ("first_mbit[improved/*] < 10", "first_mbit[improved/*] < 1"),
        ],
        set: &[],
        cells: &["improved/mbc"],
        seeds: 1,
        // A window of four packets, which is what a tenth of the rate is, moves by quarters: AC8
        // and AC9 are the law's at the catalogue's rates alone.
        checks: &["AC7", "AC10"],
        passes: &[],
    }
    .judge();
}

#[test]
fn plain_cubic_fails_each_check_of_baselines() {
    Judged {
        name: "dalbe/baselines",
        scaled: &[SIZE, ("vegas alpha 16", "vegas alpha 2")],
        set: &A_TENTH,
        cells: &["{pid,mbc,vegas,cubic}"],
        seeds: 1,
        checks: &["deadline", "burden", "scavenger"],
        passes: &[],
    }
    .judge();
}

#[test]
fn plain_cubic_fails_the_check_of_precision() {
    Judged {
        name: "dalbe/precision",
        scaled: &[],
        set: &[],
        cells: &["cubic/mbc/*"],
        seeds: 1,
        checks: &["AC10"],
        passes: &[],
    }
    .judge();
}

#[test]
fn plain_cubic_is_best_effort_but_has_no_weight_that_comes_to_one() {
    Judged {
        name: "dalbe/best-effort",
        scaled: &[
            ("duration = \"300s\"", "duration = \"90s\""),
            ("60s..300s", "30s..90s"),
            ("20s..300s", "20s..90s"),
        ],
        set: &[],
        cells: &["cubic/alone"],
        seeds: 1,
        checks: &["AC14", "AC10"],
        passes: &[(
            "AC14",
            "past the deadline a transfer is to be best effort, which fills a link alone",
        )],
    }
    .judge();
}

#[test]
fn each_campaign_that_judges_transfers_is_judged_here() {
    let judged = include_str!("yielding.rs");
    let all: Vec<_> = catalog::entries()
        .filter(|entry| entry.name.starts_with("dalbe/") && entry.text.contains("[[check]]"))
        .collect();
    assert!(all.len() >= 7);
    for entry in all {
        let name = format!("name: \"{}\"", entry.name);
        assert!(judged.contains(&name), "{} has no null model", entry.name);
    }
}
