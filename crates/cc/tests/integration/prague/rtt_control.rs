//! RTT independence: `prague_rtt_scaling` of L4STeam/linux
//! net/ipv4/tcp_prague.c.

use narrows_cc::{CaState, Flags};

use super::sender::Sender;

/// Windows gained per round trip at `rtt_us` after `rounds` rounds.
fn growth(words: &str, rtt_us: u32, rounds: u32) -> f64 {
    let mut s = Sender::new(words, 100, 5);
    s.facts.srtt_us = rtt_us << 3;
    s.facts.flags = 0; // rounds pass, the window rests
    for _ in 0..rounds {
        s.facts.now_ns += 1_000_000_000;
        s.ack_ending_round(0, 0);
    }
    s.facts.flags = Flags::CWND_LIMITED;
    let (from, acks) = (s.facts.cwnd, 200_000);
    for _ in 0..acks {
        s.ack(1, 0);
    }
    // acks = ∫ W dW / growth
    let (w0, w1) = (f64::from(from), f64::from(s.facts.cwnd));
    (w1 * w1 - w0 * w0) / 2.0 / f64::from(acks)
}

#[test]
fn rtt_control_is_off_by_default_in_2020() {
    assert!((growth("prague variant 2020", 5_000, 600) - 1.0).abs() < 0.02);
}

#[test]
fn rtt_control_rate_scales_growth_by_the_square_of_the_ratio_after_the_transition() {
    let words = "prague variant 2020 rtt_control rate rtt_target 25ms rtt_transition 500";
    assert!((growth(words, 5_000, 450) - 1.0).abs() < 0.02);
    // In units of 128 µs: 39² / 195².
    assert!((growth(words, 5_000, 600) - 0.04).abs() < 0.002);
    assert!((growth(words, 10_000, 600) - 0.16).abs() < 0.005);
    assert!((growth(words, 25_000, 600) - 1.0).abs() < 0.02);
    assert!((growth(words, 100_000, 600) - 1.0).abs() < 0.02);
}

#[test]
fn rtt_control_scalable_keeps_an_eighth() {
    let words = "prague variant 2020 rtt_control scalable rtt_transition 4";
    // Below 1.5 ms: 1/8 × rtt / 16.384 ms; 1 ms is 7 units of 128.
    assert!((growth(words, 1_000, 10) - 7.0 / 128.0 / 8.0).abs() < 0.001);
    // 10 ms is 78 units: (16 + 66) / 128 × 78 / 128.
    assert!((growth(words, 10_000, 10) - 82.0 * 78.0 / 16384.0).abs() < 0.01);
}

#[test]
fn rtt_control_additive_adds_the_target() {
    let words = "prague variant 2020 rtt_control additive rtt_transition 4";
    // 10 ms is 78 units, 25 ms 195.
    let expected = 78.0 * 78.0 / (273.0 * 273.0);
    assert!((growth(words, 10_000, 10) - expected).abs() < 0.005);
}

#[test]
fn rtt_control_spaces_reductions_and_updates_by_the_target() {
    let mut s = Sender::new(
        "prague variant 2020 rtt_control rate rtt_transition 2",
        100,
        5,
    );
    for _ in 0..4 {
        s.facts.now_ns += 30_000_000;
        s.ack_ending_round(1, 1);
    }
    let alpha = s.alpha();
    s.facts.now_ns += 10_000_000;
    s.ack_ending_round(1, 1);
    assert_eq!(s.alpha(), alpha, "10 ms are no target round trip");
    s.facts.now_ns += 15_000_000;
    s.ack_ending_round(1, 0);
    assert_ne!(s.alpha(), alpha);

    s.enter(CaState::Cwr);
    let reduced = s.settle();
    assert!(reduced < 100);
    s.enter(CaState::Open);
    s.facts.now_ns += 10_000_000;
    s.enter(CaState::Cwr);
    assert_eq!(s.settle(), reduced, "the second within 25 ms is none");
    s.enter(CaState::Open);
    s.facts.now_ns += 25_000_000;
    s.enter(CaState::Cwr);
    assert!(s.settle() < reduced);
}
