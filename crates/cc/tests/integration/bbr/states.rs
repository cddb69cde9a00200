//! The states of version 3 and how one follows another: draft section 5.3.

use narrows_cc::{CaState, Decision, Flags};

use super::sender::{CRUISE, DOWN, DRAFT, DRAIN, LINUX, PROBE_RTT, REFILL, STARTUP, Sender, UP};

const VERSION_3: [&str; 2] = [LINUX, DRAFT];

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    for words in VERSION_3 {
        let mut s = Sender::new(words, 50_000);
        for segments in [10, 20, 40] {
            s.round(segments, 50_000, segments);
        }
        // 25 % more is growth (test case A.1).
        s.round(51, 50_000, 51);
        assert_eq!(s.get("full_bw_count"), Some(0.0), "{words}");
        for (segments, count) in [(60, 1.0), (61, 2.0), (62, 3.0)] {
            assert_eq!(s.phase(), STARTUP, "{words}");
            s.round(segments, 50_000, 150);
            assert_eq!(s.get("full_bw_count"), Some(count), "{words}");
        }
        assert_eq!(s.get("full_bw_reached"), Some(1.0));
        assert_eq!(s.phase(), DRAIN, "{words}");
        assert!(s.last.set & Decision::SSTHRESH != 0);
    }
}

#[test]
fn growth_resets_the_count() {
    for words in VERSION_3 {
        let mut s = Sender::new(words, 50_000);
        for segments in [40, 42, 43, 60, 61, 62] {
            s.round(segments, 50_000, 150);
        }
        assert_eq!(s.phase(), STARTUP, "{words}");
        s.round(63, 50_000, 150);
        assert_eq!(s.phase(), DRAIN, "{words}");
    }
}

#[test]
fn a_round_that_the_application_limits_does_not_count() {
    for words in VERSION_3 {
        let mut s = Sender::new(words, 50_000);
        s.round(40, 50_000, 40);
        for _ in 0..60 {
            s.app_limited().round(10, 50_000, 10);
        }
        // Test case A.7.
        assert_eq!(s.phase(), STARTUP, "{words}");
        assert_eq!(s.get("full_bw_count"), Some(0.0), "{words}");
        assert!((s.bw() - 800.0).abs() < 1.0, "{words}: {}", s.bw());
    }
}

#[test]
fn a_sample_of_the_application_counts_where_it_is_more() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.app_limited().round(50, 50_000, 40);
        assert!((s.bw() - 2000.0).abs() < 1.0, "{words}");
        s.app_limited().round(130, 50_000, 40);
        assert!((s.bw() - 2600.0).abs() < 1.0, "{words}");
    }
}

#[test]
fn drain_ends_when_the_flight_is_the_bandwidth_delay_product() {
    for words in VERSION_3 {
        let mut s = Sender::in_drain(words, 50_000);
        s.within(1, 60_000, 102);
        assert_eq!(s.phase(), DRAIN, "{words}");
        // What is in flight is no more for ProbeBW_DOWN to drain.
        s.within(1, 60_000, 99);
        assert_eq!(s.phase(), CRUISE, "{words}");
        assert_eq!(s.get("drain_exit"), Some(1.0));
    }
}

#[test]
fn the_drafts_drain_ends_after_three_rounds_at_the_latest() {
    for (words, ends) in [(DRAFT, true), (LINUX, false)] {
        let mut s = Sender::in_drain(words, 50_000);

        // Test case A.4: more than three rounds after it began.
        for _ in 0..3 {
            s.round(90, 55_000, 150);
            assert_eq!(s.phase(), DRAIN, "{words}");
        }
        s.round(90, 55_000, 150);
        assert_eq!(s.phase() == DOWN, ends, "{words}");
    }
}

#[test]
fn probe_down_paces_slowly_until_there_is_headroom_and_no_queue() {
    for (words, gain) in [(LINUX, 232.0 / 256.0), (DRAFT, 0.9)] {
        let mut s = Sender::in_down(words);
        let found = s.get("pacing_gain").unwrap();
        assert!((found - gain).abs() < 1e-4, "{words}: {found}");
        s.within(1, 55_000, 115);
        assert_eq!(s.phase(), DOWN, "{words}");
        s.within(1, 55_000, 98);
        assert_eq!(s.phase(), CRUISE, "{words}");
        assert_eq!(s.get("pacing_gain"), Some(1.0));
    }
}

#[test]
fn bandwidth_is_probed_after_two_to_three_seconds_of_wall_clock() {
    // Rounds of 200 ms, so that 63 of them are longer (draft 5.3.3.8.2).
    for (random, wait_ms) in [(0, 2000), (0x8000_0000, 2500), (0xffff_fffe, 2999)] {
        for words in VERSION_3 {
            let mut s = Sender::in_cruise(words);
            s.facts.random = random;
            // The wait is picked on entering ProbeBW_DOWN: once more from there.
            s.until_up();
            for _ in 0..3 {
                s.round(100, 50_000, 150);
            }
            assert_eq!(s.phase(), DOWN, "{words}");
            let mut waited = 0;
            while s.phase() != REFILL {
                s.round(200, 100_000, 80);
                waited += 100;
                assert!(waited < 4000, "{words}");
            }
            assert!(
                waited > wait_ms && waited <= wait_ms + 100,
                "{words}: {waited}"
            );
        }
    }
}

