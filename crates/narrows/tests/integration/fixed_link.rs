//! The fixed-link study on the real simulator, a fast part of it, and what its checks are worth:
//! a queue that knows no classes and plausible wrong rules fail them.
//!
//! Source of the published ranges: MAMI D2.2 (2018), section 3.3.2.

use narrows_sim::SimEngine;

use crate::shapes::{account, campaign, judged};

const STUDY: &str = "mami/fixed-link";

/// Demands that these cells keep the check `id`, or that they do not.
fn holds(id: &str, only: &[&str], edits: &[(&str, &str)], wanted: bool) {
    let result = judged(&SimEngine, &campaign(STUDY, only, edits));
    let mut of = result.checks.iter().filter(|check| check.group == id);
    let check = of
        .next()
        .unwrap_or_else(|| panic!("no check {id}:\n{}", account(&result)));
    assert_eq!(check.passed, wanted, "{edits:?}\n{}", account(&result));
}

/// A queue of two classes without an AQM, in place of the one that `scheme` has.
fn without_aqm(scheme: &str) -> (&str, &'static str) {
    (scheme, "\"dualq aqm red max 100000 l_max 100000 dscp 1\"")
}

const CRED: &str = "\"dualq aqm cred dscp 1\"";
const PIE: &str = "\"dualq aqm pie dscp 1\"";
const SINGLE_PIE: &str = "\"dualq aqm pie uncoupled target 5ms\"";

#[test]
fn coupled_queues_have_the_published_delay_and_utilisation() {
    holds("A21", &["{l4s-pie,l4s-pi2,l4s-cred}/1-1"], &[], true);
    holds("A21", &["l4s-cred/1-1"], &[without_aqm(CRED)], false);
    holds("A21-utilisation", &["{l4s-pie,l4s-cred}/1-1"], &[], true);
    // A controller of its own in place of the coupling.
    let alone = (PIE, "\"dualq aqm pie uncoupled wrr 1:1 dscp 1\"");
    holds("A21", &["l4s-pie/1-1"], &[alone], false);
}

#[test]
fn one_queue_has_the_published_delay_and_utilisation() {
    holds("A19", &["{red,pie}/1-1"], &[], true);
    holds(
        "A19",
        &["pie/1-1"],
        &[(SINGLE_PIE, "\"pfifo limit 10000\"")],
        false,
    );
    let fifteen = (SINGLE_PIE, "\"dualq aqm pie uncoupled\"");
    holds("A19", &["pie/1-1"], &[fifteen], false);
}

#[test]
fn two_queues_leave_the_link_full_and_serve_both_classes() {
    holds("A20", &["{lola-red,lola-pie}/5-5"], &[], true);
    // Two of the low-latency class for each of the other are not fair at equal numbers.
    let wrong = ("dualq aqm red wrr {turns}", "dualq aqm red wrr 3:1");
    holds("A20", &["lola-red/5-5"], &[wrong], false);
}
