//! Leaving slow start: Linux's HyStart and HyStart++ (RFC 9406).

use narrows_cc::{CaState, Decision};

use super::sender::{INFINITE, Sender};

/// One round of slow start: `acks` ACKs `gap_us` apart, all with this RTT.
fn round(s: &mut Sender, acks: u32, gap_us: u64, rtt_us: u32) -> u32 {
    s.facts.snd_una = s.facts.snd_nxt.wrapping_add(1);
    s.facts.snd_nxt = s.facts.snd_nxt.wrapping_add(1_000_000);
    let mut events = 0;
    for _ in 0..acks {
        events |= s.ack(1, rtt_us);
        s.facts.now_ns += gap_us * 1000;
    }
    events
}

#[test]
fn hystart_leaves_slow_start_when_a_rounds_shortest_rtt_has_grown() {
    // Threshold: an eighth of the shortest RTT within 4 … 16 ms.
    for (base, bound) in [(10_000, 4_000), (80_000, 10_000), (200_000, 16_000)] {
        for (more, exits) in [(bound, false), (bound + 1, true)] {
            let mut s = Sender::new("cubic hystart delay", 20, INFINITE);
            round(&mut s, 10, 10, base);
            let before = round(&mut s, 8, 10, base + more);
            assert_eq!(before, 0, "eight samples first");
            let window = s.facts.cwnd;
            let events = round_goes_on(&mut s, base + more);
            assert_eq!(events == Decision::SLOW_START_EXIT, exits, "{base} {more}");
            assert_eq!(s.facts.ssthresh == window, exits);
        }
    }
}

/// One more ACK of the same round.
fn round_goes_on(s: &mut Sender, rtt_us: u32) -> u32 {
    s.ack(1, rtt_us)
}

#[test]
fn hystart_counts_the_shortest_of_the_round() {
    let mut s = Sender::new("cubic hystart delay", 20, INFINITE);
    round(&mut s, 10, 10, 10_000);
    round(&mut s, 5, 10, 50_000);
    round_goes_on(&mut s, 10_500);
    for _ in 0..20 {
        assert_eq!(round_goes_on(&mut s, 50_000), 0);
    }
}

#[test]
fn hystart_leaves_slow_start_when_the_train_is_as_long_as_the_path() {
    // Half of the shortest RTT without pacing, all of it with.
    for (pacing, bound_us) in [(0, 10_000), (1, 20_000)] {
        let mut s = Sender::new("cubic hystart train", 20, INFINITE);
        s.facts.pacing_status = pacing;
        round(&mut s, 2, 10, 20_000);
        let start = s.facts.now_ns;
        s.facts.snd_una = s.facts.snd_nxt.wrapping_add(1);
        s.facts.snd_nxt = s.facts.snd_nxt.wrapping_add(1_000_000);
        let mut left_at = None;
        for _ in 0..30 {
            if s.ack(1, 20_000) & Decision::SLOW_START_EXIT != 0 {
                left_at = left_at.or(Some((s.facts.now_ns - start) / 1000));
            }
            s.facts.now_ns += 1_000_000;
        }
        let left_at = left_at.expect("a train as long as that");
        assert!(
            left_at > bound_us && left_at <= bound_us + 1000,
            "{left_at}"
        );
    }
}

#[test]
fn hystarts_train_has_a_cushion_for_aggregation() {
    // Four super-packets at the pacing rate, at most 1 ms.
    let left_at = |gso: u32, rate: u64| {
        let mut s = Sender::new("cubic hystart train", 20, INFINITE);
        s.facts.pacing_status = 1;
        s.facts.gso_max_size = gso;
        s.facts.pacing_rate = rate;
        round(&mut s, 2, 10, 20_000);
        let start = s.facts.now_ns;
        s.facts.snd_una = s.facts.snd_nxt.wrapping_add(1);
        s.facts.snd_nxt = s.facts.snd_nxt.wrapping_add(1_000_000);
        while s.ack(1, 20_000) == 0 {
            s.facts.now_ns += 100_000;
        }
        (s.facts.now_ns - start) / 1000
    };
    assert_eq!(left_at(65_536, 0), 20_100);
    // 4 × 65536 bytes at 1 GB/s are 262 µs.
    assert_eq!(left_at(65_536, 1_000_000_000), 20_300);
    assert_eq!(left_at(65_536, 10_000_000), 21_100);
}

#[test]
fn hystart_breaks_a_train_at_gaps_over_two_milliseconds() {
    let mut s = Sender::new("cubic hystart train", 20, INFINITE);
    round(&mut s, 1, 10, 20_000);
    for _ in 0..30 {
        s.facts.now_ns += 2_100_000;
        assert_eq!(s.ack(1, 20_000), 0);
    }
}

