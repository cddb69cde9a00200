//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::error::Malformed;

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Next header of IPv6's hop-by-hop options.
const HOP_BY_HOP: u8 = 0;
/// Next header where nothing follows (RFC 8200 §4.7).
const NO_NEXT_HEADER: u8 = 59;

/// The two ECN bits of an IP header (RFC 3168 §5, RFC 8311, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, identifies L4S.
    Ect1 = 1,
    /// ECN-capable, classic.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// From the two low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The traffic class byte (DSCP and ECN) of a packet that starts with a
/// complete IP header; 0 if it starts with neither version.
pub fn traffic_class(bytes: &[u8]) -> u8 {
    match bytes {
        [a, b, ..] if a >> 4 == 4 => *b,
        [a, b, ..] if a >> 4 == 6 => a << 4 | b >> 4,
        _ => 0,
    }
}

/// The ECN bits of a packet.
pub fn ecn(bytes: &[u8]) -> Ecn {
    Ecn::from_bits(traffic_class(bytes))
}

/// The DSCP of a packet.
pub fn dscp(bytes: &[u8]) -> u8 {
    traffic_class(bytes) >> 2
}

/// Sets the traffic class byte, and with IPv4 the header checksum.
pub fn set_traffic_class(bytes: &mut [u8], class: u8) {
    match bytes.first().map(|b| b >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let old = u16::from_be_bytes([bytes[0], bytes[1]]);
            bytes[1] = class;
            let new = u16::from_be_bytes([bytes[0], bytes[1]]);
            let sum = checksum::update(u16::from_be_bytes([bytes[10], bytes[11]]), old, new);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if bytes.len() >= 2 => {
            bytes[0] = 0x60 | class >> 4;
            bytes[1] = class << 4 | bytes[1] & 0x0f;
        }
        _ => {}
    }
}

/// Sets the ECN bits.
pub fn set_ecn(bytes: &mut [u8], ecn: Ecn) {
    let class = traffic_class(bytes);
    set_traffic_class(bytes, class & !3 | ecn as u8);
}

/// Sets the DSCP and leaves ECN alone.
pub fn set_dscp(bytes: &mut [u8], dscp: u8) {
    let class = traffic_class(bytes);
    set_traffic_class(bytes, dscp << 2 | class & 3);
}

/// Takes one from the hops left, as a router does, and with IPv4 sets the header checksum
/// (RFC 1812 §5.3.1, RFC 8200 §3); nothing where none is left or the header is cut.
pub fn take_hop(bytes: &mut [u8]) {
    match bytes.first().map(|b| b >> 4) {
        Some(4) if bytes.len() >= 20 && bytes[8] > 0 => {
            let old = u16::from_be_bytes([bytes[8], bytes[9]]);
            bytes[8] -= 1;
            let new = u16::from_be_bytes([bytes[8], bytes[9]]);
            let sum = checksum::update(u16::from_be_bytes([bytes[10], bytes[11]]), old, new);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if bytes.len() >= 8 && bytes[7] > 0 => bytes[7] -= 1,
        _ => {}
    }
}

/// A checked IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hops left.
    pub ttl: u8,
    /// The protocol above, after any extension headers that were skipped.
    pub protocol: u8,
    /// Bytes from the start of the packet to the header above.
    pub header_len: usize,
    /// Bytes of the whole packet as its header says.
    pub total_len: usize,
    /// IPv4 identification, or the IPv6 flow label.
    pub ident: u32,
    /// Offset in bytes of this fragment, 0 for the first or only one.
    pub fragment_offset: u16,
    /// Whether more fragments follow.
    pub more_fragments: bool,
}

