//! CUBIC that is given the rate of its path: when the window is set by it, and when not.

use narrows_cc::{CaState, ControlSpec, Controller, Decision, Facts, Flags};

/// Segments of 1500 bytes on the wire, and a smallest round trip of 20 ms.
fn facts() -> Facts {
    Facts {
        now_ns: 1_000_000_000,
        mss: 1448,
        header: 52,
        cwnd: 30,
        ssthresh: 20,
        min_rtt_us: 20_000,
        srtt_us: 25_000 << 3,
        flags: Flags::CWND_LIMITED,
        ..Facts::default()
    }
}

fn control(words: &str) -> Controller {
    let mut cc = Controller::new(&ControlSpec::parse(words).unwrap());
    cc.init(&facts());
    cc
}

fn window(decision: &Decision) -> Option<u32> {
    (decision.set & Decision::CWND != 0).then_some(decision.cwnd)
}

#[test]
fn it_is_cubic_until_it_is_given_a_rate() {
    let (mut given, mut cubic) = (control("quickstart"), control("cubic"));
    let mut facts = facts();
    for acked in [1, 3, 40, 7] {
        facts.now_ns += 10_000_000;
        let decision = given.cong_avoid(&facts, acked);
        let cubics = cubic.cong_avoid(&facts, acked);
        assert_eq!(decision.set, cubics.set);
        assert_eq!(window(&decision), window(&cubics));
        assert_eq!(decision.cwnd_cnt(), cubics.cwnd_cnt());
    }
}

#[test]
fn the_window_is_what_the_rate_holds_over_the_smallest_round_trip_once_for_each_rate() {
    let mut cc = control("quickstart");
    let mut facts = facts();
    // 70 Mbit/s for 20 ms: 175,000 bytes, 116.7 segments.
    cc.set_option("rate", 8_750_000).unwrap();
    let decision = cc.cong_avoid(&facts, 1);
    assert_eq!(window(&decision), Some(117));
    assert_eq!(decision.ssthresh(), Some(117));
    assert_ne!(decision.set & Decision::PACING_STATUS, 0, "it is paced");
    // From there it is CUBIC, whose plateau is here.
    facts.cwnd = 117;
    facts.ssthresh = 117;
    for _ in 0..50 {
        facts.now_ns += 1_000_000;
        let grown = window(&cc.cong_avoid(&facts, 2)).unwrap();
        assert!((117..=118).contains(&grown), "{grown}");
    }
    assert_eq!(cc.ssthresh(&facts), 81, "717/1024 of it");
    // A fall is followed too, to two segments at least.
    cc.set_option("rate", 1_875_000).unwrap();
    assert_eq!(window(&cc.cong_avoid(&facts, 1)), Some(26));
    cc.set_option("rate", 1).unwrap();
    assert_eq!(window(&cc.cong_avoid(&facts, 1)), Some(2));
}

#[test]
fn what_cannot_be_reckoned_or_is_clamped_is_not_taken_for_more() {
    let mut cc = control("quickstart");
    cc.set_option("rate", 8_750_000).unwrap();
    // Without a round trip there is nothing to reckon by; it is made up for.
    let unknown = Facts {
        min_rtt_us: u32::MAX,
        ..facts()
    };
    assert!(window(&cc.cong_avoid(&unknown, 1)).unwrap() < 40);
    let clamped = Facts {
        cwnd_clamp: 50,
        ..facts()
    };
    assert_eq!(window(&cc.cong_avoid(&clamped, 1)), Some(50));
    // Neither the largest rate nor the longest round trip overflows.
    let spec = ControlSpec::parse("quickstart rate 137438953472b").unwrap();
    let mut cc = Controller::new(&spec);
    let far = Facts {
        min_rtt_us: u32::MAX - 1,
        ..facts()
    };
    cc.init(&far);
    assert!(window(&cc.cong_avoid(&far, 1)).unwrap() > 1 << 31);
    assert!(cc.set_option("rate", (1 << 37) + 1).is_err());
}

#[test]
fn a_timeout_is_cubic_s() {
    let (mut given, mut cubic) = (control("quickstart"), control("cubic"));
    given.set_option("rate", 8_750_000).unwrap();
    let facts = facts();
    assert_eq!(given.ssthresh(&facts), cubic.ssthresh(&facts));
    let lost = given.set_state(&facts, CaState::Loss);
    assert_eq!(lost.set, cubic.set_state(&facts, CaState::Loss).set);
}
