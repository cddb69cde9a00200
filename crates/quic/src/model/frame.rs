//! What follows the header of a modelled packet.
//!
//! ```text
//! kind (8) | largest (32) held_us (32) ranges (256) | offset (64) length (16)
//! ```
//!
//! The middle part is there with [`ACK`], the last with [`CHUNK`]; the chunk's
//! bytes are zeros that are counted and not stored. [`PING`] has no part: with the zeros behind it
//! it is a probe of the path's MTU, QUIC's PING and PADDING.

use narrows_units::Duration;

const HELLO: u8 = 0x01;
const ANSWER: u8 = 0x02;
const ACK: u8 = 0x04;
const CHUNK: u8 = 0x08;
const FIN: u8 = 0x10;
const PING: u8 = 0x20;

/// Words of 64 packets that an acknowledgement covers beside the largest.
pub(super) const RANGE_WORDS: usize = 4;
/// Bytes of an acknowledgement.
const ACK_LEN: usize = 8 + 8 * RANGE_WORDS;
/// Bytes before a chunk's own.
const CHUNK_LEN: usize = 10;
/// Bytes of everything that can precede a chunk's own bytes.
pub(super) const OVERHEAD: usize = 1 + ACK_LEN + CHUNK_LEN;

/// Which packet of a handshake it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Hello,
    Answer,
}

/// Which packets arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub largest: u32,
    /// How long the largest waited for this.
    pub held: Duration,
    /// Bit `i` of the whole, the lowest first: `largest - 1 - i` arrived.
    pub ranges: [u64; RANGE_WORDS],
}

impl Ack {
    /// Whether it says that `number` arrived.
    pub fn has(&self, number: u32) -> bool {
        let behind = self.largest.wrapping_sub(number);
        let Some(bit) = behind.checked_sub(1) else {
            return true;
        };
        let word = self.ranges.get(bit as usize / 64);
        word.is_some_and(|w| w >> (bit % 64) & 1 != 0)
    }
}

/// A piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub offset: u64,
    pub len: u16,
    /// Whether the stream ends with it.
    pub fin: bool,
}

/// All that one packet says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    pub opening: Option<Opening>,
    pub ack: Option<Ack>,
    pub chunk: Option<Chunk>,
    /// Whether it calls for an acknowledgement without a chunk.
    pub ping: bool,
}

impl Frames {
    /// Appends them without the chunk's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut kind = match self.opening {
            None => 0,
            Some(Opening::Hello) => HELLO,
            Some(Opening::Answer) => ANSWER,
        };
        if self.ack.is_some() {
            kind |= ACK;
        }
        if let Some(chunk) = self.chunk {
            kind |= CHUNK | if chunk.fin { FIN } else { 0 };
        }
        if self.ping {
            kind |= PING;
        }
        out.push(kind);
        if let Some(ack) = self.ack {
            out.extend_from_slice(&ack.largest.to_be_bytes());
            let held = u32::try_from(ack.held.as_micros()).unwrap_or(u32::MAX);
            out.extend_from_slice(&held.to_be_bytes());
            for word in ack.ranges {
                out.extend_from_slice(&word.to_be_bytes());
            }
        }
        if let Some(chunk) = self.chunk {
            out.extend_from_slice(&chunk.offset.to_be_bytes());
            out.extend_from_slice(&chunk.len.to_be_bytes());
        }
    }

    /// Reads them; `None` where they are cut or contradict themselves.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let opening = match kind & (HELLO | ANSWER) {
            0 => None,
            HELLO => Some(Opening::Hello),
            ANSWER => Some(Opening::Answer),
            _ => return None,
        };
        let mut word = |len: usize| -> Option<u64> {
            let (word, after) = rest.split_at_checked(len)?;
            rest = after;
            Some(word.iter().fold(0, |w, byte| w << 8 | u64::from(*byte)))
        };
        let ack = if kind & ACK == 0 {
            None
        } else {
            let (largest, held) = (word(4)? as u32, word(4)?);
            let mut ranges = [0; RANGE_WORDS];
            for range in &mut ranges {
                *range = word(8)?;
            }
            Some(Ack {
                largest,
                held: Duration::from_micros(held),
                ranges,
            })
        };
        let chunk = if kind & CHUNK == 0 {
            None
        } else {
            Some(Chunk {
                offset: word(8)?,
                len: word(2)? as u16,
                fin: kind & FIN != 0,
            })
        };
        Some(Self {
            opening,
            ack,
            chunk,
            ping: kind & PING != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Frames {
        Frames {
            opening: Some(Opening::Answer),
            ack: Some(Ack {
                largest: 7,
                held: Duration::from_micros(25),
                ranges: [0b101, 0, 0, 1 << 63],
            }),
            chunk: Some(Chunk {
                offset: u64::MAX,
                len: 1000,
                fin: true,
            }),
            ping: true,
        }
    }

    #[test]
    fn frames_read_back_and_cut_ones_do_not() {
        let mut bytes = Vec::new();
        full().write(&mut bytes);
        assert_eq!(bytes.len(), OVERHEAD);
        assert_eq!(Frames::parse(&bytes), Some(full()));
        for end in 0..bytes.len() {
            assert_eq!(Frames::parse(&bytes[..end]), None, "{end}");
        }
        assert_eq!(Frames::parse(&[HELLO | ANSWER]), None);
    }

    #[test]
    fn an_acknowledgement_speaks_of_the_packets_before_its_largest() {
        let ack = full().ack.unwrap();
        let says: Vec<u32> = (0..=8).filter(|n| ack.has(*n)).collect();
        assert_eq!(says, [4, 6, 7]);
        assert!(ack.has(7u32.wrapping_sub(256)));
        assert!(!ack.has(7u32.wrapping_sub(257)));
    }
}
