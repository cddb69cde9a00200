//! TCP headers (RFC 9293) with the options that Linux uses.

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::error::Malformed;
use crate::ip;

/// The nine flag bits of a TCP header: AE (RFC 9768), CWR, ECE, URG, ACK, PSH,
/// RST, SYN, FIN, with the three reserved bits above them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u16 = 0x001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// Reset.
    pub const RST: u16 = 0x004;
    /// Push.
    pub const PSH: u16 = 0x008;
    /// The acknowledgement number counts.
    pub const ACK: u16 = 0x010;
    /// Urgent.
    pub const URG: u16 = 0x020;
    /// ECN echo; bit 0 of AccECN's ACE field.
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced; bit 1 of ACE.
    pub const CWR: u16 = 0x080;
    /// Accurate ECN; bit 2 of ACE.
    pub const AE: u16 = 0x100;
    /// The three reserved bits of byte 12 (0x08, 0x04, 0x02 there).
    pub const RESERVED: u16 = 0xe00;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    /// The three-bit ACE field (RFC 9768 §3.2.2).
    pub const fn ace(self) -> u8 {
        ((self.0 >> 6) & 7) as u8
    }

    /// These flags with the ACE field set to the low three bits of `ace`.
    #[must_use]
    pub const fn with_ace(self, ace: u8) -> Self {
        Self(self.0 & !(7 << 6) | ((ace & 7) as u16) << 6)
    }
}

/// Up to four SACK blocks as [left, right) edges, in the order sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackList {
    blocks: [(u32, u32); 4],
    len: u8,
}

impl SackList {
    /// Adds a block; a fifth is not taken.
    pub fn push(&mut self, left: u32, right: u32) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = (left, right);
            self.len += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Keeps the first `n` blocks.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n as u8);
    }
}

/// The AccECN option (RFC 9768 §3.2.3): 24-bit byte counters, each present or
/// not, in one of two orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccEcnOption {
    /// Whether the option is of the order with ECT(1) first (kind 174).
    pub ect1_first: bool,
    /// Bytes received with ECT(0), modulo 2²⁴.
    pub e0b: Option<u32>,
    /// Bytes received with CE.
    pub ceb: Option<u32>,
    /// Bytes received with ECT(1).
    pub e1b: Option<u32>,
}

/// Kind of AccECN order 0: EE0B, ECEB, EE1B (RFC 9768).
pub const KIND_ACCECN0: u8 = 172;
/// Kind of AccECN order 1: EE1B, ECEB, EE0B (RFC 9768).
pub const KIND_ACCECN1: u8 = 174;

/// Kind of the option that is one byte long and fills words (RFC 9293 §3.1).
const NOP: u8 = 1;

/// A TCP Fast Open cookie (RFC 7413): empty to ask for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenCookie {
    bytes: [u8; 16],
    len: u8,
}

impl FastOpenCookie {
    /// A cookie of 0 or of 4 to 16 bytes (RFC 7413 §4.1.1); `None` otherwise.
    pub fn new(cookie: &[u8]) -> Option<Self> {
        if !(cookie.is_empty() || (4..=16).contains(&cookie.len())) {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..cookie.len()].copy_from_slice(cookie);
        Some(Self {
            bytes,
            len: cookie.len() as u8,
        })
    }

    /// The cookie's bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The options of one segment, read or to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size (kind 2).
    pub mss: Option<u16>,
    /// Window scale (kind 3).
    pub window_scale: Option<u8>,
    /// SACK permitted (kind 4).
    pub sack_permitted: bool,
    /// SACK blocks (kind 5).
    pub sack: SackList,
    /// Timestamps (kind 8): value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Fast Open (kind 34).
    pub fast_open: Option<FastOpenCookie>,
    /// AccECN (kinds 172 and 174).
    pub accecn: Option<AccEcnOption>,
}

impl TcpOptions {
    /// Reads the option bytes of a header. Unknown kinds are skipped, and so
    /// are known ones whose length is not theirs (RFC 7413 §4.1.1 for Fast
    /// Open; Linux does so with every option).
    ///
    /// # Errors
    /// When a length is below two or runs past the end, so that nothing after
    /// it can be read.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        // The layout that Linux puts on almost every segment.
        if let [1, 1, 8, 10, a, b, c, d, e, f, g, h, rest @ ..] = bytes {
            options.timestamps = Some((
                u32::from_be_bytes([*a, *b, *c, *d]),
                u32::from_be_bytes([*e, *f, *g, *h]),
            ));
            bytes = rest;
        }
        while let [kind, rest @ ..] = bytes {
            match kind {
                0 => break,
                1 => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let len = usize::from(*rest.first().ok_or(Malformed::Truncated("TCP options"))?);
            if len < 2 {
                return Err(Malformed::Invalid("TCP option length"));
            }
            let Some(body) = bytes.get(2..len) else {
                return Err(Malformed::Truncated("TCP options"));
            };
            options.read_one(*kind, body);
            bytes = &bytes[len..];
        }
        Ok(options)
    }

