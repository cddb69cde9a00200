//! Limits of elements that are not there to limit.

use super::*;

const NETEM: &str = "link/access/up/netem";
const MTU: &str = "link/access/mtu";

/// What is found where `name` dropped packets, with its line.
fn found(plan: Plan, name: &str, drops: DropCounts) -> Vec<(Weight, String, String)> {
    let verdict = judged(plan, |_, summary| {
        summary.droppers.push(DropperSummary {
            name: name.to_owned(),
            drops,
        });
    });
    let findings = verdict.findings.into_iter();
    findings.map(|f| (f.weight, f.check, f.line)).collect()
}

fn one(weight: Weight, check: &str, line: &str) -> Vec<(Weight, String, String)> {
    vec![(weight, check.to_owned(), line.to_owned())]
}

#[test]
fn what_an_element_drops_for_no_reason_of_its_own_speaks_against_a_run() {
    use Weight::{Distrust, Note};
    let none = DropCounts::default;
    let cases = [
        (none(), vec![]),
        (
            DropCounts {
                loss: 9,
                policy: 2,
                ..none()
            },
            vec![],
        ),
        (
            DropCounts {
                overflow: 1,
                ..none()
            },
            one(
                Distrust,
                "wrong-limit",
                &format!("{NETEM} dropped 1 packets at its own limit"),
            ),
        ),
        (
            DropCounts {
                too_big: 2,
                ..none()
            },
            one(
                Distrust,
                "lost-packets",
                &format!("{NETEM} dropped 2 packets larger than the MTU"),
            ),
        ),
        (
            DropCounts {
                malformed: 3,
                ..none()
            },
            one(
                Distrust,
                "lost-packets",
                &format!(
                    "{NETEM} dropped 3 packets that it could not read, or that had a wrong checksum"
                ),
            ),
        ),
        (
            DropCounts {
                unreachable: 4,
                ..none()
            },
            one(
                Distrust,
                "lost-packets",
                &format!("{NETEM} dropped 4 packets for which there was no way on"),
            ),
        ),
        (
            DropCounts {
                no_socket: 5,
                ..none()
            },
            one(
                Note,
                "no-socket",
                &format!(
                    "5 packets reached {NETEM} and no socket took them: late for a connection that \
                     was over, or for a port at which nothing listens"
                ),
            ),
        ),
    ];
    for (drops, expected) in cases {
        assert_eq!(found(plan_of(SCENARIO), NETEM, drops), expected);
    }
    // Flipped bits make wrong checksums and wrong addresses, and no packet longer.
    let corrupts = || with("netem delay 10ms\", ", "netem delay 10ms corrupt 1%\", ");
    for (drops, weight) in [
        (
            DropCounts {
                malformed: 1,
                ..none()
            },
            Note,
        ),
        (
            DropCounts {
                unreachable: 1,
                ..none()
            },
            Note,
        ),
        (
            DropCounts {
                too_big: 1,
                ..none()
            },
            Distrust,
        ),
    ] {
        let weights = found(corrupts(), NETEM, drops).into_iter();
        assert_eq!(weights.map(|f| f.0).collect::<Vec<_>>(), [weight]);
    }
}

#[test]
fn a_queue_that_drops_what_is_too_big_or_unreadable_is_noted() {
    for (too_big, malformed, expected) in [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1)] {
        let verdict = judged(plan_of(SCENARIO), |_, summary| {
            let drops = &mut summary.queues[0].drops;
            (drops.too_big, drops.malformed) = (too_big, malformed);
        });
        let notes = vec![(Weight::Note, "odd-drops"); expected];
        assert_eq!(all(&verdict), notes, "{too_big} {malformed}");
    }
}

/// Two hosts between which there is nothing but that element, and a link beside them.
fn narrow(words: &str, traffic: &str) -> Plan {
    plan_of(&format!(
        "version = 1\nname = \"narrow\"\nduration = \"6s\"\nmeasure = \"2s..6s\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\nup = [\"{words}\"]\n\
         [[link]]\nname = \"other\"\nends = [\"server\", \"store\"]\nup = [\"mtu 1400 silent\"]\n\
         {traffic}"
    ))
}

