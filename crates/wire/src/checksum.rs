//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

use std::net::IpAddr;

use crate::ip::{self, Ip};

/// A running one's-complement sum over 16-bit words.
///
/// One's-complement addition is associative over any word size and indifferent to the order
/// of bytes (RFC 1071 §2): words of 64 bits are added as the machine has them, and folded at
/// the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`, which start at an even offset; an odd last byte counts as
    /// the high half of a word.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for w in &mut words {
            self.add_long([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]);
        }
        let mut halves = words.remainder().chunks_exact(4);
        for w in &mut halves {
            self.add_half([w[0], w[1], w[2], w[3]]);
        }
        match *halves.remainder() {
            [a] => self.add_half([a, 0, 0, 0]),
            [a, b] => self.add_half([a, b, 0, 0]),
            [a, b, c] => self.add_half([a, b, c, 0]),
            _ => {}
        }
    }

    #[inline]
    fn add_half(&mut self, [a, b, c, d]: [u8; 4]) {
        self.add_long([a, b, c, d, 0, 0, 0, 0]);
    }

    #[inline]
    fn add_long(&mut self, bytes: [u8; 8]) {
        let (sum, carry) = self.0.overflowing_add(u64::from_ne_bytes(bytes));
        self.0 = sum + u64::from(carry);
    }

    /// The sum of words of 16 or 32 bits, as numbers, of which at most 2³² were added.
    #[inline]
    pub(crate) fn of_words(sum: u64) -> Self {
        // Numbers in the machine's order sum up to the number in the machine's order.
        let folded = (sum & 0xffff_ffff) + (sum >> 32);
        let folded = (folded & 0xffff) + (folded >> 16 & 0xffff) + (folded >> 32);
        let folded = (folded & 0xffff) + (folded >> 16);
        Self(u64::from(
            (((folded & 0xffff) + (folded >> 16)) as u16).to_be(),
        ))
    }

    /// Adds one 16-bit word.
    #[inline]
    pub fn add_word(&mut self, word: u16) {
        let [a, b] = word.to_be_bytes();
        self.add_half([a, b, 0, 0]);
    }

    /// Adds the pseudo header of `protocol` over `length` bytes (RFC 9293
    /// §3.1, RFC 8200 §8.1).
    #[inline]
    pub fn add_pseudo_header(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        length: u32,
    ) {
        for address in [source, destination] {
            match address {
                IpAddr::V4(a) => self.add_half(a.octets()),
                IpAddr::V6(a) => self.add(&a.octets()),
            }
        }
        self.add_word(u16::from(protocol));
        self.add_half(length.to_be_bytes());
    }

    /// The folded sum.
    #[inline]
    pub fn folded(self) -> u16 {
        // Of 33 bits, 17 and 17 once more, of which the last leaves no carry.
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        u16::from_be(((sum & 0xffff) + (sum >> 16)) as u16)
    }

    /// The checksum: the complement of the folded sum.
    pub fn finish(self) -> u16 {
        !self.folded()
    }
}

/// The checksum of `bytes`.
pub fn of(bytes: &[u8]) -> u16 {
    let mut sum = Sum::default();
    sum.add(bytes);
    sum.finish()
}

/// The checksum after one 16-bit word changed from `old` to `new` (RFC 1624
/// equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// Whether the checksums of a packet hold that `zero_tail` zeros follow: of the IPv4 header, and of TCP, UDP,
/// ICMP and ICMPv6 above. What a fragment carries is not looked at; a datagram over IPv4 may have none (RFC
/// 768). A packet that cannot be read, or is shorter than it says, does not hold.
pub fn hold(bytes: &[u8], zero_tail: u32) -> bool {
    plain_tcp_holds(bytes, zero_tail).unwrap_or_else(|| any_holds(bytes, zero_tail))
}

