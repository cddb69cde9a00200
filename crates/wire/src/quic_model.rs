//! The header of modelled QUIC: packet numbers and measurement bits in plain
//! sight, as in the drafts on which the MAMI project measured.
//!
//! The short header is that of draft-ietf-quic-transport-05 with a connection ID
//! and a packet number of 32 bits, and behind it the measurement byte of the
//! project's experimental QUIC (minq and the VPP plugin that observed it):
//!
//! ```text
//! 0x43 | connection (64) | packet number (32) | . S V V Q L . .
//! ```
//!
//! The spin bit S is where the plugin reads it, 0x40. The places of the valid
//! edge counter V, the square bit Q and the loss event bit L are ours. Handshakes
//! have a long header as RFC 8999 §5.1 fixes it for all versions, with a version
//! that no other QUIC has, so that nobody takes the flow for real QUIC.

use crate::error::Malformed;

/// The version of modelled QUIC: the letters MAMI.
pub const VERSION: u32 = 0x4d41_4d49;

/// Bytes of a short header with its measurement byte.
pub const SHORT_LEN: usize = 14;

/// Bytes of a long header: first byte, version, two connection IDs of 8 bytes
/// with their lengths, packet number.
pub const LONG_LEN: usize = 27;

/// First byte of a short header: a connection ID (0x40), a packet number of 32
/// bits (type 3; draft-ietf-quic-transport-05 §5.2).
const SHORT: u8 = 0x43;
/// First byte of a long header: the bit that makes it one and the fixed bit.
const LONG: u8 = 0xc0;
/// In the first byte of a long header: an answer, not a question.
const ANSWER: u8 = 0x01;

const SPIN: u8 = 0x40;
const VEC_SHIFT: u32 = 4;
const SQUARE: u8 = 0x08;
const LOSS: u8 = 0x04;

/// Bytes of a connection ID.
const ID_LEN: u8 = 8;

/// The measurement bits of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shown {
    /// The spin bit.
    pub spin: bool,
    /// The valid edge counter, 0 to 3.
    pub vec: u8,
    /// The square bit.
    pub square: bool,
    /// The loss event bit.
    pub loss: bool,
}

impl Shown {
    /// As the measurement byte has it.
    pub const fn to_byte(self) -> u8 {
        (if self.spin { SPIN } else { 0 })
            | (self.vec & 3) << VEC_SHIFT
            | (if self.square { SQUARE } else { 0 })
            | (if self.loss { LOSS } else { 0 })
    }

    /// What a measurement byte says; bits without a meaning are passed over.
    pub const fn from_byte(byte: u8) -> Self {
        Self {
            spin: byte & SPIN != 0,
            vec: byte >> VEC_SHIFT & 3,
            square: byte & SQUARE != 0,
            loss: byte & LOSS != 0,
        }
    }
}

/// A header of modelled QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicModel {
    /// A packet of the handshake.
    Long {
        /// The connection, the same in both directions.
        connection: u64,
        /// Packet number, modulo 2³².
        number: u32,
        /// Whether the responder sent it.
        answer: bool,
    },
    /// Any other packet.
    Short {
        /// The connection.
        connection: u64,
        /// Packet number, modulo 2³².
        number: u32,
        /// Its measurement bits.
        shown: Shown,
    },
}

impl QuicModel {
    /// Bytes of the header.
    pub const fn len(&self) -> usize {
        match self {
            Self::Long { .. } => LONG_LEN,
            Self::Short { .. } => SHORT_LEN,
        }
    }

