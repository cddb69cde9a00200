//! Roles and announcements.

use narrows_wire::Signal;

use super::ends::{ACK, DATA, End, Kind, SYN, SYN_ACK, pair};

/// The bits of a few packets of an end.
fn bits(end: &mut End) -> u8 {
    (0..4).fold(0, |bits, us| bits | end.send(us, DATA).bits())
}

#[test]
fn syn_and_syn_ack_carry_the_code_of_the_profile() {
    for (words, code) in [
        ("none", 0),
        ("d", 1),
        ("s", 2),
        ("d+q", 3),
        ("s+vec", 4),
        ("s+d+q", 5),
        ("d+q+l", 6),
        ("d+q+r", 7),
        ("s+t", 0),
        ("d+q+e", 0),
        ("d announce never", 0),
    ] {
        let (mut a, mut b) = (End::new(words, 7), End::new(words, 9));
        let syn = a.send(0, SYN);
        assert_eq!(syn.code(), code, "{words}");
        b.receive(0, &syn);
        assert_eq!(b.send(0, SYN_ACK).code(), code, "{words}");
    }
}

#[test]
fn a_repeated_syn_announces_none_and_its_sender_marks_nothing() {
    let (mut a, mut b) = (End::new("d", 7), End::new("d", 9));
    a.send(0, SYN);
    let again = a.send_at(1_000_000, SYN, 7);
    assert_eq!(again.code(), 0);
    b.receive(1_000_000, &again);
    let answer = b.send(1_000_000, SYN_ACK);
    a.receive(1_000_000, &answer);
    assert_eq!(bits(&mut a), 0);
}

#[test]
fn a_repeated_syn_ack_announces_none_and_its_sender_marks_nothing() {
    let (mut a, mut b) = (End::new("s+d+q", 7), End::new("s+d+q", 9));
    let syn = a.send(0, SYN);
    b.receive(0, &syn);
    b.send(0, SYN_ACK);
    let again = b.send_at(1_000_000, SYN_ACK, 9);
    assert_eq!(again.code(), 0);
    a.receive(1_000_000, &again);
    let first = a.send(1_000_000, ACK);
    assert!(first.has("s+d+q", Signal::Delay));
    b.receive(1_000_000, &first);
    assert_eq!(bits(&mut b), 0);
}

#[test]
fn what_cannot_be_announced_survives_a_repeated_syn() {
    let (mut a, mut b) = (End::new("d+q+e", 7), End::new("d+q+e", 9));
    a.send(0, SYN);
    let again = a.send_at(1_000_000, SYN, 7);
    b.receive(0, &again);
    let answer = b.send(0, SYN_ACK);
    a.receive(0, &answer);
    assert!(a.send(1, ACK).has("d+q+e", Signal::Delay));
}

/// The thesis: each side announces and marks by itself.
#[test]
fn without_negotiation_each_side_marks_whatever_the_other_says() {
    let (mut a, mut b) = (End::new("d", 7), End::new("none", 9));
    let syn = a.send(0, SYN);
    b.receive(0, &syn);
    let answer = b.send(0, SYN_ACK);
    assert_eq!(answer.code(), 0);
    a.receive(0, &answer);
    assert_eq!(bits(&mut a), 0x02);
}

#[test]
fn a_negotiating_responder_answers_what_it_supports_of_what_was_offered() {
    for (offers, supports, code) in [
        ("d+q", "d+q", 3),
        ("d+q", "d+q+l", 3),
        ("s+d+q", "d", 1),
        ("d+q+l", "d+q+r", 3),
        ("s+vec", "s", 2),
        ("s", "d", 0),
        ("s+vec", "d+q+r", 0),
        // S with Q would be left, which has no code.
        ("s+d+q", "q announce never", 0),
    ] {
        let mut a = End::new(&format!("{offers} announce negotiate"), 7);
        let mut b = if supports.contains("announce") {
            End::new(supports, 9)
        } else {
            End::new(&format!("{supports} announce negotiate"), 9)
        };
        let syn = a.send(0, SYN);
        b.receive(0, &syn);
        let answer = b.send(0, SYN_ACK);
        assert_eq!(answer.code(), code, "{offers} to {supports}");
        a.receive(0, &answer);
        let marks = bits(&mut a);
        match code {
            0 => assert_eq!(marks, 0, "no answer, no marks"),
            2 => assert_eq!(marks & !0x02, 0, "spin alone stands in 0x02"),
            _ => assert_eq!(marks & 0x02, 0x02, "{offers} to {supports}"),
        }
    }
}

