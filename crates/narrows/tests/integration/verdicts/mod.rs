//! Each check of the verdict: what it finds, and what it leaves alone.

mod apps;
mod bottlenecks;
mod rig;

use crate::support::{ModelEngine, SCENARIO, equal_shares, plan, plan_of, run};
use narrows_engine::{CommandFacts, FlowFacts, Lateness, Rig};
use narrows_results::summary::{
    Distribution, DropCounts, DropperSummary, FieldFigures, FlowSignals, ProbeSummary, RunSummary,
    TelemetrySummary,
};
use narrows_results::verdict::{Verdict, judge, judge_live};
use narrows_scenario::Plan;

/// A run with which nothing is wrong.
fn sound() -> (Plan, RunSummary) {
    let result = run(&ModelEngine::new(equal_shares), &plan());
    (plan(), result.summary)
}

/// The checks that speak against a run that is `spoilt`.
fn found(spoil: impl FnOnce(&mut Plan, &mut RunSummary)) -> Vec<String> {
    let (mut plan, mut summary) = sound();
    spoil(&mut plan, &mut summary);
    let verdict = judge(&plan, &summary, false);
    verdict.reasons().map(|f| f.check.clone()).collect()
}

#[test]
fn a_sound_run_is_trusted() {
    assert!(found(|_, _| {}).is_empty());
}

#[test]
fn an_idle_bottleneck_is_found_and_a_busy_or_queueing_one_is_not() {
    let idle = |utilisation, p99| {
        found(move |_, summary| {
            let queue = &mut summary.queues[0];
            queue.utilisation = Some(utilisation);
            queue.sojourn_ms.as_mut().unwrap().p99 = p99;
        })
    };
    // A packet takes 0.24 ms at 50 Mbit/s.
    assert_eq!(idle(0.5, 0.1), ["idle-bottleneck"]);
    assert!(idle(0.97, 0.1).is_empty());
    assert!(idle(0.5, 8.0).is_empty());
    let unused = found(|_, summary| summary.queues.clear());
    assert_eq!(unused, ["idle-bottleneck"]);
}

#[test]
fn a_bottleneck_that_is_hardly_used_is_idle_however_long_its_few_packets_wait() {
    let idle = |utilisation| {
        found(move |_, summary| {
            let queue = &mut summary.queues[0];
            queue.utilisation = Some(utilisation);
            queue.sojourn_ms.as_mut().unwrap().p99 = 8.0;
        })
    };
    assert_eq!(idle(0.003), ["idle-bottleneck"]);
    assert!(idle(0.3).is_empty());
}

/// Where loss is the experiment, a bottleneck that it leaves idle is no fault; what else
/// is found still is one.
#[test]
fn what_an_experiment_is_about_is_named_and_does_not_speak_against_it() {
    let (_, mut summary) = sound();
    let mut plan = plan_of(&SCENARIO.replace(
        "duration = \"6s\"",
        "duration = \"6s\"\nexpected = [\"idle-bottleneck\"]",
    ));
    assert_eq!(plan.expected, ["idle-bottleneck"]);
    summary.queues.clear();
    let verdict = judge(&plan, &summary, false);
    assert!(verdict.trusted(), "{}", verdict.line());
    let note = &verdict.findings[0];
    assert_eq!(note.check, "idle-bottleneck");
    assert!(note.line.starts_with("as expected, "), "{}", note.line);
    summary.flows[0].bytes = 0;
    assert!(!judge(&plan, &summary, false).trusted());
    plan.expected.clear();
    assert_eq!(judge(&plan, &summary, false).reasons().count(), 2);
}

#[test]
fn of_two_bottlenecks_of_one_rate_one_must_be_busy() {
    let text = SCENARIO.replace(
        r#"up   = ["netem delay 10ms", "#,
        r#"up   = ["netem delay 10ms", "first: rate 50Mbit queue pfifo", "#,
    );
    let idle = |count| {
        found(|plan, summary| {
            *plan = plan_of(&text);
            let mut first = summary.queues[0].clone();
            first.name = "link/access/up/first".to_owned();
            summary.queues.push(first);
            let queues = summary.queues.iter_mut();
            for queue in queues.filter(|q| q.name.contains("/up/")).take(count) {
                queue.utilisation = Some(0.1);
            }
        })
    };
    assert_eq!(idle(2), ["idle-bottleneck"]);
    assert!(idle(1).is_empty());
}

