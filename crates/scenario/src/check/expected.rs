//! Findings of the verdict that an experiment is about.

use crate::fields::Fields;
use crate::refusal::{Refusal, one_of};

/// What the path may do to flows that an experiment can be about. What a machine does
/// to a run, and a run that did not come to its end, is never expected.
pub const EXPECTABLE: [&str; 8] = [
    "broke-off",
    "codepoint-changed",
    "ecn-negotiation",
    "idle-bottleneck",
    "nothing-delivered",
    "sender-limited",
    "unanswered",
    "wrong-limit",
];

/// Reads the names of findings that do not speak against the run.
pub(super) fn read(top: &Fields<'_>) -> Result<Vec<String>, Refusal> {
    let known = || EXPECTABLE.iter().copied();
    let mut expected = Vec::new();
    for node in top.list("expected") {
        let name = node.as_text().unwrap_or_default();
        if !EXPECTABLE.contains(&name) {
            let refusal = Refusal::at(&node.spot, "expected", node.describe(), one_of(known()));
            return Err(refusal.did_you_mean(name, known()));
        }
        if !expected.iter().any(|e| e == name) {
            expected.push(name.to_owned());
        }
    }
    Ok(expected)
}