    /// A header is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Long {
                connection,
                number,
                answer,
            } => {
                out.push(if answer { LONG | ANSWER } else { LONG });
                out.extend_from_slice(&VERSION.to_be_bytes());
                for _ in 0..2 {
                    out.push(ID_LEN);
                    out.extend_from_slice(&connection.to_be_bytes());
                }
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Short {
                connection,
                number,
                shown,
            } => {
                out.push(SHORT);
                out.extend_from_slice(&connection.to_be_bytes());
                out.extend_from_slice(&number.to_be_bytes());
                out.push(shown.to_byte());
            }
        }
    }

    /// Reads the header at the start of a UDP payload. A short header has
    /// nothing that only modelled QUIC has: ask only of flows in which a long
    /// one was seen.
    ///
    /// # Errors
    /// When the payload is cut inside the header, or is something else.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        match bytes.first() {
            None => Err(Malformed::Truncated("modelled QUIC header")),
            Some(first) if first & 0x80 != 0 => Self::long(bytes),
            Some(&SHORT) => Self::short(bytes),
            Some(_) => Err(Malformed::Invalid("modelled QUIC header")),
        }
    }

    /// Whether a UDP payload begins with a long header of modelled QUIC.
    pub fn opens(bytes: &[u8]) -> bool {
        matches!(bytes, [first, a, b, c, d, ..]
            if first & 0x80 != 0 && u32::from_be_bytes([*a, *b, *c, *d]) == VERSION)
    }

    fn long(bytes: &[u8]) -> Result<Self, Malformed> {
        let h: &[u8; LONG_LEN] = bytes
            .first_chunk()
            .ok_or(Malformed::Truncated("modelled QUIC header"))?;
        let fits = Self::opens(h) && h[5] == ID_LEN && h[14] == ID_LEN && h[6..14] == h[15..23];
        if !fits {
            return Err(Malformed::Invalid("modelled QUIC header"));
        }
        Ok(Self::Long {
            connection: long_word(h, 6),
            number: u32::from_be_bytes([h[23], h[24], h[25], h[26]]),
            answer: h[0] & ANSWER != 0,
        })
    }

    fn short(bytes: &[u8]) -> Result<Self, Malformed> {
        let h: &[u8; SHORT_LEN] = bytes
            .first_chunk()
            .ok_or(Malformed::Truncated("modelled QUIC header"))?;
        Ok(Self::Short {
            connection: long_word(h, 1),
            number: u32::from_be_bytes([h[9], h[10], h[11], h[12]]),
            shown: Shown::from_byte(h[13]),
        })
    }
}

/// The eight bytes from `at` on as a number; `at` lies inside.
fn long_word(h: &[u8], at: usize) -> u64 {
    h[at..at + 8]
        .iter()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<QuicModel> {
        let mut all = Vec::new();
        for (connection, number) in [(0, 0), (u64::MAX, u32::MAX), (0x0102_0304_0506_0708, 9)] {
            for answer in [false, true] {
                all.push(QuicModel::Long {
                    connection,
                    number,
                    answer,
                });
            }
            for byte in 0..=255 {
                all.push(QuicModel::Short {
                    connection,
                    number,
                    shown: Shown::from_byte(byte),
                });
            }
        }
        all
    }

    #[test]
    fn every_header_reads_back_and_says_its_length() {
        for header in all() {
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            assert_eq!(bytes.len(), header.len());
            assert_eq!(QuicModel::parse(&bytes), Ok(header));
            bytes.extend_from_slice(&[0xff; 9]);
            assert_eq!(QuicModel::parse(&bytes), Ok(header));
        }
    }

    #[test]
    fn a_header_cut_at_any_offset_is_truncated() {
        for header in all() {
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            for end in 0..bytes.len() {
                let cut = QuicModel::parse(&bytes[..end]);
                assert!(matches!(cut, Err(Malformed::Truncated(_))), "{end}");
            }
        }
    }

    #[test]
    fn real_quic_is_not_taken_for_it() {
        // Version 1 with connection IDs of eight bytes, and a short header of RFC 9000.
        let mut real = vec![0xc3, 0, 0, 0, 1, 8];
        real.resize(40, 8);
        assert!(!QuicModel::opens(&real));
        assert!(matches!(
            QuicModel::parse(&real),
            Err(Malformed::Invalid(_))
        ));
        assert!(matches!(
            QuicModel::parse(&[0x61; 40]),
            Err(Malformed::Invalid(_))
        ));
    }

    #[test]
    fn the_spin_bit_stands_where_the_plugin_reads_it() {
        let spin = Shown {
            spin: true,
            ..Shown::default()
        };
        assert_eq!(spin.to_byte(), 0x40);
        let rest = Shown {
            spin: false,
            vec: 3,
            square: true,
            loss: true,
        };
        assert_eq!(rest.to_byte(), 0x3c);
        assert_eq!(Shown::from_byte(0xff), Shown { spin: true, ..rest });
    }
}
