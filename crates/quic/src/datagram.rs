//! UDP datagrams with real bytes, as packets of a run and back.

use std::net::SocketAddr;

use narrows_core::{FlowId, Packet, PacketPool};
use narrows_units::Instant;
use narrows_wire::{Ecn, Ip, IpFields, Udp, UdpFields, ip, udp};

/// Default hop count, Linux's `ip_default_ttl`.
const TTL: u8 = 64;

/// Addresses and class of the datagrams that one end of a flow sends.
#[derive(Clone, Copy, Debug)]
pub struct Sealer {
    /// Where they come from.
    pub source: SocketAddr,
    /// Where they go.
    pub destination: SocketAddr,
    /// The code point, 0 to 63.
    pub dscp: u8,
    /// The flow, as the engine knows it.
    pub flow: Option<FlowId>,
    /// IPv4 identification of the next datagram.
    pub ident: u16,
}

impl Sealer {
    /// Bytes of IP and UDP header before the payload.
    pub const fn overhead(&self) -> usize {
        let ip = if self.source.is_ipv4() { 20 } else { 40 };
        ip + udp::HEADER_LEN
    }

    /// A packet with `payload` and then `zero_tail` zeros.
    pub fn seal(
        &mut self,
        now: Instant,
        pool: &mut PacketPool,
        ecn: Ecn,
        payload: &[u8],
        zero_tail: u32,
    ) -> Box<Packet> {
        let mut packet = pool.take(now, self.flow);
        IpFields {
            source: self.source.ip(),
            destination: self.destination.ip(),
            traffic_class: self.dscp << 2 | ecn as u8,
            ttl: TTL,
            protocol: ip::UDP,
            ident: u32::from(self.ident),
        }
        .write(
            &mut packet.bytes,
            udp::HEADER_LEN + payload.len() + zero_tail as usize,
        );
        UdpFields {
            source_port: self.source.port(),
            destination_port: self.destination.port(),
        }
        .write(
            &mut packet.bytes,
            self.source.ip(),
            self.destination.ip(),
            payload,
            zero_tail,
        );
        packet.zero_tail = zero_tail;
        // IPv6's flow label stays zero: the field is not an identification.
        if self.source.is_ipv4() {
            self.ident = self.ident.wrapping_add(1);
        }
        packet
    }
}

/// The stored part of the payload of a packet that holds a UDP datagram.
pub fn stored(packet: &Packet) -> Option<&[u8]> {
    let header = Ip::parse(&packet.bytes).ok()?;
    packet.bytes.get(header.header_len + udp::HEADER_LEN..)
}

/// The ECN field and the stored payload of a packet that is a whole UDP
/// datagram; `None` if its headers cannot be read or its payload is not
/// stored to the end.
pub fn open(packet: &Packet) -> Option<(Ecn, &[u8])> {
    let header = Ip::parse(&packet.bytes).ok()?;
    let datagram = packet.bytes.get(header.header_len..)?;
    let length = usize::from(Udp::parse(datagram).ok()?.length);
    Some((header.ecn(), datagram.get(udp::HEADER_LEN..length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_out_as_it_went_in_with_its_codepoint() {
        let mut pool = PacketPool::new();
        for (a, b) in [
            ("10.0.0.1:4433", "10.0.0.2:9"),
            ("[fd00::1]:4433", "[fd00::2]:9"),
        ] {
            let mut sealer = Sealer {
                source: a.parse().unwrap(),
                destination: b.parse().unwrap(),
                dscp: 46,
                flow: None,
                ident: 7,
            };
            let packet = sealer.seal(Instant::ZERO, &mut pool, Ecn::Ect0, b"payload", 0);
            assert_eq!(packet.len() as usize, sealer.overhead() + 7);
            assert_eq!(open(&packet), Some((Ecn::Ect0, b"payload".as_slice())));
            assert_eq!(ip::dscp(&packet.bytes), 46);
        }
    }

    #[test]
    fn a_payload_that_is_not_all_there_is_not_opened() {
        let mut pool = PacketPool::new();
        let mut sealer = Sealer {
            source: "10.0.0.1:1".parse().unwrap(),
            destination: "10.0.0.2:2".parse().unwrap(),
            dscp: 0,
            flow: None,
            ident: 0,
        };
        let mut packet = sealer.seal(Instant::ZERO, &mut pool, Ecn::NotEct, b"payload", 0);
        packet.bytes.truncate(30);
        packet.zero_tail = 5;
        assert_eq!(open(&packet), None);
    }
}
