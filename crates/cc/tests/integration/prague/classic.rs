//! The fall-back on a classic AQM (arXiv 1911.00710).

use narrows_cc::CaState;

use super::sender::Sender;

/// A score above the first threshold lifts the reduction towards CUBIC's.
fn reduction_on_a_bloated_queue(words: &str) -> u32 {
    let mut s = Sender::new(words, 100, 60);
    s.facts.ssthresh = s.cc.ssthresh(&s.facts);
    s.ack_ending_round(1, 1);
    for round in 0..400_u32 {
        // A deep and swinging queue: 10 ms base, 30 to 90 ms in all.
        for ack in 0..20 {
            s.facts.rtt_us = 30_000 + (round * 20 + ack) % 60 * 1000;
            s.cc.pkts_acked(&s.facts);
        }
        s.ack_ending_round(0, 0);
    }
    s.facts.cwnd = 100;
    s.enter(CaState::Cwr);
    100 - s.settle()
}

#[test]
fn the_classic_fallback_is_off_by_default_and_present() {
    assert!(reduction_on_a_bloated_queue("prague variant 2020") <= 1);
    assert!(reduction_on_a_bloated_queue("prague variant 2020 ecn_fallback detect") <= 1);
    let with = reduction_on_a_bloated_queue("prague variant 2020 ecn_fallback on");
    // alpha 0.625 / 2
    assert!((30..=32).contains(&with), "{with}");
}

#[test]
fn nothing_is_detected_on_a_shallow_queue() {
    let mut s = Sender::new("prague variant 2020 ecn_fallback on", 100, 60);
    s.facts.ssthresh = s.cc.ssthresh(&s.facts);
    s.ack_ending_round(1, 1);
    for round in 0..400_u32 {
        for ack in 0..20 {
            s.facts.rtt_us = 10_000 + (round * 20 + ack) % 7 * 50;
            s.cc.pkts_acked(&s.facts);
        }
        s.ack_ending_round(0, 0);
    }
    s.facts.cwnd = 100;
    s.enter(CaState::Cwr);
    assert!(100 - s.settle() <= 1);
}
