//! Spin bit and valid edge counter.

use narrows_wire::Signal;
use proptest::prelude::*;

use super::ends::{ACK, DATA, End, Segment, pair};

fn spin(segment: &Segment, words: &str) -> bool {
    segment.has(words, Signal::Spin)
}

fn vec(segment: &Segment) -> u8 {
    segment.bits() >> 1 & 3
}

/// RFC 9506 §2.1: both ends initialise the value to 0.
#[test]
fn rfc_2_1_both_ends_start_with_zero() {
    let (mut a, mut b) = pair("s");
    assert!(!spin(&a.send(1, DATA), "s"));
    assert!(!spin(&b.send(1, DATA), "s"));
}

/// RFC 9506 §2.1: the client sends the opposite of what it got, the server the
/// same.
#[test]
fn rfc_2_1_the_initiator_inverts_and_the_responder_echoes() {
    let (mut a, mut b) = pair("s");
    for (us, value) in [(1, false), (3, true), (5, false), (7, true)] {
        let sent = a.send(us, DATA);
        assert_eq!(spin(&sent, "s"), value);
        b.receive(us, &sent);
        let back = b.send(us + 1, ACK);
        assert_eq!(spin(&back, "s"), value);
        a.receive(us + 1, &back);
    }
}

/// RFC 9506 §2.1: a packet with a number smaller than the largest seen does not
/// count.
#[test]
fn rfc_2_1_a_late_packet_changes_nothing() {
    let (mut a, mut b) = pair("s");
    let late = a.send(1, DATA);
    let first = a.send(2, DATA);
    b.receive(3, &first);
    let back = b.send(4, ACK);
    a.receive(5, &back);
    let edge = a.send(6, DATA);
    assert!(spin(&edge, "s"));
    b.receive(7, &edge);
    b.receive(8, &late);
    assert!(spin(&b.send(9, ACK), "s"));
}

/// The thesis's endpoints have no ordering test, so one late packet flips them.
#[test]
fn thesis_a_late_packet_flips_the_naive_rule() {
    let words = "s spin naive";
    let (mut a, mut b) = pair(words);
    let late = a.send(1, DATA);
    assert!(spin(&late, "s"), "its initiator sends the inverse of 0");
    b.receive(2, &a.send(2, DATA));
    a.receive(3, &b.send(3, ACK));
    let edge = a.send(4, DATA);
    assert!(!spin(&edge, "s"));
    b.receive(5, &edge);
    assert!(!spin(&b.send(6, ACK), "s"));
    b.receive(7, &late);
    assert!(spin(&b.send(8, ACK), "s"));
}

#[test]
fn a_retransmission_does_not_count_as_newer() {
    let (mut a, mut b) = pair("s");
    let lost = a.next;
    a.send(1, DATA);
    let first = a.send(1, DATA);
    b.receive(2, &first);
    let back = b.send(3, ACK);
    a.receive(4, &back);
    // Sent with the new value and a later timestamp, yet it ends before.
    let again = a.send_at(5_000, DATA, lost);
    assert!(spin(&again, "s"));
    b.receive(6_000, &again);
    assert!(!spin(&b.send(7_000, ACK), "s"));
}

#[test]
fn acks_and_timestamps_number_packets_without_data() {
    // The initiator only acknowledges; its sequence stands still.
    let (mut a, mut b) = pair("s");
    let mut values = Vec::new();
    for round in 0..4 {
        let us = round * 10_000;
        let data = b.send(us, DATA);
        a.receive(us + 1000, &data);
        let ack = a.send(us + 1000, ACK);
        values.push(spin(&ack, "s"));
        b.receive(us + 2000, &ack);
    }
    assert_eq!(values, [true, false, true, false]);
    // Duplicate ACKs differ in their timestamp alone.
    let old = a.send(50_000, ACK);
    let first = b.send(50_000, DATA);
    a.receive(50_001, &first);
    a.expected = a.expected.wrapping_sub(1448);
    let duplicate = a.send(60_000, ACK);
    assert_ne!(spin(&duplicate, "s"), spin(&old, "s"));
    b.receive(61_000, &old);
    b.receive(62_000, &duplicate);
    assert_eq!(spin(&b.send(63_000, DATA), "s"), spin(&duplicate, "s"));
}