/// A flow that begins within the window is judged by what it has of it.
#[test]
fn a_flow_that_begins_in_the_window_is_judged_too() {
    let text = SCENARIO.replace("measure  = \"2s..6s\"", "measure = \"0s..6s\"");
    let text = text.replace("to   =", "start = \"1s\"\nto   =");
    assert_eq!(text.matches("start = ").count(), 2);
    let idle = found(|plan, summary| {
        *plan = plan_of(&text);
        summary.queues.clear();
    });
    assert_eq!(idle, ["idle-bottleneck"]);
    let short = found(|plan, summary| {
        *plan = plan_of(&text);
        summary.flows[0].rtt_ms.as_mut().unwrap().mean = 300.0;
    });
    assert_eq!(short, ["short-window"]);
}

#[test]
fn a_flow_of_which_nothing_arrived_is_found() {
    let silent = found(|_, summary| {
        summary.flows[0].bytes = 0;
        summary.flows[0].rtt_ms = None;
    });
    assert_eq!(silent, ["nothing-delivered"]);
    // Datagrams need no handshake, and have nothing but what arrives.
    let text = SCENARIO.replace(
        "cc   = \"cubic\"\necn  = true",
        "traffic = \"cbr rate 1Mbit\"",
    );
    let datagrams = found(|plan, summary| {
        *plan = plan_of(&text);
        summary.flows[1].bytes = 0;
    });
    assert_eq!(datagrams, ["nothing-delivered"]);
    // One that had ended before has nothing to deliver in the window.
    let text = SCENARIO.replace("cc   = \"cubic\"", "cc = \"cubic\"\nstop = \"2s\"");
    let over = found(|plan, summary| {
        *plan = plan_of(&text);
        summary.flows[1].bytes = 0;
    });
    assert!(over.is_empty(), "{over:?}");
}

#[test]
fn an_endless_flow_that_ended_by_itself_is_found() {
    let ended = |at| found(move |_, s| s.flows[0].finished_s = Some(at));
    assert_eq!(ended(5.0), ["broke-off"]);
    assert!(ended(6.0).is_empty());
    let text = SCENARIO.replace("name = \"first\"", "name = \"first\"\nstop = \"5s\"");
    let stopped = found(|plan, s| {
        *plan = plan_of(&text);
        s.flows[0].finished_s = Some(5.01);
    });
    assert!(stopped.is_empty());
}

#[test]
fn a_probe_without_an_answer_is_found() {
    let text =
        format!("{SCENARIO}\n[[probe]]\nname = \"ping\"\nfrom = \"client\"\nto = \"server\"\n");
    let answered = |rtt_ms| {
        found(|plan, summary| {
            *plan = plan_of(&text);
            summary.probes.push(ProbeSummary {
                name: "probe/ping".to_owned(),
                rtt_ms,
                lost: 60,
                ..ProbeSummary::default()
            });
        })
    };
    assert_eq!(answered(None), ["unanswered"]);
    assert!(answered(Some(Distribution::default())).is_empty());
    assert_eq!(found(|plan, _| *plan = plan_of(&text)), ["unanswered"]);
}

#[test]
fn flows_that_share_a_bucket_are_named() {
    let of = |queue: &str, seed| {
        let plan = plan_of(&SCENARIO.replace("queue fq_codel", &format!("queue {queue}")));
        let (_, mut summary) = sound();
        summary.seed = seed;
        let verdict = judge(&plan, &summary, false);
        assert!(verdict.trusted(), "it is no fault of the rig");
        let findings = verdict.findings.into_iter();
        findings
            .filter(|f| f.check == "shared-bucket" && f.entity == "link/access/up/bottleneck")
            .map(|f| f.line)
            .collect::<Vec<_>>()
    };
    // Of two buckets, two flows take the same one with every other seed.
    let shared = (1..=100).filter(|seed| !of("fq_codel flows 2", *seed).is_empty());
    assert!((30..=70).contains(&shared.count()));
    let seed = (1..=100)
        .find(|seed| !of("fq_codel flows 2", *seed).is_empty())
        .unwrap();
    assert_eq!(
        of("fq_codel flows 2", seed),
        [
            "flow/first and flow/second share a bucket of link/access/up/bottleneck, which takes \
          them for one flow; another seed sorts them otherwise"
        ]
    );
    // A probe waits in the queue of the flow that it is with.
    let probe = "[[probe]]\nname = \"ping\"\nfrom = \"client\"\nto = \"server\"\n";
    let text = SCENARIO.replace("queue fq_codel", "queue fq_codel flows 2");
    let plan = plan_of(&format!("{text}{probe}"));
    let (_, summary) = sound();
    let findings = judge(&plan, &summary, false).findings;
    assert!(
        findings
            .iter()
            .any(|f| f.line.contains("probe/ping share a bucket")),
        "{findings:?}"
    );
    // Of 65536 hardly ever; and where all flows are to be one, or none are kept apart, it is
    // no news.
    for queue in ["cnq_codel_af", "fq_codel flows 1", "pfifo", "dualpi2"] {
        assert!((1..=20).all(|seed| of(queue, seed).is_empty()), "{queue}");
    }
}

