//! Seeds to medians, cells to checks.

use super::band::words;
use super::model::{CellResult, CheckResult, MetricResult};
use super::plan::{CampaignPlan, CellPlan, Rule};

/// The row of one metric of `cell`, from each seed's figure.
pub(super) fn metric_row(
    campaign: &CampaignPlan,
    cell: &CellPlan,
    metric: &str,
    by_seed: Vec<Option<f64>>,
) -> MetricResult {
    let published = CampaignPlan::published(cell, metric);
    let mut known: Vec<f64> = by_seed.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    let measured = median(&known);
    let rule = campaign
        .rules
        .iter()
        .find(|r| r.metric == metric && r.covers(&campaign.axes, &cell.at));
    MetricResult {
        metric: metric.to_owned(),
        published,
        measured,
        spread: match (known.first(), known.last()) {
            (Some(least), Some(most)) => most - least,
            _ => 0.0,
        },
        by_seed,
        difference: measured.zip(published).map(|(m, p)| m - p),
        tolerance: rule
            .filter(|_| published.is_some())
            .map(|r| words(&r.bands)),
        within: rule.and_then(|r| inside(r, published, measured)),
    }
}

/// Whether a figure is inside the rule's bands; `None` where nothing is
/// published. What was not measured is outside.
fn inside(rule: &Rule, published: Option<f64>, measured: Option<f64>) -> Option<bool> {
    let published = published?;
    Some(measured.is_some_and(|m| rule.bands.iter().all(|b| b.holds(published, m))))
}

/// The middle of sorted values; the mean of the two middle ones of an even
/// number.
fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// Judges all rules over the cells that were run.
pub(super) fn checks(campaign: &CampaignPlan, cells: &[CellResult]) -> Vec<CheckResult> {
    campaign
        .rules
        .iter()
        .map(|rule| check(campaign, rule, cells))
        .filter(|c| c.judged > 0)
        .collect()
}

fn check(campaign: &CampaignPlan, rule: &Rule, cells: &[CellResult]) -> CheckResult {
    let mut judged = 0;
    let mut outside = Vec::new();
    for cell in cells {
        if !rule.covers(&campaign.axes, &cell.at) {
            continue;
        }
        let Some(row) = cell.metric(&rule.metric) else {
            continue;
        };
        match inside(rule, row.published, row.measured) {
            None => continue,
            Some(true) => {}
            Some(false) => outside.push(cell.name.clone()),
        }
        judged += 1;
    }
    let inside = judged - outside.len();
    let needed = needed_of(rule, judged);
    let passed = inside >= needed;
    let tolerance = words(&rule.bands);
    let part = if judged < rule.of {
        format!(
            " ({judged} of the group's {} cells were run; of all, {} are needed)",
            rule.of, rule.needed
        )
    } else {
        String::new()
    };
    CheckResult {
        line: format!(
            "{}: {} {}: {inside} of {judged} within {tolerance}, {needed} needed{part}",
            if passed { "pass" } else { "FAIL" },
            rule.group,
            rule.metric,
        ),
        group: rule.group.clone(),
        metric: rule.metric.clone(),
        tolerance,
        judged,
        inside,
        needed,
        passed,
        outside,
    }
}

/// How many of `judged` cells must be inside: all but the part of the misses
/// that the rule allows, to the nearest whole cell.
fn needed_of(rule: &Rule, judged: usize) -> usize {
    if judged >= rule.of {
        return rule.needed.min(judged);
    }
    let allowed = rule.of.saturating_sub(rule.needed);
    let misses = (2 * allowed * judged + rule.of) / (2 * rule.of).max(1);
    judged - misses.min(judged)
}

#[cfg(test)]
mod tests {
    use super::super::band::Band;
    use super::*;

    fn rule(needed: usize, of: usize) -> Rule {
        Rule {
            group: "qdisc=dualpi2".to_owned(),
            only: Vec::new(),
            metric: "share1_pct".to_owned(),
            bands: vec![Band::Points(5.0)],
            of,
            needed,
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }

    #[test]
    fn a_subset_may_miss_its_part_of_the_allowed_misses() {
        assert_eq!(needed_of(&rule(21, 24), 24), 21);
        assert_eq!(needed_of(&rule(21, 24), 4), 3);
        assert_eq!(needed_of(&rule(22, 24), 4), 4);
        assert_eq!(needed_of(&rule(19, 24), 4), 3);
        assert_eq!(needed_of(&rule(16, 16), 4), 4);
        assert_eq!(needed_of(&rule(0, 24), 1), 0);
    }
}
