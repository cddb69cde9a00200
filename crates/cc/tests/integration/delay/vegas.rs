//! Vegas's rules, one trace each. Source unless a test says otherwise: Linux
//! net/ipv4/tcp_vegas.c, v6.17.

use crate::cubic::sender::{INFINITE, Sender};
use narrows_cc::{CaState, CwndEvent, Decision};

/// A round trip of samples of `rtt_us`, the last of which ends it: one segment each.
fn round(s: &mut Sender, samples: u32, rtt_us: u32) -> u32 {
    let mut events = 0;
    for _ in 0..samples {
        events |= s.ack(1, rtt_us);
    }
    s.facts.snd_una = s.facts.snd_nxt.wrapping_add(1);
    s.facts.snd_nxt = s.facts.snd_una.wrapping_add(1000);
    s.facts.rtt_us = 0;
    let decision = s.cc.cong_avoid(&s.facts, 1);
    decision.apply(&mut s.facts);
    events | decision.events
}

fn queued(s: &Sender) -> i64 {
    s.cc.telemetry().next().expect("an estimate").1
}

#[test]
fn what_is_queued_is_the_difference_of_expected_and_actual_rate() {
    // Brakmo and Peterson 1995 §IV: (cwnd / base - cwnd / rtt) base; Linux has
    // cwnd (rtt - base) / base. An RTT counts as one microsecond more.
    for (words, paper) in [("vegas", false), ("vegas difference paper", true)] {
        for (cwnd, base, rtt) in [
            (100, 20_000, 21_000),
            (37, 30_000, 60_000),
            (5_000, 999, 150_001),
        ] {
            let mut s = Sender::new(words, cwnd, 2);
            s.ack(0, base);
            round(&mut s, 0, rtt);
            s.facts.cwnd = cwnd;
            round(&mut s, 3, rtt);
            let (base, rtt) = (f64::from(base + 1), f64::from(rtt + 1));
            let by = if paper { rtt } else { base };
            let exact = f64::from(cwnd) * (rtt - base) / by;
            assert_eq!(queued(&s), exact.floor() as i64, "{words} {cwnd}");
        }
    }
}

#[test]
fn the_window_moves_by_one_per_round_trip_outside_alpha_to_beta() {
    for (words, rtts) in [
        // 100 (rtt - 20001) / 20001 is 1, 2, 4 and 5.
        (
            "vegas",
            [(20_300, 101), (20_401, 100), (20_801, 100), (21_001, 99)],
        ),
        (
            "vegas alpha 16 beta 16",
            [(23_000, 101), (23_210, 100), (23_380, 100), (23_401, 99)],
        ),
        // Above alpha alone: beta is no less.
        (
            "vegas alpha 16",
            [(23_000, 101), (23_210, 100), (23_380, 100), (23_401, 99)],
        ),
    ] {
        for (rtt, expected) in rtts {
            let mut s = Sender::new(words, 100, 2);
            s.ack(0, 20_000);
            round(&mut s, 0, rtt);
            s.facts.cwnd = 100;
            round(&mut s, 3, rtt);
            assert_eq!(s.facts.cwnd, expected, "{words}: {rtt}");
        }
    }
}

#[test]
fn slow_start_ends_when_more_than_gamma_is_queued_at_the_window_that_the_rate_fills() {
    let mut s = Sender::new("vegas", 100, INFINITE);
    s.ack(0, 20_000);
    round(&mut s, 0, 20_000);
    s.facts.cwnd = 100;
    // Within the round trip it grows as ever.
    s.ack(4, 24_000);
    assert_eq!(s.facts.cwnd, 104);
    s.facts.cwnd = 100;
    let events = round(&mut s, 3, 24_000);
    assert_eq!(events & Decision::SLOW_START_EXIT, 1);
    // 103 base / rtt, one more for what the quotient cuts off; and ssthresh no
    // higher than that and no lower than three quarters (tcp_current_ssthresh).
    assert_eq!(s.facts.cwnd, 103 * 20_001 / 24_001 + 1);
    assert_eq!(s.facts.ssthresh, s.facts.cwnd);
}

#[test]
fn two_samples_tell_nothing_and_outside_open_it_is_reno() {
    let mut s = Sender::new("vegas", 10, 2);
    s.ack(0, 20_000);
    round(&mut s, 1, 90_000);
    let (cwnd, cnt) = (s.facts.cwnd, s.facts.cwnd_cnt);
    assert_eq!((cwnd, cnt), (10, 1), "Reno's counter");
    s.cc.set_state(&s.facts, CaState::Loss);
    s.facts.cwnd_cnt = 9;
    round(&mut s, 0, 90_000);
    assert_eq!(s.facts.cwnd, 11, "Reno's window");
}

#[test]
fn losses_halve_and_idle_time_forgets_the_base() {
    let mut s = Sender::new("vegas", 41, 2);
    assert_eq!(s.cc.ssthresh(&s.facts), 20);
    s.facts.cwnd = 3;
    assert_eq!(s.cc.ssthresh(&s.facts), 2);
    s.facts.prior_cwnd = 44;
    assert_eq!(s.cc.undo_cwnd(&s.facts), 44);

    s.facts.cwnd = 100;
    s.ack(0, 20_000);
    s.cc.cwnd_event(&s.facts, CwndEvent::TxStart);
    s.facts.snd_una = s.facts.snd_nxt;
    round(&mut s, 5, 40_000);
    assert_eq!(queued(&s), 0, "40 ms is the base now");
}

#[test]
fn alone_on_a_pipe_it_keeps_alpha_to_beta_in_the_queue() {
    // A pipe of 80 segments: what is beyond them waits, and so lengthens the RTT.
    for (words, low, high) in [
        ("vegas difference paper", 2.0, 4.0),
        ("vegas difference paper alpha 16", 16.0, 16.0),
        // Linux counts (1 + queue / 80) times what waits.
        ("vegas", 2.0 / 1.05, 4.0),
        ("vegas alpha 16", 13.5, 16.0),
    ] {
        let mut s = Sender::new(words, 10, INFINITE);
        let rtt = |cwnd: u32| 20_000 * cwnd.max(80) / 80;
        s.ack(0, 20_000);
        for _ in 0..300 {
            let rtt = rtt(s.facts.cwnd);
            round(&mut s, 5, rtt);
        }
        let waits = f64::from(s.facts.cwnd) - 80.0;
        assert!(
            waits >= low - 1.0 && waits <= high + 1.0,
            "{words}: {waits} wait"
        );
    }
}
