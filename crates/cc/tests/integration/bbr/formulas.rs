//! Formulas against their source in double precision.

use narrows_cc::ControlSpec;

use super::sender::{DRAFT, LINUX, MSS, STARTUP, Sender, V1};

const VARIANTS: [&str; 3] = [V1, LINUX, DRAFT];

/// Startup's pacing gain: Linux truncates to 2⁻⁸.
fn startup_gain(words: &str) -> f64 {
    match words {
        V1 => 739.0 / 256.0,
        LINUX => 710.0 / 256.0,
        _ => 2.77,
    }
}

fn close(found: f64, expected: f64, part: f64, what: &str) {
    assert!(
        (found / expected - 1.0).abs() < part,
        "{what}: {found}, not {expected}"
    );
}

#[test]
fn words_name_the_variant_always_and_only_linux_v3_reacts_to_marks() {
    assert_eq!(ControlSpec::parse("bbr").unwrap().to_string(), DRAFT);
    for words in VARIANTS {
        assert_eq!(ControlSpec::parse(words).unwrap().to_string(), words);
    }
    let marks = ControlSpec::parse("bbr variant linux-v3 ecn on").unwrap();
    assert!(marks.needs().ecn && marks.needs().accecn && !marks.needs().ect1);
    for words in [V1, DRAFT] {
        let refused = ControlSpec::parse(&format!("{words} ecn on")).unwrap_err();
        assert!(refused.allowed.contains("linux-v3"), "{refused}");
    }
}

#[test]
fn the_first_rate_is_the_window_per_round_trip_by_startups_gain_less_one_percent() {
    for words in VARIANTS {
        for rtt_us in [800, 20_000, 600_000] {
            let s = Sender::new(words, rtt_us);
            let window = 10.0 * f64::from(MSS) / (f64::from(rtt_us) / 1e6);
            let expected = startup_gain(words) * window * 0.99;
            // Rates are whole 2^-24 segments per us.
            close(s.facts.pacing_rate as f64, expected, 3e-3, words);
        }
        // Without a round trip, 1 ms is taken; with the first, this is done again.
        let mut s = Sender::new(words, 0);
        let nominal = startup_gain(words) * 10.0 * f64::from(MSS) / 1e-3 * 0.99;
        close(s.facts.pacing_rate as f64, nominal, 1e-3, words);
        s.facts.srtt_us = 20_000 << 3;
        s.within(1, 20_000, 9);
        let first = startup_gain(words) * 10.0 * f64::from(MSS) / 0.02 * 0.99;
        close(s.facts.pacing_rate as f64, first, 1e-3, words);
    }
}

#[test]
fn the_rate_only_rises_until_the_pipe_was_full() {
    for words in VARIANTS {
        let mut s = Sender::new(words, 10_000);
        s.round(20, 10_000, 20);
        let high = s.facts.pacing_rate;
        close(
            high as f64,
            startup_gain(words) * 20.0 * 1448.0 / 0.01 * 0.99,
            1e-3,
            words,
        );
        s.app_limited().round(2, 10_000, 2);
        assert_eq!(s.facts.pacing_rate, high, "{words}");
    }
}

#[test]
fn rate_and_window_follow_from_bandwidth_and_round_trip() {
    // 100 segments in 50 ms, in cruise: gains 1 and 2.
    for words in [LINUX, DRAFT] {
        let s = Sender::in_cruise(words);
        let bw = 100.0 / 0.05;
        close(s.bw(), bw, 1e-3, words);
        close(
            s.facts.pacing_rate as f64,
            0.99 * bw * f64::from(MSS),
            1e-3,
            words,
        );
        close(s.get("path_rtt").unwrap(), 50.0, 1e-3, words);
        let extra = s.get("extra_acked").unwrap();
        let target = 2.0 * bw * 0.05 + extra;
        let most = f64::from(s.facts.cwnd);
        assert!(most <= target.ceil() + 1.0, "{words}: {most}, {target}");
    }
}

#[test]
fn the_window_goes_to_its_target_by_what_is_acknowledged_and_back_at_once() {
    for words in VARIANTS {
        let mut s = Sender::in_probe_bw(words, 50_000);
        s.facts.cwnd = 50;
        s.within(7, 50_000, 40);
        assert_eq!(s.facts.cwnd, 57, "{words}");
        s.facts.cwnd = 100_000;
        s.within(7, 50_000, 40);
        // 2 BDP of 100, aggregation, bursts and rounding.
        assert!(
            (200..=330).contains(&s.facts.cwnd),
            "{words}: {}",
            s.facts.cwnd
        );
    }
}

