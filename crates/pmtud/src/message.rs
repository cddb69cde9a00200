//! What a prober and its server say to each other.
//!
//! | Bytes | Field |
//! |---|---|
//! | 0–3 | `NwP1` |
//! | 4 | kind |
//! | 5 | 0 |
//! | 6–7 | of a probe: bytes that the answer is to have; of an answer: bytes of the probe that arrived |
//! | 8–15 | number |
//! | 16–31 | token |
//!
//! Zeros follow, up to the size that is tried. Numbers are in network byte order.

/// Bytes of a message without what fills it up: the smallest size that can be tried, below
/// MIN_PLPMTU of IPv4 (40 bytes of UDP's payload).
pub const MESSAGE_LEN: usize = 32;

/// What a datagram begins with, the version last.
const MAGIC: [u8; 4] = *b"NwP1";

/// Bytes of a token.
pub const TOKEN_LEN: usize = 16;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A client asks for its token.
    Hello,
    /// It gets it.
    Welcome,
    /// A probe of a client that has its token.
    Probe,
    /// The probe arrived.
    Answer,
}

const KINDS: [(u8, MessageKind); 4] = [
    (1, MessageKind::Hello),
    (2, MessageKind::Welcome),
    (3, MessageKind::Probe),
    (4, MessageKind::Answer),
];

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is for.
    pub kind: MessageKind,
    /// Of a probe, bytes that its answer is to have: 0 for as few as possible (the mode
    /// "received size"), its own size for an echo. Of an answer, bytes of the probe that arrived.
    pub size: u16,
    /// Which answer belongs to which probe.
    pub number: u64,
    /// What the server gave to this address.
    pub token: [u8; TOKEN_LEN],
}

impl Message {
    /// Its bytes.
    pub fn write(&self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        let kinds = KINDS.iter().find(|(_, kind)| *kind == self.kind);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = kinds.map_or(0, |(number, _)| *number);
        bytes[6..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..].copy_from_slice(&self.token);
        bytes
    }

    /// Reads one from the beginning of a datagram; `None` if it is none.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let bytes = datagram.first_chunk::<MESSAGE_LEN>()?;
        let (_, kind) = *KINDS.iter().find(|(number, _)| *number == bytes[4])?;
        if bytes[..4] != MAGIC || bytes[5] != 0 {
            return None;
        }
        let (size, number) = (bytes[6..8].try_into().ok()?, bytes[8..16].try_into().ok()?);
        Some(Self {
            kind,
            size: u16::from_be_bytes(size),
            number: u64::from_be_bytes(number),
            token: bytes[16..].try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_bytes_are_not() {
        for (_, kind) in KINDS {
            let message = Message {
                kind,
                size: 1_472,
                number: 0x0102_0304_0506_0708,
                token: [7; TOKEN_LEN],
            };
            let bytes = message.write();
            assert_eq!(Message::parse(&bytes), Some(message));
            assert_eq!(Message::parse(&bytes[..MESSAGE_LEN - 1]), None);
            for at in 0..6 {
                let mut wrong = bytes;
                wrong[at] = 99;
                assert_eq!(Message::parse(&wrong), None, "byte {at}");
            }
        }
    }
}
