//! The layout of Bayer's thesis (Univ. of Oslo, 2023): a header of four bytes and entries
//! of eight.
//!
//! The numbers of its types are those of RFC 8803, its layout is not: the length counts
//! entries, an entry has a fixed size, addresses are IPv4, and there is no answer. The
//! thesis leaves the magic number and the byte order open. Its code (`tlv.h`) has the
//! number 0xbeef in the order of its x86 machines, and port and address in network order.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The version in the header.
pub const VERSION: u8 = 1;

/// The magic number as it is on the wire.
pub const MAGIC: [u8; 2] = [0xef, 0xbe];

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 8;

/// Asks for a connection.
const CONNECT: u8 = 0x0a;

/// Bytes of port and address, which the length of a Connect entry counts.
const CONNECT_PAYLOAD: u8 = 6;

/// What is wrong with a message of this layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThesisError {
    /// Another version.
    #[error("version {0}, but {VERSION} is spoken here")]
    Version(u8),
    /// Another protocol.
    #[error("the magic number is {0:02x?}, but {MAGIC:02x?} is wanted")]
    Magic([u8; 2]),
    /// No Connect entry.
    #[error("none of the {0} entries asks for a connection")]
    NoConnect(u8),
    /// A Connect entry without an address.
    #[error("the Connect entry says {0} bytes, but it has {CONNECT_PAYLOAD}")]
    Length(u8),
}

/// A message that asks for a connection to `destination`.
pub fn encode(destination: SocketAddrV4) -> [u8; HEADER_LEN + ENTRY_LEN] {
    let [p, q] = destination.port().to_be_bytes();
    let [a, b, c, d] = destination.ip().octets();
    let [m, n] = MAGIC;
    [VERSION, 1, m, n, CONNECT, CONNECT_PAYLOAD, p, q, a, b, c, d]
}

/// Reads one message from the start of a stream.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Takes the next bytes of the stream. `None` while more are needed; then the
    /// destination, and how many of these bytes belong to the message.
    ///
    /// # Errors
    /// As soon as the bytes so far cannot begin a message, or when it is whole and asks
    /// for nothing.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(SocketAddrV4, usize)>, ThesisError> {
        let mut used = 0;
        loop {
            let wanted = self.length()?;
            if self.bytes.len() == wanted {
                return Ok(Some((self.destination()?, used)));
            }
            let next = bytes[used..].len().min(wanted - self.bytes.len());
            if next == 0 {
                return Ok(None);
            }
            self.bytes.extend_from_slice(&bytes[used..used + next]);
            used += next;
        }
    }

    /// How many bytes the message has, as far as that is known: the header's until it is
    /// here.
    fn length(&self) -> Result<usize, ThesisError> {
        match *self.bytes.as_slice() {
            [version, ..] if version != VERSION => Err(ThesisError::Version(version)),
            [_, entries, a, b, ..] if [a, b] == MAGIC => {
                Ok(HEADER_LEN + usize::from(entries) * ENTRY_LEN)
            }
            [_, _, a, b, ..] => Err(ThesisError::Magic([a, b])),
            _ => Ok(HEADER_LEN),
        }
    }

    /// The first Connect entry of a message that is whole.
    fn destination(&self) -> Result<SocketAddrV4, ThesisError> {
        let entries = &self.bytes[HEADER_LEN..];
        for entry in entries.chunks_exact(ENTRY_LEN) {
            if let &[CONNECT, length, p, q, a, b, c, d] = entry {
                if length != CONNECT_PAYLOAD {
                    return Err(ThesisError::Length(length));
                }
                let address = Ipv4Addr::new(a, b, c, d);
                return Ok(SocketAddrV4::new(address, u16::from_be_bytes([p, q])));
            }
        }
        Err(ThesisError::NoConnect(self.bytes[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 12] = [1, 1, 0xef, 0xbe, 0x0a, 6, 0x13, 0x89, 10, 0, 2, 4];

    fn read(bytes: &[u8]) -> Result<Option<(SocketAddrV4, usize)>, ThesisError> {
        Reader::default().take(bytes)
    }

    #[test]
    fn a_connect_message_is_the_twelve_bytes_of_the_thesis() {
        let destination = "10.0.2.4:5001".parse().unwrap();
        assert_eq!(encode(destination), BYTES);
        assert_eq!(read(&BYTES), Ok(Some((destination, 12))));
    }

    #[test]
    fn it_may_come_byte_by_byte_and_what_follows_is_left() {
        let mut reader = Reader::default();
        for byte in &BYTES[..11] {
            assert_eq!(reader.take(&[*byte]), Ok(None));
        }
        let (_, used) = reader.take(&[4, b'h', b'i']).unwrap().unwrap();
        assert_eq!(used, 1);
    }

    #[test]
    fn other_entries_are_passed_over() {
        let mut bytes = vec![1, 2, 0xef, 0xbe, 0x16, 2, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&BYTES[4..]);
        assert_eq!(read(&bytes).unwrap().unwrap().1, 20);
    }

    #[test]
    fn what_is_none_is_refused_at_the_first_byte_that_shows_it() {
        assert_eq!(read(&[2]), Err(ThesisError::Version(2)));
        assert_eq!(
            read(&[1, 9, 0xbe, 0xef]),
            Err(ThesisError::Magic([0xbe, 0xef]))
        );
        assert_eq!(read(&[1, 0, 0xef, 0xbe]), Err(ThesisError::NoConnect(0)));
        let mut short = BYTES;
        short[5] = 2;
        assert_eq!(read(&short), Err(ThesisError::Length(2)));
    }
}
