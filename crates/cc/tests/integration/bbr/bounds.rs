//! What losses and marks make of the bounds: draft section 5.5.10.

use narrows_cc::CaState;
use proptest::prelude::*;

use super::sender::{CRUISE, DOWN, DRAFT, DRAIN, LINUX, REFILL, STARTUP, Sender, UP};

const VERSION_3: [&str; 2] = [LINUX, DRAFT];

/// What is kept of a short-term bound, and of what may be in flight: Linux truncates.
fn kept(words: &str) -> f64 {
    if words == DRAFT { 0.7 } else { 180.0 / 256.0 }
}

#[test]
fn losses_between_probes_lower_the_short_term_bounds_once_a_round() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        let cwnd = f64::from(s.facts.cwnd);
        assert_eq!((s.get("bw_lo"), s.get("inflight_lo")), (None, None));
        s.lossy_round(50, 50_000, 80, 5);
        s.round(50, 50_000, 80);
        // max(latest, Beta bound): 50 of 100 are delivered, less than 0.7.
        let rate = s.get("bw_lo").unwrap() * 125_000.0 / 1448.0;
        let expected = kept(words) * 2000.0;
        assert!((rate / expected - 1.0).abs() < 2e-3, "{words}: {rate}");
        let flight = s.get("inflight_lo").unwrap();
        assert!(
            (flight / (kept(words) * cwnd) - 1.0).abs() < 0.1,
            "{words}: {flight}, {cwnd}"
        );
        assert!(f64::from(s.facts.cwnd) <= flight, "{words}");
        assert!((s.bw() - rate).abs() < 1.0);
        // Another round with losses lowers them again.
        s.lossy_round(50, 50_000, 60, 5);
        s.round(50, 50_000, 60);
        let again = s.get("bw_lo").unwrap() * 125_000.0 / 1448.0;
        let expected = (kept(words) * expected).max(1000.0);
        assert!((again / expected - 1.0).abs() < 3e-3, "{words}: {again}");
    }
}

#[test]
fn they_do_not_go_below_what_is_delivered() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.lossy_round(95, 50_000, 80, 3);
        s.round(95, 50_000, 80);
        let rate = s.get("bw_lo").unwrap() * 125_000.0 / 1448.0;
        assert!((rate - 1900.0).abs() < 3.0, "{words}: {rate}");
    }
}

#[test]
fn a_round_without_losses_leaves_them_and_a_refill_takes_them_away() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.lossy_round(50, 50_000, 80, 5);
        s.round(50, 50_000, 80);
        let bound = s.get("bw_lo");
        for _ in 0..3 {
            s.round(60, 50_000, 40);
        }
        assert_eq!(s.get("bw_lo"), bound, "{words}");
        s.until_refill();
        assert_eq!(
            (s.get("bw_lo"), s.get("inflight_lo")),
            (None, None),
            "{words}"
        );
    }
}

#[test]
fn startup_has_no_short_term_bounds() {
    for words in VERSION_3 {
        let mut s = Sender::new(words, 50_000);
        for _ in 0..3 {
            s.lossy_round(20, 50_000, 30, 1);
        }
        assert_eq!(s.phase(), STARTUP, "{words}");
        assert_eq!((s.get("bw_lo"), s.get("inflight_lo")), (None, None));
    }
}

/// Startup in recovery, with `events` ACKs that find `lost` each in a round of 100.
fn startup_with_losses(words: &str, events: u32, lost: u32, state: CaState) -> Sender {
    let mut s = Sender::new(words, 50_000);
    for segments in [10, 20, 40, 80] {
        s.round(segments, 50_000, segments);
    }
    s.enter(state);
    let prior = s.facts.delivered;
    for _ in 0..events {
        s.facts.lost += lost;
        s.facts.rs_losses = lost;
        s.facts.now_ns += 1_000_000;
        s.ack(1, 80, 50_000, prior - 1);
    }
    // The first loss began the round that ends with what was sent after it.
    s.facts.now_ns += 50_000_000;
    s.ack(80, 79 + events, 50_000, prior + 1);
    s
}

