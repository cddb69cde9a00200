//! What the machine of a live run did to it.

use narrows_engine::{CommandFacts, FlowFacts, Lateness, Rig};

use super::*;
use crate::verdict::is_the_rigs;

/// The rig of a live run with which nothing is wrong.
fn rig() -> Rig {
    let flow = |name: &str, control: &str| FlowFacts {
        name: name.to_owned(),
        congestion_control: control.to_owned(),
        accecn: true,
        received_ce: Some(1_000),
        delivered_ce: Some(998),
        ..FlowFacts::default()
    };
    Rig {
        kernel: "6.18.44".to_owned(),
        lateness: Lateness {
            p99_us: 10.0,
            p999_us: 900.0,
            max_us: 4_000.0,
            ..Lateness::default()
        },
        stolen_pct: Some(0.5),
        flows: vec![
            flow("flow/first", "nw7k2qa_prague"),
            flow("flow/second", "nw7k2qa_cubic1"),
        ],
        ..Rig::default()
    }
}

fn on(engine: &str, spoil: impl FnOnce(&mut Plan, &mut RunSummary, &mut Rig)) -> Verdict {
    let (mut plan, mut rig) = (plan_of(SCENARIO), rig());
    let mut summary = sound(&plan);
    summary.engine = engine.to_owned();
    spoil(&mut plan, &mut summary, &mut rig);
    judge_live(&plan, &summary, &rig, false)
}

#[test]
fn a_live_run_on_a_sound_rig_has_no_finding() {
    assert_eq!(on("live", |_, _, _| {}), Verdict::default());
    let (plan, rig) = (plan_of(SCENARIO), rig());
    let cut = judge_live(&plan, &sound(&plan), &rig, true);
    assert_eq!(cut, Verdict::interrupted());
}

#[test]
fn each_limit_of_the_rig_holds_up_to_its_value() {
    use Weight::{Distrust, Note};
    type Spoil = fn(&mut Rig);
    let cases: [(Spoil, &[(Weight, &str)]); 14] = [
        (|rig| rig.lateness.p99_us = 100.0, &[]),
        (
            |rig| rig.lateness.p99_us = 100.1,
            &[(Distrust, "late-release")],
        ),
        // A quarter of the shortest round trip, of 20 ms.
        (|rig| rig.lateness.p999_us = 5_000.0, &[]),
        (
            |rig| rig.lateness.p999_us = 5_001.0,
            &[(Distrust, "processor-taken-away")],
        ),
        (|rig| rig.lateness.max_us = 20_000.0, &[]),
        (
            |rig| rig.lateness.max_us = 20_001.0,
            &[(Note, "processor-taken-away")],
        ),
        (|rig| rig.stolen_pct = Some(5.0), &[]),
        (
            |rig| rig.stolen_pct = Some(5.1),
            &[(Distrust, "stolen-time")],
        ),
        (|rig| rig.stolen_pct = None, &[]),
        (|rig| rig.ring_drops = 1, &[(Distrust, "ring-drops")]),
        (|rig| rig.refused = 1, &[(Distrust, "refused-packets")]),
        (|rig| rig.notes.push("odd".to_owned()), &[(Note, "rig")]),
        (
            |rig| rig.flows[0].congestion_control.clear(),
            &[(Note, "unknown-control")],
        ),
        (
            |rig| rig.flows[0].congestion_control = "prague".to_owned(),
            &[(Note, "kernels-own")],
        ),
    ];
    for (spoil, expected) in cases {
        let verdict = on("live", |_, _, rig| spoil(rig));
        assert_eq!(all(&verdict), expected);
        for reason in verdict.reasons() {
            assert!(is_the_rigs(&reason.check), "{}", reason.check);
        }
    }
    assert!(!is_the_rigs("idle-bottleneck"));
    // Of the flows the one with the shortest round trip counts; without one, none.
    let far = |rtt: Option<f64>| {
        on("live", |_, summary, rig| {
            rig.lateness.p999_us = 5_001.0;
            for flow in &mut summary.flows {
                flow.rtt_ms = rtt.map(|min| Distribution {
                    min,
                    ..Distribution::default()
                });
            }
        })
    };
    assert!(far(Some(20.1)).trusted());
    assert!(far(None).trusted());
    let line = far(Some(20.0)).line();
    let words = "left the path more than 5.0 ms late, beside a base round trip of 20.0 ms";
    assert!(line.ends_with(words), "{line}");
    let once = on("live", |_, _, rig| rig.lateness.max_us = 30_000.0);
    assert!(once.findings[0].line.contains("once for 30.0 ms"));
}