    fn read_one(&mut self, kind: u8, body: &[u8]) {
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        match (kind, body.len()) {
            (2, 2) => self.mss = Some(u16::from_be_bytes([body[0], body[1]])),
            (3, 1) => self.window_scale = Some(body[0]),
            (4, 0) => self.sack_permitted = true,
            (5, 8 | 16 | 24 | 32) => {
                self.sack = SackList::default();
                for at in (0..body.len()).step_by(8) {
                    self.sack.push(word(at), word(at + 4));
                }
            }
            (8, 8) => self.timestamps = Some((word(0), word(4))),
            (34, _) => self.fast_open = FastOpenCookie::new(body),
            (KIND_ACCECN0 | KIND_ACCECN1, 0 | 3 | 6 | 9) => {
                let counter = |i: usize| {
                    body.get(3 * i..3 * i + 3)
                        .map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]]))
                };
                let ect1_first = kind == KIND_ACCECN1;
                let (e0b, e1b) = if ect1_first {
                    (counter(2), counter(0))
                } else {
                    (counter(0), counter(2))
                };
                self.accecn = Some(AccEcnOption {
                    ect1_first,
                    e0b,
                    ceb: counter(1),
                    e1b,
                });
            }
            _ => {}
        }
    }

    /// Length in bytes of these options as [`write`](Self::write) lays them
    /// out, a multiple of four.
    pub fn encoded_len(&self) -> usize {
        let mut n = 0;
        if self.mss.is_some() {
            n += 4;
        }
        let lone_sack_permitted = self.sack_permitted && self.timestamps.is_none();
        if self.timestamps.is_some() {
            n += 12;
        } else if self.sack_permitted {
            n += 4;
        }
        if self.window_scale.is_some() {
            n += 4;
        }
        let blocks = self.sack.as_slice().len();
        if blocks > 0 {
            n += 4 + 8 * blocks;
        }
        if let Some(cookie) = &self.fast_open {
            n += (2 + cookie.as_slice().len()).next_multiple_of(4);
        }
        if let Some(accecn) = &self.accecn {
            let two_nops = lone_sack_permitted || blocks > 0;
            let len = 2 + 3 * accecn.counters().1;
            n += match len % 4 {
                1 if two_nops || self.window_scale.is_some() => len - 1,
                2 if two_nops => len - 2,
                _ => len.next_multiple_of(4),
            };
        }
        n
    }

    /// Appends the options, each aligned to four bytes with NOPs, in Linux's order
    /// (`tcp_options_write`, v6.18): MSS, SACK permitted, timestamps, AccECN, window
    /// scale, SACK, Fast Open. What AccECN has beyond whole words takes the place of
    /// the NOPs before what follows it. They must fit the 40 bytes that a header has
    /// for them.
    pub fn write(&self, out: &mut Vec<u8>) {
        // What goes before an option that is two bytes short of whole words, and
        // how much of it is not just filling.
        let (mut filler, mut pending) = ([NOP, NOP], 0);
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[2, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if let Some((value, echo)) = self.timestamps {
            out.extend_from_slice(if self.sack_permitted {
                &[4, 2, 8, 10]
            } else {
                &[NOP, NOP, 8, 10]
            });
            out.extend_from_slice(&value.to_be_bytes());
            out.extend_from_slice(&echo.to_be_bytes());
        }
        if let Some(accecn) = &self.accecn {
            (filler, pending) = accecn.write(out);
        }
        if self.sack_permitted && self.timestamps.is_none() {
            out.extend_from_slice(&[filler[0], filler[1], 4, 2]);
            (filler, pending) = ([NOP, NOP], 0);
        }
        if let Some(scale) = self.window_scale {
            // There is room for one byte here, and two are not split.
            let mut first = NOP;
            if pending == 1 {
                first = std::mem::replace(&mut filler[0], NOP);
                pending = 0;
            }
            out.extend_from_slice(&[first, 3, 3, scale]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            out.extend_from_slice(&[filler[0], filler[1], 5, 2 + 8 * blocks.len() as u8]);
            for (left, right) in blocks {
                out.extend_from_slice(&left.to_be_bytes());
                out.extend_from_slice(&right.to_be_bytes());
            }
        } else if pending > 0 {
            out.extend_from_slice(&[filler[0], filler[1], NOP, NOP]);
        }
        if let Some(cookie) = &self.fast_open {
            let cookie = cookie.as_slice();
            let len = 2 + cookie.len();
            out.extend_from_slice(&[34, len as u8]);
            out.extend_from_slice(cookie);
            out.resize(out.len() + len.next_multiple_of(4) - len, NOP);
        }
    }
}

impl AccEcnOption {
    /// Appends the option up to the last whole word and returns the bytes that are
    /// left, filled up to two, and how many they are.
    fn write(&self, out: &mut Vec<u8>) -> ([u8; 2], usize) {
        let (counters, n) = self.counters();
        let kind = if self.ect1_first {
            KIND_ACCECN1
        } else {
            KIND_ACCECN0
        };
        let start = out.len();
        out.extend_from_slice(&[kind, 2 + 3 * n as u8]);
        for counter in &counters[..n] {
            out.extend_from_slice(&counter.to_be_bytes()[1..]);
        }
        let mut left = [NOP, NOP];
        let rest = (out.len() - start) % 4;
        if rest == 3 {
            out.push(NOP);
            return (left, 0);
        }
        let whole = out.len() - rest;
        left[..rest].copy_from_slice(&out[whole..]);
        out.truncate(whole);
        (left, rest)
    }

    /// The counters in wire order and how many of them are sent: an absent
    /// counter ends the list (RFC 9768 §3.2.3).
    fn counters(&self) -> ([u32; 3], usize) {
        let order = if self.ect1_first {
            [self.e1b, self.ceb, self.e0b]
        } else {
            [self.e0b, self.ceb, self.e1b]
        };
        let n = order.iter().take_while(|c| c.is_some()).count();
        (order.map(Option::unwrap_or_default), n)
    }
}

/// A checked TCP header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags with AE and the reserved bits.
    pub flags: TcpFlags,
    /// Receive window as on the wire, not scaled.
    pub window: u16,
    /// Bytes of header and options.
    pub header_len: usize,
    /// The options.
    pub options: TcpOptions,
}