#[test]
fn or_after_as_many_rounds_as_a_reno_flow_takes_to_its_next_loss() {
    // The bandwidth-delay product in segments, at most 63: draft 5.3.3.8.2.
    for (segments, rounds) in [(20, 20), (100, 63)] {
        let mut s = Sender::new(DRAFT, 10_000);
        while s.phase() != DRAIN {
            s.round(segments, 10_000, 2 * segments);
        }
        s.facts.random = 0;
        s.within(1, 11_000, segments / 2);
        assert_eq!(s.phase(), CRUISE);
        let mut count = 0;
        while s.phase() != REFILL {
            s.round(segments, 10_000, segments / 2);
            count += 1;
            assert!(count < 100);
        }

        assert!(
            (rounds - 1..=rounds + 1).contains(&count),
            "{segments}: {count}"
        );
    }
}

#[test]
fn refill_is_a_round_and_up_follows() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_refill();
        assert_eq!(s.get("pacing_gain"), Some(1.0));
        // What was sent before it is no round.
        s.within(10, 50_000, 95);
        assert_eq!(s.phase(), REFILL, "{words}");
        s.round(100, 50_000, 100);
        assert_eq!(s.phase(), UP, "{words}");
        assert_eq!(s.get("pacing_gain"), Some(1.25));
        assert_eq!(s.get("cwnd_gain"), Some(2.25));
    }
}

#[test]
fn up_ends_with_a_plateau_of_three_rounds() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        for _ in 0..3 {
            assert_eq!(s.phase(), UP, "{words}");
            s.round(105, 50_000, 125);
        }
        assert_eq!(s.phase(), DOWN, "{words}");
    }
}

#[test]
fn up_goes_on_while_the_rate_grows_and_while_the_application_limits_it() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.until_up();
        let mut segments = 100;
        for _ in 0..6 {
            segments = segments * 5 / 4 + 1;
            s.round(segments, 50_000, segments);
            assert_eq!(s.phase(), UP, "{words}");
        }
        // Test case A.7.
        for _ in 0..40 {
            s.app_limited().round(50, 50_000, 50);
        }
        assert_eq!(s.phase(), UP, "{words}");
    }
}

#[test]
fn the_maximum_of_bandwidth_is_forgotten_after_two_cycles() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        // A path of half the rate from now on (test case A.16): the maximum stays past
        // the first probe, and is gone with the second.
        let mut cycles = 0;
        for _ in 0..400 {
            let before = s.phase();
            s.round(50, 50_000, 40);
            if cycles == 0 && s.phase() == UP {
                assert!(s.get("max_bw") > Some(23.0), "{words}");
            }
            cycles += i32::from(before == UP && s.phase() != UP);
            if cycles == 2 {
                break;
            }
        }
        assert_eq!(cycles, 2);
        assert!((s.bw() - 1000.0).abs() < 2.0, "{words}: {}", s.bw());
    }
}

#[test]
fn a_cycle_of_which_the_application_limits_all_keeps_the_former_maximum() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        for _ in 0..300 {
            s.app_limited().round(10, 50_000, 8);
        }
        assert!((s.bw() - 2000.0).abs() < 1.0, "{words}: {}", s.bw());
    }
}

/// Rounds of 50 ms, with a queue, until `phase` is `of`.
fn wait_for(s: &mut Sender, of: i64, most: u32) -> u32 {
    for i in 0..most {
        s.round(100, 55_000, 100);
        if s.phase() == of {
            return (i + 1) * 55;
        }
    }
    panic!("{} after {most} rounds", s.phase());
}

#[test]
fn probe_rtt_comes_five_seconds_after_the_last_smaller_round_trip() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        let waited = wait_for(&mut s, PROBE_RTT, 120);
        // A round trip of 50 ms was the last that was less, some rounds before.
        assert!((4200..=5100).contains(&waited), "{words}: {waited} ms");
        assert!(s.last.set & Decision::APP_LIMITED != 0);
        let half = 50;
        assert!(
            s.facts.cwnd.abs_diff(half) <= 4,
            "{words}: {}",
            s.facts.cwnd
        );
        assert_eq!(s.get("pacing_gain"), Some(1.0));
        let gain = if words == DRAFT { 0.5 } else { 1.0 };
        assert_eq!(s.get("cwnd_gain"), Some(gain));
    }
}

#[test]
fn probe_rtt_takes_two_hundred_milliseconds_from_a_small_flight_on_and_a_round() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        wait_for(&mut s, PROBE_RTT, 120);
        let before = s.facts.cwnd;
        // Too much is in flight: its time does not begin.
        for _ in 0..3 {
            s.within(10, 55_000, 90);
        }
        s.within(1, 50_000, 40);
        s.facts.now_ns += 150_000_000;
        s.round(40, 50_000, 40);
        assert_eq!(s.phase(), PROBE_RTT, "{words}: after 200 ms and no more");
        s.facts.now_ns += 1_000_000;
        s.within(1, 50_000, 40);
        assert_eq!(s.phase(), CRUISE, "{words}");
        assert!(
            s.facts.cwnd > before + 40,
            "{words}: {} again",
            s.facts.cwnd
        );
        assert!((s.get("path_rtt").unwrap() - 50.0).abs() < 0.2, "{words}");
    }
}

