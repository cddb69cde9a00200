//! Relentless: mami-project/ns3-aqm-l4s kernel/tcp_dctcp.c, Mathis 2009.

use narrows_cc::{CaState, ControlMode, ControlSpec, Controller, CwndEvent};
use proptest::prelude::*;

use super::started;

#[test]
fn it_asks_for_feedback_that_counts_and_for_ect1_only_if_told_to() {
    for (words, ect1) in [("relentless", false), ("relentless ect1 on", true)] {
        let spec = ControlSpec::parse(words).unwrap();
        let needs = spec.needs();
        assert!(needs.ecn && needs.accecn, "{words}");
        assert_eq!(needs.ect1, ect1, "{words}");
        assert_eq!(Controller::new(&spec).mode(), ControlMode::Window);
    }
}

#[test]
fn two_marks_take_one_segment_and_an_odd_one_is_kept() {
    let (mut cc, mut facts) = started("relentless", 100, 100, 20_000);
    for (marked, cwnd) in [(1, 100), (1, 99), (3, 98), (1, 97), (4, 95), (0, 95)] {
        facts.delivered_ce += marked;
        cc.in_ack_event(&facts).apply(&mut facts);
        assert_eq!((facts.cwnd, facts.ssthresh), (cwnd, cwnd.min(100)));
    }
}

#[test]
fn a_round_trip_of_marks_halves_the_window_at_once_and_entering_cwr_takes_nothing() {
    let (mut cc, mut facts) = started("relentless", 100, 0x7fff_ffff, 20_000);
    assert_eq!(cc.ssthresh(&facts), 100);
    for _ in 0..100 {
        facts.delivered_ce += 1;
        cc.in_ack_event(&facts).apply(&mut facts);
    }
    assert_eq!((facts.cwnd, facts.ssthresh), (50, 50));
    // No signal of earlier round trips is smoothed into this one.
    cc.in_ack_event(&facts).apply(&mut facts);
    assert_eq!(facts.cwnd, 50);
}

#[test]
fn the_window_ends_at_one_segment_and_the_threshold_of_a_reduction_at_two() {
    let (mut cc, mut facts) = started("relentless", 3, 2, 20_000);
    facts.delivered_ce += 1000;
    cc.in_ack_event(&facts).apply(&mut facts);
    assert_eq!((facts.cwnd, facts.ssthresh), (1, 1));
    assert_eq!(cc.ssthresh(&facts), 2);
}

#[test]
fn each_lost_segment_takes_one_off_what_recovery_leads_to() {
    for (words, expected) in [("relentless", 93), ("relentless loss none", 100)] {
        let (mut cc, mut facts) = started(words, 100, 50, 20_000);
        facts.ssthresh = cc.ssthresh(&facts);
        facts.ca_state = CaState::Recovery as u8;
        // The stack's own window meanwhile is no measure.
        facts.cwnd = 60;
        for lost in [3, 0, 4] {
            facts.lost += lost;
            cc.in_ack_event(&facts).apply(&mut facts);
        }
        assert_eq!((facts.ssthresh, facts.cwnd), (expected, 60), "{words}");
    }
}

#[test]
fn a_timeout_halves_and_what_it_takes_for_lost_is_not_counted_as_well() {
    let (mut cc, mut facts) = started("relentless", 100, 80, 20_000);
    facts.lost += 100;
    cc.cwnd_event(&facts, CwndEvent::Loss).apply(&mut facts);
    cc.set_state(&facts, CaState::Loss).apply(&mut facts);
    facts.ca_state = CaState::Loss as u8;
    assert_eq!(facts.ssthresh, 50);
    cc.in_ack_event(&facts).apply(&mut facts);
    assert_eq!(facts.ssthresh, 50);
}

#[test]
fn a_spurious_reduction_gives_the_window_back() {
    let (mut cc, mut facts) = started("relentless", 100, 50, 20_000);
    cc.ssthresh(&facts);
    facts.cwnd = 70;
    assert_eq!(cc.undo_cwnd(&facts), 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever ACKs they come in, 2 n marks take n segments.
    #[test]
    fn halves_are_neither_lost_nor_counted_twice(
        acks in prop::collection::vec(0..7_u32, 1..200),
    ) {
        let (mut cc, mut facts) = started("relentless", 10_000, 10_000, 20_000);
        for marked in &acks {
            facts.delivered_ce += marked;
            cc.in_ack_event(&facts).apply(&mut facts);
        }
        prop_assert_eq!(facts.cwnd, 10_000 - acks.iter().sum::<u32>() / 2);
    }

    #[test]
    fn between_signals_it_grows_as_reno(acked in 0..300_u32, cwnd in 2..500_u32) {
        let (mut cc, facts) = started("relentless", cwnd, 2, 20_000);
        let (mut reno, _) = started("reno", cwnd, 2, 20_000);
        prop_assert_eq!(cc.cong_avoid(&facts, acked), reno.cong_avoid(&facts, acked));
    }
}
