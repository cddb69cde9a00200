//! Each check of the verdict: what it finds, and what it leaves alone.

mod support;

use narrows_results::summary::{
    Distribution, DropCounts, DropperSummary, FlowSignals, ProbeSummary, RunSummary,
    TelemetrySummary,
};
use narrows_results::verdict::{Verdict, judge, judge_live};
use narrows_run::{CommandFacts, FlowFacts, Lateness, Rig};
use narrows_scenario::Plan;
use support::{ModelEngine, SCENARIO, equal_shares, plan, plan_of, run};

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
    // Of 65536 hardly ever; and where all flows are to be one, or none are kept apart, it is
    // no news.
    for queue in ["cnq_codel_af", "fq_codel flows 1", "pfifo", "dualpi2"] {
        assert!((1..=20).all(|seed| of(queue, seed).is_empty()), "{queue}");
    }
}

const FIRST: &str = "link/access/up/first";
const MEANT: &str = "link/access/up/bottleneck";

/// Has elements mark and drop so many packets of flow `flow`.
fn signal<const N: usize>(summary: &mut RunSummary, flow: usize, by: [(&str, u64, u64); N]) {
    let signals = &mut summary.flows[flow].signals;
    for (element, marks, drops) in by {
        signals.retain(|s| s.element != element);
        signals.push(FlowSignals {
            element: element.to_owned(),
            marks,
            drops,
        });
    }
}

/// A path of two bottlenecks: an L4S queue that marks Prague a thousand times, and a slower
/// FIFO that drops ten of its packets. Neither is more of a bottleneck, and what others lose at
/// the first says nothing of this flow.
#[test]
fn marks_of_an_l4s_queue_are_not_held_against_drops_nor_flows_against_each_other() {
    let two = SCENARIO.replace(
        r#"up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue fq_codel"]"#,
        r#"up   = ["first: rate 60Mbit queue dualpi2", "bottleneck: rate 50Mbit queue pfifo"]"#,
    );
    let of = |flow: usize, first: (u64, u64), meant: (u64, u64)| {
        let text = two.clone();
        found(move |plan, summary| {
            *plan = plan_of(&text);
            let by = [(FIRST, first.0, first.1), (MEANT, meant.0, meant.1)];
            signal(summary, flow, by);
            // Of the queue as a whole it would be another matter.
            summary.queues[0].drops.overflow = 0;
            let mut queue = summary.queues[0].clone();
            queue.name = FIRST.to_owned();
            queue.drops.overflow = 1_000_000;
            summary.queues.push(queue);
        })
    };
    assert!(
        of(0, (1_000, 0), (0, 10)).is_empty(),
        "Prague: marks and drops"
    );
    assert!(of(0, (0, 10), (1_000, 0)).is_empty());
    assert_eq!(
        of(0, (1_000, 0), (10, 0)),
        ["wrong-bottleneck"],
        "like with like"
    );
    assert_eq!(of(0, (1_000, 10), (0, 10)), ["wrong-bottleneck"]);
    // To CUBIC a mark is what a loss is.
    assert_eq!(of(1, (20, 0), (0, 10)), ["wrong-bottleneck"]);
    assert!(of(1, (10, 0), (0, 10)).is_empty());
}

#[test]
fn a_bottleneck_that_a_change_makes_one_is_no_wrong_one() {
    let text = SCENARIO.replace(
        r#"up   = ["netem delay 10ms", "#,
        r#"up   = ["netem delay 10ms", "first: rate 60Mbit queue pfifo", "#,
    );
    let change = |at: &str| {
        format!("{text}\n[[change]]\nat = \"{at}\"\ntarget = \"{FIRST}\"\nto = \"rate 20Mbit\"\n")
    };
    let wrong = |text: &str| {
        found(|plan, summary| {
            *plan = plan_of(text);
            signal(summary, 1, [(FIRST, 0, 1_000)]);
        })
    };
    assert_eq!(wrong(&text), ["wrong-bottleneck"]);
    assert!(
        wrong(&change("4s")).is_empty(),
        "each of them is one for 2 s"
    );
    // What it makes of the time before the window is not what is judged.
    let back = format!(
        "{}\n[[change]]\nat = \"1500ms\"\ntarget = \"{FIRST}\"\nto = \"rate 60Mbit\"\n",
        change("1s")
    );
    assert_eq!(wrong(&back), ["wrong-bottleneck"]);
}

/// Three flows share the faster link, of which each has less there than at the slower one.
#[test]
fn a_faster_link_that_more_flows_share_may_be_the_bottleneck() {
    let text = SCENARIO.replace("[\"client\", \"server\"]", "[\"client\", \"mid\"]");
    let flow = |name: &str, from: &str| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"server\"\ncc = \"cubic\"\n")
    };
    let text = format!(
        "{text}\n[[link]]\nname = \"far\"\nends = [\"mid\", \"server\"]\n\
         up = [\"rate 80Mbit queue pfifo\"]\n{}{}",
        flow("third", "mid"),
        flow("fourth", "mid")
    );
    let far = "link/far/up/rate";
    let of = |text: &str| {
        let plan = plan_of(text);
        let mut summary = run(&ModelEngine::new(equal_shares), &plan).summary;
        let mut queue = summary.queues[0].clone();
        queue.name = far.to_owned();
        summary.queues.push(queue);
        signal(&mut summary, 1, [(far, 0, 1_000_000)]);
        let verdict = judge(&plan, &summary, false);
        let wrong = verdict.reasons().filter(|f| f.check == "wrong-bottleneck");
        wrong.count()
    };
    assert_eq!(of(&text), 0, "80 of four are less than 50 of two");
    assert_eq!(of(&text.replace("80Mbit", "180Mbit")), 1);
}

