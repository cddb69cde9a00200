//! Whether a run can be trusted, and why not.

mod apps;
mod bottleneck;
mod buckets;
mod checks;
mod deadline;
mod grouped;
mod interval;
mod mixes;
mod rig;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use checks::{judge, judge_live};
pub use interval::note_interval;
pub use rig::is_the_rigs;

/// The check of a run that is not finished.
const NOT_FINISHED: &str = "not-finished";

/// What was found about the rig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// One per thing that was found, the grave ones first.
    pub findings: Vec<Finding>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How grave it is.
    pub weight: Weight,
    /// Which check found it, `idle-bottleneck`.
    pub check: String,
    /// The entity that it is about, `link/access/up/bottleneck`.
    pub entity: String,
    /// A sentence.
    pub line: String,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The numbers cannot be trusted for what they claim.
    Distrust,
    /// Worth knowing; the numbers hold.
    Note,
}

impl Verdict {
    /// Of a run that did not get to its end.
    pub fn interrupted() -> Self {
        Self::against("interrupted", "it was interrupted")
    }

    /// Of a run that is not finished: what its folder says from its beginning until all of
    /// its data are in it.
    pub fn unfinished() -> Self {
        Self::against(NOT_FINISHED, "it is not finished")
    }

    fn against(check: &str, line: &str) -> Self {
        Self {
            findings: vec![Finding {
                weight: Weight::Distrust,
                check: check.to_owned(),
                entity: "run".to_owned(),
                line: line.to_owned(),
            }],
        }
    }

    /// Whether it is the one of a run that is not finished.
    pub fn is_unfinished(&self) -> bool {
        self.findings.iter().any(|f| f.check == NOT_FINISHED)
    }

    /// Whether there is no finding against the run.
    pub fn trusted(&self) -> bool {
        self.reasons().next().is_none()
    }

    /// The findings against it.
    pub fn reasons(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|f| f.weight == Weight::Distrust)
    }

    /// `trust: yes`, or `trust: no, because …`; of a check that found much, a line in
    /// [groups](Self::grouped).
    pub fn line(&self) -> String {
        let reasons = self.grouped(Weight::Distrust);
        let reasons: Vec<String> = reasons.into_iter().map(|group| group.line).collect();
        if reasons.is_empty() {
            "trust: yes".to_owned()
        } else {
            format!("trust: no, because {}", reasons.join("; "))
        }
    }
}