#[test]
fn loss_that_was_asked_for_is_no_reason_for_distrust() {
    let loss = found(|_, summary| {
        summary.droppers.push(DropperSummary {
            name: "link/access/up/netem".to_owned(),
            drops: DropCounts {
                loss: 9,
                policy: 2,
                ..DropCounts::default()
            },
        });
    });
    assert!(loss.is_empty());
}

#[test]
fn ecn_that_was_not_negotiated_as_asked_is_found() {
    assert_eq!(found(|_, s| s.flows[0].accecn = false), ["ecn-negotiation"]);
    assert_eq!(found(|_, s| s.flows[1].ecn = false), ["ecn-negotiation"]);
    assert_eq!(found(|_, s| s.flows[1].accecn = true), ["ecn-negotiation"]);
}

#[test]
fn marks_of_a_flow_that_sends_nothing_that_may_be_marked_are_found() {
    let marked = |sent: [u64; 4]| {
        found(|_, s| {
            s.flows[0].codepoints.sent = sent;
            s.flows[0].codepoints.received = [90, sent[1], 0, 5];
        })
    };
    assert_eq!(marked([100, 0, 0, 0]), ["codepoint-changed"]);
    assert!(marked([100, 10, 0, 0]).is_empty());
}

#[test]
fn a_changed_codepoint_is_found_where_nothing_should_change_it() {
    let bleached = |summary: &mut RunSummary| {
        summary.flows[0].codepoints.sent = [2, 100, 0, 0];
        summary.flows[0].codepoints.received = [12, 80, 0, 10];
    };
    assert_eq!(found(|_, s| bleached(s)), ["codepoint-changed"]);
    let remarked = SCENARIO.replace(
        r#"up   = ["netem delay 10ms", "#,
        r#"up   = ["netem delay 10ms", "remark if dscp 8 ecn not-ect", "#,
    );
    let asked_for = found(|plan, s| {
        *plan = plan_of(&remarked);
        bleached(s);
    });
    assert!(asked_for.is_empty());
    // What changes the DSCP, or sends packets twice, is to leave it alone.
    for other in ["remark dscp 8", "netem duplicate 1%"] {
        let text = SCENARIO.replace(
            r#"up   = ["netem delay 10ms", "#,
            &format!(r#"up   = ["netem delay 10ms", "{other}", "#),
        );
        let changed = found(|plan, s| {
            *plan = plan_of(&text);
            s.flows[0].codepoints.sent = [0, 100, 0, 0];
            s.flows[0].codepoints.received = [12, 80, 0, 10];
        });
        assert_eq!(changed, ["codepoint-changed"], "{other}");
    }
    let doubled = SCENARIO.replace("netem delay 10ms", "netem delay 10ms duplicate 5%");
    let twice = found(|plan, s| {
        *plan = plan_of(&doubled);
        s.flows[0].codepoints.sent = [2, 100, 0, 0];
        s.flows[0].codepoints.received = [2, 105, 0, 0];
    });
    assert!(twice.is_empty());
    // CE marks are no change of that kind, nor is loss.
    let marked = found(|_, s| {
        s.flows[0].codepoints.sent = [2, 100, 0, 0];
        s.flows[0].codepoints.received = [2, 60, 0, 30];
    });
    assert!(marked.is_empty());
}

#[test]
fn a_sender_that_something_else_held_back_is_found() {
    let limited = |spoil: fn(&mut RunSummary)| found(|_, s| spoil(s));
    for spoil in [
        (|s| s.flows[0].limited_in_window.receive_window_s = 0.5) as fn(&mut RunSummary),
        |s| s.flows[0].limited_in_window.send_buffer_s = 0.5,
        |s| s.flows[0].limited_in_window.application_s = 0.5,
    ] {
        assert_eq!(limited(spoil), ["sender-limited"]);
    }
    assert!(limited(|s| s.flows[0].limited_in_window.receive_window_s = 0.01).is_empty());
}

#[test]
fn a_flow_that_never_started_or_never_ended_is_found() {
    assert_eq!(
        found(|_, s| s.flows[0].established_s = None),
        ["never-started"]
    );
    let text = SCENARIO.replacen(
        "cc   = \"prague variant 2020\"",
        "cc = \"prague\"\ntraffic = \"bytes 9Mb\"",
        1,
    );
    let plan_with_bytes = plan_of(&text);
    let unfinished = found(|plan, _| *plan = plan_with_bytes.clone());
    assert_eq!(unfinished, ["unfinished"]);
    let finished = found(|plan, s| {
        *plan = plan_with_bytes.clone();
        s.flows[0].complete = true;
    });
    assert!(finished.is_empty());
}

#[test]
fn a_deadline_that_was_missed_or_is_out_of_reach_is_named_and_one_that_was_kept_is_not() {
    let text = SCENARIO.replacen(
        "cc   = \"prague variant 2020\"",
        "cc = \"dalbe deadline 10s size 9000000b\"\ntraffic = \"bytes 9000000b\"",
        1,
    );
    let plan = plan_of(&text);
    let named = |fct_s: f64, announced: Option<f64>| -> Vec<String> {
        let mut summary = sound().1;
        let flow = &mut summary.flows[0];
        flow.complete = true;
        flow.fct_s = Some(fct_s);
        flow.telemetry = announced
            .map(|at| TelemetrySummary {
                name: "out_of_reach_s".to_owned(),
                figures: FieldFigures::Gauge {
                    min: at,
                    mean: at,
                    max: at,
                },
                ..TelemetrySummary::default()
            })
            .into_iter()
            .collect();
        let verdict = judge(&plan, &summary, false);
        let of = |f: &&narrows_results::verdict::Finding| f.check.starts_with("deadline");
        assert_eq!(verdict.reasons().filter(of).count(), 0, "notes");
        verdict
            .findings
            .iter()
            .filter(of)
            .map(|f| f.line.clone())
            .collect()
    };
    assert!(named(10.1, None).is_empty());
    let lines = named(10.5, Some(4.0));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("after 4 s that its deadline of 10 s is out of reach"));
    assert!(lines[1].contains("0.5 s after its deadline of 10 s, 5.0 % late"));
}

