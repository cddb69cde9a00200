//! What a path can read of QUIC packets: the properties that all versions
//! share (RFC 8999), and of versions 1 and 2 the packet type and the spin bit
//! (RFC 9000 §17, RFC 9369 §3.2).

use crate::error::Malformed;

/// Most bytes of a connection id in versions 1 and 2 (RFC 9000 §17.2).
pub const MAX_CID_LEN: usize = 20;

/// Bytes of the UDP payload that has a client's Initial in it, or one of a server that
/// asks for an acknowledgement, at least (RFC 9000 §14.1).
pub const LEAST_INITIAL: usize = 1_200;

/// QUIC version 1 (RFC 9000 §15).
pub const VERSION_1: u32 = 1;
/// QUIC version 2 (RFC 9369 §3.1).
pub const VERSION_2: u32 = 0x6b33_43cf;

/// The first byte's bit of a long header (RFC 8999 §5.1).
const LONG: u8 = 0x80;
/// The bit that versions 1 and 2 set in every packet, unless both ends have agreed on
/// something else in their handshake (RFC 9000 §17.2, RFC 9287).
const FIXED: u8 = 0x40;
/// Bytes of the connection id that a client makes up for the server, at least (RFC
/// 9000 §7.2).
const LEAST_FIRST_CID: usize = 8;
/// The spin bit of a short header (RFC 9000 §17.3.1).
const SPIN: u8 = 0x20;
/// Bytes before the connection ids of a long header: the first, and the
/// version.
const BEFORE_CIDS: usize = 5;

/// What a packet with a long header is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LongType {
    /// The first packets of both ends.
    Initial,
    /// Data before the handshake.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// The server asks for another first packet.
    Retry,
    /// The server says which versions it has.
    VersionNegotiation,
}

/// A packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long<'a> {
    /// The version; 0 in a version negotiation.
    pub version: u32,
    /// The fixed bit, which is set in what opens a connection.
    pub fixed: bool,
    /// What it is for; `None` if the version's types are not known here.
    pub kind: Option<LongType>,
    /// The receiver's connection id.
    pub destination: &'a [u8],
    /// The sender's connection id: packets to it with short headers bear one
    /// of as many bytes.
    pub source: &'a [u8],
}

/// The first QUIC packet of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quic<'a> {
    /// With a long header: before the handshake is over.
    Long(Long<'a>),
    /// With a short header: what a connection consists of afterwards.
    Short {
        /// The spin bit of versions 1 and 2.
        spin: bool,
    },
}

impl<'a> Quic<'a> {
    /// Reads the payload of a datagram. Whether it is QUIC at all, its bytes
    /// cannot say for sure: of a long header see [`Long::is_likely`], of a
    /// short one only a handshake that was seen before.
    ///
    /// # Errors
    /// When it is empty or ends within a long header's connection ids.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let Some(&first) = payload.first() else {
            return Err(Malformed::Truncated("QUIC header"));
        };
        if first & LONG == 0 {
            return Ok(Self::Short {
                spin: first & SPIN != 0,
            });
        }
        let Some([_, a, b, c, d]) = payload.first_chunk::<BEFORE_CIDS>() else {
            return Err(Malformed::Truncated("QUIC version"));
        };
        let version = u32::from_be_bytes([*a, *b, *c, *d]);
        let (destination, rest) = cid(&payload[BEFORE_CIDS..])?;
        let (source, _) = cid(rest)?;
        Ok(Self::Long(Long {
            version,
            fixed: first & FIXED != 0,
            kind: kind(version, first),
            destination,
            source,
        }))
    }
}

impl Long<'_> {
    /// Whether it is an Initial as one end sends before it knows what the other
    /// agrees to: of version 1 or 2, with the fixed bit. Its datagram has
    /// [`LEAST_INITIAL`] bytes or more.
    pub fn is_first(&self) -> bool {
        self.fixed && self.is_likely() && self.kind == Some(LongType::Initial)
    }

    /// Whether an Initial may be a client's first: a server answers to the id that the
    /// client chose for itself, which may be shorter.
    pub fn is_of_client(&self) -> bool {
        self.destination.len() >= LEAST_FIRST_CID
    }

    /// Whether the header is one that versions 1 and 2 or a negotiation can
    /// have: other datagrams whose first bit is set seldom are.
    pub fn is_likely(&self) -> bool {
        let short = |cid: &[u8]| cid.len() <= MAX_CID_LEN;
        self.kind.is_some() && short(self.destination) && short(self.source)
    }
}