impl Ip {
    /// Reads the header at the start of `bytes`. The payload need not be
    /// complete: captures and counted zero tails cut it.
    ///
    /// # Errors
    /// When the header is cut or contradicts itself.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::parse_cut(bytes, 0)
    }

    /// Reads the header of a packet of which a capture has kept `bytes` and not the
    /// `cut` bytes after them. Both together are its length where the header has none:
    /// packets that are cut into segments only after a capture has seen them (TSO, and
    /// BIG TCP above 64 KiB) have a total length of 0, or a payload length of 0
    /// without the jumbo payload option (RFC 2675) that holds the true one.
    ///
    /// # Errors
    /// When the header is cut or contradicts itself.
    #[inline]
    pub fn parse_cut(bytes: &[u8], cut: u32) -> Result<Self, Malformed> {
        let on_wire = bytes.len().saturating_add(cut as usize);
        match bytes.first().map(|b| b >> 4) {
            Some(4) => Self::parse_v4(bytes, on_wire),
            Some(6) => Self::parse_v6(bytes, on_wire),
            Some(_) => Err(Malformed::Invalid("IP version")),
            None => Err(Malformed::Truncated("IP header")),
        }
    }

    #[inline]
    fn parse_v4(b: &[u8], on_wire: usize) -> Result<Self, Malformed> {
        if b.len() < 20 {
            return Err(Malformed::Truncated("IPv4 header"));
        }
        let header_len = usize::from(b[0] & 0x0f) * 4;
        let total_len = match u16::from_be_bytes([b[2], b[3]]) {
            0 => on_wire,
            total => usize::from(total),
        };
        if header_len < 20 || total_len < header_len {
            return Err(Malformed::Invalid("IPv4 header length"));
        }
        if b.len() < header_len {
            return Err(Malformed::Truncated("IPv4 options"));
        }
        let fragment = u16::from_be_bytes([b[6], b[7]]);
        Ok(Self {
            source: IpAddr::V4(Ipv4Addr::new(b[12], b[13], b[14], b[15])),
            destination: IpAddr::V4(Ipv4Addr::new(b[16], b[17], b[18], b[19])),
            traffic_class: b[1],
            ttl: b[8],
            protocol: b[9],
            header_len,
            total_len,
            ident: u32::from(u16::from_be_bytes([b[4], b[5]])),
            fragment_offset: (fragment & 0x1fff) << 3,
            more_fragments: fragment & 0x2000 != 0,
        })
    }

    fn parse_v6(b: &[u8], on_wire: usize) -> Result<Self, Malformed> {
        if b.len() < 40 {
            return Err(Malformed::Truncated("IPv6 header"));
        }
        let payload_len = match u16::from_be_bytes([b[4], b[5]]) {
            0 if b[6] != NO_NEXT_HEADER => jumbo_payload(b).unwrap_or(on_wire - 40),
            payload => usize::from(payload),
        };
        let address = |at: usize| {
            let mut octets = [0u8; 16];
            octets.copy_from_slice(&b[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let mut ip = Self {
            source: address(8),
            destination: address(24),
            traffic_class: traffic_class(b),
            ttl: b[7],
            protocol: b[6],
            header_len: 40,
            total_len: 40 + payload_len,
            ident: u32::from_be_bytes([0, b[1] & 0x0f, b[2], b[3]]),
            fragment_offset: 0,
            more_fragments: false,
        };
        // Each extension header takes at least 8 bytes, so the chain ends.
        while matches!(ip.protocol, HOP_BY_HOP | 43 | 44 | 51 | 60 | 135) {
            let at = ip.header_len;
            let Some(h) = b.get(at..at + 8) else {
                return Err(Malformed::Truncated("IPv6 extension header"));
            };
            let len = match ip.protocol {
                44 => {
                    let field = u16::from_be_bytes([h[2], h[3]]);
                    ip.fragment_offset = field & 0xfff8;
                    ip.more_fragments = field & 1 != 0;
                    8
                }
                51 => (usize::from(h[1]) + 2) * 4,
                _ => (usize::from(h[1]) + 1) * 8,
            };
            ip.protocol = h[0];
            ip.header_len += len;
            if ip.header_len > ip.total_len {
                return Err(Malformed::Invalid("IPv6 extension length"));
            }
            if ip.fragment_offset > 0 {
                break;
            }
        }
        if b.len() < ip.header_len {
            return Err(Malformed::Truncated("IPv6 extension header"));
        }
        Ok(ip)
    }

    /// The ECN bits.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class)
    }

    /// The DSCP.
    pub fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }
}

