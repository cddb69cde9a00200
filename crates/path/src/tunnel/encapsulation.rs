//! The headers of a tunnel.

use std::net::IpAddr;

use narrows_core::Packet;
use narrows_wire::{Ip, IpFields, Udp, UdpFields, checksum, ip, udp};

/// ESP (RFC 4303).
const ESP: u8 = 50;
/// Hops that an outer header begins with: Linux's default (`sysctl_ip_default_ttl`).
const TTL: u8 = 64;
/// Bytes of a WireGuard data message before what it carries: type, receiver, counter (the
/// WireGuard paper, §5.4.6), and the authentication tag behind it.
const WIREGUARD_HEADER: usize = 16;
const WIREGUARD_TAG: u32 = 16;
/// What is carried is padded to a multiple of 16 bytes, yet not above the tunnel's MTU
/// (`calculate_skb_padding` of drivers/net/wireguard/send.c, Linux 6.12).
const WIREGUARD_PADDED: u32 = 16;
/// Of ESP with AES-GCM and a tag of 16 bytes (RFC 4106): SPI, sequence number and
/// initialisation vector before what is carried; behind it, where all is padded to a multiple
/// of four, padding length and next header, and the tag.
const ESP_HEADER: usize = 16;
const ESP_TRAILER: u32 = 2;
const ESP_TAG: u32 = 16;
/// An SPI, of which 0 to 255 are reserved (RFC 4303 §2.1).
const SPI: u32 = 0x100;

/// What a packet in a tunnel is wrapped in. Nothing is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// A WireGuard data message in UDP.
    WireGuard,
    /// IP in UDP, as Linux's foo-over-UDP.
    Fou,
    /// ESP in tunnel mode.
    Ipsec,
}

impl Encapsulation {
    /// How it is called.
    pub(super) const NAMES: &'static [(&'static str, Self)] = &[
        ("wireguard", Self::WireGuard),
        ("fou", Self::Fou),
        ("ipsec", Self::Ipsec),
    ];

    /// Its port: WireGuard's default (`ip-wireguard(8)`), and what `ip-fou(8)` has in its
    /// examples.
    pub(super) const fn port(self) -> Option<u16> {
        match self {
            Self::WireGuard => Some(51_820),
            Self::Fou => Some(5555),
            Self::Ipsec => None,
        }
    }

    /// Whether its packets are numbered.
    pub(super) const fn is_numbered(self) -> bool {
        !matches!(self, Self::Fou)
    }

    /// Bytes between the outer IP header and the packet that is carried.
    const fn header(self) -> usize {
        match self {
            Self::WireGuard => udp::HEADER_LEN + WIREGUARD_HEADER,
            Self::Fou => udp::HEADER_LEN,
            Self::Ipsec => ESP_HEADER,
        }
    }

    /// Where in a packet with this outer header the one that is carried begins.
    pub(super) const fn begins(self, outer: &Ip) -> usize {
        outer.header_len + self.header()
    }

    /// Bytes behind a packet of `len` in a tunnel with this MTU.
    const fn trailer(self, len: u32, mtu: u32) -> u32 {
        match self {
            Self::WireGuard => {
                let padded = len.next_multiple_of(WIREGUARD_PADDED);
                let most = if mtu < padded { mtu } else { padded };
                most.saturating_sub(len) + WIREGUARD_TAG
            }
            Self::Fou => 0,
            Self::Ipsec => (len + ESP_TRAILER).next_multiple_of(4) - len + ESP_TAG,
        }
    }

    /// The destination and source port of a packet with the outer header `ip`, of which `above`
    /// follows that; 0 for ESP's. `None` if no tunnel of this kind sends it: it is of another
    /// protocol, or its SPI is another.
    pub(super) fn ports(self, ip: &Ip, above: &[u8]) -> Option<(u16, u16)> {
        if ip.fragment_offset > 0 {
            return None;
        }
        match self {
            Self::WireGuard | Self::Fou if ip.protocol == ip::UDP => {
                let udp = Udp::parse(above).ok()?;
                Some((udp.destination_port, udp.source_port))
            }
            Self::Ipsec if ip.protocol == ESP => {
                (above.get(..4)? == SPI.to_be_bytes()).then_some((0, 0))
            }
            _ => None,
        }
    }

    /// Bytes of the outer packet around one of `len`, in a tunnel with this MTU, `ip` being
    /// those of the outer IP header.
    pub(super) const fn outer(self, ip: u32, len: u32, mtu: u32) -> u32 {
        ip + self.header() as u32 + len + self.trailer(len, mtu)
    }

    /// The longest packet that fits a link with the MTU `link`: as an outer packet it is no
    /// longer. None fits if it is 0.
    pub(super) const fn largest(self, ip: u32, link: u32) -> u32 {
        let room = link.saturating_sub(ip + self.header() as u32);
        match self {
            Self::WireGuard => room.saturating_sub(WIREGUARD_TAG),
            Self::Fou => room,
            Self::Ipsec => (room.saturating_sub(ESP_TAG) & !3).saturating_sub(ESP_TRAILER),
        }
    }
}

