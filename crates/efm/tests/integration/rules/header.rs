//! What is written into a header, and what stays.

use std::net::{IpAddr, Ipv4Addr};

use narrows_efm::{PacketFacts, Write};
use narrows_units::Instant;
use narrows_wire::checksum::Sum;
use narrows_wire::{Tcp, TcpFields, TcpFlags, ip};
use proptest::prelude::*;

use super::ends::{DATA, Kind, pair};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn checksum_of(bytes: &[u8]) -> u16 {
    let mut sum = Sum::default();
    sum.add_pseudo_header(ADDRESS, ADDRESS, ip::TCP, bytes.len() as u32);
    sum.add(bytes);
    sum.finish()
}

proptest! {
    #[test]
    fn only_the_bits_of_the_mask_change_and_the_checksum_stays_right(
        flags in 0..0x1000_u16,
        seq in any::<u32>(),
        mask in 0..16_u8,
        bits in 0..16_u8,
        payload in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (mask, bits) = (mask & 0x0e, bits & 0x0e);
        let fields = TcpFields { seq, flags: TcpFlags(flags), ..TcpFields::default() };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, ADDRESS, ADDRESS, &payload, 0);
        let before = bytes.clone();
        Write { mask, bits }.apply(&mut bytes);
        prop_assert_eq!(checksum_of(&bytes), 0);
        prop_assert_eq!(bytes[12], before[12] & !mask | bits & mask);
        for at in (0..bytes.len()).filter(|at| ![12, 16, 17].contains(at)) {
            prop_assert_eq!(bytes[at], before[at], "byte {}", at);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), len in 0..100_u32) {
        let facts = PacketFacts::read(Instant::ZERO, &bytes, len);
        let header_len = bytes.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
        let whole = header_len >= 20 && header_len <= bytes.len() && header_len as u32 <= len;
        prop_assert_eq!(facts.is_some(), whole);
    }
}

/// RFC 9768 §3.1: AE, CWR and ECE are AccECN's in every segment.
#[test]
fn ae_and_accecn_are_untouched_in_every_profile() {
    for words in [
        "d", "s", "d+q", "s+vec", "s+d+q", "d+q+l", "d+q+r", "s+t", "d+q+e",
    ] {
        let (mut a, _) = pair(words);
        for ace in 0..8 {
            let flags = TcpFlags(TcpFlags::ACK).with_ace(ace);
            let sent = a.send(
                1,
                Kind {
                    flags: flags.0,
                    ..DATA
                },
            );
            let read = Tcp::parse(&sent.bytes).unwrap().flags;
            assert_eq!(TcpFlags(read.0 & !TcpFlags::RESERVED), flags, "{words}");
        }
    }
}

#[test]
fn bits_of_no_active_signal_stay_as_they_were() {
    // Somebody else's 0x08 beside D in 0x02.
    let (mut a, _) = pair("d");
    let sent = a.send(
        1,
        Kind {
            flags: TcpFlags::ACK | 0x800,
            ..DATA
        },
    );
    assert_eq!(sent.bits(), 0x08 | 0x02);
}
