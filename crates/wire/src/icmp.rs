//! ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443): echo and the errors that
//! hosts and routers of a path send.

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::error::Malformed;
use crate::ip::{self, Ip, IpFields};

/// Bytes of the header of every message that is read here.
pub const HEADER_LEN: usize = 8;

/// The largest ICMPv4 error in bytes, IP header included (RFC 1812 §4.3.2.3).
pub const MAX_ERROR_V4: usize = 576;

/// The largest ICMPv6 error in bytes, IP header included: the least MTU of
/// IPv6 (RFC 4443 §2.4(c)).
pub const MAX_ERROR_V6: usize = 1280;

/// What a message says, the same for both versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp {
    /// Asks for an answer.
    EchoRequest {
        /// Distinguishes the senders of requests.
        ident: u16,
        /// Counts its questions.
        seq: u16,
    },
    /// The answer.
    EchoReply {
        /// As in the request.
        ident: u16,
        /// As in the request.
        seq: u16,
    },
    /// No route to the destination.
    NoRoute,
    /// No socket at the destination port.
    PortUnreachable,
    /// Filtered by an administrator's rule.
    Prohibited,
    /// Larger than the next link takes and not to be fragmented.
    TooBig {
        /// The next link's MTU; 0 from an ICMPv4 router older than RFC 1191.
        mtu: u32,
    },
    /// The hop limit ran out in transit.
    TimeExceeded,
    /// Anything else, as it stands.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes after the checksum.
        rest: u32,
    },
}

impl Icmp {
    /// Reads the message at the start of `bytes`, which stand after an IP
    /// header whose protocol was `protocol` ([`ip::ICMP`] or [`ip::ICMPV6`]).
    /// What the message carries starts at [`HEADER_LEN`].
    ///
    /// # Errors
    /// When the header is cut, or `protocol` is neither.
    pub fn parse(protocol: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(&[kind, code, _, _, a, b, c, d]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated("ICMP header"));
        };
        let (ident, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let rest = u32::from_be_bytes([a, b, c, d]);
        let other = Self::Other { kind, code, rest };
        Ok(match protocol {
            ip::ICMP => match (kind, code) {
                (8, 0) => Self::EchoRequest { ident, seq },
                (0, 0) => Self::EchoReply { ident, seq },
                (3, 4) if ident == 0 => Self::TooBig {
                    mtu: u32::from(seq),
                },
                (3, 0) if rest == 0 => Self::NoRoute,
                (3, 3) if rest == 0 => Self::PortUnreachable,
                (3, 13) if rest == 0 => Self::Prohibited,
                (11, 0) if rest == 0 => Self::TimeExceeded,
                _ => other,
            },
            ip::ICMPV6 => match (kind, code) {
                (128, 0) => Self::EchoRequest { ident, seq },
                (129, 0) => Self::EchoReply { ident, seq },
                (2, 0) => Self::TooBig { mtu: rest },
                (1, 0) if rest == 0 => Self::NoRoute,
                (1, 4) if rest == 0 => Self::PortUnreachable,
                (1, 1) if rest == 0 => Self::Prohibited,
                (3, 0) if rest == 0 => Self::TimeExceeded,
                _ => other,
            },
            other => return Err(Malformed::Unsupported(other)),
        })
    }

    /// Type, code and the four bytes after the checksum.
    fn fields(self, v4: bool) -> (u8, u8, u32) {
        let pair = |ident: u16, seq: u16| u32::from(ident) << 16 | u32::from(seq);
        match (self, v4) {
            (Self::EchoRequest { ident, seq }, true) => (8, 0, pair(ident, seq)),
            (Self::EchoRequest { ident, seq }, false) => (128, 0, pair(ident, seq)),
            (Self::EchoReply { ident, seq }, true) => (0, 0, pair(ident, seq)),
            (Self::EchoReply { ident, seq }, false) => (129, 0, pair(ident, seq)),
            (Self::NoRoute, true) => (3, 0, 0),
            (Self::NoRoute, false) => (1, 0, 0),
            (Self::PortUnreachable, true) => (3, 3, 0),
            (Self::PortUnreachable, false) => (1, 4, 0),
            (Self::Prohibited, true) => (3, 13, 0),
            (Self::Prohibited, false) => (1, 1, 0),
            // RFC 1191 §4 has 16 bits for the MTU.
            (Self::TooBig { mtu }, true) => (3, 4, mtu.min(0xffff)),
            (Self::TooBig { mtu }, false) => (2, 0, mtu),
            (Self::TimeExceeded, true) => (11, 0, 0),
            (Self::TimeExceeded, false) => (3, 0, 0),
            (Self::Other { kind, code, rest }, _) => (kind, code, rest),
        }
    }

