//! Findings for people: of a check that found the same of many, one line.

use std::collections::BTreeMap;

use super::{Finding, Verdict, Weight};

/// Findings of one check that are said one by one; more are one line.
const ONE_BY_ONE: usize = 3;

/// A line of a verdict, for one finding or many of the same check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The check, `never-started`.
    pub check: String,
    /// A sentence.
    pub line: String,
}

impl Verdict {
    /// The findings of that weight in their order, those of a check that found more than
    /// three things as one line: the first of them, how many more there are, and whose the
    /// next are. All of them are in `run.json`.
    pub fn grouped(&self, weight: Weight) -> Vec<Group> {
        let of_weight = || self.findings.iter().filter(|f| f.weight == weight);
        let mut by_check: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for finding in of_weight() {
            by_check.entry(&finding.check).or_default().push(finding);
        }
        let lines = of_weight().filter_map(|finding| {
            let alike = &by_check[finding.check.as_str()];
            let line = match alike.len() {
                0..=ONE_BY_ONE => finding.line.clone(),
                _ if !std::ptr::eq(alike[0], finding) => return None,
                n => {
                    let names = alike[1..ONE_BY_ONE].iter().map(|f| f.entity.as_str());
                    format!(
                        "{} (and {} more of the same check: {}, …; all are in run.json)",
                        finding.line,
                        n - 1,
                        names.collect::<Vec<_>>().join(", ")
                    )
                }
            };
            let check = finding.check.clone();
            Some(Group { check, line })
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(found: &[(&str, usize)]) -> Verdict {
        let of = |check: &str, n: usize| Finding {
            weight: Weight::Distrust,
            check: check.to_owned(),
            entity: format!("flow/f{n}"),
            line: format!("flow/f{n}: {check}"),
        };
        let findings = found
            .iter()
            .flat_map(|(check, n)| (0..*n).map(|i| of(check, i)));
        Verdict {
            findings: findings.collect(),
        }
    }

    #[test]
    fn what_a_check_found_of_thousands_of_flows_is_one_line_with_count_and_first_names() {
        let groups =
            verdict(&[("never-started", 9_253), ("unfinished", 3)]).grouped(Weight::Distrust);
        assert_eq!(
            groups.len(),
            4,
            "one line, and three one by one: {groups:?}"
        );
        assert_eq!(
            groups[0].line,
            "flow/f0: never-started (and 9252 more of the same check: flow/f1, flow/f2, …; all \
             are in run.json)"
        );
        assert_eq!(groups[3].line, "flow/f2: unfinished");
    }

    #[test]
    fn few_findings_and_other_weights_are_left_as_they_are() {
        let few = verdict(&[("a", 1), ("b", 2)]);
        assert_eq!(
            few.line(),
            "trust: no, because flow/f0: a; flow/f0: b; flow/f1: b"
        );
        assert_eq!(few.grouped(Weight::Note), []);
    }
}
