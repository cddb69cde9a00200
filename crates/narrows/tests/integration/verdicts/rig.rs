//! What the machine of a live run does to the verdict.

use super::*;

/// The rig of a live run with which nothing is wrong.
fn sound_rig() -> Rig {
    let flow = |name: &str, control: &str| FlowFacts {
        name: name.to_owned(),
        congestion_control: control.to_owned(),
        ecn: true,
        accecn: true,
        received_ce: Some(1_000),
        delivered_ce: Some(998),
        gso_max_segs: 8,
        notes: Vec::new(),
    };
    Rig {
        kernel: "6.18.44".to_owned(),
        lateness: Lateness {
            count: 100_000,
            p50_us: 0.4,
            p99_us: 12.0,
            p999_us: 900.0,
            max_us: 4_000.0,
        },
        stolen_pct: Some(0.4),
        flows: vec![
            flow("flow/first", "nw7k2qa_prague"),
            flow("flow/second", "nw7k2qa_cubic1"),
        ],
        ..Rig::default()
    }
}

/// The verdict on a sound live run whose rig is `spoilt`.
fn judged(spoil: impl FnOnce(&mut Plan, &mut Rig)) -> Verdict {
    let (mut plan, summary) = sound();
    let mut rig = sound_rig();
    spoil(&mut plan, &mut rig);
    judge_live(&plan, &summary, &rig, false)
}

#[test]
fn a_sound_rig_is_trusted_and_says_nothing() {
    assert_eq!(judged(|_, _| {}).findings, Vec::new());
}

#[test]
fn a_rig_that_did_not_keep_up_is_found() {
    let reasons = |spoil: fn(&mut Rig)| -> Vec<String> {
        let verdict = judged(|_, rig| spoil(rig));
        verdict.reasons().map(|f| f.check.clone()).collect()
    };
    assert_eq!(reasons(|r| r.lateness.p99_us = 130.0), ["late-release"]);
    // The base round trip of the flows is 20.5 ms.
    assert_eq!(
        reasons(|r| r.lateness.p999_us = 6_000.0),
        ["processor-taken-away"]
    );
    assert_eq!(reasons(|r| r.stolen_pct = Some(9.0)), ["stolen-time"]);
    assert_eq!(reasons(|r| r.ring_drops = 1), ["ring-drops"]);
    assert_eq!(reasons(|r| r.refused = 1), ["refused-packets"]);
    // One long hole is worth a word, and no more.
    let once = judged(|_, rig| rig.lateness.max_us = 30_000.0);
    assert!(once.trusted());
    assert_eq!(once.findings[0].check, "processor-taken-away");
    assert!(judged(|_, rig| rig.stolen_pct = None).trusted());
}

#[test]
fn in_virtual_time_a_run_measures_no_machine_and_a_dozen_microseconds_are_late() {
    let judged = |p99_us, max_us| {
        let (plan, mut summary) = sound();
        summary.engine = "kernel".to_owned();
        let mut rig = sound_rig();
        rig.lateness.p99_us = p99_us;
        rig.lateness.p999_us = max_us;
        rig.lateness.max_us = max_us;
        for (flow, name) in rig.flows.iter_mut().zip(["nw_prague", "nw_cubic"]) {
            flow.congestion_control = name.to_owned();
        }
        judge_live(&plan, &summary, &rig, false)
    };
    let checks = |verdict: &Verdict| -> Vec<String> {
        verdict.findings.iter().map(|f| f.check.clone()).collect()
    };
    let sound = judged(1.0, 2.0);
    assert!(sound.trusted());
    assert_eq!(checks(&sound), ["virtual-time"]);
    assert!(sound.findings[0].line.contains("measures no machine"));
    // No machine was away, and nothing is said of one.
    assert_eq!(checks(&judged(11.9, 6_000.0)), ["virtual-time"]);
    let late = judged(12.1, 13.0);
    assert_eq!(checks(&late), ["late-release", "virtual-time"]);
    assert!(!late.trusted());
}

#[test]
fn a_control_that_was_not_asked_for_is_found() {
    let check = |asked: &'static str, got: &'static str| {
        let verdict = judged(|plan, rig| {
            let text = SCENARIO.replace("cc   = \"cubic\"", &format!("cc   = \"{asked}\""));
            *plan = plan_of(&text);
            rig.flows[1].congestion_control = got.to_owned();
        });
        let finding = verdict.findings.first().map(|f| f.check.clone());
        (verdict.trusted(), finding.unwrap_or_default())
    };
    assert_eq!(check("kernel:bbr", "bbr"), (true, String::new()));
    assert_eq!(
        check("kernel:bbr", "cubic"),
        (false, "other-control".to_owned())
    );
    for own in ["nw7k2qa_cubic", "nw7k2qa_cubic12"] {
        assert_eq!(check("cubic", own), (true, String::new()));
    }
    // Another algorithm of ours, another program's, one that is not ours at all.
    for other in [
        "nw7k2qa_prague",
        "nw7k2qa_cubicx",
        "nw7k2_cubic",
        "my_cubic",
    ] {
        let found = (false, "other-control".to_owned());
        assert_eq!(check("cubic", other), found, "{other}");
    }
    assert_eq!(
        check("kernel:cubic", "nw7k2qa_cubic"),
        (false, "other-control".to_owned())
    );
    assert_eq!(check("cubic", "cubic"), (true, "kernels-own".to_owned()));
    assert_eq!(check("cubic", "reno"), (false, "other-control".to_owned()));
}

#[test]
fn a_control_that_nobody_could_read_is_named() {
    let verdict = judged(|_, rig| rig.flows[1].congestion_control.clear());
    assert!(verdict.trusted());
    assert_eq!(verdict.findings[0].check, "unknown-control");
}

#[test]
fn marks_that_did_not_come_back_are_found() {
    let marks = |received, delivered| {
        let verdict = judged(|_, rig| {
            rig.flows[0].received_ce = Some(received);
            rig.flows[0].delivered_ce = delivered;
        });
        verdict.trusted()
    };
    assert!(marks(1_000, Some(985)) && marks(8, Some(0)) && marks(5_000, None));
    assert!(!marks(1_000, Some(900)));
}

#[test]
fn a_program_that_could_not_run_is_found_and_one_that_failed_is_told() {
    let command = |status, ended: &str| {
        let ended = ended.to_owned();
        judged(|_, rig| {
            rig.commands.push(CommandFacts {
                name: "command/iperf".to_owned(),
                line: "iperf3 -c 10.0.0.2".to_owned(),
                status,
                ended,
            });
        })
    };
    assert!(command(Some(0), "exited with 0").findings.is_empty());
    let failed = command(Some(1), "exited with 1");
    assert!(failed.trusted() && failed.findings.len() == 1);
    assert!(!command(None, "could not be started: No such file or directory").trusted());
}