    /// The protocol number of ICMP between addresses like `address`.
    pub const fn protocol(address: IpAddr) -> u8 {
        if address.is_ipv4() {
            ip::ICMP
        } else {
            ip::ICMPV6
        }
    }

    /// Appends the message and `payload`; the checksum covers them and
    /// `zero_tail` zeros that follow, and with IPv6 the pseudo header too.
    pub fn write(
        self,
        out: &mut Vec<u8>,
        source: IpAddr,
        destination: IpAddr,
        payload: &[u8],
        zero_tail: u32,
    ) {
        let start = out.len();
        let (kind, code, rest) = self.fields(source.is_ipv4());
        out.extend_from_slice(&[kind, code, 0, 0]);
        out.extend_from_slice(&rest.to_be_bytes());
        out.extend_from_slice(payload);
        let mut sum = Sum::default();
        if !source.is_ipv4() {
            let length = (out.len() - start) as u32 + zero_tail;
            sum.add_pseudo_header(source, destination, ip::ICMPV6, length);
        }
        sum.add(&out[start..]);
        let sum = sum.finish();
        out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    }

    /// Whether it reports an error, and quotes the packet that it is about. All kinds
    /// that are not known to ask or answer count as errors (RFC 1122 §3.2.2, RFC 4443
    /// §2.4(e)).
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::EchoRequest { .. } | Self::EchoReply { .. })
    }

    /// The identifier of the echo request or reply at the start of `bytes`.
    pub fn echo_ident(protocol: u8, bytes: &[u8]) -> Option<u16> {
        match Self::parse(protocol, bytes).ok()? {
            Self::EchoRequest { ident, .. } | Self::EchoReply { ident, .. } => Some(ident),
            _ => None,
        }
    }

    /// Appends a whole packet from `from` that reports this error of `packet` to its
    /// source; `zero_tail` zeros follow `packet` on the wire. Returns how many of them
    /// the quotation has, which are not appended; `None`, and nothing is appended, where
    /// none may be sent: about an error, a fragment other than the first, or what went
    /// to or came from no single host (RFC 1122 §3.2.2, RFC 4443 §2.4(e)).
    pub fn report(
        self,
        out: &mut Vec<u8>,
        from: IpAddr,
        packet: &[u8],
        zero_tail: u32,
    ) -> Option<u32> {
        /// Of errors over IPv4: precedence 6 (RFC 1812 §4.3.2.5).
        const INTERNETWORK_CONTROL: u8 = 0xc0;
        let ip = Ip::parse(packet).ok()?;
        let single = |a: IpAddr| !a.is_multicast() && !a.is_unspecified();
        let about_error = matches!(ip.protocol, ip::ICMP | ip::ICMPV6)
            && Self::parse(ip.protocol, &packet[ip.header_len..]).map_or(true, Self::is_error);
        let v4 = from.is_ipv4();
        if ip.fragment_offset > 0
            || about_error
            || !single(ip.source)
            || !single(ip.destination)
            || v4 != ip.source.is_ipv4()
        {
            return None;
        }
        let quoted = Self::quoted_len(v4, packet.len() + zero_tail as usize);
        let stored = quoted.min(packet.len());
        let zeros = (quoted - stored) as u32;
        IpFields {
            source: from,
            destination: ip.source,
            traffic_class: if v4 { INTERNETWORK_CONTROL } else { 0 },
            ttl: 64,
            protocol: Self::protocol(from),
            ident: 0,
        }
        .write(out, HEADER_LEN + quoted);
        self.write(out, from, ip.source, &packet[..stored], zeros);
        Some(zeros)
    }

    /// The packet that the error at the start of `bytes` quotes; `None` of what is no
    /// error.
    pub fn quoted(protocol: u8, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let message = Self::parse(protocol, bytes).ok()?;
        message.is_error().then(|| (message, &bytes[HEADER_LEN..]))
    }

    /// Sets the checksum of the message in a whole packet, after what it carries was
    /// changed.
    pub fn seal(packet: &mut [u8]) {
        let Ok(ip) = Ip::parse(packet) else { return };
        let length = ip.total_len.saturating_sub(ip.header_len) as u32;
        let Some(message) = packet.get_mut(ip.header_len..) else {
            return;
        };
        if message.len() < HEADER_LEN {
            return;
        }
        message[2..4].fill(0);
        let mut sum = Sum::default();
        if !ip.source.is_ipv4() {
            sum.add_pseudo_header(ip.source, ip.destination, ip::ICMPV6, length);
        }
        sum.add(message);
        message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    }

    /// How many bytes of a packet of `packet_len` an error about it quotes:
    /// as many as fit [`MAX_ERROR_V4`] or [`MAX_ERROR_V6`].
    pub fn quoted_len(v4: bool, packet_len: usize) -> usize {
        let room = if v4 {
            MAX_ERROR_V4 - 20
        } else {
            MAX_ERROR_V6 - 40
        };
        packet_len.min(room - HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const MESSAGES: [Icmp; 8] = [
        Icmp::EchoRequest { ident: 7, seq: 9 },
        Icmp::EchoReply { ident: 7, seq: 9 },
        Icmp::NoRoute,
        Icmp::PortUnreachable,
        Icmp::Prohibited,
        Icmp::TooBig { mtu: 1400 },
        Icmp::TimeExceeded,
        Icmp::Other {
            kind: 5,
            code: 1,
            rest: 0x0a00_0001,
        },
    ];

    #[test]
    fn every_message_reads_back_in_both_versions_and_sums_to_ones() {
        let v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let v6 = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        for address in [v4, v6] {
            let protocol = Icmp::protocol(address);
            for message in MESSAGES {
                let mut out = Vec::new();
                message.write(&mut out, address, address, b"quote", 3);
                assert_eq!(Icmp::parse(protocol, &out), Ok(message));
                out.extend_from_slice(&[0; 3]);
                let mut sum = Sum::default();
                if address.is_ipv6() {
                    sum.add_pseudo_header(address, address, protocol, out.len() as u32);
                }
                sum.add(&out);
                assert_eq!(sum.finish(), 0, "{message:?}");
            }
        }
    }

    #[test]
    fn an_error_never_exceeds_576_or_1280_bytes() {
        assert_eq!(20 + 8 + Icmp::quoted_len(true, 1500), 576);
        assert_eq!(40 + 8 + Icmp::quoted_len(false, 1500), 1280);
        assert_eq!(Icmp::quoted_len(true, 60), 60);
    }

    #[test]
    fn a_report_quotes_the_packet_and_is_never_about_an_error() {
        for (a, b, router) in [
            ("10.0.0.1", "10.0.0.2", "10.0.0.9"),
            ("fd00::1", "fd00::2", "fd00::9"),
        ] {
            let [a, b, router]: [IpAddr; 3] = [a, b, router].map(|t| t.parse().unwrap());
            let mut packet = Vec::new();
            let ip = IpFields {
                source: a,
                destination: b,
                traffic_class: 0,
                ttl: 64,
                protocol: ip::UDP,
                ident: 0,
            };
            ip.write(&mut packet, 1400);
            packet.extend_from_slice(&[1; 8]);
            let tail = 1392;
            let mut out = Vec::new();
            let error = Icmp::TooBig { mtu: 1300 };
            let zeros = error.report(&mut out, router, &packet, tail).unwrap();
            out.resize(out.len() + zeros as usize, 0);
            let read = Ip::parse(&out).unwrap();
            assert_eq!(read.total_len, out.len());
            assert_eq!((read.source, read.destination), (router, a));
            let quoted = Icmp::quoted(read.protocol, &out[read.header_len..]).unwrap();
            assert_eq!(quoted.0, error);
            assert!(quoted.1.starts_with(&packet));
            let most = if a.is_ipv4() {
                MAX_ERROR_V4
            } else {
                MAX_ERROR_V6
            };
            assert_eq!(out.len(), most);
            let sealed = out.clone();
            Icmp::seal(&mut out);
            assert_eq!(out, sealed, "its checksum was right");
            assert_eq!(error.report(&mut Vec::new(), router, &out, 0), None);
        }
    }

    #[test]
    fn another_protocol_and_a_cut_header_are_refused() {
        assert_eq!(
            Icmp::parse(ip::TCP, &[0; 8]),
            Err(Malformed::Unsupported(ip::TCP))
        );
        assert_eq!(
            Icmp::parse(ip::ICMP, &[8, 0, 0]),
            Err(Malformed::Truncated("ICMP header"))
        );
    }
}
