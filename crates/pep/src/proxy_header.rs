//! The PROXY protocol, versions 1 and 2 (HAProxy, doc/proxy-protocol.txt): by a header before its
//! first byte a connection says whose it is. A load balancer says so to the proxy, and the proxy to
//! a destination.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Which header a destination is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// The binary one.
    V2,
}

/// What each header of version 1 begins with (§2.1).
const LINE: &[u8] = b"PROXY ";

/// Bytes of such a line at most, its end included (§2.1).
const LONGEST_LINE: usize = 107;

/// What each header of version 2 begins with (§2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a header of version 2 before its addresses (§2.2).
const FIXED: usize = 16;

/// Bytes of addresses and TLVs at most (our choice: a page; those of RFC 5246 certificates that
/// some balancers send are not of use here).
const LONGEST_REST: usize = 4_096;

/// Version 2, and its two commands (§2.2).
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// TCP over IPv4 and over IPv6 (§2.2).
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// Why what came is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is no header of the PROXY protocol")]
pub(crate) struct NoHeader;

/// The header that says to a destination whose connection it gets. Where the two addresses are
/// of different versions of IP both are written as IPv6.
pub fn header(version: HeaderVersion, client: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let (from, to) = (client.ip().to_canonical(), destination.ip().to_canonical());
    let (from, to) = match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (from, to),
        (from, to) => (mapped(from).into(), mapped(to).into()),
    };
    let ports = [client.port(), destination.port()];
    let ipv4 = from.is_ipv4();
    match version {
        HeaderVersion::V1 => {
            let family = if ipv4 { "TCP4" } else { "TCP6" };
            format!("PROXY {family} {from} {to} {} {}\r\n", ports[0], ports[1]).into_bytes()
        }
        HeaderVersion::V2 => {
            let mut header = SIGNATURE.to_vec();
            header.extend([PROXY, if ipv4 { TCP4 } else { TCP6 }]);
            let rest = if ipv4 { 12u16 } else { 36 };
            header.extend(rest.to_be_bytes());
            for address in [from, to] {
                match address {
                    IpAddr::V4(address) => header.extend(address.octets()),
                    IpAddr::V6(address) => header.extend(address.octets()),
                }
            }
            ports
                .iter()
                .for_each(|port| header.extend(port.to_be_bytes()));
            header
        }
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Reads one header from the start of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderReader(Vec<u8>);

impl HeaderReader {
    /// Takes the next bytes. `None` while more are needed; then the client, if the header says
    /// one, and how many of these bytes belong to the header.
    ///
    /// # Errors
    /// When it cannot become one.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Option<SocketAddr>, usize)>, NoHeader> {
        for (at, byte) in bytes.iter().enumerate() {
            self.0.push(*byte);
            if let Some(client) = self.read()? {
                return Ok(Some((client, at + 1)));
            }
        }
        Ok(None)
    }

    /// What the bytes so far say, if they are a whole header.
    fn read(&self) -> Result<Option<Option<SocketAddr>>, NoHeader> {
        let bytes = &self.0[..];
        let begins = |with: &[u8]| {
            let most = bytes.len().min(with.len());
            bytes[..most] == with[..most]
        };
        if begins(LINE) {
            match bytes.strip_suffix(b"\r\n") {
                Some(line) => line_of(line).map(Some),
                None if bytes.len() < LONGEST_LINE => Ok(None),
                None => Err(NoHeader),
            }
        } else if begins(&SIGNATURE) {
            let Some(length) = bytes.get(14..FIXED) else {
                return Ok(None);
            };
            let rest = usize::from(u16::from_be_bytes([length[0], length[1]]));
            match bytes.len() {
                _ if rest > LONGEST_REST => Err(NoHeader),
                got if got < FIXED + rest => Ok(None),
                _ => binary(bytes[12], bytes[13], &bytes[FIXED..]).map(Some),
            }
        } else {
            Err(NoHeader)
        }
    }
}

/// The client of a line of version 1.
fn line_of(line: &[u8]) -> Result<Option<SocketAddr>, NoHeader> {
    let line = std::str::from_utf8(line).map_err(|_| NoHeader)?;
    let words: Vec<_> = line.split(' ').collect();
    let of = |[from, to, from_port, to_port]: [&str; 4], ipv4: bool| {
        let address = |word: &str| word.parse::<IpAddr>().ok().filter(|a| a.is_ipv4() == ipv4);
        let port = |word: &str| word.parse::<u16>().ok();
        let (from, _) = (address(from)?, address(to)?);
        let (from_port, _) = (port(from_port)?, port(to_port)?);
        Some(SocketAddr::new(from, from_port))
    };
    match words[..] {
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        ["PROXY", "TCP4", a, b, c, d] => of([a, b, c, d], true).map(Some).ok_or(NoHeader),
        ["PROXY", "TCP6", a, b, c, d] => of([a, b, c, d], false).map(Some).ok_or(NoHeader),
        _ => Err(NoHeader),
    }
}

