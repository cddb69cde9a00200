//! Version 1: Linux v6.17 net/ipv4/tcp_bbr.c.

use narrows_cc::{CaState, Decision};

use super::sender::{CRUISE, DOWN, PROBE_RTT, STARTUP, Sender, UP, V1};

/// In the cycle, wherever that began.
fn in_cycle() -> Sender {
    Sender::in_probe_bw(V1, 50_000)
}

#[test]
fn the_gain_goes_through_five_quarters_three_quarters_and_six_times_one() {
    let mut s = in_cycle();
    let mut gains = Vec::new();
    for _ in 0..24 {
        // A full flight, so that a round trip of wall clock is what counts.
        let gain = s.get("pacing_gain").unwrap();
        s.round(100, 51_000, if gain < 1.0 { 180 } else { 240 });
        gains.push(s.get("pacing_gain").unwrap());
    }
    let first = gains.iter().position(|g| *g == 1.25).unwrap();
    let cycle = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    for (i, gain) in gains[first..].iter().enumerate() {
        assert_eq!(*gain, cycle[i % 8], "{gains:?}");
    }
}

#[test]
fn the_cycle_begins_anywhere_but_where_it_drains() {
    let mut seen = [false; 7];
    for i in 0..7_u32 {
        let mut s = Sender::new(V1, 50_000);
        s.facts.random = i * (u32::MAX / 7) + 1000;
        for segments in [10, 20, 40, 80, 100, 100, 100, 100, 100] {
            s.round(segments, 50_000, 200);
        }
        s.within(1, 60_000, 100);
        assert_ne!(s.phase(), DOWN);
        // Rounds to the next phase of 1.25.
        let mut rounds = 0;
        while s.get("pacing_gain") != Some(1.25) {
            s.round(100, 51_000, 150);
            rounds += 1;
        }
        seen[rounds] = true;
    }
    assert_eq!(seen, [true; 7]);
}

#[test]
fn probing_ends_with_a_full_flight_or_a_loss_and_draining_with_an_empty_queue() {
    let at_up = || {
        let mut s = in_cycle();
        while s.phase() != UP {
            s.round(100, 51_000, 110);
        }
        s
    };
    let mut s = at_up();
    for _ in 0..5 {
        s.round(10, 51_000, 100);
        assert_eq!(s.phase(), UP, "less than 1.25 of 100 in flight");
    }
    s.round(100, 51_000, 60);
    assert_eq!(s.phase(), DOWN, "160 were in flight");
    s.within(60, 51_000, 60);
    assert_eq!(s.phase(), DOWN, "120 were");
    s.within(60, 51_000, 40);
    assert_eq!(s.phase(), CRUISE, "within a round trip");
    let mut s = at_up();
    s.facts.rs_losses = 1;
    s.round(10, 51_000, 100);
    assert_eq!(s.phase(), DOWN);
}

#[test]
fn bandwidth_is_the_maximum_over_ten_rounds() {
    let mut s = in_cycle();
    s.round(150, 50_000, 100);
    let high = s.bw();
    assert!((high - 3000.0).abs() < 1.0);
    for i in 1..=10 {
        s.round(80, 50_000, 100);
        assert!(
            (s.bw() - 3000.0).abs() < 1.0,
            "after {i} rounds: {}",
            s.bw()
        );
    }
    s.round(80, 50_000, 100);
    assert!(s.bw() < 2200.0, "{}", s.bw());
}

#[test]
fn probe_rtt_comes_after_ten_seconds_with_four_segments_and_goes_back() {
    let mut s = in_cycle();
    let start = s.facts.now_ns;
    while s.phase() != PROBE_RTT {
        s.round(100, 55_000, 100);
        assert!(s.facts.now_ns < start + 11_000_000_000);
    }
    let waited = (s.facts.now_ns - start) / 1_000_000;
    assert!((9_400..=10_200).contains(&waited), "{waited} ms");
    assert_eq!(s.facts.cwnd, 4);
    assert!(s.last.set & Decision::APP_LIMITED != 0);
    s.within(1, 50_000, 4);
    s.facts.now_ns += 150_000_000;
    s.app_limited().round(4, 50_000, 4);
    assert_eq!(s.phase(), PROBE_RTT);
    s.facts.now_ns += 1_000_000;
    s.app_limited().within(1, 50_000, 4);
    assert!([UP, CRUISE].contains(&s.phase()));
    assert!(s.facts.cwnd >= 200, "{}", s.facts.cwnd);
}

