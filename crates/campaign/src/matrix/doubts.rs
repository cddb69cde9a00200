//! The verdict on a campaign, from those on its cells.

use narrows_results::campaign::{CampaignResult, CellResult};
use narrows_results::verdict::{Finding, Verdict, Weight};

/// The campaign's own verdict: one line for all cells that cannot be trusted.
pub(super) fn campaign_verdict(result: &CampaignResult) -> Verdict {
    let mut findings = Vec::new();
    let mut add = |check: &str, line: String| {
        findings.push(Finding {
            weight: Weight::Distrust,
            check: check.to_owned(),
            entity: "run".to_owned(),
            line,
        });
    };
    if !result.complete {
        add(
            "interrupted",
            format!(
                "only {} of {} cells were run",
                result.cells.len(),
                result.planned
            ),
        );
    }
    let names = |wanted: &dyn Fn(&CellResult) -> bool| -> Vec<String> {
        result
            .cells
            .iter()
            .filter(|c| wanted(c))
            .map(|c| c.name.clone())
            .collect()
    };
    let failed = names(&|c| c.error.is_some());
    if !failed.is_empty() {
        add(
            "failed-cells",
            format!("{} failed: {}", count(&failed), some(&failed)),
        );
    }
    let doubtful = names(&|c| !c.verdict.trusted());
    if !doubtful.is_empty() {
        add(
            "doubtful-cells",
            format!(
                "{} cannot be trusted: {}",
                count(&doubtful),
                some(&doubtful)
            ),
        );
    }
    Verdict { findings }
}

/// Adds a finding against the cell for each that the campaign expects in its verdict and
/// that is not among those of every seed, `by_seed`.
pub(super) fn add_absent(verdict: &mut Verdict, expected: &[String], by_seed: &[Vec<String>]) {
    for check in expected {
        if by_seed.iter().all(|found| found.contains(check)) {
            continue;
        }
        verdict.findings.push(Finding {
            weight: Weight::Distrust,
            check: "expected-absent".to_owned(),
            entity: "run".to_owned(),
            line: format!("`{check}` was expected in the verdict and was not found"),
        });
    }
}

fn count(names: &[String]) -> String {
    match names.len() {
        1 => "one cell".to_owned(),
        n => format!("{n} cells"),
    }
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        format!("{shown}, …")
    } else {
        shown
    }
}