impl Tcp {
    /// Reads the header at the start of `bytes` (those after the IP header).
    ///
    /// # Errors
    /// When the header or an option is cut or contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(h) = bytes.first_chunk::<20>() else {
            return Err(Malformed::Truncated("TCP header"));
        };
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < 20 {
            return Err(Malformed::Invalid("TCP header length"));
        }
        let options = bytes
            .get(20..header_len)
            .ok_or(Malformed::Truncated("TCP options"))?;
        Ok(Self {
            source_port: u16::from_be_bytes([h[0], h[1]]),
            destination_port: u16::from_be_bytes([h[2], h[3]]),
            seq: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
            ack: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            flags: TcpFlags(u16::from_be_bytes([h[12] & 0x0f, h[13]])),
            window: u16::from_be_bytes([h[14], h[15]]),
            header_len,
            options: TcpOptions::parse(options)?,
        })
    }
}

/// What goes into a TCP header that is written here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFields {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags with AE and the reserved bits.
    pub flags: TcpFlags,
    /// Receive window, already scaled down.
    pub window: u16,
    /// The options.
    pub options: TcpOptions,
}

impl TcpFields {
    /// Length in bytes of header and options.
    pub fn header_len(&self) -> usize {
        20 + self.options.encoded_len()
    }