#[test]
fn six_lost_ranges_and_two_percent_in_a_round_of_recovery_end_startup() {
    for words in VERSION_3 {
        for (events, lost, state, ends) in [
            (6, 1, CaState::Recovery, true),
            (5, 2, CaState::Recovery, false),
            (6, 1, CaState::Disorder, false),
            (2, 12, CaState::Recovery, false),
        ] {
            let s = startup_with_losses(words, events, lost, state);
            let ended = s.get("full_bw_reached") == Some(1.0);
            assert_eq!(ended, ends, "{words}: {events} of {lost} in {state:?}");
            if ends {
                assert!([DRAIN, DOWN, CRUISE].contains(&s.phase()));
                // max(bdp, inflight_latest): 80 segments in 50 ms.
                let bound = s.get("inflight_hi").unwrap();
                assert!((80.0..=88.0).contains(&bound), "{words}: {bound}");
            }
        }
    }
}

#[test]
fn two_percent_of_a_probe_lower_the_long_term_bound_and_end_up() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        // Of 105 two are within the threshold of 2.1, and three are not.
        s.lossy_round(103, 50_000, 125, 2);
        assert_eq!((s.phase(), s.get("inflight_hi")), (UP, None), "{words}");
        let mut s = Sender::in_cruise(words);
        s.until_up();
        s.lossy_round(102, 50_000, 125, 3);
        assert_eq!(s.phase(), DOWN, "{words}");
        // In flight were 105; the third loss is the one.
        let bound = s.get("inflight_hi").unwrap();
        assert!((104.0..=105.0).contains(&bound), "{words}: {bound}");
    }
}

#[test]
fn the_bound_is_at_least_beta_of_the_target() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        s.lossy_round(20, 50_000, 125, 20);
        // 40 were in flight; 0.7 of 100 is more. Linux has two segments of room.
        let bound = s.get("inflight_hi").unwrap();
        assert!((69.0..=73.0).contains(&bound), "{words}: {bound}");
    }
}

#[test]
fn losses_of_a_probe_that_the_application_limits_end_it_and_set_no_bound() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        s.app_limited().lossy_round(40, 50_000, 60, 5);
        assert_ne!(s.phase(), UP, "{words}");
        assert_eq!(
            (s.get("up_losses"), s.get("inflight_hi")),
            (Some(1.0), None)
        );
    }
}

#[test]
fn losses_of_what_was_sent_between_probes_set_no_long_term_bound() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.lossy_round(50, 50_000, 80, 20);
        assert_eq!((s.phase(), s.get("inflight_hi")), (CRUISE, None), "{words}");
    }
}

#[test]
fn cruise_leaves_headroom_below_the_bound() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        s.lossy_round(97, 50_000, 125, 3);
        let bound = s.get("inflight_hi").unwrap();
        // Down to 85 %, not merely to the bandwidth-delay product.
        s.within(1, 50_000, 95);
        assert_eq!(s.phase(), DOWN, "{words}");
        s.within(1, 50_000, (0.85 * bound) as u32);
        assert_eq!(s.phase(), CRUISE, "{words}");
        let most = bound - (0.15 * bound).floor();
        assert!(
            f64::from(s.facts.cwnd) <= most + 1.0,
            "{words}: {}",
            s.facts.cwnd
        );
    }
}

/// After a probe that was too high, in the next one.
fn second_probe(words: &str) -> (Sender, u32) {
    let mut s = Sender::in_cruise(words);
    s.until_up();
    s.lossy_round(97, 50_000, 125, 3);
    let bound = s.get("inflight_hi").unwrap() as u32;
    for _ in 0..200 {
        s.round(60, 50_000, 50);
        if s.phase() == UP {
            return (s, bound);
        }
    }
    panic!("no second probe");
}

