//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

use std::net::IpAddr;

/// A running one's-complement sum over 16-bit words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`, which start at an even offset; an odd last byte counts as
    /// the high half of a word.
    pub fn add(&mut self, bytes: &[u8]) {
        // One's-complement addition is associative over any word size, so four
        // bytes at a time are added and folded at the end (RFC 1071 §2(C)).
        let mut words = bytes.chunks_exact(4);
        for w in &mut words {
            self.0 += u64::from(u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
        }
        let mut tail = [0u8; 4];
        let rest = words.remainder();
        tail[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_be_bytes(tail));
    }

    /// Adds one 16-bit word.
    pub fn add_word(&mut self, word: u16) {
        self.0 += u64::from(word);
    }

    /// Adds the pseudo header of `protocol` over `length` bytes (RFC 9293
    /// §3.1, RFC 8200 §8.1).
    pub fn add_pseudo_header(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        length: u32,
    ) {
        for address in [source, destination] {
            match address {
                IpAddr::V4(a) => self.add(&a.octets()),
                IpAddr::V6(a) => self.add(&a.octets()),
            }
        }
        self.add_word(u16::from(protocol));
        self.add(&length.to_be_bytes());
    }

    /// The folded sum.
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_odd_last_byte_is_the_high_half_of_a_word() {
        assert_eq!(of(&[0x12, 0x34, 0x56]), of(&[0x12, 0x34, 0x56, 0x00]));
    }
}