#[test]
fn hystart_waits_for_a_window_of_sixteen() {
    let mut s = Sender::new("cubic hystart delay", 3, INFINITE);
    s.facts.flags = 0; // the window stays
    round(&mut s, 20, 10, 10_000);
    assert_eq!(round(&mut s, 20, 10, 90_000), 0);
    s.facts.cwnd = 16;
    assert_eq!(round(&mut s, 20, 10, 90_000), Decision::SLOW_START_EXIT);
}

#[test]
fn hystart_is_over_once_it_has_spoken() {
    let mut s = Sender::new("cubic", 20, INFINITE);
    round(&mut s, 10, 10, 10_000);
    assert_ne!(round(&mut s, 10, 10, 30_000), 0);
    s.facts.ssthresh = INFINITE;
    assert_eq!(round(&mut s, 50, 10, 90_000), 0);
}

#[test]
fn rtt_samples_in_the_second_after_a_reduction_do_not_count() {
    // "Discard delay samples right after fast recovery".
    let mut s = Sender::new("cubic hystart delay", 100, 2);
    s.reduce();
    s.ack(1, 0); // the epoch begins
    s.facts.ssthresh = INFINITE;
    s.wait_ms(999);
    round(&mut s, 1, 0, 1_000);
    s.wait_ms(1);
    // Had 1 ms counted as the shortest, 10 ms would now be an increase.
    assert_eq!(round(&mut s, 20, 0, 10_000), 0);
}

#[test]
fn hystart_plus_plus_enters_conservative_slow_start_then_avoidance() {
    // RFC 9406 §4.2.
    let mut s = Sender::new("cubic hystart++", 100, INFINITE);
    s.facts.pacing_status = 1;
    round(&mut s, 10, 10, 40_000);
    // An eighth of 40 ms, on the eighth sample.
    assert_eq!(round(&mut s, 7, 10, 45_000), 0);
    assert_eq!(round_goes_on(&mut s, 45_000), Decision::CSS_ENTER);
    // A quarter of the growth.
    let before = s.facts.cwnd;
    for _ in 0..40 {
        assert_eq!(round_goes_on(&mut s, 45_000), 0);
    }
    assert_eq!(s.facts.cwnd - before, 10);
    // The partial round was the first of five.
    for _ in 2..=5 {
        assert_eq!(round(&mut s, 10, 10, 45_000), 0);
        assert_eq!(s.facts.ssthresh, INFINITE);
    }
    assert_eq!(round(&mut s, 1, 10, 45_000), Decision::SLOW_START_EXIT);
    assert!(s.facts.ssthresh <= s.facts.cwnd);
    // Never again.
    s.facts.ssthresh = INFINITE;
    round(&mut s, 10, 10, 40_000);
    assert_eq!(round(&mut s, 10, 10, 90_000), 0);
}

#[test]
fn hystart_plus_plus_resumes_slow_start_when_the_delay_was_jitter() {
    let mut s = Sender::new("cubic hystart++", 100, INFINITE);
    s.facts.pacing_status = 1;
    round(&mut s, 10, 10, 40_000);
    assert_eq!(round(&mut s, 8, 10, 46_000), Decision::CSS_ENTER);
    assert_eq!(round(&mut s, 8, 10, 45_000), Decision::CSS_RESUME);
    let before = s.facts.cwnd;
    round_goes_on(&mut s, 45_000);
    assert_eq!(s.facts.cwnd - before, 1, "full growth");
}

#[test]
fn hystart_plus_plus_thresholds_lie_between_4_and_16_ms() {
    for (base, bound) in [(10_000, 4_000), (80_000, 10_000), (400_000, 16_000)] {
        for (more, enters) in [(bound - 1, false), (bound, true)] {
            let mut s = Sender::new("cubic hystart++", 100, INFINITE);
            round(&mut s, 8, 10, base);
            let events = round(&mut s, 8, 10, base + more);
            assert_eq!(events == Decision::CSS_ENTER, enters, "{base} {more}");
        }
    }
}

#[test]
fn hystart_plus_plus_limits_growth_per_ack_without_pacing() {
    // L = 8 segments unpaced, infinite paced (RFC 9406 §4.3).
    for (pacing, grown) in [(0, 8), (1, 30)] {
        let mut s = Sender::new("cubic hystart++", 100, INFINITE);
        s.facts.pacing_status = pacing;
        s.ack(30, 10_000);
        assert_eq!(s.facts.cwnd, 100 + grown);
    }
}

#[test]
fn hystart_plus_plus_is_for_the_first_slow_start() {
    let mut s = Sender::new("cubic hystart++", 100, INFINITE);
    s.reduce();
    s.cc.set_state(&s.facts, CaState::Loss);
    s.facts.ssthresh = INFINITE;
    round(&mut s, 10, 10, 40_000);
    assert_eq!(round(&mut s, 10, 10, 90_000), 0);
}
