//! How long flows lived, what they delivered, and what held them back.

use super::*;
use crate::summary::{FieldFigures, TelemetrySummary};

/// The first flow has an end.
fn sized() -> Plan {
    with(
        "cc   = \"prague\"",
        "cc   = \"prague\"\ntraffic = \"bytes 9MB\"",
    )
}

#[test]
fn a_transfer_is_to_be_complete_at_the_end_unless_it_was_stopped() {
    for (established, complete, stop, expected) in [
        (true, true, None, &[][..]),
        (true, false, None, &["unfinished"]),
        (true, false, Some(at(5_000)), &[]),
        (false, false, None, &["never-started"]),
    ] {
        let verdict = judged(sized(), |plan, summary| {
            plan.flows[0].stop = stop;
            let flow = &mut summary.flows[0];
            flow.complete = complete;
            flow.established_s = established.then_some(0.02);
        });
        assert_eq!(against(&verdict), expected, "{complete} {stop:?}");
    }
}

#[test]
fn an_endless_flow_may_end_one_sample_early_and_no_more() {
    let ended = |plan: Plan, stop, at_s| {
        let verdict = judged(plan, |plan, summary| {
            plan.sample_interval = Duration::from_micros(62_500);
            plan.flows[0].stop = stop;
            summary.flows[0].complete = true;
            summary.flows[0].finished_s = Some(at_s);
        });
        against(&verdict).contains(&"broke-off")
    };
    let endless = || plan_of(SCENARIO);
    // A sixteenth of a second before the end at 6 s.
    assert!(!ended(endless(), None, 5.9375));
    assert!(ended(endless(), None, 5.937));
    assert!(!ended(endless(), Some(at(5_000)), 4.9375));
    assert!(ended(endless(), Some(at(5_000)), 4.937));
    assert!(
        !ended(sized(), None, 1.0),
        "a transfer ends when it is done"
    );
}

#[test]
fn an_endless_flow_that_may_send_in_the_window_delivers_a_byte() {
    let silent = |plan: Plan, bytes, stop| {
        let verdict = judged(plan, |plan, summary| {
            plan.flows[0].stop = stop;
            let flow = &mut summary.flows[0];
            (flow.bytes, flow.complete) = (bytes, true);
        });
        against(&verdict).contains(&"nothing-delivered")
    };
    let endless = || plan_of(SCENARIO);
    assert!(silent(endless(), 0, None));
    assert!(!silent(endless(), 1, None));
    assert!(silent(endless(), 0, Some(at(2_001))));
    assert!(!silent(endless(), 0, Some(at(2_000))), "it ended before");
    assert!(!silent(sized(), 0, None), "it may have been done before");
}

#[test]
fn a_probe_that_asks_for_longer_than_its_interval_has_an_answer() {
    let probe = "\n[[probe]]\nname = \"ping\"\nfrom = \"client\"\nto = \"server\"\n";
    let unanswered = |interval_ms, name: &str, answered: bool| {
        let verdict = judged(plan_of(&format!("{SCENARIO}{probe}")), |plan, summary| {
            plan.probes[0].interval = Duration::from_millis(interval_ms);
            let seen = &mut summary.probes[0];
            seen.name = name.to_owned();
            seen.rtt_ms = answered.then(Distribution::default);
        });
        match against(&verdict)[..] {
            [] => false,
            ["unanswered"] => true,
            ref other => panic!("{other:?}"),
        }
    };
    assert!(!unanswered(200, "probe/ping", true));
    assert!(unanswered(200, "probe/ping", false));
    assert!(unanswered(200, "probe/other", true));
    assert!(unanswered(3_999, "probe/ping", false));
    assert!(!unanswered(4_000, "probe/ping", false));
}

