//! Hybla: Caini and Firrincieli 2004, with Linux's arithmetic (tcp_hybla.c v6.17).

use narrows_cc::{CaState, Facts};

use super::started;

fn rho(cc: &narrows_cc::Controller) -> f64 {
    let (field, value) = cc.telemetry().next().unwrap();
    assert_eq!(field.name, "rho");
    field.in_units(value)
}

/// Window after `acks` ACKs of a segment each.
fn after(words: &str, cwnd: u32, ssthresh: u32, srtt_us: u32, acks: u32) -> u32 {
    let (mut cc, mut facts) = started(words, cwnd, ssthresh, srtt_us);
    for _ in 0..acks {
        cc.cong_avoid(&facts, 1).apply(&mut facts);
    }
    facts.cwnd
}

#[test]
fn rho_is_the_smoothed_round_trip_by_rtt0_and_at_least_one() {
    for (srtt_us, rtt0, expected) in [
        (10_000, "25ms", 1.0),
        (25_000, "25ms", 1.0),
        (50_000, "25ms", 2.0),
        (60_000, "25ms", 2.375),
        (600_000, "25ms", 24.0),
        (600_000, "100ms", 6.0),
    ] {
        let (cc, _) = started(&format!("hybla rtt0 {rtt0}"), 10, 20, srtt_us);
        assert_eq!(rho(&cc), expected, "{srtt_us} us over {rtt0}");
    }
}

#[test]
fn only_a_smaller_round_trip_changes_rho() {
    let (mut cc, mut facts) = started("hybla", 10, 20, 100_000);
    for (srtt_us, expected) in [(200_000, 4.0), (75_000, 3.0), (100_000, 3.0)] {
        facts.srtt_us = srtt_us << 3;
        cc.cong_avoid(&facts, 1).apply(&mut facts);
        assert_eq!(rho(&cc), expected);
    }
}

#[test]
fn congestion_avoidance_adds_rho_squared_per_window_of_acks() {
    // Section 3: W grows by rho^2 / W per ACK, so that W dW = rho^2 dn.
    for (srtt_us, rho) in [
        (25_000, 1.0),
        (50_000, 2.0),
        (100_000, 4.0),
        (250_000, 10.0),
    ] {
        let grown = f64::from(after("hybla", 50, 2, srtt_us, 1000));
        let expected = f64::sqrt(50.0 * 50.0 + 2.0 * rho * rho * 1000.0);
        // Each increment is truncated to 2^-7.
        let slack = 0.03 * expected + 1000.0 / 128.0;
        assert!(
            (grown - expected).abs() < slack,
            "{srtt_us}: {grown}, {expected}"
        );
    }
}

#[test]
fn slow_start_multiplies_by_two_to_the_rho_and_stops_at_the_threshold() {
    // Smoothed round trip, and two to the power of it over 25 ms.
    for (srtt_us, power) in [
        (25_000_u32, 2.0),
        (50_000, 4.0),
        (62_500, 4.0 * std::f64::consts::SQRT_2),
        (75_000, 8.0),
    ] {
        let grown = f64::from(after("hybla", 1000, 0x7fff_ffff, srtt_us, 100));
        let expected = 1000.0 + 100.0 * (power - 1.0);
        assert!(
            (grown - expected).abs() < 2.0,
            "{srtt_us}: {grown}, {expected}"
        );
    }
    assert_eq!(after("hybla", 10, 15, 100_000, 1), 15);
}

#[test]
fn where_the_increment_is_nothing_it_grows_as_reno() {
    // 2 · 8² / 300 is 0 in 2⁻⁷.
    assert_eq!(after("hybla", 300, 2, 20_000, 300), 301);
    assert_eq!(after("hybla", 300, 2, 20_000, 299), 300);
}

#[test]
fn outside_the_open_state_it_grows_as_reno() {
    let (mut cc, mut facts) = started("hybla", 100, 200, 250_000);
    cc.set_state(&facts, CaState::Loss);
    cc.cong_avoid(&facts, 1).apply(&mut facts);
    assert_eq!(facts.cwnd, 101);
    cc.set_state(&facts, CaState::Open);
    cc.cong_avoid(&facts, 1).apply(&mut facts);
    assert_eq!(facts.cwnd, 200);
}

#[test]
fn the_application_and_the_clamp_limit_it_and_reductions_halve() {
    let (mut cc, mut facts) = started("hybla", 100, 200, 250_000);
    facts.flags = 0;
    assert_eq!(cc.cong_avoid(&facts, 1).set, 0);
    facts.flags = narrows_cc::Flags::CWND_LIMITED;
    facts.cwnd_clamp = 120;
    assert_eq!(cc.cong_avoid(&facts, 1).cwnd(), Some(120));
    assert_eq!(cc.ssthresh(&facts), 50);
    let prior = Facts {
        prior_cwnd: 130,
        ..facts
    };
    assert_eq!(cc.undo_cwnd(&prior), 130);
}