#[test]
fn too_short_a_steady_window_is_found() {
    // Four seconds are 160 round trips of 25 ms, and 13 of 300 ms.
    let short = found(|_, s| s.flows[0].rtt_ms.as_mut().unwrap().mean = 300.0);
    assert_eq!(short, ["short-window"]);
    // Where no round trip was measured, that of the empty path counts.
    let text = SCENARIO.replace("netem delay 10ms", "netem delay 150ms");
    let unmeasured = found(|plan, s| {
        *plan = plan_of(&text);
        s.flows[0].rtt_ms = None;
    });
    assert_eq!(unmeasured, ["short-window"]);
}

#[test]
fn the_line_of_the_verdict_gives_every_reason() {
    let (plan, mut summary) = sound();
    summary.flows[0].accecn = false;
    summary.flows[1].limited_in_window.receive_window_s = 3.0;
    let line = judge(&plan, &summary, false).line();
    assert_eq!(
        line,
        "trust: no, because flow/first asked for AccECN and negotiated classic ECN; \
         flow/second was held back by the receive window, not by the network, for 75 % of its time in the steady window"
    );
    assert_eq!(Verdict::default().line(), "trust: yes");
}

#[test]
fn the_simulator_says_for_which_kernels_algorithms_it_ran_its_own() {
    let text = SCENARIO.replace("cc   = \"cubic\"", "cc   = \"kernel:cubic\"");
    let (_, mut summary) = sound();
    summary.engine = "sim".to_owned();
    let verdict = judge(&plan_of(&text), &summary, false);
    assert!(verdict.trusted());
    let notes: Vec<_> = verdict
        .findings
        .iter()
        .map(|f| (&*f.check, &*f.entity))
        .collect();
    assert_eq!(notes, [("stand-in", "flow/second")]);
    summary.engine = "live".to_owned();
    assert!(judge(&plan_of(&text), &summary, false).findings.is_empty());
}