#[test]
fn four_segments_are_the_least() {
    // A bandwidth-delay product below a packet: 64 kbit/s, 10 ms (test case A.14).
    for words in VARIANTS {
        let mut s = Sender::new(words, 10_000);
        for _ in 0..12 {
            s.facts.now_ns += 181_000_000;
            s.facts.rtt_us = 10_000;
            s.facts.in_flight = 1;
            s.facts.rs_prior_in_flight = 2;
            let prior = s.facts.delivered;
            s.ack(1, 1, 181_000, prior);
        }
        assert!(s.facts.cwnd >= 4, "{words}: {}", s.facts.cwnd);
        assert_ne!(s.phase(), STARTUP, "{words}");
        let rate = f64::from(MSS) / 0.181;
        let gain = s.get("pacing_gain").unwrap();
        // 2^-24 segments per us are 0.06 per second, 1 % of this rate.
        close(s.facts.pacing_rate as f64, 0.99 * gain * rate, 0.02, words);
    }
}

#[test]
fn bandwidth_is_rounded_up_in_version_3_so_that_low_rates_can_grow() {
    // One segment in 10 s is 1.68 units.
    for (words, units) in [(V1, 1.0), (LINUX, 2.0), (DRAFT, 2.0)] {
        let mut s = Sender::new(words, 50_000);
        s.facts.rtt_us = 50_000;
        let prior = s.facts.delivered;
        s.ack(1, 1, 10_000_000, prior);
        let bytes = units * f64::from(MSS) * 1e6 / f64::from(1 << 24);
        let found = s.get("bw").unwrap() * 125_000.0;
        assert!((found - bytes).abs() < 1.0, "{words}: {found}, {bytes}");
    }
}

#[test]
fn aggregation_is_what_exceeds_the_bandwidth_of_the_interval() {
    // An interval begins where what was acknowledged had fallen below the bandwidth; of
    // the two ACKs a millisecond apart, what is due in it is not extra (draft 5.5.9).
    for words in VARIANTS {
        let mut s = Sender::in_probe_bw(words, 50_000);
        // What Startup's single ACKs have left is forgotten.
        for _ in 0..12 {
            s.facts.now_ns += 200_000_000;
            s.round(50, 50_000, 80);
        }
        let bw = s.bw();
        s.facts.now_ns += 500_000_000;
        s.within(60, 50_000, 80);
        assert_eq!(s.get("extra_acked"), Some(60.0), "{words}");
        s.within(30, 50_000, 80);
        let extra = s.get("extra_acked").unwrap();
        assert!(
            (extra - (90.0 - bw * 1e-3)).abs() <= 1.0,
            "{words}: {extra}"
        );
        // Of the draft for ten rounds, of Linux for five to ten.
        for _ in 0..4 {
            s.round(10, 50_000, 90);
        }
        assert_eq!(s.get("extra_acked"), Some(extra), "{words}");
    }
}

#[test]
fn the_draft_remembers_aggregation_for_ten_rounds() {
    let mut s = Sender::in_cruise(DRAFT);
    s.facts.now_ns += 1_000_000_000;
    s.within(150, 50_000, 80);
    assert_eq!(s.get("extra_acked"), Some(150.0));
    for _ in 0..10 {
        s.facts.now_ns += 1_000_000;
        s.round(90, 50_000, 80);
        assert_eq!(s.get("extra_acked"), Some(150.0));
    }
    for _ in 0..12 {
        s.facts.now_ns += 1_000_000;
        s.round(60, 60_000, 80);
    }
    assert!(
        s.get("extra_acked") < Some(150.0),
        "{:?}",
        s.get("extra_acked")
    );
}

#[test]
fn drains_gain_empties_what_startup_has_queued() {
    for (words, gain) in [(V1, 88.0 / 256.0), (LINUX, 88.0 / 256.0), (DRAFT, 0.5)] {
        let s = Sender::in_drain(words, 50_000);
        let found = s.get("pacing_gain").unwrap();
        assert!((found - gain).abs() < 1e-4, "{words}: {found}");
        close(
            s.facts.pacing_rate as f64,
            0.99 * gain * 2000.0 * 1448.0,
            2e-3,
            words,
        );
    }
}

#[test]
fn a_burst_of_the_draft_is_a_millisecond_and_two_segments_at_least() {
    let mut s = Sender::in_cruise(DRAFT);
    // 2000 segments per second: 2 in a millisecond.
    assert_eq!(s.cc.max_tso_segs(), Some(2));
    for _ in 0..3 {
        s.round(2000, 50_000, 80);
    }
    let most = (0.99 * s.bw() * 1e-3).floor() as u32;
    assert_eq!(s.cc.max_tso_segs(), Some(most.min(65536 / MSS)));
    assert_eq!(Sender::in_cruise(LINUX).cc.max_tso_segs(), None);
}
