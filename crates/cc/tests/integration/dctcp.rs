//! DCTCP's rules, one trace each: RFC 8257 with the arithmetic of Linux
//! net/ipv4/tcp_dctcp.c, v6.17.

use narrows_cc::{CaState, ControlMode, ControlSpec, Controller, CwndEvent, Facts, Flags};
use proptest::prelude::*;

fn dctcp(words: &str) -> (Controller, Facts) {
    let mut cc = Controller::new(&ControlSpec::parse(words).unwrap());
    let facts = Facts {
        mss: 1448,
        cwnd: 100,
        ssthresh: 50,
        flags: Flags::CWND_LIMITED,
        ..Facts::default()
    };
    cc.init(&facts);
    (cc, facts)
}

fn alpha(cc: &Controller) -> f64 {
    let (field, value) = cc.telemetry().next().unwrap();
    field.in_units(value)
}

/// A round trip in which `marked` of `delivered` segments were marked.
fn round(cc: &mut Controller, facts: &mut Facts, delivered: u32, marked: u32) {
    facts.snd_una = facts.snd_nxt;
    facts.snd_nxt += 1000;
    facts.delivered += delivered;
    facts.delivered_ce += marked;
    cc.in_ack_event(facts);
}

#[test]
fn it_asks_for_feedback_that_counts_and_leaves_recovery_to_the_stack() {
    let spec = ControlSpec::parse("dctcp").unwrap();
    let needs = spec.needs();
    assert!(needs.ecn && needs.accecn && !needs.ect1);
    assert_eq!(Controller::new(&spec).mode(), ControlMode::Window);
}

#[test]
fn alpha_is_one_at_first_and_gets_to_zero_without_marks() {
    // RFC 8257 §3.3; (1 - 1/16)^n below 16 / 1024, then Linux's min_not_zero.
    let (mut cc, mut facts) = dctcp("dctcp");
    assert_eq!(alpha(&cc), 1.0);
    for _ in 0..200 {
        round(&mut cc, &mut facts, 100, 0);
    }
    assert_eq!(alpha(&cc), 0.0);
}

#[test]
fn a_round_trip_counts_once() {
    let (mut cc, mut facts) = dctcp("dctcp alpha_on_init 0");
    round(&mut cc, &mut facts, 100, 100);
    let first = alpha(&cc);
    assert_eq!(first, 1.0 / 16.0);
    // ACKs within the next one change nothing.
    facts.snd_una += 1;
    facts.delivered += 1;
    facts.delivered_ce += 1;
    cc.in_ack_event(&facts);
    assert_eq!(alpha(&cc), first);
}

#[test]
fn the_window_is_reduced_by_half_of_alpha_and_by_half_for_a_loss() {
    let (mut cc, mut facts) = dctcp("dctcp alpha_on_init 512");
    assert_eq!(cc.ssthresh(&facts), 75, "RFC 8257 section 3.3");
    facts.cwnd = 2;
    assert_eq!(cc.ssthresh(&facts), 2);
    // Section 3.4: as another TCP would.
    facts.cwnd = 100;
    let lost = cc.set_state(&facts, CaState::Recovery);
    assert_eq!(lost.ssthresh(), Some(50));
    facts.ca_state = CaState::Recovery as u8;
    assert_eq!(cc.set_state(&facts, CaState::Recovery).set, 0, "once");
    facts.cwnd = 60;
    let timeout = cc.cwnd_event(&facts, CwndEvent::Loss);
    assert_eq!(timeout.ssthresh(), Some(30));
    facts.cwnd = 7;
    assert_eq!(cc.undo_cwnd(&facts), 60);
}

#[test]
fn between_marks_it_grows_as_reno() {
    let (mut cc, facts) = dctcp("dctcp");
    let mut reno = Controller::new(&ControlSpec::parse("reno").unwrap());
    for acked in [1, 5, 99, 250] {
        assert_eq!(cc.cong_avoid(&facts, acked), reno.cong_avoid(&facts, acked));
    }
}

#[test]
fn under_a_step_mark_alpha_is_that_of_the_dctcp_paper() {
    // Alizadeh and others, "Data Center TCP", SIGCOMM 2010, section 3.3: a flow that
    // is marked in the one round trip in which its window passes W has
    // alpha^2 (1 - alpha / 4) = (2 W + 1) / (W + 1)^2.
    for threshold in [40_u32, 100, 150] {
        let (mut cc, mut facts) = dctcp("dctcp");
        facts.cwnd = threshold;
        let (mut sum, mut count) = (0.0, 0);
        for i in 0..20_000 {
            let marked = facts.cwnd > threshold;
            let cwnd = facts.cwnd;
            round(&mut cc, &mut facts, cwnd, if marked { cwnd } else { 0 });
            if marked {
                facts.cwnd = cc.ssthresh(&facts);
            } else {
                facts.cwnd += 1;
            }
            if i > 1000 {
                sum += alpha(&cc);
                count += 1;
            }
        }
        let mean = sum / f64::from(count);
        let w = f64::from(threshold);
        let side = (2.0 * w + 1.0) / (w + 1.0) / (w + 1.0);
        let mut expected = side.sqrt();
        for _ in 0..50 {
            expected = (side / (1.0 - expected / 4.0)).sqrt();
        }
        // Cycles are whole round trips, and each step of alpha is truncated to 2^-10.
        let slack = 0.15;
        assert!(
            (mean / expected - 1.0).abs() < slack,
            "W {threshold}: {mean}, and the paper has {expected}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each round truncates twice, by less than 1 / 1024 in all that is left of it.
    #[test]
    fn alpha_is_the_moving_average_of_the_marked_share(
        shift in 1..8_u32,
        rounds in prop::collection::vec((1..5000_u32, 0..=100_u32), 1..80),
    ) {
        let (mut cc, mut facts) = dctcp(&format!("dctcp shift_g {shift}"));
        let g = 1.0 / f64::from(1 << shift);
        let mut exact = 1.0;
        for (delivered, percent) in rounds {
            let marked = (u64::from(delivered) * u64::from(percent) / 100) as u32;
            round(&mut cc, &mut facts, delivered, marked);
            let share = f64::from(marked) / f64::from(delivered);
            exact = (1.0 - g) * exact + g * share;
            // Truncation of alpha >> g keeps up to 2^g - 1 units, and what is below
            // that goes at once.
            let slack = (f64::from(1 << shift) + 1.0 / g) / 1024.0;
            prop_assert!((alpha(&cc) - exact).abs() <= slack, "{} {}", alpha(&cc), exact);
        }
    }
}
