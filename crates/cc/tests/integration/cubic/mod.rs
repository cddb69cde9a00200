//! CUBIC's rules, one trace each. Source unless a test says otherwise: Linux
//! net/ipv4/tcp_cubic.c, v6.17.

mod hystart;
pub mod sender;

use narrows_cc::{CaState, ControlMode, ControlSpec, Controller, CwndEvent, Decision};
use sender::{INFINITE, Sender};

/// Linux's C: bic_scale 41 × 10 / 1024.
const C: f64 = 410.0 / 1024.0;

#[test]
fn the_stack_owns_recovery_and_pacing() {
    let cc = Controller::new(&ControlSpec::parse("cubic").unwrap());
    assert_eq!(cc.mode(), ControlMode::Window);
    assert!(!cc.needs().ecn);
}

#[test]
fn a_reduction_keeps_717_of_1024_truncated_and_at_least_two() {
    // Windows of a few segments live by this truncation.
    for cwnd in 1..2000_u32 {
        let mut s = Sender::new("cubic", cwnd, 1);
        let exact = (f64::from(cwnd) * 717.0 / 1024.0).floor() as u32;
        assert_eq!(s.cc.ssthresh(&s.facts), exact.max(2), "from {cwnd}");
    }
    let small: Vec<u32> = (1..=8)
        .map(|w| Sender::new("cubic", w, 1))
        .map(|mut s| s.cc.ssthresh(&s.facts))
        .collect();
    assert_eq!(small, [2, 2, 2, 2, 3, 4, 4, 5]);
}

#[test]
fn a_window_of_a_few_segments_grows_by_truncations() {
    // From 4 to 2, then an ACK of one segment every 40 ms, worked by hand.
    // K = ∛(2 / C) = 1.709 s. The distance to the plateau is truncated, so that
    // the curve asks for 3 at once (one per cnt = 2 / 1, on the second ACK) and
    // for 4 as soon as C (K − t)³ < 1, which is at 360 ms. Above the plateau
    // Reno leads: its window gains one when more than floor(15 W / 8) segments
    // were acked: 7 at W = 4 (its third and fourth segment, ACKs 13 and 20), 9
    // at 5, 11 at 6; credit is there already, so CUBIC's follows at once.
    let mut s = Sender::new("cubic", 4, 2);
    s.reduce();
    assert_eq!(s.facts.cwnd, 2);
    let mut at = Vec::new();
    for ack in 1..=40 {
        s.ack(1, 0);
        s.wait_ms(40);
        if s.facts.cwnd as usize > at.len() + 2 {
            at.push(ack);
        }
    }
    assert_eq!(at, [2, 10, 20, 29, 40]);
}

#[test]
fn the_window_follows_the_cubic_curve() {
    // W(t) = C (t − K)³ + W_max; the window heads for where the curve will be
    // one round trip later, so it lies between W(t) and W(t + RTT), to one
    // segment.
    for (w_max, rtt_ms) in [(1000_u32, 20_u32), (200, 20), (500, 5), (2000, 100)] {
        let mut s = Sender::new("cubic tcp_friendliness off", w_max, 2);
        s.ack(0, rtt_ms * 1000);
        s.reduce();
        let w0 = f64::from(s.facts.cwnd);
        let top = f64::from(w_max);
        let k = cube_root((top - w0) / C);
        let rtt = f64::from(rtt_ms) / 1000.0;
        let curve = |t: f64| top + C * (t - k) * (t - k) * (t - k);
        // The first ACK starts the epoch.
        let mut start = None;
        s.run((k * 1600.0) as u32, rtt_ms, |t, f| {
            let begun = *start.get_or_insert(t);
            let t = f64::from(t - begun) / 1000.0;
            // A slope is kept for up to HZ / 32 while the window rests.
            let (low, high) = (curve((t - 0.032).max(0.0)), curve(t + rtt));
            // Where the curve asks for nothing, Linux adds one per 100 windows.
            let creep = t / (100.0 * rtt);
            let got = f64::from(f.cwnd);
            assert!(
                got >= low - 1.0 && got <= high + 1.0 + creep,
                "W_max {w_max}, t {t}: {got} is not in {low} … {high}"
            );
        });
    }
}

