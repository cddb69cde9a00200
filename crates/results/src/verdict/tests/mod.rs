//! Each rule of the verdict, with a value inside its limit and one outside.

mod apps;
mod bottlenecks;
mod ecn;
mod limits;
mod machine;
mod senders;

use narrows_scenario::{Draft, EcnMode, Plan};
use narrows_units::{Duration, Instant};

use super::{Finding, Verdict, Weight, judge, judge_live};
use crate::summary::{
    Distribution, DropCounts, DropperSummary, FlowSignals, FlowSummary, ProbeSummary, QueueSummary,
    RunSummary,
};

/// Prague and CUBIC over a bottleneck of 50 Mbit/s, measured for four seconds.
const SCENARIO: &str = r#"
version  = 1
name     = "two flows"
duration = "6s"
measure  = "2s..6s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue pfifo"]
down = ["netem delay 10ms"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "prague"

[[flow]]
name = "second"
from = "client"
to   = "server"
cc   = "cubic"
ecn  = true
"#;

/// What both flows share.
const MEANT: &str = "link/access/up/bottleneck";

fn plan_of(text: &str) -> Plan {
    let plan = Draft::read("verdict.toml", text.as_bytes()).and_then(|draft| draft.check());
    plan.unwrap_or_else(|refusal| panic!("{refusal}\n{text}"))
}

/// `SCENARIO` with something else in one place.
fn with(old: &str, new: &str) -> Plan {
    assert!(SCENARIO.contains(old), "{old}");
    plan_of(&SCENARIO.replacen(old, new, 1))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// What a run of `plan` comes to with which nothing is wrong: the flows share 50 Mbit/s, and
/// their packets wait in every queue.
fn sound(plan: &Plan) -> RunSummary {
    let seconds = plan.measure.length().as_secs_f64();
    let bytes = 50e6 / 8.0 * seconds / plan.flows.len().max(1) as f64;
    let flow = |flow: &narrows_scenario::FlowPlan| FlowSummary {
        name: format!("flow/{}", flow.name),
        established_s: Some(0.02),
        accecn: flow.transport.needs().accecn,
        ecn: flow.transport.ecn() == EcnMode::Classic,
        rtt_ms: Some(Distribution {
            min: 20.0,
            mean: 25.0,
            ..Distribution::default()
        }),
        goodput_mbit: Some(bytes * 8e-6 / seconds),
        bytes: bytes as u64,
        ..FlowSummary::default()
    };
    let queue = |name: &str| QueueSummary {
        name: name.to_owned(),
        rate_mbit: Some(50.0),
        utilisation: Some(0.97),
        packets: 1_000,
        wire_bytes: 1_500_000,
        sojourn_ms: Some(Distribution {
            p99: 8.0,
            ..Distribution::default()
        }),
        ..QueueSummary::default()
    };
    let rated = plan.elements().filter(|e| e.spec.facts().link.is_some());
    let probe = |probe: &narrows_scenario::ProbePlan| ProbeSummary {
        name: format!("probe/{}", probe.name),
        rtt_ms: Some(Distribution::default()),
        ..ProbeSummary::default()
    };
    RunSummary {
        engine: "model".to_owned(),
        seed: 1,
        flows: plan.flows.iter().map(flow).collect(),
        queues: rated.map(|e| queue(&e.name)).collect(),
        probes: plan.probes.iter().map(probe).collect(),
        ..RunSummary::default()
    }
}

/// The verdict on a sound run of `plan` that is `spoilt`.
fn judged(mut plan: Plan, spoil: impl FnOnce(&mut Plan, &mut RunSummary)) -> Verdict {
    let mut summary = sound(&plan);
    spoil(&mut plan, &mut summary);
    judge(&plan, &summary, false)
}

/// The checks that speak against it.
fn against(verdict: &Verdict) -> Vec<&str> {
    verdict.reasons().map(|f| f.check.as_str()).collect()
}

/// All that was found, with its weight.
fn all(verdict: &Verdict) -> Vec<(Weight, &str)> {
    let findings = verdict.findings.iter();
    findings.map(|f| (f.weight, f.check.as_str())).collect()
}

#[test]
fn a_sound_run_is_trusted_and_nothing_is_found() {
    assert_eq!(judged(plan_of(SCENARIO), |_, _| {}), Verdict::default());
}

#[test]
fn a_run_that_was_interrupted_or_is_not_finished_has_that_one_reason() {
    let plan = plan_of(SCENARIO);
    let verdict = judge(&plan, &sound(&plan), true);
    assert_eq!(verdict, Verdict::interrupted());
    assert_eq!(verdict.line(), "trust: no, because it was interrupted");
    assert!(!verdict.is_unfinished());
    let unfinished = Verdict::unfinished();
    assert_eq!(unfinished.line(), "trust: no, because it is not finished");
    assert!(unfinished.is_unfinished());
    assert!(!Verdict::default().is_unfinished());
}

#[test]
fn what_is_expected_is_a_note_behind_the_reasons_and_what_flows_share_is_said_once() {
    let mut plan = plan_of(SCENARIO);
    plan.expected = vec!["idle-bottleneck".to_owned()];
    let verdict = judged(plan, |_, summary| {
        summary.queues.clear();
        summary.flows[1].established_s = None;
    });
    assert_eq!(
        all(&verdict),
        [
            (Weight::Distrust, "never-started"),
            (Weight::Note, "idle-bottleneck")
        ]
    );
    let note: &Finding = &verdict.findings[1];
    assert_eq!(note.entity, MEANT);
    assert_eq!(
        note.line,
        format!(
            "as expected, {MEANT} was meant to be the bottleneck, and no queue built up there; \
             it was used to 0.0 %"
        )
    );
}

#[test]
fn only_the_simulator_runs_its_own_in_place_of_a_kernels_algorithm() {
    let plan = with("cc   = \"cubic\"", "cc   = \"kernel:cubic\"");
    let notes = |engine: &str| {
        let verdict = judged(plan.clone(), |_, s| s.engine = engine.to_owned());
        assert!(verdict.trusted(), "{verdict:?}");
        verdict.findings.into_iter().map(|f| f.check).collect()
    };
    let (simulated, live): (Vec<_>, Vec<_>) = (notes("sim"), notes("live"));
    assert_eq!(simulated, ["stand-in"]);
    assert!(live.is_empty(), "{live:?}");
}
