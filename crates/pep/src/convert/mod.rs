//! The 0-RTT TCP Convert Protocol (RFC 8803): messages as bytes and back.
//!
//! A message is a fixed header of four bytes (version, total length in words of 32 bits,
//! magic number) and TLVs, each padded with zeros to whole words. The client's message is
//! the first thing in its stream, in the SYN where Fast Open allows it; the converter's
//! is the first in the other direction.

mod fault;
mod read;
mod tlv;

pub use fault::{Fault, FaultClass};
pub use read::{DecodeError, Reader};
pub use tlv::{Message, Tlv, TooLong};

/// The version of the protocol (RFC 8803 §4.1, IANA "Convert Versions").
pub const VERSION: u8 = 1;

/// Marks a message of the protocol (RFC 8803 §4.1): the RFC's own number.
pub const MAGIC: u16 = 8803;

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 4;

/// Bytes of a word, in which lengths count.
pub(crate) const WORD: usize = 4;

/// The longest message in bytes: 255 words.
pub const MAX_LEN: usize = 255 * WORD;
