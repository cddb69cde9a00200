//! The options of a TCP header that Linux uses.

use super::accecn::{AccEcnOption, KIND_ACCECN0, KIND_ACCECN1};
use crate::error::Malformed;

/// Kind of the option that is one byte long and fills words (RFC 9293 §3.1).
pub(super) const NOP: u8 = 1;

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
    #[inline]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Keeps the first `n` blocks.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n as u8);
    }
}

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
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        // The layout that Linux puts on almost every segment.
        if let [1, 1, 8, 10, a, b, c, d, e, f, g, h, rest @ ..] = bytes {
            options.timestamps = Some((
                u32::from_be_bytes([*a, *b, *c, *d]),
                u32::from_be_bytes([*e, *f, *g, *h]),
            ));
            if !rest.is_empty() {
                options.read(rest)?;
            }
        } else {
            options.read(bytes)?;
        }
        Ok(options)
    }

    /// Adds the options in `bytes`.
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
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
            self.read_one(*kind, body);
            bytes = &bytes[len..];
        }
        Ok(())
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
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let accecn = self.accecn.as_ref();
        self.len_without_accecn() + accecn.map_or(0, |o| self.accecn_len(o.counters().1))
    }

    /// The same without the AccECN option.
    #[inline]
    pub fn len_without_accecn(&self) -> usize {
        let mut n = 0;
        if self.mss.is_some() {
            n += 4;
        }
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
        n
    }

    /// Bytes by which an AccECN option with so many `counters` makes them longer: what it
    /// has beyond whole words may take the place of NOPs of others.
    #[inline]
    pub fn accecn_len(&self, counters: usize) -> usize {
        let lone_sack_permitted = self.sack_permitted && self.timestamps.is_none();
        let two_nops = lone_sack_permitted || !self.sack.as_slice().is_empty();
        let len = 2 + 3 * counters;
        match len % 4 {
            1 if two_nops || self.window_scale.is_some() => len - 1,
            2 if two_nops => len - 2,
            _ => len.next_multiple_of(4),
        }
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
            let first = if self.sack_permitted {
                [4, 2, 8, 10]
            } else {
                [NOP, NOP, 8, 10]
            };
            let mut words = [0; 12];
            words[..4].copy_from_slice(&first);
            words[4..8].copy_from_slice(&value.to_be_bytes());
            words[8..].copy_from_slice(&echo.to_be_bytes());
            out.extend_from_slice(&words);
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
    fn a_fifth_sack_block_is_not_taken() {
        let mut list = SackList::default();
        for i in 0..5 {
            list.push(i, i + 1);
        }
        assert_eq!(list.as_slice().len(), 4);
        list.truncate(1);
        assert_eq!(list.as_slice(), [(0, 1)]);
    }
}
