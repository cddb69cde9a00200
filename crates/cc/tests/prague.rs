//! Prague's rules, one trace each. Source of all: L4STeam/linux
//! net/ipv4/tcp_prague.c, module version 0.6 unless a test says otherwise.

use narrows_cc::{CaState, Controller, CwndEvent, Facts, Flags, Mode, Spec};

/// Linux's TCP_INFINITE_SSTHRESH (include/net/tcp.h v6.17).
const INFINITE: u32 = 0x7fff_ffff;
/// Prague's 1.0 in 2⁻²⁰.
const ONE: u32 = 1 << 20;

/// A sender with nothing but what the algorithm can see.
struct Sender {
    cc: Controller,
    facts: Facts,
}

impl Sender {
    fn new(words: &str, cwnd: u32, ssthresh: u32) -> Self {
        let mut sender = Self {
            cc: Controller::new(&Spec::parse(words).unwrap()),
            facts: Facts {
                now_ns: 1_000_000_000,
                mss: 1448,
                header: 52,
                cwnd,
                ssthresh,
                srtt_us: 10_000 << 3,
                min_rtt_us: 10_000,
                snd_una: 1000,
                snd_nxt: 1000,
                flags: Flags::CWND_LIMITED,
                ..Facts::default()
            },
        };
        let decision = sender.cc.init(&sender.facts);
        decision.apply(&mut sender.facts);
        sender.facts.snd_nxt = 2000;
        sender
    }

    /// An ACK of `acked` segments, `marked` of them.
    fn ack(&mut self, acked: u32, marked: u32) {
        let f = &mut self.facts;
        f.acked_sacked = acked;
        f.delivered = f.delivered.wrapping_add(acked);
        f.delivered_ce = f.delivered_ce.wrapping_add(marked);
        self.cc.cong_control(f).apply(f);
    }

    /// The same ACK, with which a round trip ends.
    fn ack_ending_round(&mut self, acked: u32, marked: u32) {
        self.facts.snd_una = self.facts.snd_nxt;
        self.facts.snd_nxt = self.facts.snd_nxt.wrapping_add(1000);
        self.ack(acked, marked);
    }

    fn enter(&mut self, state: CaState) {
        self.facts.ssthresh = self.cc.ssthresh(&self.facts);
        self.cc.set_state(&self.facts, state).apply(&mut self.facts);
        self.facts.ca_state = state as u8;
    }

    /// ACKs that bring nothing new, until the window rests.
    fn settle(&mut self) -> u32 {
        for _ in 0..10_000 {
            let before = self.facts.cwnd;
            self.ack(0, 0);
            if self.facts.cwnd == before {
                break;
            }
        }
        self.facts.cwnd
    }

    fn alpha(&self) -> u32 {
        self.cc.alpha().unwrap()
    }
}

#[test]
fn it_owns_its_rate_and_wants_l4s() {
    let cc = Controller::new(&Spec::parse("prague").unwrap());
    assert_eq!(cc.mode(), Mode::Rate);
    assert!(cc.needs().ecn && cc.needs().accecn && cc.needs().ect1);
    assert_eq!(cc.pacing_ratios(), Some((200, 100)));
}

#[test]
fn without_ecn_it_becomes_reno() {
    let mut cc = Controller::new(&Spec::parse("prague").unwrap());
    cc.ecn_refused();
    assert_eq!((cc.mode(), cc.name()), (Mode::Window, "prague-reno"));
    let mut reno = Controller::new(&Spec::parse("reno").unwrap());
    reno.ecn_refused();
    assert_eq!(reno.name(), "reno");
}

#[test]
fn alpha_starts_at_one_and_is_frozen_until_the_first_mark() {
    let mut s = Sender::new("prague", 10, 5);
    for _ in 0..50 {
        s.ack_ending_round(10, 0);
        assert_eq!(s.alpha(), ONE);
    }
    s.ack_ending_round(10, 1);
    assert!(s.alpha() < ONE);
}

#[test]
fn alpha_is_an_ewma_of_the_marked_share_with_gain_one_sixteenth() {
    let mut s = Sender::new("prague", 20, 5);
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
    let mut s = Sender::new("prague", 20, 5);
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
        let mut s = Sender::new("prague", window, 5);
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
    let mut s = Sender::new("prague", 100, INFINITE);
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
    let mut s = Sender::new("prague", 100, 5);
    for _ in 0..5 {
        s.ack_ending_round(100, 100);
    }
    assert_eq!(s.facts.cwnd, 100);
    let mut mutant = Sender::new("prague mutant rounds", 100, 5);
    for _ in 0..5 {
        mutant.ack_ending_round(100, 100);
    }
    assert!(mutant.facts.cwnd < 100, "the mutant reduces at rounds");
}

