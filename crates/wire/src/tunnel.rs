//! Packets inside packets: IP in IP (RFC 2003, RFC 4213), GRE (RFC 2784, RFC 2890), VXLAN
//! (RFC 7348) and Geneve (RFC 8926).

use crate::ip::{self, Ip};
use crate::link::{self, LinkType};

/// Protocol numbers of IPv4 in IP, IPv6 in IP, and GRE.
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
/// Destination ports of VXLAN and Geneve.
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
/// The protocol of GRE and Geneve that is an Ethernet frame.
const ETHERNET: u16 = 0x6558;

/// Tunnels inside tunnels that are opened.
const DEEPEST: usize = 8;

/// The packet in the innermost tunnel of a packet that starts at its IP header, to the
/// end of the bytes that were kept; the packet itself if it is none of a tunnel, or if
/// what is inside is no IP packet, or a later fragment.
pub fn innermost(packet: &[u8]) -> &[u8] {
    let mut packet = packet;
    for _ in 0..DEEPEST {
        match inner(packet) {
            Some(inside) => packet = inside,
            None => break,
        }
    }
    packet
}

/// The IP packet in the outermost tunnel.
fn inner(packet: &[u8]) -> Option<&[u8]> {
    let ip = Ip::parse(packet).ok()?;
    if ip.fragment_offset > 0 {
        return None;
    }
    let above = packet.get(ip.header_len..)?;
    match ip.protocol {
        IPV4 => link::above(link::ETHERTYPE_IPV4, above),
        IPV6 => link::above(link::ETHERTYPE_IPV6, above),
        GRE => gre(above),
        ip::UDP => match above {
            [_, _, a, b, _, _, _, _, payload @ ..] => match u16::from_be_bytes([*a, *b]) {
                VXLAN_PORT => vxlan(payload),
                GENEVE_PORT => geneve(payload),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// What a protocol number of GRE or Geneve announces.
fn announced(protocol: u16, bytes: &[u8]) -> Option<&[u8]> {
    match protocol {
        ETHERNET => link::ip_packet(LinkType::ETHERNET, bytes),
        // In an Ethernet header these would be lengths; here they mean nothing.
        0..=1500 => None,
        _ => link::above(protocol, bytes),
    }
}

fn gre(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    // Checksum, key and sequence number each add four bytes. Routing (RFC 1701) and
    // other versions are not read.
    let [flags, version, a, b] = *head;
    if flags & 0x40 != 0 || version & 7 != 0 {
        return None;
    }
    let options = 4 * (flags & 0xb0).count_ones() as usize;
    announced(u16::from_be_bytes([a, b]), rest.get(options..)?)
}

fn vxlan(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    // The flag I says that there is a network identifier.
    (head[0] & 8 != 0).then(|| link::ip_packet(LinkType::ETHERNET, rest))?
}

fn geneve(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    if head[0] >> 6 != 0 {
        return None;
    }
    let options = 4 * usize::from(head[0] & 0x3f);
    let protocol = u16::from_be_bytes([head[2], head[3]]);
    announced(protocol, rest.get(options..)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpFields;

    /// An IPv4 packet of this protocol that holds these bytes.
    fn outer(protocol: u8, above: &[u8]) -> Vec<u8> {
        let fields = IpFields {
            source: [192, 0, 2, 1].into(),
            destination: [192, 0, 2, 2].into(),
            traffic_class: 0,
            ttl: 64,
            protocol,
            ident: 0,
        };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, above.len());
        bytes.extend_from_slice(above);
        bytes
    }

    fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
        let [a, b] = port.to_be_bytes();
        let head = [0xc0, 0, a, b, 0, 8 + payload.len() as u8, 0, 0];
        outer(ip::UDP, &[&head[..], payload].concat())
    }

    #[test]
    fn the_packet_inside_each_tunnel_is_found() {
        let inside = outer(ip::TCP, &[7; 24]);
        let ether = [&[0; 12][..], &[8, 0], &inside].concat();
        let cat = |head: &[u8], rest: &[u8]| [head, rest].concat();
        for (name, packet) in [
            ("ipip", outer(4, &inside)),
            ("gre", outer(47, &cat(&[0, 0, 8, 0], &inside))),
            (
                "gre with key and sequence",
                outer(47, &cat(&[0x30, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2], &inside)),
            ),
            ("gretap", outer(47, &cat(&[0, 0, 0x65, 0x58], &ether))),
            (
                "vxlan",
                datagram(4789, &cat(&[8, 0, 0, 0, 0, 0, 7, 0], &ether)),
            ),
            (
                "geneve with an option",
                datagram(
                    6081,
                    &cat(&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4], &ether),
                ),
            ),
            (
                "gre in vxlan",
                datagram(
                    4789,
                    &cat(
                        &[8, 0, 0, 0, 0, 0, 7, 0],
                        &cat(
                            &cat(&[0; 12], &[8, 0]),
                            &outer(47, &cat(&[0, 0, 8, 0], &inside)),
                        ),
                    ),
                ),
            ),
        ] {
            assert_eq!(innermost(&packet), inside, "{name}");
        }
    }

    #[test]
    fn what_holds_no_packet_is_itself() {
        for packet in [
            outer(ip::TCP, &[0x45; 40]),
            outer(47, &[0x40, 0, 8, 0, 0x45]),
            outer(47, &[0, 1, 8, 0, 0x45]),
            outer(4, &[0x15; 40]),
            datagram(4789, &[0; 30]),
            datagram(53, &[8; 30]),
            vec![0x45],
        ] {
            assert_eq!(innermost(&packet), packet);
        }
    }
}
