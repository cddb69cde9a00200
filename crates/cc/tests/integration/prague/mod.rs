//! Prague's rules, one trace each. Source of all: L4STeam/linux
//! net/ipv4/tcp_prague.c, module version 0.6 unless a test says otherwise.

mod classic;
mod rate_mode;
mod rtt_control;
mod sender;

use narrows_cc::{CaState, ControlMode, ControlSpec, Controller, CwndEvent, Flags};
use sender::{INFINITE, ONE, Sender};

#[test]
fn it_owns_its_rate_and_wants_l4s() {
    let cc = Controller::new(&ControlSpec::parse("prague variant 2020").unwrap());
    assert_eq!(cc.mode(), ControlMode::Rate);
    assert!(cc.needs().ecn && cc.needs().accecn && cc.needs().ect1);
}

#[test]
fn without_ecn_it_becomes_reno() {
    let mut cc = Controller::new(&ControlSpec::parse("prague variant 2020").unwrap());
    cc.ecn_refused();
    assert_eq!((cc.mode(), cc.name()), (ControlMode::Window, "reno"));
    let mut reno = Controller::new(&ControlSpec::parse("reno").unwrap());
    reno.ecn_refused();
    assert_eq!(reno.name(), "reno");
}

#[test]
fn alpha_starts_at_one_and_is_frozen_until_the_first_mark() {
    let mut s = Sender::new("prague variant 2020", 10, 5);
    for _ in 0..50 {
        s.ack_ending_round(10, 0);
        assert_eq!(s.alpha(), ONE);
    }
    s.ack_ending_round(10, 1);
    assert!(s.alpha() < ONE);
}

#[test]
fn alpha_is_an_ewma_of_the_marked_share_with_gain_one_sixteenth() {
    let mut s = Sender::new("prague variant 2020", 20, 5);
    let mut oracle = 1.0_f64;
    let shares = [3, 0, 0, 20, 1, 0, 7, 0, 0, 0, 2, 5, 20, 20, 0];
    for round in 0..300 {
        let marked = shares[round % shares.len()];
        s.ack_ending_round(20, marked);
        oracle += (f64::from(marked) / 20.0 - oracle) / 16.0;
        let alpha = f64::from(s.alpha()) / f64::from(ONE);
        assert!((alpha - oracle).abs() < 2e-6, "{alpha} against {oracle}");
    }
}

#[test]
fn alpha_moves_once_per_round_trip() {
    let mut s = Sender::new("prague variant 2020", 20, 5);
    s.ack_ending_round(10, 1);
    let first = s.alpha();
    for _ in 0..5 {
        s.ack(2, 1);
        assert_eq!(s.alpha(), first);
    }
    s.ack_ending_round(2, 0);
    // 5 marks of 12 segments over the whole round.
    let expected = f64::from(first) + (5.0 / 12.0 * f64::from(ONE) - f64::from(first)) / 16.0;
    assert!((f64::from(s.alpha()) - expected).abs() < 2.0);
}

#[test]
fn entering_cwr_reduces_by_half_of_alpha() {
    for (rounds, window) in [(0, 100), (5, 100), (40, 1000), (60, 37)] {
        let mut s = Sender::new("prague variant 2020", window, 5);
        s.ack_ending_round(window, 1);
        for _ in 0..rounds {
            s.ack_ending_round(0, 0);
        }
        s.facts.cwnd = window;
        let alpha = f64::from(s.alpha()) / f64::from(ONE);
        // What additive increase has gathered so far, less than a segment.
        let carry = f64::from(window - 1) / f64::from(window);
        s.enter(CaState::Cwr);
        let expected = f64::from(window) * (1.0 - alpha / 2.0) + carry;
        let got = f64::from(s.settle());
        // It rests where the carry is within one segment of the exact value.
        assert!((got - expected).abs() <= 1.0, "{got} against {expected}");
    }
}

#[test]
fn the_window_moves_by_one_segment_per_ack_and_ssthresh_follows_it_down() {
    let mut s = Sender::new("prague variant 2020", 100, INFINITE);
    s.enter(CaState::Cwr);
    for step in 1..=50 {
        s.ack(1, 1);
        assert_eq!((s.facts.cwnd, s.facts.ssthresh), (100 - step, 100 - step));
    }
    s.ack(1, 1);
    assert_eq!(s.facts.cwnd, 50, "alpha 1 halves");
}

#[test]
fn marks_alone_do_not_reduce_before_cwr() {
    // The reduction is the stack's entry into CWR, not the end of a round.
    let mut s = Sender::new("prague variant 2020", 100, 5);
    for _ in 0..5 {
        s.ack_ending_round(100, 100);
    }
    assert_eq!(s.facts.cwnd, 100);
    let mut mutant = Sender::new("prague_rounds variant 2020", 100, 5);
    for _ in 0..5 {
        mutant.ack_ending_round(100, 100);
    }
    assert!(mutant.facts.cwnd < 100, "the mutant reduces at rounds");
}

