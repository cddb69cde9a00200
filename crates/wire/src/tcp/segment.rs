//! IP and TCP header of a segment in one go.

use std::net::IpAddr;

use super::{TcpFields, TcpOptions};
use crate::checksum::Sum;
use crate::ip::{self, IpFields};

/// Bytes of an IPv4 header, and of TCP's, without options.
const PLAIN: usize = 20;
/// Bytes of the timestamps option with the two NOPs before it.
const TIMESTAMPS: usize = 12;
/// NOP, NOP, kind 8 of 10 bytes (RFC 7323 §3.2, appendix A).
const TIMESTAMPS_HEAD: u32 = 0x0101_080a;

impl TcpFields {
    /// Appends the IP header `header`, this TCP header and `payload`, which `zero_tail` zeros
    /// follow: what [`IpFields::write`] and [`TcpFields::write`] append one after the other.
    /// `out` must be empty.
    pub fn write_packet(
        &self,
        out: &mut Vec<u8>,
        header: &IpFields,
        payload: &[u8],
        zero_tail: u32,
    ) {
        if !self.write_plain(out, header, payload.len(), zero_tail) {
            let above = self.header_len() + payload.len() + zero_tail as usize;
            header.write(out, above);
            self.write(out, header.source, header.destination, payload, zero_tail);
        }
    }

    /// What almost every packet is: IPv4, timestamps and no other option, and no bytes of
    /// payload but zeros. Whether it was that, and is written.
    #[inline]
    fn write_plain(
        &self,
        out: &mut Vec<u8>,
        header: &IpFields,
        payload: usize,
        zero_tail: u32,
    ) -> bool {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (header.source, header.destination)
        else {
            return false;
        };
        let (Some((value, echo)), true) = (self.options.timestamps, payload == 0) else {
            return false;
        };
        if self.options.has_more_than_timestamps() {
            return false;
        }
        const ABOVE: usize = PLAIN + TIMESTAMPS;
        let length = ABOVE as u32 + zero_tail;
        debug_assert!(length <= 65_515, "an IP payload of {length} bytes");
        // As words of 32 bits: their sum, folded, is that of words of 16 (RFC 1071 §2).
        let (source, destination) = (source.to_bits(), destination.to_bits());
        let addresses = u64::from(source) + u64::from(destination);
        let mut ip = [
            0x4500_0000 | u32::from(header.traffic_class) << 16 | (length + PLAIN as u32) & 0xffff,
            header.ident << 16 | 0x4000,
            u32::from(header.ttl) << 24 | u32::from(header.protocol) << 16,
        ];
        ip[2] |= u32::from(checksum(sum(&ip) + addresses));
        let offset = (ABOVE as u32 / 4) << 28;
        let mut tcp = [
            u32::from(self.source_port) << 16 | u32::from(self.destination_port),
            self.seq,
            self.ack,
            offset | u32::from(self.flags.0 & 0xfff) << 16 | u32::from(self.window),
            0,
            TIMESTAMPS_HEAD,
            value,
            echo,
        ];
        let pseudo = addresses + u64::from(ip::TCP) + u64::from(length);
        tcp[4] = u32::from(checksum(sum(&tcp) + pseudo)) << 16;
        let mut bytes = [0; PLAIN + ABOVE];
        let words = ip.into_iter().chain([source, destination]).chain(tcp);
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&bytes);
        true
    }
}

impl TcpOptions {
    /// Whether any option beside timestamps is there.
    #[inline]
    fn has_more_than_timestamps(&self) -> bool {
        self.sack_permitted
            || self.mss.is_some()
            || self.window_scale.is_some()
            || self.fast_open.is_some()
            || self.accecn.is_some()
            || !self.sack.as_slice().is_empty()
    }
}

#[inline]
fn sum(words: &[u32]) -> u64 {
    words.iter().map(|word| u64::from(*word)).sum()
}

/// The checksum of words that sum up to `sum`.
#[inline]
fn checksum(sum: u64) -> u16 {
    // As in the machine's order, which the sum is indifferent to.
    Sum::of_words(sum).finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tcp::{AccEcnOption, FastOpenCookie, TcpFlags};

    fn options() -> impl Strategy<Value = TcpOptions> {
        let timestamps = proptest::option::weighted(0.9, any::<(u32, u32)>());
        (timestamps, 0_u32..10).prop_map(|(timestamps, other)| {
            let mut options = TcpOptions {
                timestamps,
                ..TcpOptions::default()
            };
            match other {
                0 => options.mss = Some(1460),
                1 => options.window_scale = Some(7),
                2 => options.sack_permitted = true,
                3 => options.fast_open = FastOpenCookie::new(&[9; 8]),
                4 => options.accecn = Some(AccEcnOption::default()),
                5 => options.sack.push(1, 2),
                _ => {}
            }
            options
        })
    }

    proptest! {
        #[test]
        fn a_packet_is_what_both_headers_are_one_after_the_other(
            addresses in prop_oneof![
                4 => any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
                1 => any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
            ],
            (traffic_class, ttl, ident) in any::<(u8, u8, u32)>(),
            (source_port, destination_port, seq, ack) in any::<(u16, u16, u32, u32)>(),
            (flags, window) in any::<(u16, u16)>(),
            options in options(),
            payload in prop_oneof![
                3 => Just(Vec::new()),
                1 => proptest::collection::vec(any::<u8>(), 0..40),
            ],
            zero_tail in 0_u32..65_000,
        ) {
            let (source, destination) = addresses;
            let header = IpFields { source, destination, traffic_class, ttl, protocol: ip::TCP, ident };
            let fields = TcpFields {
                source_port,
                destination_port,
                seq,
                ack,
                flags: TcpFlags(flags),
                window,
                options,
            };
            let mut apart = Vec::new();
            header.write(&mut apart, fields.header_len() + payload.len() + zero_tail as usize);
            fields.write(&mut apart, source, destination, &payload, zero_tail);
            let mut at_once = Vec::new();
            fields.write_packet(&mut at_once, &header, &payload, zero_tail);
            prop_assert_eq!(at_once, apart);
        }
    }
}