    /// Appends header, options and `payload`; the checksum covers them and
    /// `zero_tail` zeros that follow. `out` must hold the IP header alone, so
    /// that the segment starts at an even offset.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        source: IpAddr,
        destination: IpAddr,
        payload: &[u8],
        zero_tail: u32,
    ) {
        let start = out.len();
        let header_len = self.header_len();
        debug_assert!(header_len <= 60, "a TCP header of {header_len} bytes");
        let mut h = [0u8; 20];
        h[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        h[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        h[4..8].copy_from_slice(&self.seq.to_be_bytes());
        h[8..12].copy_from_slice(&self.ack.to_be_bytes());
        let flags = ((header_len as u16) / 4) << 12 | self.flags.0 & 0xfff;
        h[12..14].copy_from_slice(&flags.to_be_bytes());
        h[14..16].copy_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&h);
        self.options.write(out);
        debug_assert_eq!(out.len() - start, header_len);
        out.extend_from_slice(payload);
        let mut sum = Sum::default();
        let length = (out.len() - start) as u32 + zero_tail;
        sum.add_pseudo_header(source, destination, ip::TCP, length);
        sum.add(&out[start..]);
        let sum = sum.finish();
        out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linux_syn_reads_as_sent() {
        // MSS 1460, SACK permitted, timestamps 1 and 0, NOP, window scale 7.
        let options = [
            2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let read = TcpOptions::parse(&options).unwrap();
        assert_eq!(
            read,
            TcpOptions {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some((1, 0)),
                ..TcpOptions::default()
            }
        );
        let mut written = Vec::new();
        read.write(&mut written);
        assert_eq!(written, options);
    }

    #[test]
    fn a_known_option_of_a_wrong_length_is_ignored_and_the_next_is_read() {
        // An MSS of three bytes, a Fast Open cookie of two, then a scale.
        let read = TcpOptions::parse(&[2, 3, 9, 34, 4, 1, 1, 3, 3, 5]).unwrap();
        assert_eq!((read.mss, read.fast_open), (None, None));
        assert_eq!(read.window_scale, Some(5));
    }

    #[test]
    fn nothing_after_the_end_of_the_list_is_read() {
        let read = TcpOptions::parse(&[0, 3, 3, 5]).unwrap();
        assert_eq!(read, TcpOptions::default());
    }

    #[test]
    fn lengths_below_two_or_past_the_end_are_refused() {
        assert_eq!(
            TcpOptions::parse(&[3, 1, 0]),
            Err(Malformed::Invalid("TCP option length"))
        );
        assert_eq!(
            TcpOptions::parse(&[3, 4, 7]),
            Err(Malformed::Truncated("TCP options"))
        );
        assert_eq!(
            TcpOptions::parse(&[3]),
            Err(Malformed::Truncated("TCP options"))
        );
    }

    #[test]
    fn an_accecn_option_ends_at_its_first_absent_counter() {
        let mut options = TcpOptions {
            accecn: Some(AccEcnOption {
                ect1_first: true,
                e1b: Some(1),
                ceb: Some(0x0123_4567),
                e0b: None,
            }),
            ..TcpOptions::default()
        };
        let mut out = Vec::new();
        options.write(&mut out);
        assert_eq!(out, [174, 8, 0, 0, 1, 0x23, 0x45, 0x67]);
        options.accecn = Some(AccEcnOption {
            ceb: Some(1),
            ..AccEcnOption::default()
        });
        out.clear();
        options.write(&mut out);
        assert_eq!(out, [172, 2, 1, 1], "order 0 without its first counter");
    }

    #[test]
    fn accecn_follows_timestamps_and_fills_the_nops_of_what_comes_next() {
        let counters = |n: usize| {
            let c = |i: usize| (i < n).then_some(1);
            AccEcnOption {
                ect1_first: true,
                e1b: c(0),
                ceb: c(1),
                e0b: c(2),
            }
        };
        let mut options = TcpOptions {
            timestamps: Some((1, 0)),
            accecn: Some(counters(0)),
            ..TcpOptions::default()
        };
        options.sack.push(2, 3);
        let mut out = Vec::new();
        options.write(&mut out);
        assert_eq!(out[12..16], [174, 2, 5, 10]);
        options.accecn = Some(counters(1));
        out.clear();
        options.write(&mut out);
        assert_eq!(out[12..20], [174, 5, 0, 0, 1, 1, 5, 10]);
        // Every combination is as long as it says and reads as it was written.
        for bits in 0..64_u32 {
            for (n, blocks) in (0..4).flat_map(|n| (0..3).map(move |b| (n, b))) {
                let on = |bit: u32| bits & 1 << bit != 0;
                let mut options = TcpOptions {
                    mss: on(0).then_some(1460),
                    window_scale: on(1).then_some(7),
                    sack_permitted: on(2),
                    timestamps: on(3).then_some((5, 6)),
                    fast_open: on(4).then(|| FastOpenCookie::new(&[9; 8]).unwrap()),
                    accecn: on(5).then(|| counters(n)),
                    ..TcpOptions::default()
                };
                for i in 0..blocks {
                    options.sack.push(i, i + 1);
                }
                let mut out = Vec::new();
                options.write(&mut out);
                assert_eq!(out.len(), options.encoded_len(), "{options:?}");
                assert_eq!(TcpOptions::parse(&out).unwrap(), options);
            }
        }
    }

    #[test]
    fn ace_is_the_three_bits_ae_cwr_ece() {
        let flags = TcpFlags(TcpFlags::ACK).with_ace(0b110);
        assert!(flags.has(TcpFlags::AE | TcpFlags::CWR | TcpFlags::ACK));
        assert!(!flags.has(TcpFlags::ECE));
        assert_eq!(flags.ace(), 6);
        assert_eq!(flags.with_ace(0), TcpFlags(TcpFlags::ACK));
    }

    #[test]
    fn a_fifth_sack_block_is_not_taken() {
        let mut list = SackList::default();
        for i in 0..5 {
            list.push(i, i + 1);
        }
        assert_eq!(list.as_slice().len(), 4);
        list.truncate(1);
        assert_eq!(list.as_slice(), [(0, 1)]);
    }

    #[test]
    fn a_header_shorter_than_its_offset_is_refused() {
        let mut h = [0u8; 24];
        h[12] = 0x40;
        assert_eq!(Tcp::parse(&h), Err(Malformed::Invalid("TCP header length")));
        h[12] = 0x70;
        assert_eq!(Tcp::parse(&h), Err(Malformed::Truncated("TCP options")));
        assert_eq!(
            Tcp::parse(&h[..19]),
            Err(Malformed::Truncated("TCP header"))
        );
    }
}