/// A connection id behind its length, and what follows it.
fn cid(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let Some((&len, rest)) = bytes.split_first() else {
        return Err(Malformed::Truncated("QUIC connection id"));
    };
    rest.split_at_checked(usize::from(len))
        .ok_or(Malformed::Truncated("QUIC connection id"))
}

fn kind(version: u32, first: u8) -> Option<LongType> {
    use LongType::{Handshake, Initial, Retry, VersionNegotiation, ZeroRtt};
    let types = match version {
        0 => return Some(VersionNegotiation),
        VERSION_1 => [Initial, ZeroRtt, Handshake, Retry],
        VERSION_2 => [Retry, Initial, ZeroRtt, Handshake],
        _ => return None,
    };
    Some(types[usize::from(first >> 4 & 3)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(first: u8, version: u32, destination: &[u8], source: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        bytes.extend_from_slice(&version.to_be_bytes());
        for cid in [destination, source] {
            bytes.push(cid.len() as u8);
            bytes.extend_from_slice(cid);
        }
        bytes
    }

    #[test]
    fn a_long_header_shows_version_type_and_both_ids() {
        for (version, types) in [
            (VERSION_1, [0xc0, 0xd0, 0xe0, 0xf0]),
            (VERSION_2, [0xd0, 0xe0, 0xf0, 0xc0]),
        ] {
            let kinds = [
                LongType::Initial,
                LongType::ZeroRtt,
                LongType::Handshake,
                LongType::Retry,
            ];
            for (first, kind) in types.into_iter().zip(kinds) {
                let bytes = long(first, version, b"server-8", b"");
                let Quic::Long(read) = Quic::parse(&bytes).unwrap() else {
                    panic!("{first:x} is a long header");
                };
                assert_eq!((read.version, read.kind), (version, Some(kind)));
                assert_eq!(
                    (read.destination, read.source),
                    (&b"server-8"[..], &b""[..])
                );
                assert!(read.is_likely());
            }
        }
    }

    #[test]
    fn a_short_header_shows_its_spin_bit_whatever_the_fixed_bit_is() {
        for (first, spin) in [(0x40, false), (0x60, true), (0x00, false), (0x3f, true)] {
            assert_eq!(Quic::parse(&[first]).unwrap(), Quic::Short { spin });
        }
    }

    #[test]
    fn a_header_that_is_cut_anywhere_is_refused() {
        let whole = long(0xc3, VERSION_1, b"12345678", b"abcdefgh");
        for end in 0..whole.len() {
            assert!(Quic::parse(&whole[..end]).is_err(), "{end} bytes");
        }
        assert!(Quic::parse(&whole).is_ok());
    }

    #[test]
    fn unknown_versions_and_long_ids_are_not_taken_for_quic() {
        let unlikely = |bytes: &[u8]| match Quic::parse(bytes) {
            Ok(Quic::Long(long)) => !long.is_likely(),
            other => panic!("{other:?}"),
        };
        assert!(unlikely(&long(0xc0, 0x1234_5678, b"", b"")));
        assert!(unlikely(&long(0xc0, VERSION_1, &[0; 21], b"")));
        assert!(!unlikely(&long(0x80, 0, &[0; 8], b"")));
    }

    #[test]
    fn what_opens_a_connection_has_the_fixed_bit_and_an_id_of_eight_bytes() {
        let read = |bytes: &[u8]| match Quic::parse(bytes) {
            Ok(Quic::Long(long)) => (long.is_first(), long.is_of_client()),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(&long(0xc0, VERSION_1, &[1; 8], b"")), (true, true));
        assert_eq!(read(&long(0xd0, VERSION_2, &[1; 20], b"")), (true, true));
        assert_eq!(
            read(&long(0xc0, VERSION_1, &[1; 7], &[1; 8])),
            (true, false)
        );
        // Without the bit, of another type, and a version negotiation.
        assert!(!read(&long(0x80, VERSION_1, &[1; 8], b"")).0);
        assert!(!read(&long(0xe0, VERSION_1, &[1; 8], b"")).0);
        assert!(!read(&long(0xc0, 0, &[1; 8], b"")).0);
    }
}
