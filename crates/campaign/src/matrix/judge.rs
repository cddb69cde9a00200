//! Seeds to medians, cells to checks.

use narrows_results::campaign::{
    CellResult, CheckResult, ConditionResult, KeyFindingResult, MetricResult, median,
};
use narrows_scenario::{
    Between, Campaign, Cell, Held, Judgement, Measured, Sentence, Shape, Tolerance,
};

/// The row of metric number `metric` of `cell`, from each seed's figure.
pub(super) fn metric_row(
    campaign: &Campaign,
    cell: &Cell,
    metric: usize,
    by_seed: Vec<Option<f64>>,
) -> MetricResult {
    let published = cell.published.get(metric).copied().flatten();
    let mut known: Vec<f64> = by_seed.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    let measured = median(&known);
    // The first tolerance that judges the cell is the cell's own band; later
    // ones on the same cells are further conditions on the group.
    let tolerance =
        of_published(campaign).find(|t| t.metric == metric && t.cells.matches(&cell.name));
    MetricResult {
        metric: campaign.metrics[metric].name.clone(),
        published,
        measured,
        spread: match (known.first(), known.last()) {
            (Some(least), Some(most)) => most - least,
            _ => 0.0,
        },
        by_seed,
        difference: measured.zip(published).map(|(m, p)| m - p),
        band: tolerance.zip(published).and_then(|(t, p)| t.around(p)),
        tolerance: tolerance
            .filter(|_| published.is_some())
            .map(Tolerance::bands_in_words),
        within: tolerance
            .zip(published)
            .map(|(t, p)| measured.is_some_and(|m| t.holds(p, m))),
    }
}

/// Judges all tolerances over the cells that were run; one that none of them
/// concerns is left out.
pub(super) fn checks(campaign: &Campaign, cells: &[CellResult]) -> Vec<CheckResult> {
    of_published(campaign)
        .map(|t| check(campaign, t, cells))
        .filter(|c| c.judged > 0)
        .chain(
            campaign
                .shapes
                .iter()
                .filter_map(|s| shape(campaign, s, cells)),
        )
        .collect()
}

/// The campaign's key findings, in whose sentences are the figures of `cells`; without those
/// whose severity is about a cell that was not run.
pub(super) fn key_findings(campaign: &Campaign, cells: &[CellResult]) -> Vec<KeyFindingResult> {
    let row = |metric: usize, cell: &str| {
        let cell = cells.iter().find(|c| c.name == cell)?;
        cell.metrics.get(metric)
    };
    let measured = |metric: usize, cell: &str| row(metric, cell).map(measured_of);
    let published = |metric: usize, cell: &str| {
        row(metric, cell).map(|m| Measured {
            median: m.published,
            by_seed: std::slice::from_ref(&m.published),
        })
    };
    let filled = |sentence: &Sentence| sentence.filled(&measured, &published);
    let all = campaign.key_findings.iter();
    all.filter_map(|finding| {
        Some(KeyFindingResult {
            title: finding.title.clone(),
            severity: filled(&finding.severity)?,
            when: finding.when.as_ref().and_then(filled),
            cure: finding.cure.as_ref().and_then(filled),
            checks: finding.checks.clone(),
        })
    })
    .collect()
}

fn measured_of(row: &MetricResult) -> Measured<'_> {
    Measured {
        median: row.measured,
        by_seed: &row.by_seed,
    }
}