#[test]
fn additive_increase_in_cwr_counts_unmarked_segments_only() {
    let mut s = Sender::new("prague variant 2020", 10, 5);
    s.ack_ending_round(1, 1); // a first mark
    for _ in 0..200 {
        s.ack_ending_round(0, 0); // alpha decays to nearly nothing
    }
    s.facts.cwnd = 10;
    s.enter(CaState::Cwr);
    // 10 unmarked of 20: one segment, exactly as in Open.
    for _ in 0..9 {
        s.ack(2, 1);
    }
    assert_eq!(s.facts.cwnd, 10);
    s.ack(2, 1);
    s.ack(2, 1);
    assert_eq!(s.facts.cwnd, 11);
    // Marked segments alone add nothing.
    for _ in 0..100 {
        s.ack(2, 2);
    }
    assert_eq!(s.facts.cwnd, 11);
}

#[test]
fn additive_increase_is_one_segment_per_window() {
    let mut s = Sender::new("prague variant 2020", 50, 5);
    let mut acks = 0_u32;
    for window in 51..=60 {
        while s.facts.cwnd < window {
            s.ack(1, 0);
            acks += 1;
        }
        // Rounding 1/W to 2⁻²⁰ may cost an ACK.
        let exact: u32 = (50..window).sum();
        assert!(acks.abs_diff(exact) <= 1, "{acks} ACKs for {exact}");
    }
}

#[test]
fn the_window_grows_only_where_it_limits() {
    let grown = |words: &str, pacing: u8, flags: u16| {
        let mut s = Sender::new(words, 10, 5);
        s.facts.pacing_status = pacing;
        s.facts.flags = flags;
        s.ack(10, 0);
        s.facts.cwnd > 10
    };
    assert!(grown("prague variant 2020", 2, Flags::CWND_LIMITED));
    assert!(!grown("prague variant 2020", 2, 0));
    assert!(!grown("prague variant 2020", 2, Flags::UNSENT));
    // 2020: the pacing timer may have come before the window.
    assert!(grown("prague variant 2020", 1, Flags::UNSENT));
    assert!(!grown("prague variant 2020", 1, 0));
    assert!(!grown("prague variant 2022", 1, Flags::UNSENT));
}

#[test]
fn slow_start_grows_by_unmarked_segments_even_in_cwr() {
    let mut s = Sender::new("prague variant 2020", 10, INFINITE);
    s.ack(8, 0);
    assert_eq!(s.facts.cwnd, 18);
    s.enter(CaState::Cwr);
    // The carry asks for less, but an unmarked ACK still is slow start …
    s.ack(2, 1);
    assert_eq!((s.facts.cwnd, s.facts.ssthresh), (19, INFINITE));
    // … which ends with the first ACK that is marked in full.
    s.ack(2, 2);
    assert_eq!((s.facts.cwnd, s.facts.ssthresh), (18, 18));
}

#[test]
fn slow_start_stops_at_ssthresh() {
    let mut s = Sender::new("prague variant 2020", 10, 12);
    s.ack(30, 0);
    // Two to reach it, 28 of 12 per segment beyond, one step per ACK.
    assert_eq!(s.facts.cwnd, 13);
    s.ack(0, 0);
    assert_eq!(s.facts.cwnd, 14);
    s.ack(0, 0);
    assert_eq!(s.facts.cwnd, 14);
}

#[test]
fn a_loss_halves_and_stops_the_increase_until_open() {
    for state in ["fast", "timeout"] {
        let mut s = Sender::new("prague variant 2020", 100, 50);
        if state == "fast" {
            s.enter(CaState::Recovery);
        } else {
            let decision = s.cc.cwnd_event(&s.facts, CwndEvent::Loss);
            decision.apply(&mut s.facts);
            s.enter(CaState::Loss);
        }
        for _ in 0..200 {
            s.ack(5, 0);
        }
        assert_eq!(s.facts.cwnd, 50, "{state}");
        s.enter(CaState::Open);
        for _ in 0..60 {
            s.ack(1, 0);
        }
        assert_eq!(s.facts.cwnd, 51, "{state}");
    }
}

#[test]
fn recovery_entered_twice_without_a_change_of_state_counts_once() {
    let mut s = Sender::new("prague variant 2020", 100, 50);
    s.enter(CaState::Recovery);
    s.enter(CaState::Recovery);
    assert_eq!(s.settle(), 50);
}

#[test]
fn the_window_never_falls_below_two() {
    for variant in ["2020", "2022", "2024"] {
        let mut s = Sender::new(&format!("prague variant {variant}"), 5, 3);
        for _ in 0..20 {
            s.facts.now_ns += 50_000_000;
            s.enter(CaState::Cwr);
            for _ in 0..10 {
                s.ack_ending_round(1, 1);
            }
            s.enter(CaState::Open);
        }
        assert_eq!(s.facts.cwnd, 2, "variant {variant}");
    }
}

