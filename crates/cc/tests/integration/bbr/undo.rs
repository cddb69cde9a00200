//! Losses that were none: draft section 5.5.11, test cases A.18 and A.19.

use narrows_cc::CaState;

use super::sender::{CRUISE, DOWN, DRAFT, DRAIN, LINUX, REFILL, STARTUP, Sender, UP};

/// The stack finds that the last reduction was needless.
fn undo(s: &mut Sender) {
    s.facts.cwnd = s.cc.undo_cwnd(&s.facts);
    s.enter(CaState::Open);
}

#[test]
fn the_bounds_and_the_window_from_before_come_back() {
    for words in [LINUX, DRAFT] {
        for state in [CaState::Recovery, CaState::Loss] {
            let mut s = Sender::in_cruise(words);
            let before = s.facts.cwnd;
            s.enter(state);
            s.lossy_round(50, 50_000, 80, 5);
            s.round(50, 50_000, 60);
            assert!(s.get("bw_lo").is_some() && s.get("inflight_lo").is_some());
            assert!(s.facts.cwnd < before, "{words}");
            undo(&mut s);
            assert_eq!(
                (s.get("bw_lo"), s.get("inflight_lo")),
                (None, None),
                "{words}"
            );
            assert_eq!(s.facts.cwnd, before, "{words} {state:?}");
            assert_eq!(s.phase(), CRUISE);
        }
    }
}

#[test]
fn a_probe_that_such_losses_ended_begins_again_in_the_draft() {
    for (words, after) in [(DRAFT, REFILL), (LINUX, DOWN)] {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        s.enter(CaState::Recovery);
        s.lossy_round(90, 50_000, 125, 10);
        assert_eq!(s.phase(), DOWN, "{words}");
        assert!(s.get("inflight_hi").is_some());
        undo(&mut s);
        assert_eq!(s.get("inflight_hi"), None, "{words}");
        assert_eq!(s.phase(), after, "{words}");
    }
}

#[test]
fn startup_that_such_losses_ended_goes_on_in_the_draft() {
    for (words, after) in [(DRAFT, STARTUP), (LINUX, DRAIN)] {
        let mut s = Sender::new(words, 50_000);
        for segments in [10, 20, 40, 80] {
            s.round(segments, 50_000, segments);
        }
        s.enter(CaState::Recovery);
        let prior = s.facts.delivered;
        for _ in 0..6 {
            s.facts.lost += 1;
            s.facts.rs_losses = 1;
            s.facts.in_flight = 150;
            s.ack(1, 80, 50_000, prior - 1);
        }
        s.ack(80, 85, 50_000, prior + 1);
        assert_eq!(s.phase(), DRAIN, "{words}");
        undo(&mut s);
        assert_eq!(s.phase(), after, "{words}");
        assert_eq!(s.get("full_bw_reached") == Some(0.0), words == DRAFT);
        assert_eq!(s.get("inflight_hi"), None);
    }
}

#[test]
fn a_probe_that_ended_by_itself_does_not_begin_again() {
    let mut s = Sender::in_cruise(DRAFT);
    s.until_up();
    for _ in 0..3 {
        s.round(105, 50_000, 125);
    }
    assert_eq!(s.phase(), DOWN);
    s.enter(CaState::Recovery);
    s.lossy_round(99, 50_000, 125, 1);
    let before = s.phase();
    undo(&mut s);
    assert_eq!(s.phase(), before);
    assert_ne!(s.phase(), UP);
}

#[test]
fn what_was_undone_once_is_not_undone_by_the_next() {
    let mut s = Sender::in_cruise(DRAFT);
    s.until_up();
    s.enter(CaState::Recovery);
    s.lossy_round(90, 50_000, 125, 10);
    undo(&mut s);
    assert_eq!(s.phase(), REFILL);
    for _ in 0..5 {
        s.round(100, 50_000, 130);
    }
    assert_eq!(s.phase(), DOWN);
    undo(&mut s);
    assert_eq!(s.phase(), DOWN);
}