/// Cube root by bisection: the tests' own oracle.
fn cube_root(x: f64) -> f64 {
    let (mut low, mut high) = (0.0, x.max(1.0));
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if middle * middle * middle <= x {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[test]
fn an_epoch_begins_with_the_first_ack_after_a_reduction() {
    // Time before that ACK is no time on the curve.
    let path = |idle_ms: u64| {
        let mut s = Sender::new("cubic tcp_friendliness off", 500, 2);
        s.reduce();
        s.wait_ms(idle_ms);
        let mut windows = Vec::new();
        s.run(5000, 20, |_, f| windows.push(f.cwnd));
        windows
    };
    assert_eq!(path(0), path(3000));
}

#[test]
fn each_reduction_begins_a_curve_of_its_own() {
    // The second path is that of a flow that was never reduced before.
    let mut s = Sender::new("cubic tcp_friendliness off fast_convergence off", 2000, 2);
    s.reduce();
    s.run(3000, 20, |_, _| ());
    s.facts.cwnd = 1000;
    s.reduce();
    let mut fresh = Sender::new("cubic tcp_friendliness off", 1000, 2);
    fresh.reduce();
    for _ in 0..4 {
        s.run(2000, 20, |_, _| ());
        fresh.run(2000, 20, |_, _| ());
        assert_eq!(s.facts.cwnd, fresh.facts.cwnd);
    }
}

#[test]
fn idle_time_is_no_time_on_the_curve() {
    let window = |event: bool| {
        let mut s = Sender::new("cubic tcp_friendliness off", 1000, 2);
        s.reduce();
        s.run(2000, 20, |_, _| ());
        s.facts.last_sent_ns = s.facts.now_ns;
        s.wait_ms(60_000);
        if event {
            let decision = s.cc.cwnd_event(&s.facts, CwndEvent::TxStart);
            assert_eq!(decision, Decision::default());
        }
        s.run(200, 20, |_, _| ());
        s.facts.cwnd
    };
    assert!(window(true) < 1000, "still below the plateau");
    assert!(window(false) > 2000, "a minute up the curve");
}

#[test]
fn fast_convergence_lowers_the_plateau_of_a_flow_that_lost_ground() {
    // RFC 9438 §4.7: W_max = W (1 + β) / 2, and the plateau shows where growth
    // is slowest.
    let plateau = |words: &str| {
        let mut s = Sender::new(words, 1000, 2);
        s.reduce();
        s.facts.cwnd = 800; // less than W_max = 1000
        s.reduce();
        let mut longest = (0, 0);
        let mut run = (0, 0);
        s.run(9000, 20, |_, f| {
            run = if run.0 == f.cwnd {
                (f.cwnd, run.1 + 1)
            } else {
                (f.cwnd, 1)
            };
            longest = if run.1 > longest.1 { run } else { longest };
        });
        longest.0
    };
    let expected = 800 * (1024 + 717) / 2048;
    let got = plateau("cubic tcp_friendliness off");
    assert!(got.abs_diff(expected) <= 1, "{got}");
    let got = plateau("cubic tcp_friendliness off fast_convergence off");
    assert!(got.abs_diff(800) <= 1, "{got}");
}

/// Segments gained per round trip of 10 ms, which the curve cannot keep up
/// with, in these rounds after a reduction from 143 to 100.
fn friendly_growth(words: &str, rounds: std::ops::Range<u32>) -> f64 {
    let mut s = Sender::new(words, 143, 2);
    s.reduce();
    assert_eq!(s.facts.cwnd, 100);
    let mut from = 0;
    for round in 0..rounds.end {
        if round == rounds.start {
            from = s.facts.cwnd;
        }
        for _ in 0..s.facts.cwnd {
            s.ack(1, 0);
        }
        s.wait_ms(10);
    }
    f64::from(s.facts.cwnd - from) / f64::from(rounds.end - rounds.start)
}

#[test]
fn below_renos_window_growth_is_renos() {
    // RFC 9438 §4.3: α = 3 (1 − β) / (1 + β) = 0.53; Linux: 8/15.
    let growth = friendly_growth("cubic", 10..70);
    assert!((growth - 8.0 / 15.0).abs() < 0.03, "{growth}");
    let growth = friendly_growth("cubic tcp_friendliness off", 10..70);
    assert!(growth < 0.3, "{growth}");
}

#[test]
fn renos_window_keeps_its_slope_above_the_former_window() {
    // Linux differs from RFC 9438 §4.3, where α becomes 1 there: the mutant.
    let linux = friendly_growth("cubic", 120..320);
    assert!((linux - 8.0 / 15.0).abs() < 0.03, "{linux}");
    let rfc = friendly_growth("cubic_alpha_one", 120..320);
    assert!((rfc - 1.0).abs() < 0.06, "{rfc}");
    let below = friendly_growth("cubic_alpha_one", 10..70);
    assert!((below - 8.0 / 15.0).abs() < 0.03, "{below}");
}

#[test]
fn a_slope_is_kept_while_the_window_rests_for_31_ms() {
    // HZ / 32. The first ACK asks for one segment (the distance to the plateau
    // is truncated); then Reno's eight segments of 15 rounds wait.
    let mut s = Sender::new("cubic", 143, 2);
    s.reduce();
    s.run(30, 2, |_, f| assert!(f.cwnd <= 101, "{}", f.cwnd));
    s.run(20, 2, |_, _| ());
    assert!(s.facts.cwnd >= 107, "{}", s.facts.cwnd);
}

#[test]
fn renos_window_gains_when_more_than_its_step_is_acked() {
    // W = 16: floor(15 × 16 / 8) = 30. Sixty acked are one step and thirty
    // left, as thirty are not more than thirty. One behind: cnt = 16.
    let mut s = Sender::new("cubic", 16, 2);
    s.ack(60, 0);
    assert_eq!((s.facts.cwnd, s.facts.cwnd_cnt), (19, 12));
}

#[test]
fn growth_never_passes_half_a_segment_per_segment_acked() {
    // cnt ≥ 2, however far the curve is ahead.
    let mut s = Sender::new("cubic", 100, 2);
    s.reduce();
    s.ack(1, 0);
    s.wait_ms(100_000);
    let before = s.facts.cwnd;
    s.ack(20, 0);
    assert_eq!(s.facts.cwnd - before, 10);
}

#[test]
fn without_a_known_plateau_growth_is_at_least_five_percent() {
    // last_max_cwnd == 0: cnt ≤ 20.
    let mut s = Sender::new("cubic tcp_friendliness off", 200, 100);
    s.ack(200, 0);
    assert_eq!(s.facts.cwnd, 210);
}

#[test]
fn a_timeout_forgets_the_curve() {
    let mut s = Sender::new("cubic tcp_friendliness off", 1000, 2);
    s.reduce();
    s.ack(1, 0);
    s.cc.set_state(&s.facts, CaState::Loss);
    // The plateau is unknown again, as at the start.
    let before = s.facts.cwnd;
    s.wait_ms(1);
    s.ack(before, 0);
    assert_eq!(s.facts.cwnd, before + before / 20);
    // Recovery does not.
    let mut s = Sender::new("cubic tcp_friendliness off", 1000, 2);
    s.reduce();
    s.cc.set_state(&s.facts, CaState::Recovery);
    let before = s.facts.cwnd;
    s.ack(before, 0);
    assert!(s.facts.cwnd < before + before / 20);
}

#[test]
fn a_spurious_reduction_is_taken_back() {
    let mut s = Sender::new("cubic", 100, 2);
    s.reduce();
    assert_eq!(s.cc.undo_cwnd(&s.facts), 100);
}

#[test]
fn nothing_grows_while_the_application_limits() {
    let mut s = Sender::new("cubic", 10, INFINITE);
    s.facts.flags = 0;
    s.ack(5, 10_000);
    assert_eq!(s.facts.cwnd, 10);
}

#[test]
fn slow_start_crosses_into_avoidance() {
    let mut s = Sender::new("cubic hystart off", 10, 15);
    s.ack(3, 0);
    assert_eq!(s.facts.cwnd, 13);
    s.ack(42, 0);
    // Two to 15. The other 40 are more than 15 × 15/8 = 28, so that Reno's
    // window is 16 and growth one segment per 15: two, and ten are left.
    assert_eq!((s.facts.cwnd, s.facts.cwnd_cnt), (17, 10));
}

#[test]
fn initial_ssthresh_counts_without_hystart_only() {
    let s = Sender::new("cubic hystart off initial_ssthresh 30", 10, INFINITE);
    assert_eq!(s.facts.ssthresh, 30);
    let s = Sender::new("cubic initial_ssthresh 30", 10, INFINITE);
    assert_eq!(s.facts.ssthresh, INFINITE);
}
