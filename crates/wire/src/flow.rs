//! The five fields by which flows are told apart.

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
