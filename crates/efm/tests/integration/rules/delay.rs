//! The delay bit.

use narrows_wire::Signal;
use proptest::prelude::*;

use super::ends::{ACK, DATA, End, Kind, Segment, pair};

fn sample(segment: &Segment) -> bool {
    segment.has("d", Signal::Delay)
}

/// One round trip: the sample goes to `b` and back; when it is back at `a`.
fn bounce(a: &mut End, b: &mut End, us: u64, one_way: u64) -> u64 {
    let there = a.send(us, DATA);
    assert!(sample(&there), "at {us}");
    b.receive(us + one_way, &there);
    let back = b.send(us + one_way, ACK);
    assert!(sample(&back));
    a.receive(us + 2 * one_way, &back);
    us + 2 * one_way
}

/// RFC 9506 §2.2.1: the client's first packet is a sample, the server makes none.
#[test]
fn rfc_2_2_1_the_initiators_first_packet_is_the_sample() {
    for words in ["d", "d delay thesis"] {
        let (mut a, mut b) = pair(words);
        assert!(!sample(&b.send(5, DATA)));
        assert!(sample(&a.send(5, ACK)));
        assert!(!sample(&a.send(6, DATA)));
        for s in 1..100 {
            assert!(!sample(&b.send(s * 1_000_000, DATA)));
        }
    }
}

/// RFC 9506 §2.2.2: the first packet in the opposite direction is the sample.
#[test]
fn rfc_2_2_2_each_end_sends_the_sample_back_once() {
    let (mut a, mut b) = pair("d");
    let there = a.send(0, DATA);
    b.receive(30_000, &there);
    assert!(sample(&b.send(30_100, ACK)));
    assert!(!sample(&b.send(30_200, ACK)));
    let back = {
        let (mut a, mut b) = (a.clone(), b.clone());
        b.receive(30_300, &a.send(30_300, DATA));
        b.send(30_300, ACK)
    };
    assert!(!sample(&back), "an unmarked packet brings no sample");
}

/// RFC 9506 §2.2.2: more than 1 ms after it arrived, a sample is not reflected.
#[test]
fn rfc_2_2_2_a_sample_held_longer_than_the_threshold_is_dropped() {
    for (words, wait, reflected) in [
        ("d", 1_000, true),
        ("d", 1_001, false),
        ("d hold 5ms", 5_000, true),
        ("d hold 5ms", 5_001, false),
        ("d hold off", 900_000, true),
        ("d delay thesis", 900_000, true),
    ] {
        let (mut a, mut b) = pair(words);
        b.receive(10, &a.send(0, DATA));
        assert_eq!(sample(&b.send(10 + wait, ACK)), reflected, "{words} {wait}");
        assert!(!sample(&b.send(11 + wait, ACK)));
    }
}

/// RFC 9506 §2.2.2: the worst error is twice the threshold.
#[test]
fn rfc_2_2_2_no_sample_of_an_idle_application_is_inflated_beyond_two_thresholds() {
    let (mut a, mut b) = pair("d");
    let one_way = 20_000;
    let (mut us, mut last, mut measured) = (0, None, 0);
    // Both sides wait a while before they send, now and then for long.
    for round in 0..2_000_u64 {
        let wait = if round % 7 == 0 {
            9_000
        } else {
            round * 37 % 1_500
        };
        let there = a.send(us, DATA);
        if sample(&there) {
            if let Some(before) = last {
                let gap: u64 = us - before;
                // An observer's cut-off, which is below the client's T_Max.
                if gap < 126_000 {
                    measured += 1;
                    assert!(gap <= 2 * one_way + 2_000, "{gap} in round {round}");
                }
            }
            last = Some(us);
        }
        b.receive(us + one_way, &there);
        let answered = us + one_way + wait;
        let back = b.send(answered, ACK);
        a.receive(answered + one_way, &back);
        us = answered + one_way + round * 53 % 1_300;
    }
    assert!(measured > 100);
}

/// RFC 9506 §2.2.1: when more than T_Max has passed since the last one was sent.
#[test]
fn rfc_2_2_1_a_lost_sample_is_made_anew_at_the_first_packet_after_t_max() {
    for (words, t_max) in [
        ("d dynamic off", 1_000_000),
        ("d tmax 225ms dynamic off", 225_000),
        ("d delay thesis", 100_000),
        ("d delay thesis tmax 225ms", 225_000),
    ] {
        let (mut a, mut b) = pair(words);
        let us = bounce(&mut a, &mut b, 7, 10_000);
        assert!(sample(&a.send(us, DATA)), "reflected, then lost");
        assert!(!sample(&a.send(us + t_max, DATA)), "{words}");
        assert!(sample(&a.send(us + t_max + 1, DATA)), "{words}");
        assert!(!sample(&a.send(us + t_max + 2, DATA)), "{words}");
    }
}