/// The length in the jumbo payload option (RFC 2675 §2) of an IPv6 packet, which stands
/// among the hop-by-hop options that come first; `None` if it has no such option.
fn jumbo_payload(packet: &[u8]) -> Option<usize> {
    const PAD1: u8 = 0;
    const JUMBO: u8 = 0xc2;
    if packet[6] != HOP_BY_HOP {
        return None;
    }
    let header = packet.get(40..)?;
    let len = (usize::from(*header.get(1)?) + 1) * 8;
    let mut options = header.get(2..len)?;
    loop {
        options = match options {
            [JUMBO, 4, a, b, c, d, ..] => {
                return Some(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            }
            [PAD1, rest @ ..] => rest,
            [_, len, rest @ ..] => rest.get(usize::from(*len)..)?,
            _ => return None,
        };
    }
}

/// What goes into an IP header that is written here: no options, no
/// extension headers, not a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFields {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same version; an IPv4 address beside an
    /// IPv6 one is written in its mapped form.
    pub destination: IpAddr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hops left.
    pub ttl: u8,
    /// The protocol above.
    pub protocol: u8,
    /// IPv4 identification (low 16 bits) or IPv6 flow label (low 20 bits).
    pub ident: u32,
}

impl IpFields {
    /// Length in bytes of the header that [`write`](Self::write) appends.
    pub const fn header_len(&self) -> usize {
        if self.source.is_ipv4() && self.destination.is_ipv4() {
            20
        } else {
            40
        }
    }

    /// Appends the header of a packet with `payload_len` bytes above IP. IPv4
    /// packets carry "don't fragment". `payload_len` must fit the header's
    /// length field.
    pub fn write(&self, out: &mut Vec<u8>, payload_len: usize) {
        debug_assert!(
            payload_len
                <= if self.header_len() == 20 {
                    65_515
                } else {
                    65_535
                },
            "an IP payload of {payload_len} bytes"
        );
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut h = [0u8; 20];
                h[0] = 0x45;
                h[1] = self.traffic_class;
                h[2..4].copy_from_slice(&((payload_len + 20) as u16).to_be_bytes());
                h[4..6].copy_from_slice(&(self.ident as u16).to_be_bytes());
                h[6] = 0x40;
                h[8] = self.ttl;
                h[9] = self.protocol;
                h[12..16].copy_from_slice(&source.octets());
                h[16..20].copy_from_slice(&destination.octets());
                let sum = checksum::of(&h);
                h[10..12].copy_from_slice(&sum.to_be_bytes());
                out.extend_from_slice(&h);
            }
            (source, destination) => {
                let mut h = [0u8; 40];
                let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.ident & 0xf_ffff;
                h[..4].copy_from_slice(&first.to_be_bytes());
                h[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
                h[6] = self.protocol;
                h[7] = self.ttl;
                h[8..24].copy_from_slice(&v6(source).octets());
                h[24..40].copy_from_slice(&v6(destination).octets());
                out.extend_from_slice(&h);
            }
        }
    }
}