#[test]
fn recovery_sends_what_is_acknowledged_in_its_first_round_and_then_grows_back() {
    let mut s = in_cycle();
    s.round(100, 51_000, 110);
    let before = s.facts.cwnd;
    s.enter(CaState::Recovery);
    s.facts.lost += 10;
    s.facts.rs_losses = 10;
    s.within(5, 51_000, 90);
    assert_eq!(s.facts.cwnd, 95);
    s.within(5, 51_000, 90);
    assert_eq!(s.facts.cwnd, 95);
    s.round(20, 51_000, 75);
    assert_eq!(s.facts.cwnd, 115, "after a round as in slow start");
    s.facts.rs_losses = 3;
    s.facts.lost += 3;
    s.within(5, 51_000, 75);
    assert_eq!(s.facts.cwnd, 117, "3 lost, 5 acknowledged");
    s.enter(CaState::Open);
    s.within(1, 51_000, 75);
    assert!(s.facts.cwnd >= before, "{} of {before}", s.facts.cwnd);
}

#[test]
fn losses_alone_lower_neither_rate_nor_target() {
    let mut s = in_cycle();
    let bw = s.bw();
    for _ in 0..3 {
        s.lossy_round(100, 51_000, 110, 8);
    }
    assert!((s.bw() / bw - 1.0).abs() < 1e-6);
    assert_eq!((s.get("bw_lo"), s.get("inflight_hi")), (None, None));
}

#[test]
fn two_intervals_of_equal_rate_and_a_fifth_lost_are_a_policer() {
    let mut s = in_cycle();
    assert_eq!(s.get("lt_bw"), None);
    // 60 delivered and 20 lost in each round: 1200 per second.
    let mut rounds = 0;
    while s.get("lt_bw").is_none() {
        s.lossy_round(60, 50_000, 60, 20);
        rounds += 1;
        assert!(rounds < 20);
    }
    // The first loss begins an interval; each has four rounds.
    assert!((8..=11).contains(&rounds), "{rounds}");
    assert!((s.bw() - 1200.0).abs() < 30.0, "{}", s.bw());
    assert_eq!(s.get("pacing_gain"), Some(1.0));
    // For 48 rounds, and then it is tried anew.
    let mut used = 0;
    while s.get("lt_bw").is_some() {
        s.round(60, 50_000, 60);
        used += 1;
        assert!(used < 60);
    }
    assert_eq!(used, 48);
}

#[test]
fn less_loss_or_another_rate_is_no_policer() {
    for (even, odd, lost) in [(60, 60, 8), (90, 40, 30)] {
        let mut s = in_cycle();
        for i in 0..40 {
            let segments = if i / 4 % 2 == 0 { even } else { odd };
            s.lossy_round(segments, 50_000, 60, lost);
        }
        assert_eq!(s.get("lt_bw"), None, "{even} and {odd} with {lost}");
    }
}

#[test]
fn a_timeout_begins_the_search_for_a_full_pipe_anew() {
    let mut s = Sender::new(V1, 50_000);
    for segments in [10, 20, 40, 80, 81, 82] {
        s.round(segments, 50_000, 100);
    }
    assert_eq!(s.phase(), STARTUP);
    s.enter(CaState::Loss);
    s.round(80, 50_000, 100);
    s.enter(CaState::Open);
    assert_eq!(s.phase(), STARTUP, "80 is the baseline");
}

#[test]
fn an_idle_time_restarts_at_the_bandwidth() {
    let mut s = in_cycle();
    while s.phase() != UP {
        s.round(100, 51_000, 110);
    }
    let rate = s.starts_after_idle().pacing_rate().unwrap() as f64;
    assert!((rate / (0.99 * s.bw() * 1448.0) - 1.0).abs() < 1e-3);
}
