//! The five fields that identify a flow.

use std::net::IpAddr;

use crate::ip::{self, Ip};

/// Addresses, ports and protocol of a packet. Ports are 0 where the protocol
/// has none or the packet is a later fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol number.
    pub protocol: u8,
}

impl FlowKey {
    /// Reads the key of a packet that starts at its IP header; `None` if it
    /// has no readable IP header.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let ip = Ip::parse(bytes).ok()?;
        let mut key = Self {
            source: ip.source,
            destination: ip.destination,
            source_port: 0,
            destination_port: 0,
            protocol: ip.protocol,
        };
        if matches!(ip.protocol, ip::TCP | ip::UDP) && ip.fragment_offset == 0 {
            if let Some([a, b, c, d]) = bytes.get(ip.header_len..ip.header_len + 4) {
                key.source_port = u16::from_be_bytes([*a, *b]);
                key.destination_port = u16::from_be_bytes([*c, *d]);
            }
        }
        Some(key)
    }

    /// The key of the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IpFields, UdpFields};
    use std::net::Ipv4Addr;

    fn datagram() -> Vec<u8> {
        let (source, destination) = (
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        );
        let mut bytes = Vec::new();
        let ip = IpFields {
            source,
            destination,
            traffic_class: 0,
            ttl: 64,
            protocol: ip::UDP,
            ident: 0,
        };
        ip.write(&mut bytes, 8);
        let udp = UdpFields {
            source_port: 1000,
            destination_port: 2000,
        };
        udp.write(&mut bytes, source, destination, &[], 0);
        bytes
    }

    #[test]
    fn the_two_directions_have_reversed_keys() {
        let key = FlowKey::of(&datagram()).unwrap();
        assert_eq!((key.source_port, key.destination_port), (1000, 2000));
        assert_eq!(key.reversed().reversed(), key);
        assert_eq!(key.reversed().source, key.destination);
        assert_eq!(key.reversed().source_port, 2000);
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut bytes = datagram();
        bytes[6..8].copy_from_slice(&[0, 1]);
        let key = FlowKey::of(&bytes).unwrap();
        assert_eq!((key.source_port, key.destination_port), (0, 0));
    }
}