#[test]
fn a_sender_may_be_held_back_for_a_hundredth_of_its_time_in_the_window() {
    let held = |plan: Plan, seconds: [f64; 3], (from, to): (f64, Option<f64>)| {
        let verdict = judged(plan, |plan, summary| {
            plan.flows[0].stop = to.map(|s| at((s * 1e3) as u64));
            let flow = &mut summary.flows[0];
            (flow.complete, flow.established_s, flow.finished_s) = (true, Some(from), to);
            let limited = &mut flow.limited_in_window;
            [
                limited.receive_window_s,
                limited.send_buffer_s,
                limited.application_s,
            ] = seconds;
        });
        let reasons = verdict.reasons();
        let lines = reasons.filter(|f| f.check == "sender-limited");
        lines.map(|f| f.line.clone()).collect::<Vec<_>>()
    };
    let endless = || plan_of(SCENARIO);
    let whole = (0.02, None);
    assert!(held(endless(), [0.04; 3], whole).is_empty());
    for (which, by) in [
        "the receive window",
        "its own send buffer",
        "having nothing to send",
    ]
    .into_iter()
    .enumerate()
    {
        let mut seconds = [0.0; 3];
        seconds[which] = 1.0;
        let line = format!(
            "flow/first was held back by {by}, not by the network, for 25 % of its time in the \
             steady window"
        );
        assert_eq!(held(endless(), seconds, whole), [line]);
        seconds[which] = 0.0401;
        assert_eq!(held(endless(), seconds, whole).len(), 1, "{by}");
    }
    // Of a flow that ends at 4 s two seconds count, of one that begins then as many.
    for part in [(0.02, Some(4.0)), (4.0, None)] {
        assert!(held(endless(), [0.02; 3], part).is_empty());
        assert_eq!(held(endless(), [0.021; 3], part).len(), 3);
    }
    assert!(held(endless(), [0.5; 3], (6.0, None)).is_empty());
    // A transfer that has sent all has nothing to send.
    assert_eq!(held(sized(), [0.0, 0.0, 1.0], whole), [""; 0]);
    assert_eq!(held(sized(), [0.0, 1.0, 0.0], whole).len(), 1);
}

#[test]
fn the_window_spans_twenty_round_trips_of_each_bulk_flow() {
    let short = |plan: Plan, rtt: Option<f64>, stop| {
        let verdict = judged(plan, |plan, summary| {
            plan.flows[0].stop = stop;
            let flow = &mut summary.flows[0];
            flow.complete = true;
            flow.rtt_ms = rtt.map(|mean| Distribution {
                mean,
                ..Distribution::default()
            });
        });
        let found = verdict.reasons().find(|f| f.check == "short-window");
        found.map(|f| f.line.clone())
    };
    let endless = || plan_of(SCENARIO);
    // Twenty times 200 ms are the window's four seconds.
    assert_eq!(short(endless(), Some(200.0), None), None);
    assert!(short(endless(), Some(200.1), None).is_some());
    assert_eq!(
        short(endless(), Some(250.0), None).as_deref(),
        Some("the steady window of 4 s spans only 16.0 round trips of flow/first")
    );
    assert_eq!(short(endless(), Some(100.0), Some(at(4_000))), None);
    assert!(short(endless(), Some(100.1), Some(at(4_000))).is_some());
    assert_eq!(short(endless(), Some(300.0), Some(at(2_000))), None);
    assert_eq!(short(sized(), Some(300.0), None), None);
    // Without a sample the round trip of the empty path counts.
    assert_eq!(short(endless(), None, None), None);
    let long = SCENARIO.replace("delay 10ms", "delay 150ms");
    assert!(short(plan_of(&long), None, None).is_some());
}

#[test]
fn a_deadline_may_be_missed_by_a_hundredth_of_it() {
    let notes = |cc: &str, fct_s, announced: Option<(&str, f64)>| {
        let new = format!("cc   = \"{cc}\"\ntraffic = \"bytes 9000000b\"");
        let verdict = judged(with("cc   = \"prague\"", &new), |_, summary| {
            let flow = &mut summary.flows[0];
            flow.complete = true;
            flow.fct_s = fct_s;
            let field = announced.map(|(name, at)| TelemetrySummary {
                name: name.to_owned(),
                figures: FieldFigures::Gauge {
                    min: at,
                    mean: at + 1.0,
                    max: at + 2.0,
                },
                ..TelemetrySummary::default()
            });
            flow.telemetry = field.into_iter().collect();
        });
        assert!(verdict.trusted(), "{verdict:?}");
        let notes = verdict.findings.into_iter();
        notes.map(|f| (f.check, f.line)).collect::<Vec<_>>()
    };
    let dated = "dalbe deadline 100s size 9000000b";
    let missed = |late: &str| {
        let line = format!("flow/first was done {late} late");
        [("deadline-missed".to_owned(), line)]
    };
    assert_eq!(notes(dated, None, None), []);
    assert_eq!(notes(dated, Some(101.0), None), []);
    assert_eq!(
        notes(dated, Some(102.0), None),
        missed("2 s after its deadline of 100 s, 2.0 %")
    );
    assert_eq!(notes(dated, Some(101.01), None).len(), 1);
    assert_eq!(notes("dalbe", Some(102.0), None), [], "it has none");
    assert_eq!(notes(dated, None, Some(("weight", 4.0))), []);
    let line = "flow/first found after 4 s that its deadline of 100 s is out of reach: best effort \
                was reckoned to be slower than is needed in three intervals in a row";
    assert_eq!(
        notes(dated, None, Some(("out_of_reach_s", 4.0))),
        [("deadline-out-of-reach".to_owned(), line.to_owned())]
    );
}