/// What one end of a tunnel writes around a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    pub(super) of: Encapsulation,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// Of UDP.
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) seq: u64,
    /// The tunnel's, in bytes of what is carried.
    pub(super) mtu: u32,
}

impl Outer {
    /// Wraps `packet`, which stays the same with its provenance; `scratch` is any buffer. The
    /// traffic class is the packet's own, with DSCP and ECN (RFC 2983 §3, RFC 6040 §4.1).
    pub(super) fn wrap(&self, packet: &mut Packet, scratch: &mut Vec<u8>) {
        let trailer = self.of.trailer(packet.len(), self.mtu);
        let fields = IpFields {
            source: self.source,
            destination: self.destination,
            traffic_class: ip::traffic_class(&packet.bytes),
            ttl: TTL,
            protocol: self.of.port().map_or(ESP, |_| ip::UDP),
            ident: 0,
        };
        let above = self.of.header() + (packet.len() + trailer) as usize;
        scratch.clear();
        fields.write(scratch, above);
        let mut head = [0; WIREGUARD_HEADER];
        match self.of {
            Encapsulation::WireGuard => {
                head[0] = 4;
                head[4] = 1;
                head[8..].copy_from_slice(&self.seq.to_le_bytes());
                packet.bytes.splice(..0, head);
            }
            Encapsulation::Fou => {}
            Encapsulation::Ipsec => {
                head[..4].copy_from_slice(&SPI.to_be_bytes());
                // The upper half is not sent (RFC 4303 §2.2.1).
                head[4..8].copy_from_slice(&(self.seq as u32).to_be_bytes());
                head[8..].copy_from_slice(&self.seq.to_be_bytes());
                scratch.extend_from_slice(&head);
            }
        }
        packet.zero_tail += trailer;
        match self.of.port() {
            Some(_) => {
                let ports = UdpFields {
                    source_port: self.source_port,
                    destination_port: self.destination_port,
                };
                let (from, to, zeros) = (self.source, self.destination, packet.zero_tail);
                ports.write(scratch, from, to, &packet.bytes, zeros);
            }
            None => scratch.extend_from_slice(&packet.bytes),
        }
        std::mem::swap(&mut packet.bytes, scratch);
    }
}

/// What the receiving end reads of an outer packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    /// The number on the wire; of ESP its lower half.
    pub(super) seq: u64,
    /// The ports of the outer UDP header; 0 of ESP.
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// DSCP and ECN of the outer header.
    pub(super) traffic_class: u8,
    /// Where the packet that is carried begins.
    at: usize,
    /// Its length.
    len: u32,
}

impl Wrapped {
    /// Reads `packet`, whose outer header `ip` was read; `None` if it is not one of `of`, to
    /// whatever port, or was damaged on the way.
    pub(super) fn read(of: Encapsulation, ip: &Ip, packet: &Packet) -> Option<Self> {
        let bytes = &packet.bytes;
        if ip.more_fragments || !checksum::hold(bytes, packet.zero_tail) {
            return None;
        }
        let above = bytes.get(ip.header_len..)?;
        let (destination_port, source_port) = of.ports(ip, above)?;
        let at = of.begins(ip);
        let head = above.get(..of.header())?;
        let seq = match of {
            Encapsulation::WireGuard => {
                let counter: &[u8; 8] = head.last_chunk()?;
                u64::from_le_bytes(*counter)
            }
            Encapsulation::Fou => 0,
            Encapsulation::Ipsec => match *head {
                [_, _, _, _, a, b, c, d, ..] => u64::from(u32::from_be_bytes([a, b, c, d])),
                _ => return None,
            },
        };
        let inner = Ip::parse(bytes.get(at..)?).ok()?;
        let room = packet.len() - at as u32;
        let len = u32::try_from(inner.total_len).ok()?;
        (len <= room).then_some(Self {
            seq,
            source_port,
            destination_port,
            traffic_class: ip.traffic_class,
            at,
            len,
        })
    }

    /// Takes the outer headers off, and what is behind the packet.
    pub(super) fn unwrap(self, packet: &mut Packet) {
        packet.bytes.drain(..self.at);
        let kept = packet.bytes.len() as u32;
        packet.zero_tail = self.len.saturating_sub(kept);
        packet.bytes.truncate(self.len as usize);
    }
}