/// What `shape` says of the cells that were run, by those of its conditions that name no
/// other; `None` if there are none of these.
fn shape(campaign: &Campaign, shape: &Shape, cells: &[CellResult]) -> Option<CheckResult> {
    let seen = |metric: usize, cell: &str| {
        let cell = cells.iter().find(|c| c.name == cell)?;
        let row = cell.metrics.get(metric);
        Some(row.map_or_else(Measured::default, measured_of))
    };
    let name = |(metric, cell): (usize, &str)| format!("{}[{cell}]", campaign.metrics[metric].name);
    let mut conditions = Vec::new();
    for condition in &shape.conditions {
        if let Held::Judged(holds, values) = condition.judge(&seen) {
            conditions.push(ConditionResult {
                text: condition.text.clone(),
                measured: condition.with(&values),
                holds,
                figures: condition.figures().into_iter().map(name).collect(),
            });
        }
    }
    let (judged, of) = (conditions.len(), shape.conditions.len());
    if judged == 0 {
        return None;
    }
    let part = match judged < of {
        true => format!("; {judged} of its {of} conditions, by the cells that were run"),
        false => String::new(),
    };
    let missed = conditions.iter().filter(|c| !c.holds);
    let outside: Vec<String> = missed
        .map(|c| format!("{} ({})", c.text, c.measured))
        .collect();
    let measured: Vec<&str> = conditions.iter().map(|c| c.measured.as_str()).collect();
    Some(headed(CheckResult {
        line: format!(
            "{}: {}: {}{part}",
            shape.id,
            shape.text,
            measured.join("; ")
        ),
        group: shape.id.clone(),
        metric: shape.text.clone(),
        tolerance: String::new(),
        judged,
        inside: judged - outside.len(),
        needed: if shape.gate { judged } else { 0 },
        passed: outside.is_empty() || !shape.gate,
        outside,
        conditions,
    }))
}

/// The check with the word for its outcome before its line.
fn headed(mut check: CheckResult) -> CheckResult {
    check.line = format!("{}: {}", check.outcome().word(), check.line);
    check
}

/// The tolerances that are about published figures.
fn of_published(campaign: &Campaign) -> impl Iterator<Item = &Tolerance> {
    let all = campaign.tolerances.iter();
    all.filter(|t| t.between == Between::Published)
}

fn check(campaign: &Campaign, tolerance: &Tolerance, cells: &[CellResult]) -> CheckResult {
    let rows = cells.iter().filter_map(|cell| {
        let row = cell.metrics.get(tolerance.metric)?;
        Some((cell.name.as_str(), row.published, row.measured))
    });
    judged(campaign, tolerance, rows)
}

/// What `tolerance` says of cells: (name, the figure to reach, the figure that
/// was reached).
pub(crate) fn judged<'a>(
    campaign: &Campaign,
    tolerance: &Tolerance,
    rows: impl IntoIterator<Item = (&'a str, Option<f64>, Option<f64>)>,
) -> CheckResult {
    let judgement = tolerance.judge(rows);
    check_of(campaign, tolerance, &tolerance.bands_in_words(), judgement)
}

