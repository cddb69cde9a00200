//! The loss event bit and the ECN-echo event bit.

use narrows_wire::Signal;
use proptest::prelude::*;

use super::ends::{DATA, End, pair};

const WORDS: &str = "l+e announce never";

fn opened() -> End {
    let (mut a, _) = pair(WORDS);
    a.socket = Some((0, 0, 0));
    a.send(0, DATA);
    a
}

fn marks(end: &mut End, signal: Signal, packets: usize) -> Vec<bool> {
    (0..packets)
        .map(|us| end.send(us as u64, DATA).has("l+e", signal))
        .collect()
}

/// RFC 9506 §3.3: as many packets are marked as were declared lost.
#[test]
fn rfc_3_3_each_declared_loss_marks_one_packet() {
    let mut a = opened();
    a.socket = Some((3, 0, 0));
    assert_eq!(
        marks(&mut a, Signal::Loss, 5),
        [true, true, true, false, false]
    );
    a.socket = Some((4, 0, 0));
    assert_eq!(marks(&mut a, Signal::Loss, 2), [true, false]);
}

/// RFC 9506 §3.3: a loss that is rescinded is not reported, and one that was
/// reported does not make the counter negative.
#[test]
fn rfc_3_3_a_spurious_loss_is_taken_back_but_never_below_zero() {
    let mut a = opened();
    a.socket = Some((3, 2, 0));
    assert_eq!(marks(&mut a, Signal::Loss, 2), [true, false]);
    a.socket = Some((3, 3, 0));
    assert_eq!(marks(&mut a, Signal::Loss, 1), [false]);
    a.socket = Some((4, 3, 0));
    assert_eq!(marks(&mut a, Signal::Loss, 2), [true, false]);
}

/// RFC 9506 §3.5: the same for CE marks that the peer has echoed.
#[test]
fn rfc_3_5_each_echoed_ce_marks_one_packet() {
    let mut a = opened();
    a.socket = Some((0, 0, 2));
    assert_eq!(
        marks(&mut a, Signal::EcnEcho, 4),
        [true, true, false, false]
    );
    assert_eq!(marks(&mut a, Signal::Loss, 4), [false; 4]);
}

#[test]
fn what_was_lost_before_the_first_marked_packet_is_not_reported() {
    let (mut a, _) = pair(WORDS);
    a.socket = Some((7, 1, 9));
    assert_eq!(marks(&mut a, Signal::Loss, 3), [false; 3]);
    assert_eq!(marks(&mut a, Signal::EcnEcho, 3), [false; 3]);
}

#[test]
fn without_a_socket_nothing_is_reported() {
    let (mut a, _) = pair(WORDS);
    assert_eq!(marks(&mut a, Signal::Loss, 100), [false; 100]);
}

#[test]
fn counters_wrap() {
    let (mut a, _) = pair(WORDS);
    a.socket = Some((u32::MAX - 1, 0, u32::MAX));
    a.send(0, DATA);
    a.socket = Some((1, 0, 0));
    let sent: Vec<_> = (0..4).map(|us| a.send(us, DATA)).collect();
    let count = |s| sent.iter().filter(|p| p.has("l+e", s)).count();
    assert_eq!((count(Signal::Loss), count(Signal::EcnEcho)), (3, 1));
}

proptest! {
    /// RFC 9506 §3.3 with a signed counter.
    #[test]
    fn rfc_3_3_every_bit_is_that_of_the_naive_counter(
        steps in prop::collection::vec((0..3_u32, 0..2_u32, 0..3_u32, 0..4_u8), 1..200),
    ) {
        let mut a = opened();
        let (mut lost, mut spurious, mut ce) = (0, 0, 0);
        let (mut l, mut e) = (0_i64, 0_i64);
        for (us, (more, rescinded, echoed, packets)) in steps.into_iter().enumerate() {
            lost += more;
            spurious += rescinded.min(lost - spurious);
            ce += echoed;
            let before = a.socket.unwrap();
            a.socket = Some((lost, spurious, ce));
            for packet in 0..packets {
                if packet == 0 {
                    // The socket is read when a packet leaves.
                    let (was_lost, was_spurious, was_ce) = before;
                    l = (l + i64::from(lost - was_lost) - i64::from(spurious - was_spurious)).max(0);
                    e += i64::from(ce - was_ce);
                }
                let sent = a.send(us as u64, DATA);
                prop_assert_eq!(sent.has("l+e", Signal::Loss), l > 0);
                prop_assert_eq!(sent.has("l+e", Signal::EcnEcho), e > 0);
                l -= i64::from(l > 0);
                e -= i64::from(e > 0);
            }
            if packets == 0 {
                // Not read: the next read sees both steps.
                a.socket = Some(before);
                (lost, spurious, ce) = before;
            }
        }
    }
}