#[test]
fn additive_increase_in_cwr_counts_unmarked_segments_only() {
    let mut s = Sender::new("prague", 10, 5);
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
    let mut s = Sender::new("prague", 50, 5);
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
fn slow_start_grows_by_unmarked_segments_even_in_cwr() {
    let mut s = Sender::new("prague", 10, INFINITE);
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
    let mut s = Sender::new("prague", 10, 12);
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
        let mut s = Sender::new("prague", 100, 50);
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
    let mut s = Sender::new("prague", 100, 50);
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
    let mut s = Sender::new("prague", 100, 50);
    s.enter(CaState::Recovery);
    s.settle();
    assert_eq!(s.cc.undo_cwnd(&s.facts), 100);
    // 2022 and later also take back the fraction.
    let mut s = Sender::new("prague variant 2022", 100, 50);
    s.enter(CaState::Recovery);
    s.settle();
    s.facts.cwnd = s.cc.undo_cwnd(&s.facts);
    assert_eq!(s.settle(), 100);
}

#[test]
fn pacing_is_the_window_per_round_trip_and_twice_that_below_half_of_ssthresh() {
    let mut s = Sender::new("prague", 20, 10);
    s.ack(0, 0);
    // 20 × 1500 bytes in 10 ms.
    assert_eq!(s.facts.pacing_rate, 3_000_000);
    let mut s = Sender::new("prague", 20, 42);
    s.ack(0, 0);
    assert_eq!(s.facts.pacing_rate, 6_000_000);
    let mut s = Sender::new("prague", 20, 41);
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
    let mut s = Sender::new("prague", 20, 10);
    s.ack(0, 0);
    assert_eq!(s.cc.max_tso_segs(), Some(1));
    s.facts.cwnd = 1000; // 1.2 Gbit/s: 100 000 segments/s >> 12
    s.ack(0, 0);
    assert_eq!(s.cc.max_tso_segs(), Some(24));
}

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
    assert!((growth("prague", 5_000, 600) - 1.0).abs() < 0.02);
}

#[test]
fn rtt_control_rate_scales_growth_by_the_square_of_the_ratio_after_the_transition() {
    let words = "prague rtt_control rate rtt_target 25ms rtt_transition 500";
    assert!((growth(words, 5_000, 450) - 1.0).abs() < 0.02);
    // In units of 128 µs: 39² / 195².
    assert!((growth(words, 5_000, 600) - 0.04).abs() < 0.002);
    assert!((growth(words, 10_000, 600) - 0.16).abs() < 0.005);
    assert!((growth(words, 25_000, 600) - 1.0).abs() < 0.02);
    assert!((growth(words, 100_000, 600) - 1.0).abs() < 0.02);
}

#[test]
fn rtt_control_scalable_keeps_an_eighth() {
    let words = "prague rtt_control scalable rtt_transition 4";
    // Below 1.5 ms: 1/8 × rtt / 16.384 ms; 1 ms is 7 units of 128.
    assert!((growth(words, 1_000, 10) - 7.0 / 128.0 / 8.0).abs() < 0.001);
    // 10 ms is 78 units: (16 + 66) / 128 × 78 / 128.
    assert!((growth(words, 10_000, 10) - 82.0 * 78.0 / 16384.0).abs() < 0.01);
}

#[test]
fn rtt_control_additive_adds_the_target() {
    let words = "prague rtt_control additive rtt_transition 4";
    // 10 ms is 78 units, 25 ms 195.
    let expected = (78.0_f64 / 273.0).powi(2);
    assert!((growth(words, 10_000, 10) - expected).abs() < 0.005);
}

#[test]
fn rtt_control_spaces_reductions_and_updates_by_the_target() {
    let mut s = Sender::new("prague rtt_control rate rtt_transition 2", 100, 5);
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
    assert!(reduced("prague") <= 3);
    assert!(reduced("prague mutant scale") > 20, "sixteen times as much");
}

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
    assert!(reduction_on_a_bloated_queue("prague") <= 1);
    assert!(reduction_on_a_bloated_queue("prague ecn_fallback detect") <= 1);
    let with = reduction_on_a_bloated_queue("prague ecn_fallback on");
    // alpha 0.625 / 2
    assert!((30..=32).contains(&with), "{with}");
}

#[test]
fn nothing_is_detected_on_a_shallow_queue() {
    let mut s = Sender::new("prague ecn_fallback on", 100, 60);
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
