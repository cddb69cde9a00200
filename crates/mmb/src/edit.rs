//! Changes of packets, with their checksums updated (RFC 1624).

use std::ops::Range;

use narrows_wire::checksum;

use crate::field::{Layer, Place};
use crate::layout::{Above, Layout, write_bits};
use crate::options::{OptionList, ROOM};
use crate::rule::Named;

/// The longest IP packet in bytes.
const MOST: usize = 65_535;

/// A packet under change: its bytes, the zeros after them, and its headers as it came.
pub(crate) struct Edit<'a> {
    pub bytes: &'a mut Vec<u8>,
    pub zero_tail: &'a mut u32,
    pub layout: Layout,
    /// Bytes beyond which it does not grow.
    pub mtu: usize,
}

/// The change of a one's-complement sum by words that were replaced.
#[derive(Clone, Copy, Debug, Default)]
struct Difference(u32);

impl Difference {
    fn replace(&mut self, old: u16, new: u16) {
        self.0 += u32::from(!old) + u32::from(new);
        // Folded each time, so that it never overflows.
        self.0 = (self.0 & 0xffff) + (self.0 >> 16);
    }

    /// The checksum after the change (RFC 1624 equation 3).
    fn apply(self, checksum: u16) -> u16 {
        let folded = (self.0 & 0xffff) + (self.0 >> 16);
        match self.0 {
            0 => checksum,
            _ => checksum::update(checksum, 0xffff, folded as u16),
        }
    }
}