#[test]
fn a_negotiating_initiator_marks_nothing_without_an_answer() {
    let (mut a, mut b) = (End::new("d announce negotiate", 7), End::new("none", 9));
    let syn = a.send(0, SYN);
    b.receive(0, &syn);
    let answer = b.send(0, SYN_ACK);
    a.receive(0, &answer);
    assert_eq!(bits(&mut a), 0);
    assert_eq!(bits(&mut b), 0);
}

#[test]
fn a_later_answer_without_a_code_ends_negotiated_marks() {
    let words = "d announce negotiate";
    let (mut a, mut b) = pair(words);
    assert!(a.send(1, ACK).has("d", Signal::Delay));
    let again = b.send_at(2, SYN_ACK, 3_000_000_000);
    assert_eq!(again.code(), 0);
    a.receive(3, &again);
    assert_eq!(a.send(10_000_000, DATA).bits(), 0);
}

#[test]
fn an_answer_that_goes_beyond_the_offer_is_none() {
    let (mut a, mut b) = (End::new("d announce negotiate", 7), End::new("d+q", 9));
    let syn = a.send(0, SYN);
    b.receive(0, &syn);
    let answer = b.send(0, SYN_ACK);
    assert_eq!(answer.code(), 3);
    a.receive(0, &answer);
    assert_eq!(bits(&mut a), 0);
}

/// RFC 9506 §2.2.1: only the client makes samples, and the client is who opened.
#[test]
fn who_opens_is_the_initiator_whichever_way_the_data_goes() {
    let (mut a, mut b) = pair("d");
    // The responder has data and the initiator only acknowledges.
    assert!(!b.send(1, DATA).has("d", Signal::Delay));
    assert!(a.send(2, ACK).has("d", Signal::Delay));
}

#[test]
fn of_two_that_open_at_once_one_is_the_initiator() {
    for (isn_a, isn_b) in [(7, 9), (9, 7), (u32::MAX, 3)] {
        let (mut a, mut b) = (End::new("d", isn_a), End::new("d", isn_b));
        let (syn_a, syn_b) = (a.send(0, SYN), b.send(0, SYN));
        a.receive(1, &syn_b);
        b.receive(1, &syn_a);
        let (answer_a, answer_b) = (a.send_at(2, SYN_ACK, isn_a), b.send_at(2, SYN_ACK, isn_b));
        assert_eq!((answer_a.code(), answer_b.code()), (1, 1));
        a.receive(3, &answer_b);
        b.receive(3, &answer_a);
        let marks = [a.send(4, ACK), b.send(4, ACK)].map(|s| s.has("d", Signal::Delay));
        let a_is_first = isn_a.wrapping_sub(isn_b) >> 31 == 1;
        assert_eq!(marks, [a_is_first, !a_is_first]);
    }
}

#[test]
fn a_connection_seen_without_its_handshake_is_not_marked() {
    let mut a = End::new("d+q", 7);
    for us in 0..200 {
        assert_eq!(a.send(us, DATA).bits(), 0);
    }
}

#[test]
fn a_new_connection_on_the_same_ports_starts_over() {
    let (mut a, mut b) = pair("d+q");
    for us in 0..100 {
        let sent = a.send(us, DATA);
        b.receive(us, &sent);
    }
    a.next = 77;
    let syn = a.send(1000, SYN);
    assert_eq!(syn.code(), 3);
    b.receive(1000, &syn);
    b.next = 88;
    let answer = b.send(1000, SYN_ACK);
    assert_eq!(answer.code(), 3);
    a.receive(1000, &answer);
    let sent: Vec<_> = (0..65).map(|us| a.send(2000 + us, DATA)).collect();
    assert!(sent[0].has("d+q", Signal::Delay));
    assert!(sent[..64].iter().all(|s| !s.has("d+q", Signal::Square)));
    assert!(sent[64].has("d+q", Signal::Square));
}

#[test]
fn a_syn_inside_a_connection_that_this_host_opened_changes_nothing() {
    let (mut a, mut b) = pair("d");
    a.send(1, ACK);
    let stray = b.send_at(2, SYN, 5);
    a.receive(2, &stray);
    assert!(a.send(2_000_000, DATA).has("d", Signal::Delay));
}

#[test]
fn fin_and_rst_are_marked_like_all_others() {
    let (mut a, _) = pair("d+q");
    for us in 0..64 {
        a.send(us, DATA);
    }
    for flags in [0x011, 0x014, 0x004] {
        let sent = a.send(100, Kind { flags, ..ACK });
        assert!(sent.has("d+q", Signal::Square));
    }
}
