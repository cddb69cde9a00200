//! Reno's rules, one trace each.

use narrows_cc::{CaState, ControlMode, ControlSpec, Controller, Decision, Facts, Flags};

/// Linux's TCP_INFINITE_SSTHRESH (include/net/tcp.h v6.17).
const INFINITE: u32 = 0x7fff_ffff;

fn reno() -> Controller {
    Controller::new(&ControlSpec::parse("reno").unwrap())
}

fn limited(cwnd: u32, cnt: u32, ssthresh: u32) -> Facts {
    Facts {
        mss: 1448,
        cwnd,
        cwnd_cnt: cnt,
        ssthresh,
        flags: Flags::CWND_LIMITED,
        ..Facts::default()
    }
}

fn after(cc: &mut Controller, mut facts: Facts, acked: u32) -> (u32, u32) {
    cc.cong_avoid(&facts, acked).apply(&mut facts);
    (facts.cwnd, facts.cwnd_cnt)
}

#[test]
fn slow_start_grows_by_what_is_acked() {
    // RFC 5681 §3.1 equation 2, with Linux's unlimited L (tcp_slow_start).
    let mut cc = reno();
    assert_eq!(after(&mut cc, limited(10, 0, INFINITE), 1), (11, 0));
    assert_eq!(after(&mut cc, limited(10, 0, INFINITE), 7), (17, 0));
}

#[test]
fn slow_start_stops_at_ssthresh_and_the_rest_is_congestion_avoidance() {
    // Linux tcp_slow_start(): what lies beyond ssthresh feeds tcp_cong_avoid_ai.
    let mut cc = reno();
    assert_eq!(after(&mut cc, limited(10, 0, 12), 7), (12, 5));
    assert_eq!(after(&mut cc, limited(10, 0, 12), 2), (12, 0));
    assert_eq!(after(&mut cc, limited(10, 3, 12), 12), (13, 1));
}

#[test]
fn congestion_avoidance_adds_one_segment_per_window() {
    // RFC 5681 §3.1 equation 3 in whole segments (tcp_cong_avoid_ai).
    let mut cc = reno();
    let mut facts = limited(10, 0, 5);
    for ack in 1..=10 {
        cc.cong_avoid(&facts, 1).apply(&mut facts);
        assert_eq!(facts.cwnd, if ack < 10 { 10 } else { 11 });
    }
    assert_eq!(facts.cwnd_cnt, 0);
}

#[test]
fn one_ack_may_be_worth_several_segments() {
    let mut cc = reno();
    assert_eq!(after(&mut cc, limited(10, 4, 5), 27), (13, 1));
}

#[test]
fn credit_from_a_larger_window_is_worth_one_segment() {
    // tcp_cong_avoid_ai: "credits accumulated at a higher w" are not divided.
    // w stays what it was when the ACK came.
    let mut cc = reno();
    assert_eq!(after(&mut cc, limited(10, 35, 5), 1), (11, 1));
    assert_eq!(after(&mut cc, limited(10, 10, 5), 1), (11, 1));
    assert_eq!(after(&mut cc, limited(10, 9, 5), 1), (11, 0));
}

#[test]
fn nothing_grows_while_the_application_limits() {
    // RFC 7661's problem, Linux tcp_is_cwnd_limited().
    let mut cc = reno();
    let mut facts = limited(10, 3, 100);
    facts.flags = 0;
    assert_eq!(cc.cong_avoid(&facts, 5), Decision::default());
}

#[test]
fn the_clamp_holds() {
    let mut cc = reno();
    let facts = Facts {
        cwnd_clamp: 12,
        ..limited(10, 0, INFINITE)
    };
    assert_eq!(after(&mut cc, facts, 9).0, 12);
}

#[test]
fn a_reduction_halves_and_keeps_two() {
    // RFC 5681 equation 4; Linux tcp_reno_ssthresh().
    let mut cc = reno();
    for (cwnd, expected) in [(20, 10), (21, 10), (5, 2), (4, 2), (3, 2), (2, 2), (1, 2)] {
        assert_eq!(cc.ssthresh(&limited(cwnd, 0, 5)), expected, "from {cwnd}");
    }
}

#[test]
fn a_spurious_reduction_is_taken_back() {
    // Linux tcp_reno_undo_cwnd().
    let mut cc = reno();
    let facts = Facts {
        prior_cwnd: 20,
        ..limited(10, 0, 10)
    };
    assert_eq!(cc.undo_cwnd(&facts), 20);
    let facts = Facts {
        prior_cwnd: 20,
        ..limited(25, 0, 10)
    };
    assert_eq!(cc.undo_cwnd(&facts), 25);
}

#[test]
fn the_stack_owns_recovery_and_pacing() {
    let mut cc = reno();
    assert_eq!(cc.mode(), ControlMode::Window);
    assert_eq!(cc.telemetry().count(), 0);
    assert_eq!(cc.max_tso_segs(), None);
    assert_eq!(
        cc.set_state(&limited(10, 0, 5), CaState::Recovery),
        Decision::default()
    );
}