#[test]
fn the_probe_after_one_that_was_too_high_stops_at_the_bound_and_then_another_goes_on() {
    // Draft 5.3.3.6.
    for words in VERSION_3 {
        let (mut s, bound) = second_probe(words);
        s.within(1, 50_000, bound - 2);
        assert_eq!(s.phase(), UP, "{words}");
        s.within(1, 50_000, bound);
        assert_eq!(s.phase(), DOWN, "{words}: at the bound");
        // A round of its feedback without losses: at once up again, without cruise.
        s.round(60, 50_000, bound - 20);
        assert_eq!(s.phase(), REFILL, "{words}");
        s.round(60, 50_000, bound - 20);
        assert_eq!(s.phase(), UP, "{words}");
        s.within(1, 50_000, bound);
        assert_eq!(s.phase(), UP, "{words}: it persists");
    }
}

#[test]
fn losses_in_the_feedback_of_such_a_probe_keep_it_from_going_on() {
    for words in VERSION_3 {
        let (mut s, bound) = second_probe(words);
        s.within(1, 50_000, bound);
        assert_eq!(s.phase(), DOWN, "{words}");
        s.lossy_round(60, 50_000, bound - 20, 10);
        assert!(![REFILL, UP].contains(&s.phase()), "{words}");
        s.round(60, 50_000, bound - 20);
        assert!(![REFILL, UP].contains(&s.phase()), "{words}");
    }
}

#[test]
fn the_bound_grows_by_one_two_four_and_so_on_in_rounds_of_up() {
    // Draft 5.3.3.5, test case A.15.
    for words in VERSION_3 {
        let (mut s, bound) = second_probe(words);
        s.within(1, 50_000, bound);
        s.round(60, 50_000, bound - 20);
        s.round(60, 50_000, bound - 20);
        assert_eq!(s.phase(), UP);
        let mut grown = Vec::new();
        for _ in 0..6 {
            let before = s.get("inflight_hi").unwrap();
            // A window's worth of ACKs, of which none is of more in flight.
            let window = before as u32;
            for i in 0..window {
                // It follows the bound.
                s.facts.cwnd = s.get("inflight_hi").unwrap() as u32;
                s.facts.flags |= narrows_cc::Flags::CWND_LIMITED;
                s.facts.now_ns += 500_000;
                s.facts.in_flight = window - 5;
                s.facts.rs_prior_in_flight = window - 5;
                s.facts.rtt_us = 50_000;
                // The last one ends the round.
                let prior = if i + 1 == window {
                    s.facts.delivered
                } else {
                    s.facts.delivered - window
                };
                s.ack(1, 20, 50_000, prior);
            }
            grown.push(s.get("inflight_hi").unwrap() - before);
        }
        for (i, by) in grown.iter().enumerate() {
            let expected = f64::from(1 << i);
            assert!(
                (by - expected).abs() <= 0.25 * expected + 1.0,
                "{words}: {grown:?}"
            );
        }
    }
}

#[test]
fn more_in_flight_without_losses_raises_the_bound_in_any_state() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        s.lossy_round(97, 50_000, 125, 3);
        s.round(150, 50_000, 60);
        s.round(150, 50_000, 60);
        assert_eq!(s.get("inflight_hi"), Some(150.0), "{words}");
    }
}