#[test]
fn the_wrong_bottleneck_can_be_what_an_experiment_is_about() {
    let text = SCENARIO
        .replace(
            r#"up   = ["netem delay 10ms", "#,
            r#"up   = ["netem delay 10ms", "first: rate 60Mbit queue pfifo", "#,
        )
        .replace(
            "duration = \"6s\"",
            "duration = \"6s\"\nexpected = [\"wrong-bottleneck\", \"starved\"]",
        );
    let notes = found(|plan, summary| {
        *plan = plan_of(&text);
        signal(summary, 1, [(FIRST, 0, 1_000)]);
        summary.flows[0].bytes /= 100;
    });
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn a_bulk_flow_that_all_but_stops_is_found_and_one_that_yields_by_design_is_not() {
    let with = |share: f64, text: &str| {
        found(|plan, summary| {
            *plan = plan_of(text);
            let bytes = share * 25e6 / 8.0 * 4.0;
            summary.flows[0].bytes = bytes as u64;
        })
    };
    assert_eq!(with(0.0003, SCENARIO), ["starved"]);
    assert_eq!(with(0.04, SCENARIO), ["starved"]);
    // The least of the published shares of Prague beside CUBIC is 0.066 of an equal one.
    assert!(with(0.066, SCENARIO).is_empty());
    assert!(with(1.0, SCENARIO).is_empty());
    for control in ["ledbat", "ledbatpp"] {
        let text = SCENARIO.replace("\"prague variant 2020\"", &format!("\"{control}\""));
        let found = with(0.0003, &text);
        assert!(!found.contains(&"starved".to_owned()), "{found:?}");
    }
    // What is not to send all the time does not stop.
    let text = SCENARIO.replacen("to   =", "traffic = \"cbr rate 64kbit\"\nto   =", 1);
    let text = text.replace("cc   = \"prague variant 2020\"\n", "");
    assert!(!with(0.0003, &text).contains(&"starved".to_owned()));
    // Nor is a lone flow that its path holds back one that others starve: its bottleneck is idle.
    let alone = found(|_, summary| {
        summary.flows[0].bytes /= 1_000;
        summary.queues[0].utilisation = Some(0.01);
    });
    assert_eq!(alone, ["idle-bottleneck"]);
}

#[test]
fn a_packet_that_takes_longer_than_the_marking_step_is_noted() {
    let notes = |queue: &str, rate: &str| {
        let text = SCENARIO.replace("50Mbit queue fq_codel", &format!("{rate} queue {queue}"));
        let plan = plan_of(&text);
        let summary = run(&ModelEngine::new(equal_shares), &plan).summary;
        let findings = judge(&plan, &summary, false).findings;
        let notes = findings.into_iter().filter(|f| f.check == "coarse-step");
        notes.map(|f| f.line).collect::<Vec<_>>()
    };
    let line = "one packet of 1514 bytes takes 2.4224ms at link/access/up/bottleneck, longer than \
                its marking step of 1ms: a packet that waits for another is marked, so that a \
                flow such as flow/first cannot fill the link";
    assert_eq!(notes("dualpi2", "5Mbit"), [line]);
    assert!(notes("dualpi2", "50Mbit").is_empty(), "0.24 ms");
    assert!(notes("dualpi2 step_thresh 3ms", "5Mbit").is_empty());
    assert!(
        notes("dualpi2 step_thresh 1p", "5Mbit").is_empty(),
        "no time"
    );
    assert_eq!(notes("codel ecn ce_threshold 500us", "10Mbit").len(), 1);
    assert!(notes("codel ecn", "1Mbit").is_empty());
}

#[test]
fn the_wrong_bottleneck_and_the_wrong_limit_are_found() {
    let text = SCENARIO.replace(
        r#"up   = ["netem delay 10ms", "#,
        r#"up   = ["netem delay 10ms", "first: rate 60Mbit queue pfifo", "#,
    );
    let wrong = found(|plan, summary| {
        *plan = plan_of(&text);
        signal(summary, 1, [(FIRST, 0, 1 + summary.flows[1].ce_marks)]);
    });
    assert_eq!(wrong, ["wrong-bottleneck"]);
    let limit = found(|_, summary| {
        summary.droppers.push(DropperSummary {
            name: "link/access/up/netem".to_owned(),
            drops: DropCounts {
                overflow: 3,
                loss: 9,
                ..DropCounts::default()
            },
        });
    });
    assert_eq!(limit, ["wrong-limit"]);
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
                min: at,
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
