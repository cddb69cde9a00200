//! SOCKS version 5 (RFC 1928), for programs that know no other proxy: no authentication, as
//! clients are known by their addresses, and of its commands CONNECT.

use std::net::{IpAddr, SocketAddr};

use crate::convert::Fault;

/// The version that each message begins with.
const VERSION: u8 = 5;

/// The method of no authentication (§3).
const NO_AUTHENTICATION: u8 = 0;

/// The command that opens a connection (§4).
const CONNECT: u8 = 1;

/// What a greeting is answered that offers no authentication among its methods (§3).
pub(crate) const GREETED: [u8; 2] = [VERSION, NO_AUTHENTICATION];

/// What another one is answered (§3).
pub(crate) const NO_METHOD: [u8; 2] = [VERSION, 0xff];

/// The kinds of addresses (§5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What a client says, message by message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocksMessage {
    /// The greeting: whether it offers no authentication.
    Greeting(bool),
    /// A connection to this address.
    Connect(SocketAddr),
    /// A connection to this port of the host of this name.
    ConnectByName(String, u16),
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Its first byte.
    #[error("its version is {0}, and not 5")]
    Version(u8),
    /// A command that is none, or BIND or UDP ASSOCIATE.
    #[error("its command is {0}, and not CONNECT")]
    Command(u8),
    /// A kind of address that is none.
    #[error("its address is of the kind {0}, which is none")]
    Kind(u8),
    /// A name that no host has (RFC 1123 §2.1).
    #[error("its name is no host's")]
    Name,
}

impl Error {
    /// What the client is answered; nothing where it speaks something else.
    pub fn fault(self) -> Option<Fault> {
        match self {
            Self::Version(_) => None,
            Self::Command(_) => Some(Fault::UnsupportedMessage(Vec::new())),
            Self::Kind(_) | Self::Name => Some(Fault::Malformed(Vec::new())),
        }
    }
}

/// Reads messages as they come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    /// Of a message that is not whole.
    bytes: Vec<u8>,
    greeted: bool,
}

impl Reader {
    /// Takes the next bytes. `None` while more are needed; then what is said, and how many of
    /// these bytes belong to it.
    ///
    /// # Errors
    /// When they cannot become a message that is understood.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(SocksMessage, usize)>, Error> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if let Some(version) = self.bytes.first().filter(|v| **v != VERSION) {
            return Err(Error::Version(*version));
        }
        let read = match self.greeted {
            false => greeting(&self.bytes),
            true => request(&self.bytes)?,
        };
        Ok(read.map(|(said, len)| {
            self.greeted = true;
            self.bytes.clear();
            (said, len - before)
        }))
    }
}

/// A greeting, and its length.
fn greeting(bytes: &[u8]) -> Option<(SocksMessage, usize)> {
    let len = 2 + usize::from(*bytes.get(1)?);
    let methods = bytes.get(2..len)?;
    Some((
        SocksMessage::Greeting(methods.contains(&NO_AUTHENTICATION)),
        len,
    ))
}

/// A request, and its length.
fn request(bytes: &[u8]) -> Result<Option<(SocksMessage, usize)>, Error> {
    if let Some(command) = bytes.get(1).filter(|command| **command != CONNECT) {
        return Err(Error::Command(*command));
    }
    // The third byte is reserved.
    let Some(kind) = bytes.get(3) else {
        return Ok(None);
    };
    let (at, len) = match (*kind, bytes.get(4)) {
        (IPV4, _) => (4, 4),
        (IPV6, _) => (4, 16),
        (NAME, None) => return Ok(None),
        (NAME, Some(len)) => (5, usize::from(*len)),
        (kind, _) => return Err(Error::Kind(kind)),
    };
    let (Some(host), Some([high, low])) =
        (bytes.get(at..at + len), bytes.get(at + len..at + len + 2))
    else {
        return Ok(None);
    };
    let port = u16::from_be_bytes([*high, *low]);
    let address = match *kind {
        IPV4 => <[u8; 4]>::try_from(host).ok().map(IpAddr::from),
        IPV6 => <[u8; 16]>::try_from(host).ok().map(IpAddr::from),
        _ => None,
    };
    let said = match address {
        Some(address) => SocksMessage::Connect(SocketAddr::new(address, port)),
        None => by_name(host, port)?,
    };
    Ok(Some((said, at + len + 2)))
}

/// A connection to a name, or to the address that it is written as.
fn by_name(name: &[u8], port: u16) -> Result<SocksMessage, Error> {
    let name = std::str::from_utf8(name).map_err(|_| Error::Name)?;
    if let Ok(address) = name.parse() {
        return Ok(SocksMessage::Connect(SocketAddr::new(address, port)));
    }
    // Letters, digits and hyphens; underscores, which RFC 1123 has not, are in use.
    let of_hosts = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(of_hosts);
    let labels = name.strip_suffix('.').unwrap_or(name);
    match labels.split('.').all(label) {
        true => Ok(SocksMessage::ConnectByName(name.to_owned(), port)),
        false => Err(Error::Name),
    }
}