/// The address itself, or its IPv4-mapped form.
fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv6 with a hop-by-hop header, then a fragment header, then UDP.
    fn v6_fragment(offset: u16, more: bool) -> Vec<u8> {
        let fields = IpFields {
            source: IpAddr::V6(Ipv6Addr::LOCALHOST),
            destination: IpAddr::V6(Ipv6Addr::LOCALHOST),
            traffic_class: 0,
            ttl: 64,
            protocol: 0,
            ident: 0x12345,
        };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, 24);
        bytes.extend_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
        let field = (offset | u16::from(more)).to_be_bytes();
        bytes.extend_from_slice(&[UDP, 0, field[0], field[1], 0, 0, 0, 7]);
        bytes.extend_from_slice(&[0; 8]);
        bytes
    }

    #[test]
    fn a_hop_is_taken_and_the_header_checksum_still_adds_up() {
        for (source, last) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let fields = IpFields {
                source: source.parse().unwrap(),
                destination: last.parse().unwrap(),
                traffic_class: 0xb9,
                ttl: 2,
                protocol: UDP,
                ident: 0x1234,
            };
            let mut bytes = Vec::new();
            let sum =
                |bytes: &[u8]| matches!(fields.source, IpAddr::V4(_)).then(|| checksum::of(bytes));
            fields.write(&mut bytes, 0);
            for expected in [1, 0, 0] {
                take_hop(&mut bytes);
                assert_eq!(Ip::parse(&bytes).unwrap().ttl, expected);
                assert_eq!(sum(&bytes).unwrap_or(0), 0);
            }
            let mut cut = bytes[..7].to_vec();
            take_hop(&mut cut);
            assert_eq!(cut, bytes[..7]);
        }
    }

    #[test]
    fn a_packet_that_offload_left_without_a_length_is_as_long_as_its_frame() {
        let fields = |v6: bool| {
            let address = |v6: bool| -> IpAddr {
                match v6 {
                    true => Ipv6Addr::LOCALHOST.into(),
                    false => Ipv4Addr::LOCALHOST.into(),
                }
            };
            IpFields {
                source: address(v6),
                destination: address(v6),
                traffic_class: 0,
                ttl: 64,
                protocol: TCP,
                ident: 0,
            }
        };
        for v6 in [false, true] {
            let mut bytes = Vec::new();
            fields(v6).write(&mut bytes, 100);
            let field = if v6 { 4..6 } else { 2..4 };
            bytes[field].fill(0);
            bytes.resize(bytes.len() + 60, 0);
            let whole = Ip::parse(&bytes).unwrap();
            assert_eq!(whole.total_len, bytes.len());
            let cut = Ip::parse_cut(&bytes, 180_000).unwrap();
            assert_eq!(cut.total_len, bytes.len() + 180_000);
        }
        // Nothing may follow "no next header".
        let mut empty = Vec::new();
        IpFields {
            protocol: NO_NEXT_HEADER,
            ..fields(true)
        }
        .write(&mut empty, 0);
        empty.resize(60, 0);
        assert_eq!(Ip::parse(&empty).unwrap().total_len, 40);
    }

    #[test]
    fn the_jumbo_payload_option_has_the_length_wherever_it_stands() {
        for options in [
            &[0xc2, 4, 0, 2, 0, 0][..],
            &[5, 2, 0, 0, 0xc2, 4, 0, 2, 0, 0, 1, 2, 0, 0],
            &[0, 0, 1, 4, 0, 0, 0, 0, 0xc2, 4, 0, 2, 0, 0],
        ] {
            let mut bytes = v6_fragment(0, false)[..40].to_vec();
            bytes[4..6].fill(0);
            bytes.extend_from_slice(&[TCP, (options.len() / 8) as u8]);
            bytes.extend_from_slice(options);
            bytes.extend_from_slice(&[0; 20]);
            let ip = Ip::parse(&bytes).unwrap();
            assert_eq!(ip.total_len, 40 + 0x2_0000, "{options:?}");
            assert_eq!((ip.protocol, ip.header_len), (TCP, 42 + options.len()));
        }
        // Shorter than the header that holds it.
        let mut bytes = v6_fragment(0, false)[..40].to_vec();
        bytes[4..6].fill(0);
        bytes.extend_from_slice(&[TCP, 0, 0xc2, 4, 0, 0, 0, 3]);
        assert!(Ip::parse(&bytes).is_err());
    }

    #[test]
    fn extension_headers_are_skipped_and_a_first_fragment_shows_its_transport() {
        let ip = Ip::parse(&v6_fragment(0, true)).unwrap();
        assert_eq!((ip.protocol, ip.header_len, ip.total_len), (UDP, 56, 64));
        assert_eq!(ip.ident, 0x12345);
        assert!(ip.more_fragments);
    }

    #[test]
    fn a_later_fragment_says_where_it_belongs() {
        let ip = Ip::parse(&v6_fragment(1448, false)).unwrap();
        assert_eq!((ip.fragment_offset, ip.more_fragments), (1448, false));
    }

    #[test]
    fn headers_that_contradict_themselves_are_refused() {
        let mut v4 = [0u8; 20];
        v4[0] = 0x44;
        assert_eq!(
            Ip::parse(&v4),
            Err(Malformed::Invalid("IPv4 header length"))
        );
        v4[0] = 0x46;
        v4[3] = 24;
        assert_eq!(Ip::parse(&v4), Err(Malformed::Truncated("IPv4 options")));
        assert_eq!(Ip::parse(&[]), Err(Malformed::Truncated("IP header")));
        assert_eq!(Ip::parse(&[0x10]), Err(Malformed::Invalid("IP version")));
        let mut long = v6_fragment(0, false);
        long[41] = 9; // a hop-by-hop header of 80 bytes in a packet of 64
        assert_eq!(
            Ip::parse(&long),
            Err(Malformed::Invalid("IPv6 extension length"))
        );
    }

    #[test]
    fn bytes_of_no_ip_version_have_no_traffic_class_and_take_none() {
        let mut bytes = [0xf0, 0xff, 1, 2];
        set_ecn(&mut bytes, Ecn::Ce);
        assert_eq!(bytes, [0xf0, 0xff, 1, 2]);
        assert_eq!(ecn(&bytes), Ecn::NotEct);
    }
}
