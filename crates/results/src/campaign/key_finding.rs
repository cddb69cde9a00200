//! What a campaign shows.

use serde::{Deserialize, Serialize};

use super::{CampaignResult, Outcome};

/// A key finding, with what was measured in its sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFindingResult {
    /// It, in a line.
    pub title: String,
    /// How grave it is, as measured.
    pub severity: String,
    /// Under which conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What cures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
    /// The checks by which it holds, by their groups.
    pub checks: Vec<String>,
}

impl CampaignResult {
    /// How the checks of that finding came out: as the worst of them; `None` if none of them
    /// could be judged by the cells that were run.
    pub fn outcome_of(&self, finding: &KeyFindingResult) -> Option<Outcome> {
        let named = self.checks.iter();
        let named = named.filter(|check| finding.checks.contains(&check.group));
        let grave = |outcome: &Outcome| match outcome {
            Outcome::Pass => 0,
            Outcome::Differs => 1,
            Outcome::Fail => 2,
        };
        named.map(|check| check.outcome()).max_by_key(grave)
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckResult;
    use super::*;

    #[test]
    fn a_finding_is_as_good_as_the_worst_of_its_checks() {
        let check = |group: &str, inside, needed| CheckResult {
            group: group.to_owned(),
            judged: 2,
            inside,
            needed,
            passed: inside >= needed,
            ..CheckResult::default()
        };
        let campaign = CampaignResult {
            checks: vec![check("a", 2, 2), check("b", 1, 0), check("c", 1, 2)],
            ..CampaignResult::default()
        };
        let outcome = |checks: &[&str]| {
            let checks = checks.iter().map(|c| (*c).to_owned()).collect();
            campaign.outcome_of(&KeyFindingResult {
                checks,
                ..KeyFindingResult::default()
            })
        };
        assert_eq!(outcome(&["a"]), Some(Outcome::Pass));
        assert_eq!(outcome(&["a", "b"]), Some(Outcome::Differs));
        assert_eq!(outcome(&["c", "b", "a"]), Some(Outcome::Fail));
        assert_eq!(outcome(&["d"]), None);
    }
}
