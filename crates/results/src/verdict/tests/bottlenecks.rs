//! Where flows met their bottleneck, and what it gave them.

use super::*;
use crate::verdict::bottleneck::outdoes;

const FIRST: &str = "link/access/up/first";

/// The scenario with another queue on the way, before the one that is meant to be the bottleneck.
fn with_first(words: &str) -> String {
    let up = format!("up   = [\"first: {words}\", ");
    SCENARIO.replacen("up   = [", &up, 1)
}

fn signals(element: &str, marks: u64, drops: u64) -> FlowSignals {
    FlowSignals {
        element: element.to_owned(),
        marks,
        drops,
    }
}

/// The line of the finding of that check.
fn line(verdict: &Verdict, check: &str) -> Option<String> {
    let found = verdict.findings.iter().find(|f| f.check == check);
    found.map(|f| f.line.clone())
}

#[test]
fn a_bottleneck_is_idle_that_has_time_to_spare_and_no_queue() {
    let idle = |spoil: &dyn Fn(&mut QueueSummary)| {
        let verdict = judged(plan_of(SCENARIO), |_, summary| {
            spoil(&mut summary.queues[0]);
        });
        match against(&verdict)[..] {
            [] => false,
            ["idle-bottleneck"] => true,
            ref other => panic!("{other:?}"),
        }
    };
    // Two packets of 1500 bytes take 0.48 ms.
    for (utilisation, p99, expected) in [
        (0.25, 0.48, false),
        (0.249, 0.48, true),
        (0.249, 8.0, true),
        (0.25, 0.479, true),
        (0.899, 0.479, true),
        (0.899, 0.48, false),
        (0.9, 0.479, false),
        (0.9, 0.1, false),
    ] {
        let of = |queue: &mut QueueSummary| {
            queue.utilisation = Some(utilisation);
            queue.sojourn_ms.as_mut().unwrap().p99 = p99;
        };
        assert_eq!(idle(&of), expected, "{utilisation} {p99}");
    }
    assert!(idle(&|queue| queue.sojourn_ms = None));
    assert!(!idle(&|queue| queue.rate_mbit = None));
    assert!(!idle(&|queue| queue.utilisation = None));
    let verdict = judged(plan_of(SCENARIO), |_, summary| {
        summary.queues[0].utilisation = Some(0.125);
    });
    let expected = format!(
        "{MEANT} was meant to be the bottleneck, and no queue built up there; it was used to 12.5 %"
    );
    assert_eq!(line(&verdict, "idle-bottleneck"), Some(expected));
}

#[test]
fn flows_that_may_send_for_half_of_the_window_judge_their_bottleneck() {
    let judges = |traffic: &str, start: u64, stop| {
        let plan = with("cc   = \"prague\"", &format!("cc = \"prague\"{traffic}"));
        let verdict = judged(plan, |plan, summary| {
            summary.queues.clear();
            plan.flows.truncate(1);
            plan.flows[0].start = at(start);
            plan.flows[0].stop = stop;
            summary.flows.truncate(1);
            summary.flows[0].complete = true;
        });
        match against(&verdict)[..] {
            [] => false,
            ["idle-bottleneck"] => true,
            ref other => panic!("{other:?}"),
        }
    };
    assert!(judges("", 0, None));
    assert!(judges("", 4_000, None));
    assert!(!judges("", 4_001, None));
    assert!(judges("", 0, Some(at(4_000))));
    assert!(!judges("", 0, Some(at(3_999))));
    assert!(!judges("\ntraffic = \"bytes 9MB\"", 0, None));
}

#[test]
fn what_happens_in_a_kernels_discipline_is_not_seen() {
    let idle = |engine: &str, by: usize, spoil: bool| {
        let verdict = judged(
            plan_of(&with_first("rate 60Mbit queue pfifo")),
            |plan, s| {
                s.engine = engine.to_owned();
                s.queues.clear();
                if spoil {
                    plan.links[by].datapath = narrows_scenario::Datapath::Kernel;
                }
            },
        );
        !verdict.trusted()
    };
    assert!(idle("live", 0, false));
    assert!(!idle("live", 0, true));
    assert!(idle("sim", 0, true), "the simulator has one way only");
    let two = format!(
        "{SCENARIO}\n[[link]]\nname = \"far\"\nends = [\"server\", \"store\"]\n\
         up = [\"rate 80Mbit queue pfifo\"]\n"
    );
    let verdict = judged(plan_of(&two), |plan, summary| {
        summary.engine = "live".to_owned();
        plan.links[1].datapath = narrows_scenario::Datapath::Kernel;
        summary.queues.clear();
    });
    assert_eq!(against(&verdict), ["idle-bottleneck"], "another link's");
}