#[test]
fn marks_lower_the_flight_by_a_third_of_alpha_on_short_paths() {
    // google/bbr: ecn_factor 85/256, alpha from 1 by a sixteenth per round.
    let start = |words: &str, rtt_us: u32| {
        let s = Sender::in_probe_bw(words, rtt_us);
        assert_eq!(s.phase(), CRUISE);
        s
    };
    let marked = |s: &mut Sender, rtt_us: u32| {
        s.facts.flags |= narrows_cc::Flags::ACK_ECE;
        s.facts.delivered_ce += 10;
        s.round(100, rtt_us, 80);
        s.facts.flags = 0;
        s.round(100, rtt_us, 80);
    };
    let mut s = start("bbr variant linux-v3 ecn on", 4000);
    let cwnd = f64::from(s.facts.cwnd);
    let mut alpha = 1.0;
    for _ in 0..9 {
        alpha *= 15.0 / 16.0;
    }
    alpha += 0.1 / 16.0;
    marked(&mut s, 4000);
    let found = s.get("inflight_lo").unwrap();
    let expected = cwnd * (1.0 - alpha * 85.0 / 256.0);
    assert!(
        (found - expected).abs() < 0.06 * cwnd,
        "{found}, {expected} of {cwnd}"
    );
    assert_eq!(s.get("bw_lo"), None, "the rate stays");
    // Not beyond 5 ms, and not without the word.
    for (words, rtt_us) in [
        ("bbr variant linux-v3 ecn on", 6000),
        (LINUX, 4000),
        (DRAFT, 4000),
    ] {
        let mut s = start(words, rtt_us);
        marked(&mut s, rtt_us);
        assert_eq!(s.get("inflight_lo"), None, "{words}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The lost segment with which the threshold is passed, by a walk over the flight in
    /// double precision (InflightAtLoss).
    #[test]
    fn the_bound_is_where_the_losses_of_a_flight_pass_the_threshold(
        delivered in 60..3000_u32,
        lost in 1..300_u32,
    ) {
        let mut s = Sender::in_cruise(DRAFT);
        s.until_up();
        let flight = delivered + lost;
        s.lossy_round(delivered, 50_000, 125, lost);
        // What is delivered is the new bandwidth, but not before this is judged.
        let least = 0.7 * 100.0;
        let mut expected = None;
        for nth in 1..=lost {
            if f64::from(nth) > f64::from(flight) * 0.02 {
                let before = f64::from(flight - 1);
                let prefix = (0.02 * before - f64::from(nth - 1)) / 0.98;
                expected = Some((before + prefix).max(least));
                break;
            }
        }
        let found = s.get("inflight_hi");
        match expected {
            None => prop_assert_eq!(found, None),
            // 2 % is 1311 of 65536, 0.02 % more.
            Some(expected) => {
                let found = found.unwrap_or(f64::NAN);
                prop_assert!((found - expected).abs() <= 2.0, "{found}, {expected}");
            }
        }
    }

    /// What was lost since the sampled segment left, whatever the ACKs that found it.
    #[test]
    fn losses_are_counted_since_the_sampled_segment_left(
        steps in prop::collection::vec((1..20_u32, 0..4_u32), 40..160),
        back in 1..30_usize,
    ) {
        let mut s = Sender::in_cruise(DRAFT);
        s.until_up();
        let mut history = vec![(s.facts.delivered, s.facts.lost)];
        let (mut worst, mut marks) = (0.0_f64, Vec::new());
        for (acked, lost) in steps {
            s.facts.lost += lost;
            s.facts.rs_losses = lost;
            let at = history.len().saturating_sub(back);
            let (prior, base) = history[at];
            let delivered = s.facts.delivered + acked - prior;
            let since = s.facts.lost - base;
            let share = f64::from(since) / f64::from(delivered + since);
            if lost > 0 {
                marks.push(prior);
            }
            s.facts.now_ns += 1_000_000;
            s.ack(acked, delivered, 50_000, prior);
            history.push((s.facts.delivered, s.facts.lost));
            if s.phase() != UP {
                // It ended for the losses: they were more than 2 %, or a plateau.
                prop_assert!(share > 0.02 || s.get("full_bw_count") == Some(3.0), "{share}");
                return Ok(());
            }
            worst = if lost > 0 { worst.max(share) } else { worst };
        }
        prop_assert!(worst <= 0.0205, "{worst} was let pass");
    }
}
