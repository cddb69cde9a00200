//! What the weight does to the control below.

use narrows_cc::{ControlSpec, Needs};

use super::Flow;

/// Past its deadline, at w = 1.
fn best_effort(words: &str) -> Flow {
    let mut flow = Flow::new(&format!("{words} deadline 1ms size 1000000000000b"));
    flow.interval(1448);
    flow.interval(1448);
    assert_eq!(flow.reported().w, 1.0);
    flow
}

#[test]
fn phantom_events_bring_the_total_to_the_inflated_price() {
    // CUBIC and Reno at the least weight, with a loss per 2000 packets: 1 / mu times as
    // many events in all, within 5 %.
    for (over, phi) in [("cubic", 1.0), ("reno", 5.0 / 3.0)] {
        let mut flow = Flow::new(&format!("dalbe over {over}"));
        let mu = 0.05 * phi;
        let (mut real, mut phantom) = (0.0, 0.0);
        for i in 0..400_000_u32 {
            if i % 2000 == 1999 {
                flow.reduce();
                real += 1.0;
            }
            flow.ack(1448, 30_000);
            let facts = &mut flow.facts;
            (facts.cwnd, facts.ssthresh) = (100, 50);
            let decision = flow.cc.cong_avoid(facts, 1);
            if decision.cwnd().is_some_and(|cwnd| cwnd < 90) {
                phantom += 1.0;
            }
            if i % 5000 == 0 {
                flow.end_interval();
            }
            if i == 100_000 {
                (real, phantom) = (0.0, 0.0);
            }
        }
        let total: f64 = (real + phantom) / real;
        assert!((total * mu - 1.0).abs() < 0.05, "{over}: {total}");
    }
}

#[test]
fn without_losses_nothing_is_added() {
    let mut flow = Flow::new("dalbe over cubic");
    for _ in 0..3 {
        flow.interval(10_000_000);
        let decision = flow.cc.cong_avoid(&flow.facts, 1000);
        assert!(decision.cwnd() >= Some(100), "{decision:?}");
    }
}

#[test]
fn at_best_effort_losses_are_ignored_as_far_as_phi_says() {
    // Reno's phi is 5 / 3: 40 % of 10,000, within 3 %. Vegas's is 3 at first, of which
    // the improved law takes no more than that; CUBIC's is 1.
    for (over, mode, low, high) in [
        ("reno", "reproduction", 0.37, 0.43),
        ("reno", "improved", 0.37, 0.43),
        ("vegas", "reproduction", 0.64, 0.70),
        ("vegas", "improved", 0.37, 0.43),
        ("cubic", "improved", 0.0, 0.0),
    ] {
        let words = format!("dalbe over {over} mode {mode} interval 100ms");
        let mut flow = best_effort(&words);
        let mut ignored = 0;
        let mut word = 1_u32;
        for _ in 0..10_000 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            flow.facts.random = word;
            ignored += u32::from(flow.reduce() == 100);
        }
        let share = f64::from(ignored) / 1e4;
        assert!((low..=high).contains(&share), "{words}: {share}");
    }
}

#[test]
fn a_timeout_is_never_ignored() {
    let mut flow = best_effort("dalbe over reno mode reproduction interval 100ms");
    flow.facts.random = 0;
    assert_eq!(flow.cc.ssthresh(&flow.facts), 100, "ignored");
    let decision = flow.cc.cwnd_event(&flow.facts, narrows_cc::CwndEvent::Loss);
    assert_eq!(decision.ssthresh(), Some(50), "and then not");
}

/// Vegas's window after a round trip at `rtt_us`, of 100 segments and a base of 30 ms.
fn vegas(flow: &mut Flow, rtt_us: u32) -> u32 {
    flow.facts.rtt_us = 0;
    flow.facts.cwnd = 100;
    flow.facts.ssthresh = 50;
    // The round trip before ends.
    flow.facts.snd_una += 10_000;
    flow.facts.snd_nxt = flow.facts.snd_una;
    flow.cc.cong_avoid(&flow.facts, 1);
    for _ in 0..3 {
        flow.ack(1000, rtt_us);
    }
    let decision = flow.cc.cong_avoid(&flow.facts, 1);
    decision.cwnd().unwrap_or(100)
}

#[test]
fn vegas_sees_its_queue_inflated_and_at_best_effort_none() {
    // mu 0.158: of 100 segments at 30 + 2 ms 6 wait, which count as 39; alpha is 16.
    let mut flow = Flow::new("dalbe");
    flow.ack(0, 30_000);
    assert_eq!(vegas(&mut flow, 32_000), 99);
    assert_eq!(vegas(&mut flow, 30_500), 101, "1.6 count as 10");
    // As the thesis: 30 + 2 / 0.15 ms, of which the difference is 44.
    let mut flow = Flow::new("dalbe mode reproduction");
    flow.ack(0, 30_000);
    assert_eq!(vegas(&mut flow, 32_000), 99);
    assert_eq!(vegas(&mut flow, 30_500), 101);
    let mut flow = best_effort("dalbe over vegas");
    flow.ack(0, 30_000);
    assert_eq!(
        vegas(&mut flow, 90_000),
        101,
        "others do not go by it either"
    );
}

#[test]
fn dctcp_is_reduced_by_more_of_what_is_marked_and_at_best_effort_by_its_own() {
    for (w, low, high) in [(0.05, 50, 50), (1.0, 85, 88)] {
        let mut flow = if w < 1.0 {
            Flow::new("dalbe over dctcp")
        } else {
            best_effort("dalbe over dctcp")
        };
        // Twenty round trips without a mark: alpha is (15 / 16)^20, 0.28.
        for _ in 0..20 {
            flow.facts.snd_una = flow.facts.snd_nxt;
            flow.facts.snd_nxt += 1000;
            flow.facts.delivered += 10;
            flow.cc.in_ack_event(&flow.facts);
        }
        let window = flow.cc.ssthresh(&flow.facts);
        assert!((low..=high).contains(&window), "{w}: {window}");
    }
}

#[test]
fn it_asks_for_what_the_control_below_needs() {
    let needs = |words: &str| ControlSpec::parse(words).unwrap().needs();
    assert!(needs("dalbe over dctcp").accecn);
    for over in ["vegas", "cubic", "reno", "ledbat"] {
        assert_eq!(needs(&format!("dalbe over {over}")), Needs::default());
    }
}

#[test]
fn its_state_is_no_larger_than_the_thesiss() {
    assert!(ControlSpec::parse("dalbe").unwrap().state_size() <= 336);
}
