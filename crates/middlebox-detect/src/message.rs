//! What the two ends tell each other: payloads of UDP datagrams and of TCP segments.
//!
//! ```text
//!  0  0x40, with 0x20 where the spin bit is set: a QUIC short header to boxes (RFC 9000 §17.3)
//!  1  kind
//!  2  'M', version 1
//!  4  session, drawn by the prober
//!  8  token, from the responder's Welcome
//! 24  identifier
//! 26  zero
//! 28  digest of all but the first byte and itself
//! 32  what the kind has; zeros fill it up
//! ```
//!
//! Numbers are big-endian.

use narrows_pep::COOKIE_LEN;
use narrows_units::stable_hash;

/// Bytes before what a kind has.
pub(crate) const HEADER_LEN: usize = 32;

/// What shows that a prober owns its address.
pub(crate) type Token = [u8; COOKIE_LEN];

/// Of a first byte: the fixed bit of a short header, and its spin bit.
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;
/// Bytes 2 and 3.
const VERSION: [u8; 2] = [b'M', 1];

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The prober asks for a token.
    Hello = 1,
    /// The responder gives it, to the address that asked.
    Welcome = 2,
    /// The prober asks for a probe: which, and to what port if the session has none.
    Order = 3,
    /// The prober asks what came of its probes, or what routers quoted of the responder's.
    Fetch = 4,
    /// The responder's answer.
    Records = 5,
    /// A probe.
    Probe = 6,
    /// The responder opens the way for a prober behind a box that lets nothing in.
    Call = 7,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub spin: bool,
    pub kind: Kind,
    pub session: u32,
    pub token: Token,
    pub id: u16,
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a payload, and whether its digest holds; `None` of what is no message.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<(Self, bool)> {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        if header[0] & !SPIN != FIXED || header[2..4] != VERSION {
            return None;
        }
        let kind = match header[1] {
            1 => Kind::Hello,
            2 => Kind::Welcome,
            3 => Kind::Order,
            4 => Kind::Fetch,
            5 => Kind::Records,
            6 => Kind::Probe,
            7 => Kind::Call,
            _ => return None,
        };
        let mut token = Token::default();
        token.copy_from_slice(&header[8..24]);
        let body = &bytes[HEADER_LEN..];
        let message = Self {
            spin: header[0] & SPIN != 0,
            kind,
            session: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            token,
            id: u16::from_be_bytes([header[24], header[25]]),
            body,
        };
        Some((message, header[28..] == digest(header, body)))
    }

    /// The payload, with zeros up to `len` bytes.
    pub(crate) fn write(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[0] = FIXED | if self.spin { SPIN } else { 0 };
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&VERSION);
        bytes[4..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.token);
        bytes[24..26].copy_from_slice(&self.id.to_be_bytes());
        bytes.extend_from_slice(self.body);
        bytes.resize(bytes.len().max(len), 0);
        let (header, body) = bytes.split_at(HEADER_LEN);
        let digest = digest(header, body);
        bytes[28..HEADER_LEN].copy_from_slice(&digest);
        bytes
    }
}

fn digest(header: &[u8], body: &[u8]) -> [u8; 4] {
    let key = stable_hash(0, &header[1..28]);
    let [.., a, b, c, d] = stable_hash(key, body).to_be_bytes();
    [a, b, c, d]
}

/// Which records a [`Kind::Fetch`] asks for and a [`Kind::Records`] has: all from `first` to
/// `last` that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// What routers quoted of the responder's probes, and not what came of the prober's.
    pub quoted: bool,
    pub first: u16,
    pub last: u16,
}

impl Range {
    pub(crate) fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = body.split_first_chunk::<5>()?;
        let range = Self {
            quoted: head[0] != 0,
            first: u16::from_be_bytes([head[1], head[2]]),
            last: u16::from_be_bytes([head[3], head[4]]),
        };
        (range.first <= range.last).then_some((range, rest))
    }

    pub(crate) fn write(self) -> [u8; 5] {
        let [a, b] = self.first.to_be_bytes();
        let [c, d] = self.last.to_be_bytes();
        [u8::from(self.quoted), a, b, c, d]
    }
}

/// What came of a probe, or of a probe's quotation: the beginning of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub id: u16,
    /// Whether the payload's digest held.
    pub intact: bool,
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the start of `body`, and what follows; `None` at the end.
    pub(crate) fn parse(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([a, b, intact, len], rest) = body.split_first_chunk::<4>()?;
        let id = u16::from_be_bytes([*a, *b]);
        let (bytes, rest) = rest.split_at_checked(usize::from(*len))?;
        let record = Self {
            id,
            intact: *intact != 0,
            bytes,
        };
        (id != 0).then_some((record, rest))
    }

    /// Appends it, if `out` is then no longer than `most`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, most: usize) -> bool {
        let fits = out.len() + 4 + self.bytes.len() <= most;
        if fits {
            let [a, b] = self.id.to_be_bytes();
            // Nobody keeps more of a packet than a byte counts.
            let len = self.bytes.len() as u8;
            out.extend_from_slice(&[a, b, u8::from(self.intact), len]);
            out.extend_from_slice(self.bytes);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Message<'_> = Message {
        spin: true,
        kind: Kind::Hello,
        session: 0x0102_0304,
        token: [7; COOKIE_LEN],
        id: 9,
        body: &[1, 2, 3],
    };

    #[test]
    fn a_message_reads_as_written_and_a_changed_one_says_so() {
        let mut bytes = HELLO.write(0);
        assert_eq!(Message::parse(&bytes), Some((HELLO, true)));
        // A box that clears the spin bit does not alter the message.
        bytes[0] = FIXED;
        assert!(Message::parse(&bytes).is_some_and(|(m, intact)| intact && !m.spin));
        for at in 4..bytes.len() {
            bytes[at] ^= 1;
            assert!(!Message::parse(&bytes).unwrap().1, "byte {at}");
            bytes[at] ^= 1;
        }
        assert_eq!(HELLO.write(100).len(), 100);
        assert_eq!(Message::parse(&bytes[..31]), None);
    }

    #[test]
    fn records_read_as_written_and_end_at_the_filling() {
        let range = Range {
            quoted: true,
            first: 3,
            last: 500,
        };
        let mut body = range.write().to_vec();
        let one = Record {
            id: 4,
            intact: true,
            bytes: &[1, 2],
        };
        assert!(one.write(&mut body, 100));
        let len = body.len();
        assert!(!one.write(&mut body, len + 5));
        body.resize(40, 0);
        let (read, rest) = Range::parse(&body).unwrap();
        assert_eq!(read, range);
        let (record, rest) = Record::parse(rest).unwrap();
        assert_eq!(record, one);
        assert_eq!(Record::parse(rest), None);
    }
}