/// The client of a header of version 2.
fn binary(command: u8, family: u8, rest: &[u8]) -> Result<Option<SocketAddr>, NoHeader> {
    let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    let client = match (command, family) {
        // The balancer's own, to see whether all is well (§2.2).
        (LOCAL, _) => return Ok(None),
        (PROXY, TCP4) => rest
            .first_chunk::<4>()
            .zip(port(10).and(port(8)))
            .map(|(ip, port)| {
                let ip = Ipv4Addr::from(*ip);
                SocketAddr::new(ip.into(), port)
            }),
        (PROXY, TCP6) => rest
            .first_chunk::<16>()
            .zip(port(34).and(port(32)))
            .map(|(ip, port)| {
                let ip = Ipv6Addr::from(*ip);
                SocketAddr::new(ip.into(), port)
            }),
        _ => None,
    };
    client.map(Some).ok_or(NoHeader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    fn read(bytes: &[u8]) -> Result<Option<(Option<SocketAddr>, usize)>, NoHeader> {
        HeaderReader::default().take(bytes)
    }

    #[test]
    fn what_is_said_is_understood_in_either_version_and_in_pieces() {
        for version in [HeaderVersion::V1, HeaderVersion::V2] {
            for (client, destination, said) in [
                ("192.0.2.1:4000", "198.51.100.1:443", "192.0.2.1:4000"),
                (
                    "[2001:db8::1]:4000",
                    "[2001:db8::2]:443",
                    "[2001:db8::1]:4000",
                ),
                (
                    "192.0.2.1:4000",
                    "[2001:db8::2]:443",
                    "[::ffff:192.0.2.1]:4000",
                ),
            ] {
                let mut bytes = header(version, at(client), at(destination));
                let whole = bytes.len();
                bytes.extend(b"hello");
                assert_eq!(read(&bytes), Ok(Some((Some(at(said)), whole))));
                let mut reader = HeaderReader::default();
                for byte in &bytes[..whole - 1] {
                    assert_eq!(reader.take(&[*byte]), Ok(None));
                }
                assert_eq!(
                    reader.take(&bytes[whole - 1..]),
                    Ok(Some((Some(at(said)), 1)))
                );
            }
        }
    }

    #[test]
    fn headers_are_those_of_the_specification() {
        let (client, destination) = (at("192.168.0.1:56324"), at("192.168.0.11:443"));
        let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n";
        assert_eq!(header(HeaderVersion::V1, client, destination), line);
        let binary = [
            &SIGNATURE[..],
            &[0x21, 0x11, 0, 12],
            &[192, 168, 0, 1, 192, 168, 0, 11],
            &[0xdc, 0x04, 0x01, 0xbb],
        ];
        assert_eq!(
            header(HeaderVersion::V2, client, destination),
            binary.concat()
        );
    }

    #[test]
    fn who_says_no_client_is_one_itself() {
        assert_eq!(read(b"PROXY UNKNOWN\r\n"), Ok(Some((None, 15))));
        assert_eq!(read(b"PROXY UNKNOWN a b c d\r\nx"), Ok(Some((None, 23))));
        let local = [&SIGNATURE[..], &[LOCAL, 0, 0, 0]].concat();
        assert_eq!(read(&local), Ok(Some((None, 16))));
    }

    #[test]
    fn tlvs_behind_the_addresses_are_skipped() {
        let mut bytes = header(HeaderVersion::V2, at("192.0.2.1:1"), at("192.0.2.2:2"));
        bytes[15] += 5;
        bytes.extend([4, 0, 2, 0, 0]);
        let whole = bytes.len();
        assert_eq!(read(&bytes), Ok(Some((Some(at("192.0.2.1:1")), whole))));
    }

    #[test]
    fn what_is_no_header_is_known_at_once() {
        for wrong in [
            &b"GET / HTTP/1.0"[..],
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            b"PROXY \xff\r\n",
            b"\x01",
            &[&SIGNATURE[..], &[0x31, 0x11, 0, 0]].concat(),
            &[&SIGNATURE[..], &[0x21, 0x11, 0, 0]].concat(),
            &[&SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat(),
        ] {
            assert_eq!(read(wrong), Err(NoHeader), "{}", wrong.escape_ascii());
        }
        let endless = [LINE, &[b'x'; 200]].concat();
        assert_eq!(read(&endless), Err(NoHeader));
    }

    #[test]
    fn a_line_is_given_up_at_107_bytes_and_addresses_and_tlvs_beyond_4096() {
        let line = |len: usize| [LINE, &[b'x'; 200]].concat()[..len].to_vec();
        assert_eq!(read(&line(LONGEST_LINE - 1)), Ok(None));
        assert_eq!(read(&line(LONGEST_LINE)), Err(NoHeader));
        let begun = |rest: u16| [&SIGNATURE[..], &[PROXY, TCP4], &rest.to_be_bytes()].concat();
        assert_eq!(read(&begun(4_096)), Ok(None));
        assert_eq!(read(&begun(4_097)), Err(NoHeader));
    }
}