/// The answer to a request: granted, or refused (§6). The address that the onward connection
/// comes from is the proxy's own affair: zeros.
pub(crate) fn answer(fault: Option<&Fault>) -> [u8; 10] {
    /// §6: succeeded, general failure, not allowed, network unreachable, host unreachable,
    /// refused, command not supported, address type not supported.
    const REPLIES: [u8; 8] = [0, 1, 2, 3, 4, 5, 7, 8];
    let [ok, failure, forbidden, network, host, reset, command, kind] = REPLIES;
    let reply = match fault {
        None => ok,
        Some(Fault::NotAuthorized) => forbidden,
        Some(Fault::DestinationUnreachable { icmp_code: 0 }) => network,
        Some(Fault::DestinationUnreachable { .. } | Fault::NetworkFailure { .. }) => host,
        Some(Fault::ConnectionReset) => reset,
        Some(Fault::UnsupportedMessage(_)) => command,
        Some(Fault::Malformed(_)) => kind,
        Some(_) => failure,
    };
    [VERSION, reply, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is said in `bytes`, which come in pieces of that length.
    fn said(bytes: &[u8], piece: usize) -> Result<Vec<SocksMessage>, Error> {
        let (mut reader, mut all) = (Reader::default(), Vec::new());
        for mut piece in bytes.chunks(piece) {
            while let Some((said, used)) = reader.take(piece)? {
                all.push(said);
                piece = &piece[used..];
                if all.len() == 2 {
                    return Ok(all);
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn a_greeting_and_a_request_are_read_whole_and_in_pieces() {
        let name = [
            &[5, 1, 0, 3, 11][..],
            b"example.com",
            &[1, 187, b'G', b'E', b'T'],
        ]
        .concat();
        for (request, expected) in [
            (
                vec![5, 1, 0, 1, 192, 0, 2, 7, 0, 80],
                SocksMessage::Connect("192.0.2.7:80".parse().unwrap()),
            ),
            (
                name,
                SocksMessage::ConnectByName("example.com".to_owned(), 443),
            ),
            (
                [&[5, 1, 0, 3, 9][..], b"127.0.0.1", &[0, 22]].concat(),
                SocksMessage::Connect("127.0.0.1:22".parse().unwrap()),
            ),
            (
                [&[5, 1, 0, 4, 0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1, 0, 80]].concat(),
                SocksMessage::Connect("[2001:db8::1]:80".parse().unwrap()),
            ),
        ] {
            let bytes = [&[5, 2, 2, 0][..], &request].concat();
            for piece in [1, 3, 64] {
                let all = said(&bytes, piece);
                assert_eq!(
                    all,
                    Ok(vec![SocksMessage::Greeting(true), expected.clone()])
                );
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_in_its_words() {
        let asks = |rest: &[u8]| [&[5, 1, 0][..], rest].concat();
        for (bytes, error) in [
            (vec![4, 1, 0, 80], Error::Version(4)),
            (b"GET / HTTP/1.0".to_vec(), Error::Version(b'G')),
            (asks(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]), Error::Command(3)),
            (asks(&[5, 1, 0, 2, 0, 0, 0, 0, 0, 0]), Error::Kind(2)),
            (asks(&[5, 1, 0, 3, 0, 0, 80]), Error::Name),
            (asks(b"\x05\x01\0\x03\x03a b\0\x50"), Error::Name),
            (asks(b"\x05\x01\0\x03\x03a..\0\x50"), Error::Name),
            (asks(b"\x05\x01\0\x03\x02\xff\xfe\0\x50"), Error::Name),
        ] {
            assert_eq!(said(&bytes, 1), Err(error), "{bytes:?}");
        }
        assert_eq!(said(&[5, 1, 2], 1), Ok(vec![SocksMessage::Greeting(false)]));
    }

    #[test]
    fn answers_have_the_numbers_of_the_standard() {
        assert_eq!(answer(None), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for (fault, reply) in [
            (Fault::ResourceExceeded { retry_s: 0 }, 1),
            (Fault::NotAuthorized, 2),
            (Fault::DestinationUnreachable { icmp_code: 0 }, 3),
            (Fault::NetworkFailure { retry_s: 0 }, 4),
            (Fault::ConnectionReset, 5),
            (Fault::UnsupportedMessage(Vec::new()), 7),
            (Fault::Malformed(Vec::new()), 8),
        ] {
            assert_eq!(answer(Some(&fault))[1], reply, "{fault}");
        }
    }
}