#[test]
fn the_increase_may_be_undone_after_a_spurious_loss() {
    let mut s = Sender::new("prague variant 2020", 100, 50);
    s.enter(CaState::Recovery);
    s.settle();
    assert_eq!(s.cc.undo_cwnd(&s.facts), 100);
    // 2020: what the reduction had still to take then counts twice.
    let mut s = Sender::new("prague variant 2020", 100, 50);
    s.enter(CaState::Recovery);
    for _ in 0..40 {
        s.ack(0, 0);
    }
    assert_eq!(s.facts.cwnd, 60);
    s.facts.cwnd = s.cc.undo_cwnd(&s.facts);
    assert_eq!((s.facts.cwnd, s.settle()), (100, 80));
    // 2022 and later also take back the fraction.
    let mut s = Sender::new("prague variant 2022", 100, 50);
    s.enter(CaState::Recovery);
    s.settle();
    s.facts.cwnd = s.cc.undo_cwnd(&s.facts);
    assert_eq!(s.settle(), 100);
}

#[test]
fn pacing_is_the_window_per_round_trip_and_twice_that_below_half_of_ssthresh() {
    let mut s = Sender::new("prague variant 2020", 20, 10);
    s.ack(0, 0);
    // 20 × 1500 bytes in 10 ms.
    assert_eq!(s.facts.pacing_rate, 3_000_000);
    let mut s = Sender::new("prague variant 2020", 20, 42);
    s.ack(0, 0);
    assert_eq!(s.facts.pacing_rate, 6_000_000);
    let mut s = Sender::new("prague variant 2020", 20, 41);
    s.ack(0, 0);
    assert_eq!(s.facts.pacing_rate, 3_000_000);
    // In flight counts where it is more than the window.
    s.facts.in_flight = 30;
    s.ack(0, 0);
    assert_eq!(s.facts.pacing_rate, 4_500_000);
    assert_eq!(s.facts.pacing_status, 1);
}

#[test]
fn bursts_take_a_quarter_of_a_millisecond() {
    let mut s = Sender::new("prague variant 2020", 20, 10);
    s.ack(0, 0);
    assert_eq!(s.cc.max_tso_segs(), Some(1));
    s.facts.cwnd = 1000; // 1.2 Gbit/s: 100 000 segments/s >> 12
    s.ack(0, 0);
    assert_eq!(s.cc.max_tso_segs(), Some(24));
}

#[test]
fn in_2022_bursts_have_two_segments_at_least() {
    for (variant, segments) in [("2020", 1), ("2022", 2), ("2024", 1)] {
        let mut s = Sender::new(&format!("prague variant {variant}"), 20, 10);
        s.ack(0, 0);
        assert_eq!(s.cc.max_tso_segs(), Some(segments), "variant {variant}");
    }
}

#[test]
fn in_2022_slow_start_leaves_the_rate_behind() {
    // The 5.15 tree: pacing follows the fraction, which slow start does not
    // move; the socket's window comes back to it once it no longer limits.
    let mut s = Sender::new("prague variant 2022", 10, INFINITE);
    s.ack(10, 0);
    s.ack(20, 0);
    assert_eq!(s.facts.cwnd, 40);
    assert_eq!(s.facts.pacing_rate, 3_000_000, "200 % of ten segments");
    s.facts.flags = 0;
    assert_eq!(s.settle(), 10);
    assert_eq!(s.facts.ssthresh, 10);
    let mut s = Sender::new("prague variant 2024", 10, INFINITE);
    s.ack(10, 0);
    s.facts.flags = 0;
    assert_eq!(s.settle(), 20);
}

#[test]
fn in_2022_a_fraction_of_a_segment_counts_in_the_rate() {
    let mut s = Sender::new("prague variant 2022", 10, 5);
    s.ack(5, 0);
    assert_eq!(s.facts.cwnd, 11, "rounded up");
    // 10.5 × 1500 bytes in 10 ms, to the rounding of 2⁻²⁰.
    assert!(s.facts.pacing_rate.abs_diff(1_575_000) <= 2);
}

#[test]
fn in_2024_alpha_has_24_bits_and_the_first_mark_halves() {
    let mut s = Sender::new("prague variant 2024", 100, 5);
    assert_eq!(s.alpha(), 0);
    s.ack(1, 1);
    assert_eq!(s.settle(), 50);
    s.ack(1, 1);
    assert_eq!(s.settle(), 50, "the first mark only");
    // 1 mark of 100 000 is lost to 20 bits after a few rounds, not to 24.
    for _ in 0..20 {
        s.facts.now_ns += 50_000_000;
        s.ack_ending_round(100_000, 1);
    }
    assert!(s.alpha() > 0);
}

#[test]
fn the_scale_of_alpha_is_the_scale_of_the_reduction() {
    let reduced = |words: &str| {
        let mut s = Sender::new(words, 100, 5);
        s.ack_ending_round(100, 10);
        for _ in 0..50 {
            s.ack_ending_round(0, 0);
        }
        s.facts.cwnd = 100;
        s.enter(CaState::Cwr);
        100 - s.settle()
    };
    assert!(reduced("prague variant 2020") <= 3);
    assert!(
        reduced("prague_scale variant 2020") > 20,
        "sixteen times as much"
    );
}
