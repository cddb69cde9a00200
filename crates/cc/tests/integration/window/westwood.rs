//! Westwood+: Linux tcp_westwood.c v6.17.

use narrows_cc::{Controller, CwndEvent, Facts};

use super::started;

/// A round trip of `rtt_us` in which `segments` are delivered.
fn round(cc: &mut Controller, facts: &mut Facts, rtt_us: u32, segments: u32) {
    facts.now_ns += u64::from(rtt_us) * 1000 + 1000;
    facts.delivered += segments;
    facts.rtt_us = rtt_us;
    cc.in_ack_event(facts);
    cc.pkts_acked(facts);
}

fn mbit(cc: &Controller) -> Option<f64> {
    let (field, value) = cc.telemetry().next()?;
    assert_eq!(field.column(), "bandwidth_mbit");
    Some(field.in_units(value))
}

/// A connection that has seen one round trip of `rtt_us`.
fn westwood(rtt_us: u32) -> (Controller, Facts) {
    let (mut cc, mut facts) = started("westwood", 100, 50, rtt_us);
    facts.rtt_us = rtt_us;
    cc.pkts_acked(&facts);
    (cc, facts)
}

#[test]
fn the_first_sample_is_the_estimate_and_later_ones_count_an_eighth_twice() {
    let (mut cc, mut facts) = westwood(100_000);
    assert_eq!(mbit(&cc), None);
    let of = |segments: f64| segments * 1448.0 * 8.0 / 0.100_001 / 1e6;
    round(&mut cc, &mut facts, 100_000, 100);
    let (mut once, mut twice) = (of(100.0), of(100.0));
    assert!((mbit(&cc).unwrap() / twice - 1.0).abs() < 1e-3);
    for segments in [200, 200, 50, 400, 0, 0, 100] {
        round(&mut cc, &mut facts, 100_000, segments);
        once = (7.0 * once + of(f64::from(segments))) / 8.0;
        twice = (7.0 * twice + once) / 8.0;
        let found = mbit(&cc).unwrap();
        assert!((found / twice - 1.0).abs() < 1e-3, "{found}, {twice}");
    }
}

#[test]
fn a_sample_takes_a_round_trip_and_fifty_milliseconds_at_least() {
    let (mut cc, mut facts) = westwood(10_000);
    for _ in 0..4 {
        round(&mut cc, &mut facts, 10_000, 10);
        assert_eq!(mbit(&cc), None);
    }
    round(&mut cc, &mut facts, 10_000, 10);
    assert!(mbit(&cc).is_some());
    let (mut cc, mut facts) = westwood(200_000);
    round(&mut cc, &mut facts, 100_000, 10);
    assert_eq!(mbit(&cc), None);
}

#[test]
fn a_reduction_ends_at_bandwidth_by_the_smallest_round_trip() {
    let (mut cc, mut facts) = westwood(50_000);
    // 100 segments in each 100 ms, of which 50 ms are in a queue.
    for _ in 0..200 {
        round(&mut cc, &mut facts, 100_000, 100);
    }
    assert_eq!(cc.ssthresh(&facts), 50, "Reno's while it lasts");
    facts.cwnd = 50;
    let end = cc.cwnd_event(&facts, CwndEvent::CompleteCwr);
    assert!((49..=50).contains(&end.cwnd().unwrap()));
    assert_eq!(end.ssthresh(), end.cwnd());
}

#[test]
fn a_timeout_keeps_the_window_to_the_stack_and_forgets_the_round_trip() {
    let (mut cc, mut facts) = westwood(50_000);
    for _ in 0..200 {
        round(&mut cc, &mut facts, 100_000, 100);
    }
    let lost = cc.cwnd_event(&facts, CwndEvent::Loss);
    assert_eq!(lost.cwnd(), None);
    assert!((49..=50).contains(&lost.ssthresh().unwrap()));
    round(&mut cc, &mut facts, 100_000, 100);
    let lost = cc.cwnd_event(&facts, CwndEvent::Loss).ssthresh();
    assert!((98..=100).contains(&lost.unwrap()), "{lost:?}");
}

#[test]
fn no_estimate_is_two_segments() {
    let (mut cc, facts) = westwood(50_000);
    let end = cc.cwnd_event(&facts, CwndEvent::CompleteCwr);
    assert_eq!(end.cwnd(), Some(2));
}