/// The same of what almost every packet is: TCP in IPv4 without options, whole, and as long as
/// it says. `None` of all else.
#[inline]
fn plain_tcp_holds(bytes: &[u8], zero_tail: u32) -> Option<bool> {
    let (header, above) = bytes.split_first_chunk::<20>()?;
    let total = u16::from_be_bytes([header[2], header[3]]);
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    let plain = header[0] == 0x45 && header[9] == ip::TCP && whole;
    if !plain || bytes.len() as u64 + u64::from(zero_tail) != u64::from(total) {
        return None;
    }
    // Words of 32 bits, of which 64 bits hold the sum of more than any packet has.
    let word = |w: &[u8]| u64::from(u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    let addresses = word(&header[12..16]) + word(&header[16..20]);
    let own = word(&header[0..4]) + word(&header[4..8]) + word(&header[8..12]) + addresses;
    let mut words = above.chunks_exact(4);
    let mut sum = addresses + (&mut words).map(word).sum::<u64>();
    let mut rest = [0; 4];
    let odd = words.remainder();
    rest[..odd.len()].copy_from_slice(odd);
    sum += word(&rest);
    let length = total - 20;
    sum += u64::from((u16::from(ip::TCP)).to_be()) + u64::from(length.to_be());
    Some(Sum(own).finish() == 0 && Sum(sum).finish() == 0)
}

fn any_holds(bytes: &[u8], zero_tail: u32) -> bool {
    let Ok(ip) = Ip::parse_cut(bytes, zero_tail) else {
        return false;
    };
    let v4 = ip.source.is_ipv4();
    let header = ip.header_len;
    if ip.total_len > bytes.len() + zero_tail as usize || bytes.len() < header {
        return false;
    }
    if v4 && of(&bytes[..header]) != 0 {
        return false;
    }
    if ip.more_fragments || ip.fragment_offset > 0 {
        return true;
    }
    let above = &bytes[header..bytes.len().min(ip.total_len)];
    let mut sum = Sum::default();
    match ip.protocol {
        ip::UDP if v4 && above.get(6..8) == Some(&[0, 0]) => return true,
        ip::UDP if above.get(6..8) == Some(&[0, 0]) => return false,
        ip::ICMP if v4 => {}
        ip::TCP | ip::UDP | ip::ICMPV6 => {
            let length = (ip.total_len - header) as u32;
            sum.add_pseudo_header(ip.source, ip.destination, ip.protocol, length);
        }
        _ => return true,
    }
    sum.add(above);
    sum.finish() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IpFields, TcpFields, UdpFields};

    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.finish(), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_to_zero() {
        // §4: the checksum 0xdd2f covers a word that changes from 0x5555 to
        // 0x3285; equation 2 of RFC 1141 would give 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn bytes_of_any_length_in_any_pieces_sum_as_words_of_16_bits_do() {
        // All ones too, where every addition carries.
        let mixed: Vec<u8> = (0..70_u8).map(|i| i.wrapping_mul(89) ^ 0x5a).collect();
        for bytes in [mixed, vec![0xff; 70]] {
            for len in 0..bytes.len() {
                let mut plain = 0_u32;
                for word in bytes[..len].chunks(2) {
                    plain += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
                    plain = (plain & 0xffff) + (plain >> 16);
                }
                for cut in (0..=len).step_by(2) {
                    let mut sum = Sum::default();
                    sum.add(&bytes[..cut]);
                    sum.add(&bytes[cut..len]);
                    assert_eq!(u32::from(sum.folded()), plain, "{len} bytes, cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn an_odd_last_byte_is_the_high_half_of_a_word() {
        assert_eq!(of(&[0x12, 0x34, 0x56]), of(&[0x12, 0x34, 0x56, 0x00]));
    }

    #[test]
    fn a_plain_segment_is_judged_as_any_packet_is() {
        let (from, to) = (
            "10.0.0.1".parse().unwrap(),
            "192.168.255.2".parse().unwrap(),
        );
        let (mut judged, mut held) = (0, 0);
        for len in 0..70_u8 {
            let payload: Vec<u8> = (0..len).map(|i| i.wrapping_mul(89) ^ 0xa5).collect();
            for tail in [0, 1, 1400] {
                let mut bytes = Vec::new();
                let fields = TcpFields::default();
                let header = IpFields {
                    source: from,
                    destination: to,
                    traffic_class: 0xff,
                    ttl: 64,
                    protocol: ip::TCP,
                    ident: 0xffff,
                };
                let above = fields.header_len() + payload.len() + tail as usize;
                header.write(&mut bytes, above);
                fields.write(&mut bytes, from, to, &payload, tail);
                for turned in 0..=bytes.len() {
                    if let Some(byte) = bytes.get_mut(turned) {
                        *byte ^= 0x10;
                    }
                    if let Some(holds) = plain_tcp_holds(&bytes, tail) {
                        assert_eq!(holds, any_holds(&bytes, tail), "{len}, {tail}, {turned}");
                        judged += 1;
                        held += u32::from(holds);
                    }
                    if let Some(byte) = bytes.get_mut(turned) {
                        *byte ^= 0x10;
                    }
                }
            }
        }
        // One of each as it was written; a few bytes say that it is no plain segment.
        assert_eq!(held, 210);
        assert!(judged > 14_000, "{judged}");
    }

    #[test]
    fn checksums_hold_of_a_packet_as_it_was_written_and_of_none_with_a_bit_turned() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
            for protocol in [ip::TCP, ip::UDP] {
                // Three zeros are counted and not stored.
                let (payload, tail) = (b"abcde", 3);
                let mut above = Vec::new();
                match protocol {
                    ip::TCP => TcpFields::default().write(&mut above, from, to, payload, tail),
                    _ => UdpFields {
                        source_port: 1,
                        destination_port: 2,
                    }
                    .write(&mut above, from, to, payload, tail),
                }
                let mut bytes = Vec::new();
                IpFields {
                    source: from,
                    destination: to,
                    traffic_class: 0,
                    ttl: 64,
                    protocol,
                    ident: 1,
                }
                .write(&mut bytes, above.len() + tail as usize);
                let header = bytes.len();
                bytes.extend(&above);
                assert!(hold(&bytes, tail), "{from} {protocol}");
                assert!(!hold(&bytes, tail - 1), "cut");
                for at in header..bytes.len() {
                    bytes[at] ^= 4;
                    assert!(!hold(&bytes, tail), "{from} {protocol}: byte {at}");
                    bytes[at] ^= 4;
                }
                // Who has changed an address has to change the checksum.
                bytes[15] ^= 1;
                assert!(!hold(&bytes, tail), "{from} {protocol}");
            }
        }
    }
}
