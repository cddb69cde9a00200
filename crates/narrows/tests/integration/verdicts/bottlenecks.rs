//! Which element limited the flows, and what each flow got of it.

use super::*;

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

/// Sixty terminals each have a sixtieth of what their link carries alone: it is neither idle, nor
/// does a flow all but stop that has as much as the others.
#[test]
fn a_terminal_that_shares_its_cell_is_neither_idle_nor_starved() {
    let mut text = "version = 1\nname = \"cell\"\nduration = \"12s\"\nmeasure = \"4s..12s\"\n\
                    [[router]]\nname = \"cell\"\nis = \"cell blocks 25\"\n\
                    [[link]]\nname = \"core\"\nends = [\"server\", \"cell\"]\n\
                    up = [\"netem delay 5ms\"]\ndown = [\"netem delay 5ms\"]\n"
        .to_owned();
    for n in 0..60 {
        text += &format!(
            "[[link]]\nname = \"t{n}\"\nends = [\"cell\", \"ue{n}\"]\nup = [\"cell: cell cqi 15\"]\ndown = [\"netem delay 3ms\"]\n\
             [[flow]]\nname = \"f{n}\"\nfrom = \"server\"\nto = \"ue{n}\"\ncc = \"cubic\"\n"
        );
    }
    let result = run(&narrows_sim::SimEngine, &plan_of(&text));
    let summary = &result.summary;
    assert!(summary.flows.iter().all(|flow| flow.bytes > 0));
    let used = summary.queues.iter().filter_map(|queue| queue.utilisation);
    assert!(used.fold(0.0, f64::max) < 0.1);
    let verdict = &result.record.verdict;
    assert!(verdict.trusted(), "{verdict:?}");
}
