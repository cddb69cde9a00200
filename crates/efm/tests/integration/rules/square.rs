//! The square bit, and the blocks that its reflection counts.

use narrows_wire::Signal;
use proptest::prelude::*;

use super::ends::{ACK, DATA, Kind, pair};

/// RFC 9506 §3.2: N packets with 0, N with 1, and so on, each direction by itself.
#[test]
fn rfc_3_2_blocks_of_n_packets_alternate() {
    for (words, n) in [("q announce never", 64), ("q announce never n 128", 128)] {
        let (mut a, mut b) = pair(words);
        for i in 0..1000_u64 {
            let value = i / n % 2 == 1;
            assert_eq!(
                a.send(i, DATA).has("q", Signal::Square),
                value,
                "packet {i}"
            );
            if i % 3 == 0 {
                let back = b.send(i, ACK).has("q", Signal::Square);
                assert_eq!(back, i / 3 / n % 2 == 1);
            }
        }
    }
}

/// RFC 9506 §3.2.1: N is a power of two and at least 64.
#[test]
fn rfc_3_2_1_n_is_constant_and_64_by_default() {
    let spec = narrows_efm::SignalSpec::parse("d+q").unwrap();
    assert_eq!(spec.block(), 64);
}

#[test]
fn retransmissions_and_pure_acks_count_like_all_others() {
    let (mut a, _) = pair("q announce never");
    let seq = a.next;
    for i in 0..64 {
        let sent = match i % 3 {
            0 => a.send(i, ACK),
            1 => a.send(i, DATA),
            _ => a.send_at(i, DATA, seq),
        };
        assert!(!sent.has("q", Signal::Square));
    }
    assert!(a.send(99, ACK).has("q", Signal::Square));
}

#[test]
fn what_becomes_several_packets_is_left_out_and_does_not_count() {
    let (mut a, _) = pair("q announce never");
    for i in 0..64 {
        a.send(i, DATA);
        let large = Kind {
            segments: 2,
            payload: 2896,
            ..DATA
        };
        assert_eq!(a.send(i, large).bits(), 0);
    }
    assert!(a.send(99, DATA).has("q", Signal::Square));
}

proptest! {
    /// RFC 9506 §3.2.2: uloss = 1 - avg(p) / N, for losses that take no whole
    /// block.
    #[test]
    fn rfc_3_2_2_the_average_block_shows_the_loss(
        lost in prop::collection::vec(prop::bool::weighted(0.05), 64 * 40),
    ) {
        let (mut a, _) = pair("q announce never");
        let (mut blocks, mut last) = (vec![0_u32], false);
        for (i, lost) in lost.iter().enumerate() {
            let value = a.send(i as u64, DATA).has("q", Signal::Square);
            if *lost {
                continue;
            }
            if value != last {
                blocks.push(0);
                last = value;
            }
            *blocks.last_mut().unwrap() += 1;
        }
        let share = |n: usize, of: usize| n as f64 / of as f64;
        let arrived: u32 = blocks.iter().sum();
        let uloss = 1.0 - share(arrived as usize, blocks.len() * 64);
        let truth = share(lost.iter().filter(|l| **l).count(), lost.len());
        prop_assert_eq!(blocks.len(), 40);
        prop_assert!((uloss - truth).abs() < 1e-9);
    }
}