#[test]
fn marks_and_drops_are_alike_to_who_needs_no_ecn_and_each_counts_to_who_does() {
    // Marks and drops there, marks and drops where the bottleneck is meant to be.
    for (there, meant, alike, apart) in [
        ((0, 0), (0, 0), false, false),
        ((5, 5), (5, 5), false, false),
        ((6, 5), (5, 5), true, true),
        ((5, 6), (5, 5), true, true),
        ((6, 4), (5, 5), false, false),
        ((9, 4), (5, 5), true, false),
        ((4, 9), (5, 5), true, false),
        ((4, 5), (5, 5), false, false),
        ((0, 10), (10, 0), false, false),
        ((1, 10), (10, 0), true, false),
        ((10, 1), (10, 0), true, true),
        ((3, 3), (2, 4), false, false),
        ((3, 4), (2, 3), true, true),
    ] {
        let of = |(marks, drops)| signals("", marks, drops);
        assert_eq!(outdoes(&of(there), &of(meant), true), alike, "{there:?}");
        assert_eq!(outdoes(&of(there), &of(meant), false), apart, "{there:?}");
    }
}

#[test]
fn another_queue_that_signals_more_than_the_one_that_is_meant_is_the_wrong_bottleneck() {
    let wrong = |text: &str, flows: &[usize]| {
        let verdict = judged(plan_of(text), |_, summary| {
            for flow in flows {
                summary.flows[*flow].signals = vec![signals(FIRST, 120, 3), signals(MEANT, 10, 2)];
            }
        });
        let about = verdict.findings.iter().map(|f| (&*f.check, &*f.entity));
        assert!(
            about.clone().all(|a| a == ("wrong-bottleneck", FIRST)),
            "{verdict:?}"
        );
        line(&verdict, "wrong-bottleneck")
    };
    let of = |flow: &str, more: &str| {
        Some(format!(
            "{FIRST} marked and dropped more than {MEANT}, which was meant to be the bottleneck: \
             120 and 3 of {flow}, 10 and 2 packets{more}"
        ))
    };
    let faster = with_first("rate 60Mbit queue pfifo");
    assert_eq!(wrong(&faster, &[]), None);
    assert_eq!(wrong(&faster, &[1]), of("flow/second", ""));
    let more = "; likewise of 1 more flows";
    assert_eq!(wrong(&faster, &[0, 1]), of("flow/first", more));
    // To CUBIC marks there are more than drops here; to Prague they are something else.
    for (flow, expected) in [(0, 0), (1, 1)] {
        let verdict = judged(plan_of(&faster), |_, summary| {
            summary.flows[flow].signals = vec![signals(FIRST, 20, 0), signals(MEANT, 0, 10)];
        });
        assert_eq!(verdict.findings.len(), expected);
    }
    // One of the same rate is meant to be one as well.
    assert_eq!(wrong(&with_first("rate 50Mbit queue pfifo"), &[0, 1]), None);
}

#[test]
fn changes_within_the_window_make_a_bottleneck_and_those_outside_do_not() {
    let change = |at: &str, rate: &str| {
        format!("\n[[change]]\nat = \"{at}\"\ntarget = \"{FIRST}\"\nto = \"rate {rate}\"\n")
    };
    let text = with_first("rate 60Mbit queue pfifo").replace("\"2s..6s\"", "\"2s..5s\"");
    let is_wrong = |changes: &str| {
        let verdict = judged(plan_of(&format!("{text}{changes}")), |_, summary| {
            summary.flows[1].signals = vec![signals(FIRST, 0, 9)];
        });
        verdict
            .findings
            .iter()
            .any(|f| f.check == "wrong-bottleneck")
    };
    assert!(is_wrong(""));
    assert!(!is_wrong(&change("4s", "20Mbit")), "each is one for a time");
    assert!(!is_wrong(&change("2s", "20Mbit")));
    assert!(
        is_wrong(&change("5s", "20Mbit")),
        "the window's end is not in it"
    );
    assert!(is_wrong(&change("5500ms", "20Mbit")));
    let back = change("1s", "20Mbit") + &change("1500ms", "60Mbit");
    assert!(is_wrong(&back), "that was before the window");
}

#[test]
fn a_faster_link_that_more_flows_share_may_be_the_bottleneck() {
    let text = SCENARIO.replace("[\"client\", \"server\"]", "[\"client\", \"mid\"]");
    let flow = |name: &str| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"mid\"\nto = \"server\"\ncc = \"cubic\"\n")
    };
    let far = "link/far/up/rate";
    let is_wrong = |mbit: u64| {
        let text = format!(
            "{text}\n[[link]]\nname = \"far\"\nends = [\"mid\", \"server\"]\n\
             up = [\"rate {mbit}Mbit queue pfifo\"]\n{}{}",
            flow("third"),
            flow("fourth")
        );
        let verdict = judged(plan_of(&text), |_, summary| {
            summary.flows[1].signals = vec![signals(far, 0, 1_000)];
        });
        verdict
            .findings
            .iter()
            .any(|f| f.check == "wrong-bottleneck")
    };
    // Each of two has 25 Mbit/s of the one that is meant, and each of four so much of 100.
    assert!(!is_wrong(80));
    assert!(!is_wrong(100));
    assert!(is_wrong(104));
}

