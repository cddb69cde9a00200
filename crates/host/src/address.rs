//! Whose packet it is: addresses and ports read straight from the header.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use narrows_wire::ip;

/// Addresses and ports of a packet, as its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub protocol: u8,
    /// Where the header above IP starts.
    pub above: usize,
}

impl Addressing {
    /// Reads what a host needs to find the socket; `None` if the packet has
    /// no readable IP header or no ports.
    #[inline]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        // The common case without a general parse: IPv4 without options,
        // unfragmented, TCP or UDP.
        if let Some(h) = bytes.first_chunk::<24>() {
            let whole = u16::from_be_bytes([h[6], h[7]]) & 0x3fff == 0;
            if h[0] == 0x45 && whole && matches!(h[9], ip::TCP | ip::UDP) {
                let source = Ipv4Addr::new(h[12], h[13], h[14], h[15]);
                let destination = Ipv4Addr::new(h[16], h[17], h[18], h[19]);
                return Some(Self {
                    source: SocketAddr::from((source, u16::from_be_bytes([h[20], h[21]]))),
                    destination: SocketAddr::from((
                        destination,
                        u16::from_be_bytes([h[22], h[23]]),
                    )),
                    protocol: h[9],
                    above: 20,
                });
            }
        }
        let header = ip::Ip::parse(bytes).ok()?;
        let key = narrows_wire::FlowKey::of(bytes)?;
        Some(Self {
            source: SocketAddr::from((key.source, key.source_port)),
            destination: SocketAddr::from((key.destination, key.destination_port)),
            protocol: key.protocol,
            above: header.header_len,
        })
    }
}

/// An address as one number, by which it is found faster.
#[inline]
pub fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The source address of a packet.
pub fn source(bytes: &[u8]) -> Option<IpAddr> {
    address(bytes, 12, 8)
}

/// The destination address of a packet.
#[inline]
pub fn destination(bytes: &[u8]) -> Option<IpAddr> {
    address(bytes, 16, 24)
}

/// The address at `v4` or `v6`, by the packet's version.
#[inline]
fn address(bytes: &[u8], v4: usize, v6: usize) -> Option<IpAddr> {
    match bytes.first().map(|b| b >> 4) {
        Some(4) => Some(IpAddr::from(*bytes.get(v4..)?.first_chunk::<4>()?)),
        Some(6) => Some(IpAddr::from(*bytes.get(v6..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Takes one from the hop count, as a router does; `false` when it was used
/// up.
pub fn spend_hop(bytes: &mut [u8]) -> bool {
    match bytes.first().map(|b| b >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let old = u16::from_be_bytes([bytes[8], bytes[9]]);
            if bytes[8] <= 1 {
                return false;
            }
            bytes[8] -= 1;
            let new = u16::from_be_bytes([bytes[8], bytes[9]]);
            let sum = u16::from_be_bytes([bytes[10], bytes[11]]);
            let sum = narrows_wire::checksum::update(sum, old, new);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            true
        }
        Some(6) if bytes.len() >= 40 => {
            if bytes[7] <= 1 {
                return false;
            }
            bytes[7] -= 1;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::{IpFields, UdpFields};

    fn packet(source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let mut bytes = Vec::new();
        IpFields {
            source,
            destination,
            traffic_class: 0,
            ttl: 2,
            protocol: ip::UDP,
            ident: 7,
        }
        .write(&mut bytes, 8);
        UdpFields {
            source_port: 1000,
            destination_port: 2000,
        }
        .write(&mut bytes, source, destination, &[], 0);
        bytes
    }

    #[test]
    fn both_versions_are_read() {
        for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let bytes = packet(a, b);
            let read = Addressing::of(&bytes).unwrap();
            assert_eq!(read.source, SocketAddr::from((a, 1000)));
            assert_eq!(read.destination, SocketAddr::from((b, 2000)));
            assert_eq!(read.protocol, ip::UDP);
            assert_eq!(destination(&bytes), Some(b));
            assert_eq!(Addressing::of(&bytes[..10]), None);
        }
    }

    #[test]
    fn a_router_takes_one_hop_and_keeps_the_checksum_right() {
        let mut bytes = packet("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert!(spend_hop(&mut bytes));
        assert_eq!(bytes[8], 1);
        assert_eq!(narrows_wire::checksum::of(&bytes[..20]), 0);
        assert!(!spend_hop(&mut bytes));
    }
}
