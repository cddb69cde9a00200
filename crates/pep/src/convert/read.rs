//! Reading a message as it comes, in pieces of any size.

use super::{Fault, HEADER_LEN, MAGIC, Message, Tlv, VERSION, WORD};

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another version of the protocol.
    #[error("version {0}, but {VERSION} is spoken here")]
    Version(u8),
    /// Another protocol.
    #[error("the magic number is {0:#06x}, but {MAGIC:#06x} is wanted")]
    Magic(u16),
    /// The total length does not even count the header.
    #[error("the total length is 0 words, but the header alone is one")]
    TotalLength,
    /// A TLV that is longer than what is left of its message, or has no length.
    #[error("the TLV at byte {at} says {words} words, but {left} are left")]
    TlvLength {
        /// Where it begins, in bytes from the start of the message.
        at: usize,
        /// Its length.
        words: u8,
        /// Words that are left.
        left: usize,
    },
    /// A TLV that is shorter than its type allows.
    #[error("the TLV of type {kind} at byte {at} is too short")]
    TlvTooShort {
        /// Where it begins, in bytes from the start of the message.
        at: usize,
        /// Its type.
        kind: u8,
    },
}

impl DecodeError {
    /// What answers `message`, of which as much is given as was read.
    pub fn fault(&self, message: &[u8]) -> Fault {
        match self {
            Self::Version(_) => Fault::version(),
            _ => Fault::Malformed(message.to_vec()),
        }
    }
}

/// Reads one message from the start of a stream.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Takes the next bytes of the stream. `None` while more are needed; then the
    /// message, and how many of these bytes belong to it. What follows is the
    /// application's.
    ///
    /// # Errors
    /// As soon as the bytes so far cannot begin a message.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Message, usize)>, DecodeError> {
        let before = self.bytes.len();
        let head = HEADER_LEN.saturating_sub(before).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..head]);
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        let used = (length - before.min(length)).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[head..used.max(head)]);
        if self.bytes.len() < length {
            return Ok(None);
        }
        Ok(Some((self.message()?, used)))
    }

    /// What was read so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes it is known to want at least: those of the header until that is
    /// here, then the rest of the message.
    pub fn wanted(&self) -> usize {
        let whole = match self.length() {
            Ok(Some(length)) => length,
            _ => HEADER_LEN,
        };
        whole.saturating_sub(self.bytes.len())
    }

    /// The message's length in bytes, once its header is here.
    fn length(&self) -> Result<Option<usize>, DecodeError> {
        match self.bytes.first() {
            Some(&version) if version != VERSION => return Err(DecodeError::Version(version)),
            _ => {}
        }
        match self.bytes.get(..HEADER_LEN) {
            Some(&[_, words, a, b]) => match u16::from_be_bytes([a, b]) {
                MAGIC if words == 0 => Err(DecodeError::TotalLength),
                MAGIC => Ok(Some(usize::from(words) * WORD)),
                magic => Err(DecodeError::Magic(magic)),
            },
            _ => Ok(None),
        }
    }

    /// The TLVs of a message that is whole.
    fn message(&self) -> Result<Message, DecodeError> {
        let mut tlvs = Vec::new();
        let mut at = HEADER_LEN;
        while let Some(&[kind, words]) = self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let rest = &self.bytes[at..];
            let left = rest.len() / WORD;
            let length = usize::from(words) * WORD;
            if words == 0 || length > rest.len() {
                return Err(DecodeError::TlvLength { at, words, left });
            }
            let tlv = Tlv::read(kind, &rest[2..length]);
            tlvs.push(tlv.ok_or(DecodeError::TlvTooShort { at, kind })?);
            at += length;
        }
        Ok(Message { tlvs })
    }
}
