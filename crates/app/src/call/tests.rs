//! What a call sends and how it is judged.

use super::*;
use crate::kind::testing::{refused_at, with};

#[test]
fn a_packet_reads_back_and_is_rtp() {
    let head = Head {
        frame: 1 << 40,
        index: 7,
        sent: Instant::from_nanos(1 << 60),
    };
    let bytes = head.to_bytes(Media::Voice, 0xABCD, true);
    assert_eq!(bytes[..4], [0x80, 0x80, 0xAB, 0xCD]);
    assert_eq!(Head::parse(&bytes), Some(head));
    assert_eq!(Head::parse(&bytes[..Head::LEN - 1]), None);
    assert_eq!(Head::parse(&[0; Head::LEN]), None);
}

#[test]
fn words_print_back() {
    let spec = with(
        "call",
        &[
            ("media", "video rate 1Mbit"),
            ("direction", "up"),
            ("codepoint", "ect1"),
            ("deadline", "400ms"),
            ("window", "2s"),
        ],
    );
    let words = "call media video rate 1Mbit fps 30 key 10s times 5 direction up \
                 codepoint ect1 deadline 400ms window 2s";
    assert_eq!(spec.to_string(), words);
    assert_eq!(spec.codepoint(), Ecn::Ect1);
}

#[test]
fn wrong_values_are_refused_at_their_place() {
    refused_at(
        "call",
        &[
            ("media", "video fps 0", "0"),
            ("direction", "left", "left"),
            ("codepoint", "ce", "ce"),
            ("deadline", "0s", "0s"),
            ("window", "5", "5"),
        ],
    );
}