const FLOW: &str = "[[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n";

#[test]
fn a_silent_mtu_is_a_black_hole_only_if_a_flow_on_its_way_does_not_get_through() {
    let found = |words: &str, name: &str, spoil: &dyn Fn(&mut Plan, &mut FlowSummary)| {
        let verdict = judged(narrow(words, FLOW), |plan, summary| {
            spoil(plan, &mut summary.flows[0]);
            summary.droppers.push(DropperSummary {
                name: name.to_owned(),
                drops: DropCounts {
                    too_big: 7,
                    ..DropCounts::default()
                },
            });
        });
        let of = |f: &&Finding| f.entity == name;
        let mut found = verdict.findings.iter().filter(of);
        let first = found.next().expect("a finding");
        assert_eq!(found.count(), 0);
        (first.check.clone(), first.weight, first.line.clone())
    };
    let dropped = |name: &str| format!("{name} dropped 7 packets larger than its 1400 bytes");
    let silent = format!("{} without an ICMP error", dropped(MTU));
    let hole = (
        "mtu-black-hole".to_owned(),
        Weight::Distrust,
        format!("{silent}: a black hole for path MTU discovery"),
    );
    let through = |silent: &str| {
        let line = format!("{silent}; all whose way it is on got through in smaller packets");
        ("lost-packets".to_owned(), Weight::Note, line)
    };
    let (quiet, says) = ("mtu 1400 silent", "mtu 1400");
    let none = |_: &mut Plan, flow: &mut FlowSummary| flow.goodput_mbit = None;
    assert_eq!(found(quiet, MTU, &none), hole);
    assert_eq!(
        found(quiet, MTU, &|_, flow| flow.goodput_mbit = Some(0.0)),
        hole
    );
    assert_eq!(
        found(quiet, MTU, &|_, flow| flow.goodput_mbit = Some(0.5)),
        through(&silent)
    );
    assert_eq!(
        found(quiet, MTU, &|_, flow| {
            flow.goodput_mbit = None;
            flow.complete = true;
        }),
        through(&silent)
    );
    assert_eq!(
        found(quiet, MTU, &|plan, flow| {
            flow.goodput_mbit = None;
            plan.flows[0].stop = Some(at(2_000));
        }),
        through(&silent),
        "it ended before the window"
    );
    let other = "link/other/mtu";
    let beside = format!("{} without an ICMP error", dropped(other));
    assert_eq!(found(quiet, other, &none), through(&beside));
    let said = (
        "lost-packets".to_owned(),
        Weight::Note,
        format!("{}, and said so", dropped(MTU)),
    );
    assert_eq!(found(says, MTU, &none), said);
}

#[test]
fn an_application_that_gets_nothing_through_a_silent_mtu_makes_it_a_black_hole() {
    let app = "[[app]]\nkind = \"video\"\nname = \"v\"\nladder = \"1Mbit\"\n\
               from = \"client\"\nto = \"server\"\n";
    let is_hole = |name: &str, traffic: &str, played: f64| {
        let verdict = judged(narrow("mtu 1400 silent", traffic), |_, summary| {
            summary.sources = vec![super::apps::source("app/v", &[("played_ms", played)])];
            summary.droppers.push(DropperSummary {
                name: name.to_owned(),
                drops: DropCounts {
                    too_big: 7,
                    ..DropCounts::default()
                },
            });
        });
        verdict.findings.iter().any(|f| f.check == "mtu-black-hole")
    };
    assert!(is_hole(MTU, app, 0.0));
    assert!(!is_hole(MTU, app, 1.0));
    assert!(!is_hole("link/other/mtu", app, 0.0));
    // What it is sent from the other side comes that way too.
    let back = app.replace("\"client\"", "\"x\"");
    let back = back
        .replace("\"server\"", "\"client\"")
        .replace("\"x\"", "\"server\"");
    assert!(is_hole(MTU, &back, 0.0));
}
