//! LEDBAT's rules (RFC 6817) and LEDBAT++'s
//! (draft-irtf-iccrg-ledbat-plus-plus-01), one trace each.

use crate::cubic::sender::{INFINITE, Sender};
use narrows_cc::{Decision, Flags};

const BASE_US: u32 = 20_000;

/// A sender that has seen the base delay, and then a queue of `queue_us` for as long
/// as the filter of current delays remembers.
fn with_queue(words: &str, cwnd: u32, ssthresh: u32, queue_us: u32) -> Sender {
    let mut s = Sender::new(words, cwnd, ssthresh);
    s.facts.srtt_us = BASE_US << 3;
    sample(&mut s, BASE_US);
    for _ in 0..4 {
        sample(&mut s, BASE_US + queue_us);
    }
    s
}

fn sample(s: &mut Sender, rtt_us: u32) {
    s.facts.rtt_us = rtt_us;
    s.cc.pkts_acked(&s.facts);
}

fn avoid(s: &mut Sender, acked: u32) -> u32 {
    let decision = s.cc.cong_avoid(&s.facts, acked);
    decision.apply(&mut s.facts);
    decision.events
}

/// Telemetry in its units.
fn reported(s: &Sender, name: &str) -> f64 {
    let mut all = s.cc.telemetry();
    let (field, value) = all.find(|(f, _)| f.name == name).expect("a value");
    field.in_units(value)
}

#[test]
fn ledbat_moves_by_gain_and_the_distance_from_the_target() {
    // RFC 6817 §2.4.2: cwnd += GAIN off_target acked / cwnd.
    for (gain, queue_us) in [
        (1024, 0),
        (1024, 99_000),
        (1024, 100_000),
        (1024, 150_000),
        (256, 30_000),
        (1024, 390_000),
    ] {
        let words = format!("ledbat gain {gain}");
        let mut s = with_queue(&words, 100, 2, queue_us);
        let off = (100_000.0 - f64::from(queue_us)) / 100_000.0;
        let mut exact = 100.0;
        for _ in 0..300 {
            exact += f64::from(gain) / 1024.0 * off * 3.0 / f64::from(s.facts.cwnd);
            avoid(&mut s, 3);
            let got = f64::from(s.facts.cwnd);
            assert!(
                (got - exact.floor()).abs() <= 1.0,
                "{words}, {queue_us}: {got}, {exact}"
            );
        }
    }
}

