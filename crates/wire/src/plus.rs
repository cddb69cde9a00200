//! The PLUS header (draft-trammell-plus-spec) as the MAMI project measured with
//! it: between UDP and the transport, in plain sight, with a serial number that
//! the other end echoes.
//!
//! ```text
//! | 25 bits of magic | S | V V | L R S X |
//! | connection and association token, CAT (64)     |
//! | packet serial number, PSN (32)                 |
//! | packet serial echo, PSE (32)                   |
//! | type (8) | length (6) integrity (2) | value …  |   only with X
//! ```
//!
//! The draft has 28 bits of magic, 0xd8007ff. The project took the three lowest of
//! them for the spin bit and the valid edge counter, in this order, and was left
//! with 0xd8007f8 (deliverable D2.2 of MAMI, §3.2.4).

use crate::error::Malformed;

/// What is left of the magic number, 25 bits: 0xd8007f8 without its last three.
pub const MAGIC: u32 = 0x01b0_00ff;

/// Bytes of a header without an extension.
pub const HEADER_LEN: usize = 20;

/// Most bytes of an extension's value, six bits of length.
pub const MAX_VALUE: usize = 63;

const MAGIC_SHIFT: u32 = 7;
const SPIN_SHIFT: u32 = 6;
const VEC_SHIFT: u32 = 4;

/// The four flags, as bits of the first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// L, 0x8: low latency before low loss.
    pub low_latency: bool,
    /// R, 0x4: may be reordered.
    pub reorder: bool,
    /// S, 0x2: the flow ends.
    pub stop: bool,
}

/// X, 0x1: an extension follows.
const EXTENDED: u32 = 0x1;

impl Flags {
    const fn bits(self) -> u32 {
        (self.low_latency as u32) << 3 | (self.reorder as u32) << 2 | (self.stop as u32) << 1
    }

    const fn of(word: u32) -> Self {
        Self {
            low_latency: word & 0x8 != 0,
            reorder: word & 0x4 != 0,
            stop: word & 0x2 != 0,
        }
    }
}

/// How much of an extension's value the ends protect, two bits.
pub type Integrity = u8;

/// A path communication field, what is behind the header with X.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// What it is.
    pub kind: u8,
    /// How much of it is protected.
    pub integrity: Integrity,
    /// Its value, at most [`MAX_VALUE`] bytes.
    pub value: &'a [u8],
}

/// A PLUS header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plus<'a> {
    /// Connection and association token.
    pub token: u64,
    /// Packet serial number: one more with every packet.
    pub serial: u32,
    /// The serial number that the sender saw last; 0 before the first.
    pub echo: u32,
    /// The spin bit.
    pub spin: bool,
    /// The valid edge counter, 0 to 3.
    pub vec: u8,
    /// L, R and S.
    pub flags: Flags,
    /// The extension, if there is one.
    pub field: Option<Field<'a>>,
}

impl<'a> Plus<'a> {
    /// Bytes of the header with its extension.
    pub fn len(&self) -> usize {
        HEADER_LEN + self.field.map_or(0, |f| 2 + f.value.len().min(MAX_VALUE))
    }

    /// A header is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header. Of an extension's value at most [`MAX_VALUE`] bytes
    /// are written.
    pub fn write(&self, out: &mut Vec<u8>) {
        let extended = if self.field.is_some() { EXTENDED } else { 0 };
        let word = MAGIC << MAGIC_SHIFT
            | u32::from(self.spin) << SPIN_SHIFT
            | u32::from(self.vec & 3) << VEC_SHIFT
            | self.flags.bits()
            | extended;
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&self.token.to_be_bytes());
        out.extend_from_slice(&self.serial.to_be_bytes());
        out.extend_from_slice(&self.echo.to_be_bytes());
        if let Some(field) = self.field {
            let value = &field.value[..field.value.len().min(MAX_VALUE)];
            out.push(field.kind);
            out.push((value.len() as u8) << 2 | field.integrity & 3);
            out.extend_from_slice(value);
        }
    }

    /// Whether a UDP payload begins with the magic number.
    pub fn opens(bytes: &[u8]) -> bool {
        bytes
            .first_chunk()
            .is_some_and(|word| u32::from_be_bytes(*word) >> MAGIC_SHIFT == MAGIC)
    }

    /// Reads the header at the start of a UDP payload.
    ///
    /// # Errors
    /// When the payload is cut inside the header or its extension, or begins
    /// with another number.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const CUT: Malformed = Malformed::Truncated("PLUS header");
        if bytes.len() >= 4 && !Self::opens(bytes) {
            return Err(Malformed::Invalid("PLUS magic number"));
        }
        let h: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(CUT)?;
        let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let first = word(0);
        let field = if first & EXTENDED == 0 {
            None
        } else {
            let [kind, size, rest @ ..] = &bytes[HEADER_LEN..] else {
                return Err(CUT);
            };
            Some(Field {
                kind: *kind,
                integrity: size & 3,
                value: rest.get(..usize::from(size >> 2)).ok_or(CUT)?,
            })
        };
        Ok(Self {
            token: u64::from(word(4)) << 32 | u64::from(word(8)),
            serial: word(12),
            echo: word(16),
            spin: first >> SPIN_SHIFT & 1 != 0,
            vec: (first >> VEC_SHIFT & 3) as u8,
            flags: Flags::of(first),
            field,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bits: u8, field: Option<Field<'_>>) -> Plus<'_> {
        Plus {
            token: 0x0102_0304_0506_0708,
            serial: u32::MAX,
            echo: 17,
            spin: bits & 1 != 0,
            vec: bits >> 1 & 3,
            flags: Flags {
                low_latency: bits & 8 != 0,
                reorder: bits & 16 != 0,
                stop: bits & 32 != 0,
            },
            field,
        }
    }

    #[test]
    fn the_magic_number_is_the_draft_s_without_its_three_lowest_bits() {
        let mut bytes = Vec::new();
        Plus::default().write(&mut bytes);
        assert_eq!(bytes[..4], [0xd8, 0x00, 0x7f, 0x80]);
        assert_eq!(MAGIC << 3, 0x0d80_07f8);
    }

    #[test]
    fn every_header_reads_back_and_says_its_length() {
        let value = [7; MAX_VALUE];
        for bits in 0..64 {
            for len in [0, 1, MAX_VALUE] {
                for field in [
                    None,
                    Some(Field {
                        kind: 3,
                        integrity: 2,
                        value: &value[..len],
                    }),
                ] {
                    let header = header(bits, field);
                    let mut bytes = Vec::new();
                    header.write(&mut bytes);
                    assert_eq!(bytes.len(), header.len());
                    assert_eq!(Plus::parse(&bytes), Ok(header));
                }
            }
        }
    }

    #[test]
    fn a_header_cut_at_any_offset_is_truncated() {
        let field = Field {
            kind: 1,
            integrity: 0,
            value: &[9; 5],
        };
        for field in [None, Some(field)] {
            let mut bytes = Vec::new();
            header(0x15, field).write(&mut bytes);
            for end in 0..bytes.len() {
                let cut = Plus::parse(&bytes[..end]);
                assert!(matches!(cut, Err(Malformed::Truncated(_))), "{end}");
            }
        }
    }

    #[test]
    fn another_magic_number_is_another_protocol() {
        let mut bytes = Vec::new();
        header(0, None).write(&mut bytes);
        bytes[3] ^= 0x80;
        assert!(!Plus::opens(&bytes));
        assert_eq!(
            Plus::parse(&bytes),
            Err(Malformed::Invalid("PLUS magic number"))
        );
    }
}