/// RFC 9506 §2.2.3: T_Max_c = 2 RTT + 100 ms, of the larger of two RTTs, after two
/// samples in a row.
#[test]
fn rfc_2_2_3_t_max_follows_the_larger_of_two_rtts() {
    let (mut a, mut b) = pair("d");
    let us = bounce(&mut a, &mut b, 0, 10_000);
    let one = {
        let mut a = a.clone();
        assert!(sample(&a.send(us, DATA)));
        assert!(
            !sample(&a.send(us + 999_999, DATA)),
            "one RTT does not suffice"
        );
        sample(&a.send(us + 1_000_001, DATA))
    };
    assert!(one);
    let us = bounce(&mut a, &mut b, us, 15_000);
    let us = bounce(&mut a, &mut b, us, 10_000);
    assert!(sample(&a.send(us, DATA)));
    // The last two RTTs were 30 ms and 20 ms.
    assert!(!sample(&a.send(us + 160_000, DATA)));
    assert!(sample(&a.send(us + 160_001, DATA)));
}

/// RFC 9506 §2.2.3: T_Max_c is forced to T_Max_p where it is greater.
#[test]
fn rfc_2_2_3_t_max_is_at_most_the_preset() {
    let (mut a, mut b) = pair("d tmax 150ms");
    let mut us = 0;
    for _ in 0..3 {
        us = bounce(&mut a, &mut b, us, 35_000);
    }
    assert!(sample(&a.send(us, DATA)));
    assert!(!sample(&a.send(us + 150_000, DATA)));
    assert!(sample(&a.send(us + 150_001, DATA)));
}

#[test]
fn t_max_is_the_preset_again_when_two_samples_do_not_come_back() {
    let (mut a, mut b) = pair("d");
    let mut us = 0;
    for _ in 0..3 {
        us = bounce(&mut a, &mut b, us, 10_000);
    }
    // T_Max is 140 ms. Now the RTT grows to 500 ms.
    assert!(sample(&a.send(us, DATA)));
    assert!(sample(&a.send(us + 140_001, DATA)));
    assert!(sample(&a.send(us + 280_002, DATA)));
    assert!(!sample(&a.send(us + 280_003 + 999_000, DATA)));
    assert!(sample(&a.send(us + 280_003 + 1_000_000, DATA)));
}

/// The thesis: segments with SACK blocks are never marked, and the sample waits.
/// A receiver that sends duplicate ACKs holds it for a round trip: the stall.
#[test]
fn thesis_a_sample_waits_behind_sacks_and_shows_too_long_a_delay() {
    let sack = Kind { sack: true, ..ACK };
    let (mut a, mut b) = pair("d delay thesis");
    b.receive(10_000, &a.send(0, DATA));
    for us in 0..60 {
        assert!(!sample(&b.send(10_000 + us * 1_000, sack)));
    }
    assert!(sample(&b.send(70_000, ACK)), "60 ms later");
    // The RFC's rules mark them, ...
    let (mut a, mut b) = pair("d");
    b.receive(10_000, &a.send(0, DATA));
    assert!(sample(&b.send(10_000, sack)));
    // ... and with the thesis's rule beside them the threshold drops the sample.
    let (mut a, mut b) = pair("d sack skip");
    b.receive(10_000, &a.send(0, DATA));
    assert!(!sample(&b.send(10_500, sack)));
    assert!(!sample(&b.send(11_500, ACK)));
}

#[test]
fn a_retransmission_may_be_the_sample() {
    let (mut a, _) = pair("d");
    let seq = a.next;
    assert!(sample(&a.send_at(1, DATA, seq)));
}

#[test]
fn a_packet_that_becomes_several_is_never_the_sample() {
    for words in ["d", "d delay thesis"] {
        let (mut a, mut b) = pair(words);
        let large = Kind {
            segments: 3,
            payload: 3000,
            ..DATA
        };
        assert!(!sample(&a.send(1, large)));
        let there = a.send(2, DATA);
        assert!(sample(&there));
        b.receive(3, &there);
        assert!(!sample(&b.send(4, large)));
        assert!(sample(&b.send(5, ACK)));
    }
}

/// A path that drops and delays, and the law that one sample at most is alive
/// while the RTT stays below T_Max.
#[derive(Clone, Debug)]
struct Hop {
    lost: bool,
    delay: u64,
}

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    let hop = (prop::bool::weighted(0.05), 1_000..40_000_u64)
        .prop_map(|(lost, delay)| Hop { lost, delay });
    prop::collection::vec(hop, 100..400)
}

proptest! {
    #[test]
    fn there_is_never_more_than_one_sample(
        hops in hops(),
        words in prop::sample::select(vec!["d", "d dynamic off", "d delay thesis", "d hold off"]),
        gap in 100..5_000_u64,
    ) {
        let (mut a, mut b) = pair(words);
        // In flight: when it arrives, in which order it left, whether to `b`.
        let mut flying: Vec<(u64, usize, bool, Segment)> = Vec::new();
        let mut alive = 0_i32;
        for (i, hop) in hops.iter().enumerate() {
            let us = i as u64 * gap;
            flying.sort_by_key(|(at, order, ..)| (*at, *order));
            while flying.first().is_some_and(|(at, ..)| *at <= us) {
                let (at, _, to_b, segment) = flying.remove(0);
                let end = if to_b { &mut b } else { &mut a };
                end.receive(at, &segment);
                alive -= i32::from(sample(&segment));
            }
            let to_b = i % 2 == 0;
            let sent = if to_b { a.send(us, DATA) } else { b.send(us, ACK) };
            if sample(&sent) && !hop.lost {
                alive += 1;
                prop_assert!(alive <= 1, "{} samples at {}", alive, us);
            }
            if !hop.lost {
                flying.push((us + hop.delay, i, to_b, sent));
            }
        }
    }
}