#[test]
fn ledbat_keeps_two_segments_and_halves_for_a_loss() {
    let mut s = with_queue("ledbat", 5, 2, 1_000_000);
    for _ in 0..100 {
        avoid(&mut s, 2);
    }
    assert_eq!(s.facts.cwnd, 2);
    for (cwnd, half) in [(100, 50), (5, 2), (2, 2)] {
        s.facts.cwnd = cwnd;
        assert_eq!(s.cc.ssthresh(&s.facts), half);
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow_and_still_shrinks() {
    let mut s = with_queue("ledbat", 50, 2, 0);
    s.facts.flags &= !Flags::CWND_LIMITED;
    avoid(&mut s, 1000);
    assert_eq!(s.facts.cwnd, 50);
    let mut s = with_queue("ledbat", 50, 2, 200_000);
    s.facts.flags &= !Flags::CWND_LIMITED;
    avoid(&mut s, 100);
    assert_eq!(s.facts.cwnd, 48);
}

#[test]
fn the_base_is_the_least_of_ten_minutes_and_the_current_delay_of_four_samples() {
    // RFC 6817 §2.4.2: BASE_HISTORY 10, one least each minute; CURRENT_FILTER.
    let mut s = with_queue("ledbat", 10, 2, 40_000);
    assert_eq!(
        (reported(&s, "base_delay"), reported(&s, "queue_delay")),
        (20.0, 40.0)
    );
    sample(&mut s, 90_000);
    assert_eq!(reported(&s, "queue_delay"), 40.0, "the least of four");
    for minute in 1..=10 {
        s.wait_ms(60_000);
        sample(&mut s, 50_000);
        let base = if minute < 10 { 20.0 } else { 50.0 };
        assert_eq!(reported(&s, "base_delay"), base, "after {minute} min");
    }
}

#[test]
fn ledbat_begins_without_slow_start_unless_asked_to() {
    let s = Sender::new("ledbat", 10, INFINITE);
    assert_eq!(s.facts.ssthresh, 10);
    let mut s = with_queue("ledbat slow_start on", 10, INFINITE, 0);
    assert_eq!(s.facts.ssthresh, INFINITE);
    avoid(&mut s, 10);
    assert_eq!(s.facts.cwnd, 20);
    for _ in 0..4 {
        sample(&mut s, BASE_US + 75_001);
    }
    assert_eq!(avoid(&mut s, 1) & Decision::SLOW_START_EXIT, 1);
    assert_eq!((s.facts.cwnd, s.facts.ssthresh), (20, 20));
}

#[test]
fn ledbatpp_grows_by_its_gain_per_round_trip() {
    // GAIN = 1 / min(16, ceil(2 TARGET / base)): 6 at 20 ms, 16 at 5 ms, 1 at 200 ms.
    for (base_us, slowness) in [(20_000, 6), (5_000, 16), (200_000, 1), (7_600, 16)] {
        let mut s = Sender::new("ledbatpp slowdown off", 50, 2);
        s.facts.srtt_us = base_us << 3;
        sample(&mut s, base_us);
        // Slow start is left by a loss.
        s.reduce();
        s.facts.cwnd = 50;
        s.facts.ssthresh = 25;
        for _ in 0..10 * slowness {
            let window = s.facts.cwnd;
            avoid(&mut s, window);
        }
        assert!(
            (59..=60).contains(&s.facts.cwnd),
            "{base_us}: {}",
            s.facts.cwnd
        );
    }
}

#[test]
fn ledbatpp_comes_down_in_proportion_by_half_at_most_per_round_trip() {
    // W += max(GAIN - W (queue / TARGET - 1), -W / 2), shared among the ACKs of a
    // window.
    for (queue_us, kept) in [(66_000, 0.9), (75_000, 0.75), (90_000, 0.5), (600_000, 0.5)] {
        let mut s = with_queue("ledbatpp slowdown off", 600, 2, queue_us);
        s.reduce();
        s.facts.cwnd = 600;
        s.facts.ssthresh = 25;
        avoid(&mut s, 600);
        let exact = 600.0 * kept + if kept > 0.5 { 1.0 / 6.0 } else { 0.0 };
        let got = f64::from(s.facts.cwnd);
        assert!((got - exact).abs() < 1.01, "{queue_us}: {got}, {exact}");
    }
}

#[test]
fn ledbatpp_slows_down_after_slow_start_and_then_after_nine_times_as_long() {
    let mut s = with_queue("ledbatpp", 30, INFINITE, 0);
    avoid(&mut s, 12);
    assert_eq!(s.facts.cwnd, 32, "slow start by a sixth of what is acked");
    for _ in 0..4 {
        sample(&mut s, BASE_US + 45_001);
    }
    let events = avoid(&mut s, 1);
    assert_eq!(
        events & Decision::SLOW_START_EXIT,
        1,
        "three quarters of 60 ms"
    );
    let kept = s.facts.cwnd;
    s.wait_ms(39);
    avoid(&mut s, 1);
    assert_eq!(s.facts.cwnd, kept);
    // Two round trips of 20 ms after it: two segments, for two round trips.
    s.wait_ms(1);
    avoid(&mut s, 1);
    assert_eq!((s.facts.cwnd, s.facts.ssthresh), (2, kept));
    s.wait_ms(39);
    avoid(&mut s, 2);
    assert_eq!(s.facts.cwnd, 2);
    s.wait_ms(1);
    // Slow start back, whatever the queue: a sixth of each window.
    let mut took = 40;
    while s.facts.cwnd < kept {
        let window = s.facts.cwnd;
        avoid(&mut s, window);
        s.wait_ms(20);
        took += 20;
    }
    avoid(&mut s, 0);
    assert_eq!(s.facts.cwnd, kept, "no more than before");
    sample(&mut s, BASE_US);
    s.wait_ms(9 * took - 1);
    avoid(&mut s, 0);
    assert_eq!(s.facts.cwnd, kept);
    s.wait_ms(1);
    avoid(&mut s, 0);
    assert_eq!(s.facts.cwnd, 2, "{took} ms, nine times");
}

#[test]
fn what_the_delay_took_from_the_window_is_not_given_back_by_slow_start() {
    // The thresholds are those that a loss or the end of slow start leaves: above the
    // window that the delay asks for. A round trip's slow start is worth a sixth of the
    // window in LEDBAT++, a whole one in LEDBAT; its gain is at most one segment.
    for (words, target_us) in [("ledbat", 100_000), ("ledbatpp slowdown off", 60_000)] {
        let mut s = with_queue(words, 100, 100, target_us * 5 / 4);
        s.reduce();
        s.facts.cwnd = 100;
        s.facts.ssthresh = 100;
        for _ in 0..200 {
            let window = s.facts.cwnd;
            avoid(&mut s, window);
            assert!(s.facts.cwnd <= window, "{words}: {window}");
        }
        assert!(s.facts.cwnd < 60, "{words}: {}", s.facts.cwnd);
        for _ in 0..4 {
            sample(&mut s, BASE_US + target_us / 2);
        }
        let window = s.facts.cwnd;
        avoid(&mut s, window);
        assert!(s.facts.cwnd <= window + 1, "{words}: {window}");
        assert!(s.facts.ssthresh <= window, "{words}");
        // A timeout's slow start ends there, too.
        s.reduce();
        s.facts.cwnd = 1;
        for _ in 0..100 {
            let window = s.facts.cwnd;
            avoid(&mut s, window);
            if s.facts.cwnd >= s.facts.ssthresh {
                break;
            }
        }
        assert!(s.facts.cwnd <= window / 2 + 1, "{words}");
    }
}

#[test]
fn alone_on_a_pipe_each_fills_the_queue_to_its_target() {
    // A pipe of 80 segments in 20 ms, and a queue without end.
    for (words, target_us) in [
        ("ledbat", 100_000.0),
        ("ledbat target 25ms", 25_000.0),
        ("ledbatpp slowdown off", 60_000.0),
    ] {
        let mut s = Sender::new(words, 10, INFINITE);
        s.facts.srtt_us = BASE_US << 3;
        // Less than ten minutes: with its own queue always there, the base would be
        // forgotten, and the queue grow by another target.
        for _ in 0..3000 {
            let rtt = BASE_US * s.facts.cwnd.max(80) / 80;
            for _ in 0..4 {
                sample(&mut s, rtt);
            }
            s.wait_ms(u64::from(rtt / 1000));
            let window = s.facts.cwnd;
            avoid(&mut s, window);
        }
        let queue = f64::from(BASE_US) * (f64::from(s.facts.cwnd) / 80.0 - 1.0);
        assert!(
            (queue / target_us - 1.0).abs() < 0.03,
            "{words}: {queue} us"
        );
    }
}
