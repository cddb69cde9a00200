//! Other addresses and ports for a packet, with its checksums repaired
//! (RFC 1624, RFC 3022 §4.2).

use std::net::{IpAddr, SocketAddr};

use crate::checksum;
use crate::icmp::Icmp;
use crate::ip::{self, Ip};

/// Which of a packet's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEnd {
    /// Who sent it.
    Source,
    /// To whom it goes.
    Destination,
}

/// Gives one end of a packet the address and port `to`, of its IP version; TCP, UDP and
/// ICMP echo (whose identifier stands for both ports, RFC 5508 §3.1) have ports, other
/// protocols keep what they have. Works on a packet that is cut, as errors quote it.
/// Whether it could be done.
pub fn set_end(bytes: &mut [u8], end: PacketEnd, to: SocketAddr) -> bool {
    let Ok(ip) = Ip::parse(bytes) else {
        return false;
    };
    let above = ip.header_len;
    let first = ip.fragment_offset == 0;
    // Where the checksum above IP stands, and whether it covers the addresses.
    let (port, sum, covers) = match ip.protocol {
        ip::TCP | ip::UDP if first => {
            let port = match end {
                PacketEnd::Source => above,
                PacketEnd::Destination => above + 2,
            };
            let sum = above + if ip.protocol == ip::TCP { 16 } else { 6 };
            (Some(port), Some(sum), true)
        }
        ip::ICMP | ip::ICMPV6 if first => {
            let echo = Icmp::echo_ident(ip.protocol, &bytes[above..]).map(|_| above + 4);
            (echo, Some(above + 2), ip.protocol == ip::ICMPV6)
        }
        _ => (None, None, false),
    };
    let field = match (end, to.ip(), ip.source) {
        (PacketEnd::Source, IpAddr::V4(_), IpAddr::V4(_)) => 12,
        (PacketEnd::Destination, IpAddr::V4(_), IpAddr::V4(_)) => 16,
        (PacketEnd::Source, IpAddr::V6(_), IpAddr::V6(_)) => 8,
        (PacketEnd::Destination, IpAddr::V6(_), IpAddr::V6(_)) => 24,
        _ => return false,
    };
    // A datagram over IPv4 may have no checksum (RFC 768).
    let sum = sum.filter(|at| {
        let absent = ip.protocol == ip::UDP && bytes.get(*at..at + 2) == Some(&[0, 0]);
        at + 2 <= bytes.len() && !absent
    });
    let mut set = |at: usize, new: [u8; 2], sums: [Option<usize>; 2]| {
        let Some(word) = bytes.get_mut(at..at + 2) else {
            return;
        };
        let old = u16::from_be_bytes([word[0], word[1]]);
        word.copy_from_slice(&new);
        for at in sums.into_iter().flatten() {
            let before = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let after = checksum::update(before, old, u16::from_be_bytes(new));
            bytes[at..at + 2].copy_from_slice(&after.to_be_bytes());
        }
    };
    let (v4, v6);
    let (octets, header): (&[u8], _) = match to.ip() {
        IpAddr::V4(a) => {
            v4 = a.octets();
            (&v4, Some(10))
        }
        IpAddr::V6(a) => {
            v6 = a.octets();
            (&v6, None)
        }
    };
    for (i, word) in octets.chunks_exact(2).enumerate() {
        let sums = [header, sum.filter(|_| covers)];
        set(field + 2 * i, [word[0], word[1]], sums);
    }
    if let Some(port) = port {
        set(port, to.port().to_be_bytes(), [sum, None]);
    }
    if let (ip::UDP, Some(at)) = (ip.protocol, sum) {
        if bytes[at..at + 2] == [0, 0] {
            bytes[at..at + 2].copy_from_slice(&[0xff, 0xff]);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use crate::{FlowKey, IpFields, TcpFields, UdpFields};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// A packet of `protocol` with a few bytes of payload.
    fn packet(protocol: u8, source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
        let (mut above, payload) = (Vec::new(), b"payload");
        let (from, to) = (source.ip(), destination.ip());
        match protocol {
            ip::UDP => UdpFields {
                source_port: source.port(),
                destination_port: destination.port(),
            }
            .write(&mut above, from, to, payload, 0),
            ip::TCP => TcpFields {
                source_port: source.port(),
                destination_port: destination.port(),
                seq: 7,
                ack: 9,
                window: 1000,
                ..TcpFields::default()
            }
            .write(&mut above, from, to, payload, 0),
            _ => Icmp::EchoRequest {
                ident: source.port(),
                seq: 1,
            }
            .write(&mut above, from, to, payload, 0),
        }
        let mut bytes = Vec::new();
        IpFields {
            source: from,
            destination: to,
            traffic_class: 0,
            ttl: 64,
            protocol,
            ident: 1,
        }
        .write(&mut bytes, above.len());
        bytes.extend(above);
        bytes
    }

    fn is_whole(bytes: &[u8]) -> bool {
        let ip = Ip::parse(bytes).unwrap();
        let above = &bytes[ip.header_len..];
        let mut sum = Sum::default();
        if ip.protocol != ip::ICMP {
            sum.add_pseudo_header(ip.source, ip.destination, ip.protocol, above.len() as u32);
        }
        sum.add(above);
        let header = !ip.source.is_ipv4() || checksum::of(&bytes[..20]) == 0;
        header && sum.finish() == 0
    }

    #[test]
    fn checksums_are_right_after_both_ends_were_changed() {
        for (a, b, c) in [
            ("10.0.0.1:1000", "10.0.0.2:2000", "192.0.2.7:3000"),
            ("[fd00::1]:1000", "[fd00::2]:2000", "[2001:db8::7]:3000"),
        ] {
            let (a, b, c) = (at(a), at(b), at(c));
            for protocol in [ip::TCP, ip::UDP, Icmp::protocol(a.ip())] {
                let mut bytes = packet(protocol, a, b);
                assert!(is_whole(&bytes));
                assert!(set_end(&mut bytes, PacketEnd::Source, c));
                assert!(is_whole(&bytes), "{protocol}");
                assert!(set_end(&mut bytes, PacketEnd::Destination, a));
                assert!(is_whole(&bytes), "{protocol}");
                let key = FlowKey::of(&bytes).unwrap();
                assert_eq!((key.source, key.destination), (c.ip(), a.ip()));
                if matches!(protocol, ip::TCP | ip::UDP) {
                    assert_eq!((key.source_port, key.destination_port), (3000, 1000));
                }
            }
        }
    }

    #[test]
    fn a_packet_cut_behind_its_ports_is_changed_as_far_as_it_is_there() {
        let mut bytes = packet(ip::TCP, at("10.0.0.1:1000"), at("10.0.0.2:2000"));
        bytes.truncate(28);
        assert!(set_end(&mut bytes, PacketEnd::Source, at("10.9.9.9:9")));
        let key = FlowKey::of(&bytes).unwrap();
        assert_eq!(key.source, at("10.9.9.9:9").ip());
        assert_eq!(key.source_port, 9);
        assert_eq!(checksum::of(&bytes[..20]), 0);
    }

    #[test]
    fn an_absent_checksum_stays_absent_and_another_version_is_refused() {
        let mut bytes = packet(ip::UDP, at("10.0.0.1:1000"), at("10.0.0.2:2000"));
        bytes[26..28].fill(0);
        assert!(set_end(&mut bytes, PacketEnd::Source, at("10.9.9.9:9")));
        assert_eq!(bytes[26..28], [0, 0]);
        assert!(!set_end(&mut bytes, PacketEnd::Source, at("[fd00::1]:9")));
    }
}