impl Edit<'_> {
    fn word(&self, at: usize) -> u16 {
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(0);
        u16::from_be_bytes([byte(at), byte(at + 1)])
    }

    /// Where the checksum above IP is, if there is one.
    fn sum_above(&self) -> Option<usize> {
        let at = self.layout.ip.header_len;
        match self.layout.above {
            Above::Tcp => Some(at + 16),
            // A datagram over IPv4 may have none (RFC 768).
            Above::Udp => Some(at + 6).filter(|at| self.word(*at) != 0),
            Above::Icmp | Above::Icmp6 => Some(at + 2),
            Above::Other => None,
        }
    }

    /// Whether the checksum above IP covers the addresses.
    fn covers_addresses(&self) -> bool {
        matches!(self.layout.above, Above::Tcp | Above::Udp | Above::Icmp6)
    }

    fn update(&mut self, at: usize, difference: Difference) {
        let mut sum = difference.apply(self.word(at));
        let is_udp = self.layout.above == Above::Udp && at > self.layout.ip.header_len;
        if is_udp && sum == 0 {
            sum = 0xffff;
        }
        self.bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Puts `new` at `at`, in the bytes that are stored, and updates the checksums that
    /// cover it and are not written by it.
    fn replace(&mut self, at: usize, new: &[u8]) {
        let range = at..at + new.len();
        let words = at & !1..range.end.next_multiple_of(2);
        let mut before = [0u8; 64];
        let before = &mut before[..words.len()];
        for (i, byte) in before.iter_mut().enumerate() {
            *byte = self.bytes.get(words.start + i).copied().unwrap_or(0);
        }
        self.bytes[range.clone()].copy_from_slice(new);
        let header_len = self.layout.ip.header_len;
        let addresses = if self.layout.v4 { 12..20 } else { 8..40 };
        let above = self.sum_above();
        let header = (self.layout.v4).then_some(10);
        for (sum, covered, also) in [
            (header, 0..header_len, 0..0),
            (
                above,
                header_len..usize::MAX,
                if self.covers_addresses() {
                    addresses
                } else {
                    0..0
                },
            ),
        ] {
            let Some(sum) = sum.filter(|sum| !overlap(&range, &(*sum..*sum + 2))) else {
                continue;
            };
            let mut difference = Difference::default();
            for (i, old) in before.chunks_exact(2).enumerate() {
                let at = words.start + 2 * i;
                if covered.contains(&at) || also.contains(&at) {
                    difference.replace(u16::from_be_bytes([old[0], old[1]]), self.word(at));
                }
            }
            self.update(sum, difference);
        }
    }

    /// Sets `width` bits, `at` bits after the start of `layer`'s header, if it is there.
    pub(crate) fn set_bits(&mut self, layer: Layer, at: u16, width: u8, value: u128) {
        if !self.layout.has(layer) {
            return;
        }
        let (bit, start) = (usize::from(at % 8), usize::from(at / 8));
        let start = self.layout.start(layer) + start;
        let len = (bit + usize::from(width)).div_ceil(8);
        self.store(start + len);
        let word = start & !1;
        if start + len <= word + 2 && word + 2 <= self.bytes.len() {
            let after = 16 - (8 * (start - word) + bit + usize::from(width));
            let mask = (((1u32 << width) - 1) << after) as u16;
            let old = self.word(word);
            self.replace_word(word, old, old & !mask | (value as u16) << after & mask);
            return;
        }
        let mut new = [0u8; 16];
        new[..len].copy_from_slice(&self.bytes[start..start + len]);
        write_bits(&mut new[..len], bit, width, value);
        self.replace(start, &new[..len]);
    }

    /// Puts `new` in the place of the word `old` at `at`, an even place, as
    /// [`replace`](Self::replace) does.
    fn replace_word(&mut self, at: usize, old: u16, new: u16) {
        if old == new {
            return;
        }
        self.bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        let mut difference = Difference::default();
        difference.replace(old, new);
        let header_len = self.layout.ip.header_len;
        if self.layout.v4 && at < header_len && at != 10 {
            self.update(10, difference);
        }
        let addresses = if self.layout.v4 { 12..20 } else { 8..40 };
        let covered = at >= header_len || addresses.contains(&at) && self.covers_addresses();
        if let Some(sum) = self.sum_above().filter(|sum| covered && *sum != at) {
            self.update(sum, difference);
        }
    }

    /// Adds `shift` to the number of four bytes at `at`.
    pub(crate) fn shift(&mut self, at: usize, shift: u32) {
        let b = &self.bytes[at..at + 4];
        let old = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        self.replace(at, &old.wrapping_add(shift).to_be_bytes());
    }

    /// Puts `new` at the beginning of the payload of `layer`, as far as there is payload.
    pub(crate) fn set_payload(&mut self, layer: Layer, new: &[u8]) {
        if !self.layout.has(layer) {
            return;
        }
        let start = self.layout.payload(layer);
        let len = new.len().min(self.layout.len.saturating_sub(start));
        self.store(start + len);
        self.replace(start, &new[..len]);
    }

    /// Stores the zeros of the packet up to `end`.
    fn store(&mut self, end: usize) {
        let missing = end.saturating_sub(self.bytes.len());
        self.bytes.resize(self.bytes.len() + missing, 0);
        *self.zero_tail -= missing as u32;
    }

    /// The bytes of the TCP options; none without TCP.
    pub(crate) fn options(&self) -> &[u8] {
        match self.layout.above {
            Above::Tcp => &self.bytes[options_of(&self.layout)],
            _ => &[],
        }
    }

    /// Gives the packet these TCP options. Its header, its lengths and its checksums follow.
    /// Whether there was room.
    pub(crate) fn set_options(&mut self, list: OptionList) -> bool {
        let new = list.into_bytes();
        let old = options_of(&self.layout);
        if self.bytes[old.clone()] == new[..] {
            return true;
        }
        if new.len() == old.len() {
            self.replace(old.start, &new);
            return true;
        }
        let len = self.layout.len - old.len() + new.len();
        let grows = len > self.layout.len;
        if grows && len > self.mtu.min(MOST) || new.len() > ROOM {
            return false;
        }
        let header_len = self.layout.ip.header_len;
        // The TCP length in the pseudo header, and the options.
        let mut difference = Difference::default();
        let length = |total: usize| (total - header_len) as u16;
        difference.replace(length(self.layout.len), length(len));
        let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
        for pair in self.bytes[old.clone()].chunks_exact(2) {
            difference.replace(word(pair), 0);
        }
        for pair in new.chunks_exact(2) {
            difference.replace(0, word(pair));
        }
        self.update(header_len + 16, difference);
        let added = new.len();
        self.bytes.splice(old, new);
        self.layout.tcp_len = 20 + added;
        self.layout.len = len;
        let words = ((20 + added) / 4) as u128;
        self.set_bits(Layer::Tcp, 96, 4, words);
        // A length of 0 is that of a packet which is cut into segments only later.
        let (at, of_header) = if self.layout.v4 { (2, 0) } else { (4, 40) };
        if self.word(at) != 0 {
            self.replace(at, &((len - of_header) as u16).to_be_bytes());
        }
        true
    }
}

/// Where the TCP options stand.
pub(crate) fn options_of(layout: &Layout) -> Range<usize> {
    let start = layout.ip.header_len;
    start + 20..start + layout.tcp_len
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The kind of the TCP option that is meant, if one is.
pub(crate) fn option_kind(named: Named) -> Option<u8> {
    match named.field.row().place {
        Place::Option(kind) => Some(kind),
        Place::AnyOption => named.kind,
        _ => None,
    }
}