#[test]
fn probe_rtt_in_startup_leads_back_to_startup() {
    for words in VERSION_3 {
        let mut s = Sender::new(words, 50_000);
        s.round(40, 50_000, 40);
        while s.phase() == STARTUP {
            s.app_limited().round(20, 55_000, 20);
            assert!(s.facts.now_ns < 8_000_000_000);
        }
        assert_eq!(s.phase(), PROBE_RTT, "{words}");
        for _ in 0..8 {
            s.app_limited().round(4, 50_000, 4);
        }
        assert_eq!(s.phase(), STARTUP, "{words}");
    }
}

#[test]
fn an_idle_time_counts_as_an_empty_queue() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.facts.now_ns += 6_000_000_000;
        let restart = s.starts_after_idle();
        assert_eq!(s.get("idle_restart"), Some(1.0));
        // Paced at the bandwidth, whatever the gain was (draft 5.4.1).
        let rate = restart.pacing_rate().unwrap() as f64;
        assert!(
            (rate / (0.99 * 2000.0 * 1448.0) - 1.0).abs() < 2e-3,
            "{words}"
        );
        s.within(4, 52_000, 10);
        assert_ne!(s.phase(), PROBE_RTT, "{words}");
        assert_eq!(s.get("idle_restart"), Some(0.0));
        // Without one, the same time brings ProbeRTT.
        let mut s = Sender::in_cruise(words);
        s.facts.now_ns += 6_000_000_000;
        s.within(4, 52_000, 10);
        assert_eq!(s.phase(), PROBE_RTT, "{words}");
    }
}

#[test]
fn an_idle_time_that_the_application_did_not_cause_is_none() {
    let mut s = Sender::in_cruise(DRAFT);
    let decision = s.cc.cwnd_event(&s.facts, narrows_cc::CwndEvent::TxStart);
    assert_eq!(decision.set, 0);
    assert_eq!(s.get("idle_restart"), Some(0.0));
}

#[test]
fn a_probe_rtt_that_idleness_completed_ends_when_data_leaves() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        wait_for(&mut s, PROBE_RTT, 120);
        s.within(1, 50_000, 40);
        s.facts.now_ns += 250_000_000;
        let restart = s.starts_after_idle();
        assert_eq!(s.phase(), CRUISE, "{words}");
        assert!(restart.cwnd() > Some(100), "{words}: {restart:?}");
    }
}

#[test]
fn a_smaller_round_trip_is_taken_at_once_and_a_longer_one_after_ten_seconds() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        s.round(100, 40_000, 80);
        assert!((s.get("path_rtt").unwrap() - 40.0).abs() < 0.2, "{words}");
        let start = s.facts.now_ns;
        while s.get("path_rtt") < Some(41.0) {
            s.round(4, 70_000, 4);
            assert!(s.facts.now_ns < start + 16_000_000_000, "{words}");
        }
        assert!((s.get("path_rtt").unwrap() - 70.0).abs() < 0.5, "{words}");
        assert!(s.facts.now_ns > start + 9_900_000_000, "{words}");
    }
}

#[test]
fn recovery_does_not_cut_the_window_and_a_timeout_is_made_up_for() {
    for words in VERSION_3 {
        let mut s = Sender::in_cruise(words);
        let before = s.facts.cwnd;
        s.enter(CaState::Loss);
        s.facts.cwnd = 1;
        s.round(2, 50_000, 2);
        assert!(s.facts.cwnd < 10, "{words}");
        s.enter(CaState::Open);
        assert_eq!(s.facts.cwnd, before, "{words}");
    }
}

#[test]
fn only_the_window_that_limits_makes_the_bound_grow() {
    for words in VERSION_3 {
        for (flags, grows) in [(Flags::CWND_LIMITED, true), (0, false)] {
            let mut s = Sender::in_cruise(words);
            s.until_up();
            s.lossy_round(90, 50_000, 125, 10);
            assert_eq!(s.phase(), DOWN, "{words}");
            // The next probe is precautionary, and the one after grows.
            s.round(90, 50_000, 60);
            let bound = s.get("inflight_hi").unwrap();
            for _ in 0..200 {
                s.round(60, 50_000, 50);
                if s.phase() == UP {
                    break;
                }
            }
            let at = bound as u32;
            s.facts.flags = flags;
            s.round(60, 50_000, at);
            for _ in 0..20 {
                s.facts.cwnd = at + 20;
                s.facts.flags = flags;
                s.round(60, 50_000, at - 5);
            }
            let now = s.get("inflight_hi").unwrap();
            assert_eq!(now > bound, grows, "{words}: {bound}, {now}");
        }
    }
}