#[test]
fn a_flow_that_has_less_than_a_twentieth_of_an_equal_share_is_starved() {
    let starved = |cc: &str, bytes: u64| {
        let verdict = judged(
            with("cc   = \"prague\"", &format!("cc = \"{cc}\"")),
            |_, s| {
                s.flows[0].bytes = bytes;
            },
        );
        line(&verdict, "starved")
    };
    // Of 50 Mbit/s each of two has 25, of which a twentieth is 1.25: 625,000 bytes in 4 s.
    assert_eq!(starved("prague", 625_000), None);
    assert_eq!(
        starved("prague", 500_000).as_deref(),
        Some(
            "flow/first all but stopped: it had 1.000 Mbit/s in the steady window, of 25.00 that \
             would be an equal share for each bulk flow at its bottleneck"
        )
    );
    assert!(starved("prague", 624_999).is_some());
    assert!(starved("prague", 1).is_some());
    assert_eq!(starved("prague", 0), None, "that has a finding of its own");
    for yielding in ["ledbat", "ledbatpp", "dalbe"] {
        assert_eq!(starved(yielding, 1), None, "{yielding}");
    }
}

#[test]
fn of_a_shared_link_a_share_and_time_to_spare_are_not_known() {
    let text = "version = 1\nname = \"cell\"\nduration = \"6s\"\nmeasure = \"2s..6s\"\n\
                [[router]]\nname = \"cell\"\nis = \"cell blocks 25\"\n\
                [[link]]\nname = \"core\"\nends = [\"server\", \"cell\"]\n\
                up = [\"netem delay 5ms\"]\ndown = [\"netem delay 5ms\"]\n\
                [[link]]\nname = \"t\"\nends = [\"cell\", \"ue\"]\nup = [\"cell: cell cqi 15\"]\n\
                down = [\"netem delay 3ms\"]\n\
                [[flow]]\nname = \"f\"\nfrom = \"server\"\nto = \"ue\"\ncc = \"cubic\"\n";
    let found = |p99: Option<f64>, bytes| {
        let verdict = judged(plan_of(text), |_, summary| {
            summary.flows[0].bytes = bytes;
            assert_eq!(summary.queues.len(), 1);
            let queue = &mut summary.queues[0];
            queue.utilisation = Some(0.01);
            match (p99, &mut queue.sojourn_ms) {
                (Some(p99), Some(sojourn)) => sojourn.p99 = p99,
                (_, sojourn) => *sojourn = None,
            }
        });
        let checks = verdict.findings.iter().map(|f| f.check.clone());
        checks.collect::<Vec<_>>()
    };
    assert_eq!(found(Some(8.0), 1), [""; 0]);
    assert_eq!(found(Some(0.48), 1), [""; 0]);
    assert_eq!(found(Some(0.47), 1), ["idle-bottleneck"]);
    assert_eq!(found(None, 1), [""; 0], "others may have had all of it");
}

#[test]
fn a_shared_radio_may_be_slower_than_a_wire_before_it() {
    for (radio, is_wrong) in [("wifi mcs 9", true), ("wifi mcs 9 stations 4", false)] {
        let verdict = judged(plan_of(&with_first(radio)), |_, summary| {
            summary.flows[1].signals = vec![signals(FIRST, 0, 9)];
        });
        let found = line(&verdict, "wrong-bottleneck").is_some();
        assert_eq!(found, is_wrong, "{radio}");
    }
}

#[test]
fn a_packet_that_takes_longer_than_the_marking_step_is_noted_of_who_needs_ecn() {
    let notes = |cc: &str, rate: &str| {
        let text = SCENARIO.replace("50Mbit queue pfifo", &format!("{rate} queue dualpi2"));
        let text = text.replace("\"prague\"", cc);
        let verdict = judged(plan_of(&text), |_, _| {});
        let note = verdict.findings.iter().find(|f| f.check == "coarse-step");
        note.map(|f| {
            assert_eq!((f.weight, &*f.entity), (Weight::Note, MEANT));
            f.line.clone()
        })
    };
    let line = format!(
        "one packet of 1514 bytes takes 2.4224ms at {MEANT}, longer than its marking step of 1ms: \
         a packet that waits for another is marked, so that a flow such as flow/first cannot fill \
         the link"
    );
    assert_eq!(notes("\"prague\"", "5Mbit"), Some(line));
    // 1514 bytes take 1 ms at 12.112 Mbit/s.
    assert_eq!(notes("\"prague\"", "12112kbit"), None);
    assert!(notes("\"prague\"", "12111kbit").is_some());
    assert_eq!(notes("\"cubic\"", "5Mbit"), None);
}