#[test]
fn in_virtual_time_a_dozen_microseconds_are_late_and_no_machine_is_away() {
    use Weight::{Distrust, Note};
    let late = |p99_us| {
        on("kernel", |_, _, rig| {
            rig.lateness.p99_us = p99_us;
            rig.lateness.p999_us = 9_000.0;
        })
    };
    assert_eq!(all(&late(12.0)), [(Note, "virtual-time")]);
    assert_eq!(
        all(&late(12.1)),
        [(Distrust, "late-release"), (Note, "virtual-time")]
    );
    assert!(late(1.0).findings[0].line.contains("Linux 6.18.44"));
}

#[test]
fn a_program_that_fails_is_noted_and_one_that_is_missing_speaks_against_a_run() {
    use Weight::{Distrust, Note};
    for (status, ended, expected) in [
        (Some(0), "exited with 0", &[][..]),
        (Some(1), "exited with 1", &[(Note, "command-failed")]),
        (None, "stopped with the run", &[]),
        (None, "could not start", &[(Distrust, "command-missing")]),
    ] {
        let verdict = on("live", |_, _, rig| {
            rig.commands.push(CommandFacts {
                name: "command/iperf".to_owned(),
                status,
                ended: ended.to_owned(),
                ..CommandFacts::default()
            });
        });
        assert_eq!(all(&verdict), expected, "{ended}");
        let lines = verdict.findings.iter().map(|f| f.line.clone());
        let expected = vec![format!("command/iperf {ended}"); expected.len()];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_control_that_ran_is_the_one_that_was_asked_for() {
    let check = |asked: &str, got: &str| {
        let mut rig = rig();
        rig.flows[1].congestion_control = got.to_owned();
        let plan = with("cc   = \"cubic\"", &format!("cc   = \"{asked}\""));
        let mut summary = sound(&plan);
        summary.engine = "live".to_owned();
        let verdict = judge_live(&plan, &summary, &rig, false);
        assert!(verdict.findings.len() <= 1, "{verdict:?}");
        verdict.findings.first().map(|f| f.line.clone())
    };
    let other =
        |asked: &str, got: &str| Some(format!("flow/second asked for {asked} and ran {got}"));
    assert_eq!(check("kernel:bbr", "bbr"), None);
    assert_eq!(check("kernel:bbr", "cubic"), other("kernel:bbr", "cubic"));
    assert_eq!(
        check("kernel:cubic", "nw7k2qa_cubic"),
        other("kernel:cubic", "nw7k2qa_cubic")
    );
    assert_eq!(check("cubic", "nw7k2qa_cubic12"), None);
    assert_eq!(
        check("cubic", "cubic").as_deref(),
        Some("flow/second ran the kernel's own cubic, not Narrows'")
    );
    for got in [
        "reno",
        "nw7k2qa_prague",
        "nw7k2_cubic",
        "xx7k2qa_cubic",
        "my_cubic",
        "nw7k2qa_cubicx",
    ] {
        assert_eq!(check("cubic", got), other("cubic", got));
    }
}

#[test]
fn marks_that_a_sender_does_not_learn_of_are_lost_feedback() {
    let lost = |accecn, received, delivered| {
        let verdict = on("live", |_, _, rig| {
            let flow = &mut rig.flows[0];
            flow.accecn = accecn;
            (flow.received_ce, flow.delivered_ce) = (received, delivered);
        });
        match all(&verdict)[..] {
            [] => false,
            [(Weight::Distrust, "lost-feedback")] => true,
            ref other => panic!("{other:?}"),
        }
    };
    // A fiftieth of 1000 may be under way, and ten of however few.
    assert!(!lost(true, Some(1_000), Some(980)));
    assert!(lost(true, Some(1_000), Some(979)));
    assert!(
        lost(true, Some(979), Some(1_000)),
        "nor more than there were"
    );
    assert!(!lost(true, Some(10), Some(0)));
    assert!(lost(true, Some(11), Some(0)));
    assert!(
        !lost(false, Some(1_000), Some(0)),
        "not every one is counted"
    );
    assert!(!lost(true, None, Some(0)));
    assert!(!lost(true, Some(1_000), None));
}
