//! How a campaign's checks came out.

use serde::{Deserialize, Serialize};

/// One rule of the campaign about a group of cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The group, `qdisc=dualpi2`, or the id of a check of conditions.
    pub group: String,
    /// Which metric it judges; of a check of conditions, what it says.
    pub metric: String,
    /// The band in words.
    pub tolerance: String,
    /// Cells of the group that were run and have a published figure, or conditions that
    /// could be judged.
    pub judged: usize,
    /// Of these, those inside the band, or those that hold.
    pub inside: usize,
    /// How many must be; 0 where it is reported and not required.
    pub needed: usize,
    /// Whether they are.
    pub passed: bool,
    /// A sentence with all of this.
    pub line: String,
    /// Names of the cells outside, or the conditions that do not hold.
    pub outside: Vec<String>,
    /// The conditions of a check that has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionResult>,
}

/// One condition of a check, by what was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionResult {
    /// As the file spells it, `65 <= mean_ms[base] <= 76`.
    pub text: String,
    /// The same with the figures in place of their names, `65 <= 70.1 <= 76`.
    pub measured: String,
    /// Whether it holds.
    pub holds: bool,
    /// The figures that it compares, `mean_ms[base]`.
    pub figures: Vec<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It does not hold, and is not required.
    Differs,
    /// It does not hold, and is required.
    Fail,
}

impl CheckResult {
    /// How it came out.
    pub fn outcome(&self) -> Outcome {
        match self.passed {
            false => Outcome::Fail,
            true if self.needed == 0 && self.inside < self.judged => Outcome::Differs,
            true => Outcome::Pass,
        }
    }
}

impl Outcome {
    /// The word at the head of a check's line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Differs => "differs, not required",
            Self::Fail => "FAIL",
        }
    }
}

/// How `checks` came out, in words: `11 of 11 checks pass`, `8 of 11 checks pass, 1 fails,
/// 2 differ (not required)`; `None` without checks.
pub fn in_words(checks: &[CheckResult]) -> Option<String> {
    let all = checks.len();
    let of = |outcome: Outcome| checks.iter().filter(|c| c.outcome() == outcome).count();
    let counted = |n: usize, one: &str, more: &str| match n {
        0 => String::new(),
        1 => format!(", 1 {one}"),
        n => format!(", {n} {more}"),
    };
    let failed = counted(of(Outcome::Fail), "fails", "fail");
    let differ = counted(
        of(Outcome::Differs),
        "differs (not required)",
        "differ (not required)",
    );
    let passed = of(Outcome::Pass);
    (all > 0).then(|| format!("{passed} of {all} checks pass{failed}{differ}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{CampaignResult, CellResult, MetricResult};

    fn check(inside: usize, needed: usize) -> CheckResult {
        CheckResult {
            judged: 2,
            inside,
            needed,
            passed: inside >= needed,
            ..CheckResult::default()
        }
    }

    #[test]
    fn what_differs_is_not_counted_among_what_passes() {
        assert_eq!(in_words(&[]), None);
        let words = |checks: &[CheckResult]| in_words(checks).unwrap();
        assert_eq!(words(&[check(2, 2), check(2, 0)]), "2 of 2 checks pass");
        assert_eq!(
            words(&[check(2, 2), check(1, 0), check(0, 0), check(1, 2)]),
            "1 of 4 checks pass, 1 fails, 2 differ (not required)"
        );
        // A part of a group may be outside without a word.
        assert_eq!(words(&[check(1, 1)]), "1 of 1 checks pass");
    }

    #[test]
    fn a_published_figure_that_nothing_judges_is_counted() {
        let row = |metric: &str, published, within| MetricResult {
            metric: metric.to_owned(),
            published,
            within,
            ..MetricResult::default()
        };
        let mut campaign = CampaignResult {
            cells: vec![CellResult {
                name: "a".to_owned(),
                metrics: vec![
                    row("x", Some(25.3), None),
                    row("y", Some(1.0), Some(false)),
                    row("z", None, None),
                    row("w", Some(1.0), None),
                ],
                ..CellResult::default()
            }],
            checks: vec![CheckResult {
                conditions: vec![ConditionResult {
                    figures: vec!["w[a]".to_owned()],
                    ..ConditionResult::default()
                }],
                ..check(2, 2)
            }],
            ..CampaignResult::default()
        };
        assert_eq!(
            campaign.checks_in_words().unwrap(),
            "1 of 1 checks pass, 1 published figure is not judged"
        );
        campaign.checks.clear();
        assert_eq!(
            campaign.checks_in_words().unwrap(),
            "2 published figures are not judged"
        );
    }
}