#[test]
fn packet_numbers_wrap() {
    let (mut a, mut b) = (End::new("s", u32::MAX - 2000), End::new("s", u32::MAX));
    b.receive(0, &a.send(0, super::ends::SYN));
    a.receive(0, &b.send(0, super::ends::SYN_ACK));
    for us in 1..6 {
        let sent = a.send(us * 1000, DATA);
        b.receive(us * 1000, &sent);
        let back = b.send(us * 1000, ACK);
        assert_eq!(spin(&back, "s"), us % 2 == 0, "packet {us}");
        a.receive(us * 1000, &back);
    }
}

/// draft-trammell-quic-spin-03: the counter of the edge that came, plus one, up
/// to three.
#[test]
fn vec_counts_to_three_and_stays_there() {
    let (mut a, mut b) = pair("s+vec");
    let mut seen = Vec::new();
    b.receive(0, &a.send(0, ACK));
    for us in 0..8 {
        let back = b.send(us, DATA);
        a.receive(us, &back);
        let sent = a.send(us, ACK);
        seen.push(vec(&sent));
        b.receive(us, &sent);
        // What is no edge carries none.
        assert_eq!(vec(&a.send(us, DATA)), 0);
        assert_eq!(vec(&back), (2 * us).min(3) as u8);
    }
    assert_eq!(seen, [1, 3, 3, 3, 3, 3, 3, 3]);
}

#[test]
fn vec_of_an_edge_that_was_held_starts_over_at_one() {
    for (wait, words, expected) in [
        (1_000, "s+vec", 2),
        (1_001, "s+vec", 1),
        (50_000, "s+vec vec_hold 100ms", 2),
        (900_000, "s+vec vec_hold off", 2),
    ] {
        let (mut a, mut b) = pair(words);
        b.receive(10, &a.send(10, DATA));
        a.receive(10, &b.send(10, ACK));
        let edge = a.send(10, DATA);
        assert_eq!(vec(&edge), 1);
        b.receive(20, &edge);
        let back = b.send(20 + wait, ACK);
        assert!(spin(&back, "s+vec"));
        assert_eq!(vec(&back), expected, "{words} after {wait} us");
    }
}

#[test]
fn vec_survives_packets_that_arrive_between_edge_and_answer() {
    let (mut a, mut b) = pair("s+vec");
    b.receive(10, &a.send(10, DATA));
    a.receive(10, &b.send(10, ACK));
    // A delayed ACK answers two packets, of which the first has the edge.
    let (edge, second) = (a.send(10, DATA), a.send(10, DATA));
    b.receive(20, &edge);
    b.receive(30, &second);
    assert_eq!(vec(&b.send(40, ACK)), 2);
}

#[test]
fn segments_of_one_packet_share_the_spin_value_and_nothing_else() {
    let (mut a, mut b) = pair("s");
    b.receive(1, &a.send(1, DATA));
    a.receive(1, &b.send(1, ACK));
    let large = super::ends::Kind {
        segments: 4,
        payload: 4 * 1448,
        ..DATA
    };
    assert!(spin(&a.send(2, large), "s"));
    let (mut a, mut b) = pair("s+d+q");
    b.receive(1, &a.send_at(1, large, 5));
    let sent = a.send(2, ACK);
    assert!(
        sent.has("s+d+q", Signal::Delay),
        "the sample waits for a whole packet"
    );
}

/// What RFC 9506 §2.1 says, with a true packet number.
#[derive(Clone, Copy, Default)]
struct Oracle {
    newest: Option<usize>,
    received: bool,
}

proptest! {
    #[test]
    fn under_reordering_the_value_is_that_of_the_newest_packet(
        // For each of the packets, how much later than the one before it comes.
        delays in prop::collection::vec(0..40_u64, 1..120),
        values in prop::collection::vec(any::<bool>(), 120),
        timestamps in any::<bool>(),
    ) {
        // A responder meets a sender whose value changes at will.
        let (mut a, mut b) = pair("s");
        (a.timestamps, b.timestamps) = (timestamps, timestamps);
        let mut arrivals = Vec::new();
        for (i, delay) in delays.iter().enumerate() {
            let mut sent = a.send(i as u64, DATA);
            let write = narrows_efm::Write { mask: 0x02, bits: if values[i] { 2 } else { 0 } };
            write.apply(&mut sent.bytes);
            arrivals.push((i as u64 + delay, i, sent));
        }
        arrivals.sort_by_key(|(at, i, _)| (*at, *i));
        let mut oracle = Oracle::default();
        for (at, number, segment) in arrivals {
            b.receive(at, &segment);
            if oracle.newest.is_none_or(|n| number > n) {
                oracle = Oracle { newest: Some(number), received: values[number] };
            }
            prop_assert_eq!(spin(&b.send(at, ACK), "s"), oracle.received);
        }
    }
}