/// What a tolerance came to, whose bands are `bands` in words.
pub(crate) fn check_of(
    campaign: &Campaign,
    tolerance: &Tolerance,
    bands: &str,
    judgement: Judgement,
) -> CheckResult {
    let metric = &campaign.metrics[tolerance.metric].name;
    let (least, of) = tolerance.at_least;
    let part = if judgement.judged < of {
        format!("; a part of the group, of which {least} of {of} are needed")
    } else {
        String::new()
    };
    headed(CheckResult {
        line: format!(
            "{}, {metric}: {} of {} within {bands}, {} needed{part}",
            tolerance.name, judgement.inside, judgement.judged, judgement.needed,
        ),
        group: tolerance.name.clone(),
        metric: metric.clone(),
        tolerance: bands.to_owned(),
        judged: judgement.judged,
        inside: judgement.inside,
        needed: judgement.needed,
        passed: judgement.holds(),
        outside: judgement.outside,
        conditions: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_scenario::catalog;

    /// Three cells; a check whose conditions are about one, about another, and about two.
    fn campaign(required: bool) -> Campaign {
        let text = format!(
            r#"
version = 1
kind = "campaign"
name = "mine"
cell = "{{speed}}"
[scenario]
duration = "4s"
[[scenario.link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 5Mbit queue fq_codel"]
down = ["netem delay 5ms"]
[[scenario.flow]]
name = "bulk"
from = "client"
to = "server"
cc = "cubic"
[axis.speed]
one = {{ rate = "1Mbit" }}
two = {{ rate = "2Mbit" }}
three = {{ rate = "3Mbit" }}
[set]
"link/access/up/bottleneck" = "rate {{rate}} queue fq_codel"
[metric]
goodput = "goodput_mbit of flow/bulk"
[[check]]
id = "C"
text = "more is more"
gate = {required}
holds = ["goodput[one] >= 0.8", "goodput[two] >= 1.8", "goodput[three] > goodput[two]"]
"#
        );
        let shelf = catalog::entry("mmb/boxes").expect("an entry").shelf();
        Campaign::read("mine.toml", text.as_bytes(), &shelf, &[]).expect("a campaign")
    }

    /// The cell of that name with its only figure, if it has one.
    fn cell(name: &str, measured: Option<f64>) -> CellResult {
        CellResult {
            name: name.to_owned(),
            metrics: vec![MetricResult {
                measured,
                by_seed: vec![measured],
                ..MetricResult::default()
            }],
            ..CellResult::default()
        }
    }

    fn judge(required: bool, cells: &[(&str, Option<f64>)]) -> Vec<CheckResult> {
        let cells: Vec<_> = cells.iter().map(|(name, m)| cell(name, *m)).collect();
        checks(&campaign(required), &cells)
    }

    #[test]
    fn a_check_is_judged_by_the_conditions_whose_cells_were_all_run() {
        let part = "of its 3 conditions, by the cells that were run";
        for (cells, judged, inside, line) in [
            // The third condition also names a cell that was not run.
            (
                &[("two", Some(1.9))][..],
                1,
                1,
                "pass: C: more is more: 1.9 >= 1.8; 1 ",
            ),
            (
                &[("two", Some(1.7))],
                1,
                0,
                "FAIL: C: more is more: 1.7 >= 1.8; 1 ",
            ),
            (
                &[("two", Some(1.9)), ("three", Some(1.5))],
                2,
                1,
                "FAIL: C: more is more: 1.9 >= 1.8; 1.5 > 1.9; 2 ",
            ),
        ] {
            let found = judge(true, cells);
            let [check] = &found[..] else {
                panic!("{found:?}")
            };
            assert_eq!(check.line, format!("{line}{part}"));
            assert_eq!((check.judged, check.inside), (judged, inside));
            assert_eq!((check.needed, check.passed), (judged, inside == judged));
        }
    }

    #[test]
    fn a_check_none_of_whose_conditions_can_be_judged_is_left_out() {
        assert_eq!(judge(true, &[]), []);
        assert_eq!(judge(true, &[("three", Some(2.9))]), []);
    }

    #[test]
    fn a_check_over_all_cells_says_nothing_of_a_part() {
        let all = [("one", Some(0.9)), ("two", Some(1.9)), ("three", Some(2.9))];
        let check = &judge(true, &all)[0];
        assert!(check.passed, "{}", check.line);
        assert!(!check.line.contains("by the cells"), "{}", check.line);
        assert_eq!((check.judged, check.needed), (3, 3));
    }

    #[test]
    fn a_cell_that_was_run_without_the_figure_does_not_hold() {
        let check = &judge(true, &[("one", None)])[0];
        assert!(!check.passed);
        assert_eq!(check.outside, ["goodput[one] >= 0.8 (nothing >= 0.8)"]);
    }

    #[test]
    fn a_check_that_is_not_required_is_reported_and_passes() {
        let check = &judge(false, &[("one", Some(0.1)), ("two", Some(1.9))])[0];
        assert!(
            check.line.starts_with("differs, not required: "),
            "{}",
            check.line
        );
        assert!(check.passed);
        assert_eq!((check.judged, check.inside, check.needed), (2, 1, 0));
        assert_eq!(check.outcome(), narrows_results::campaign::Outcome::Differs);
        let [first, second] = &check.conditions[..] else {
            panic!("{check:?}")
        };
        assert_eq!(
            (first.holds, first.measured.as_str()),
            (false, "0.1 >= 0.8")
        );
        assert_eq!(
            (second.holds, &second.figures[..]),
            (true, &["goodput[two]".to_owned()][..])
        );
    }
}
