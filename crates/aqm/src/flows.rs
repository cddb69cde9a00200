//! Which flow a packet belongs to, for queues that keep flows apart.

use std::net::IpAddr;

use narrows_core::Packet;
use narrows_units::{Draw, Rng, stable_hash};
use narrows_wire::ip::{TCP, UDP};
use narrows_wire::{FlowKey, Ip};

/// What is hashed: addresses, ports, protocol, zeros.
const V4_TEXT: usize = 16;
const V6_TEXT: usize = 40;

/// A keyed hash of addresses, ports and protocol. The key comes from the
/// queue's generator, as Linux's `hashrnd` does from the kernel's; the hash is
/// the same on every machine.
///
/// It reads the outermost headers only, so packets of one tunnel are one flow
/// (Linux looks into some tunnels, not into UDP ones), and it ignores the IPv6
/// flow label.
#[derive(Clone, Copy, Debug)]
pub struct FlowHash {
    key: u64,
}

impl FlowHash {
    /// One whose key `rng` draws.
    pub fn new(rng: &mut Rng) -> Self {
        let (high, low) = (rng.draw_u32(), rng.draw_u32());
        Self {
            key: u64::from(high) << 32 | u64::from(low),
        }
    }

    /// 32 bits, as Linux's `skb_get_hash`. Packets that cannot be read are
    /// all one flow.
    #[inline]
    pub fn of(self, packet: &Packet) -> u32 {
        (self.wide(&packet.bytes) >> 32) as u32
    }

    /// 32 bits of each address, source and destination; those of packets that cannot be
    /// read are all alike.
    pub fn ends(self, packet: &Packet) -> [u32; 2] {
        let Ok(ip) = Ip::parse(&packet.bytes) else {
            return [0; 2];
        };
        [ip.source, ip.destination].map(|address| {
            let hash = match address {
                IpAddr::V4(v4) => stable_hash(self.key, &v4.octets()),
                IpAddr::V6(v6) => stable_hash(self.key, &v6.octets()),
            };
            (hash >> 32) as u32
        })
    }

    /// The bucket of `packet` among `flows`: the hash scaled to their number.
    #[inline]
    pub fn bucket(self, flows: usize, packet: &Packet) -> usize {
        if flows == 1 {
            return 0;
        }
        ((u64::from(self.of(packet)) * flows as u64) >> 32) as usize
    }

    #[inline]
    fn wide(self, bytes: &[u8]) -> u64 {
        // The common case without parsing everything: IPv4, no options, not a
        // fragment, ports present.
        if let Some(h) = bytes.first_chunk::<24>() {
            let plain = h[0] == 0x45 && (h[6] & 0x3f | h[7]) == 0;
            if plain && matches!(h[9], TCP | UDP) {
                let mut text = [0; V4_TEXT];
                text[..12].copy_from_slice(&h[12..24]);
                text[12] = h[9];
                return stable_hash(self.key, &text);
            }
        }
        self.parsed(bytes)
    }

    #[cold]
    fn parsed(self, bytes: &[u8]) -> u64 {
        let Some(key) = FlowKey::of(bytes) else {
            return 0;
        };
        let mut text = [0; V6_TEXT];
        let (addresses, len) = match (key.source, key.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                text[..4].copy_from_slice(&from.octets());
                text[4..8].copy_from_slice(&to.octets());
                (8, V4_TEXT)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                text[..16].copy_from_slice(&from.octets());
                text[16..32].copy_from_slice(&to.octets());
                (32, V6_TEXT)
            }
            _ => return 0,
        };
        text[addresses..addresses + 2].copy_from_slice(&key.source_port.to_be_bytes());
        text[addresses + 2..addresses + 4].copy_from_slice(&key.destination_port.to_be_bytes());
        text[addresses + 4] = key.protocol;
        stable_hash(self.key, &text[..len])
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use narrows_wire::IpFields;

    use super::*;

    fn bytes(v6: bool, port: u16, class: u8, protocol: u8) -> Vec<u8> {
        let (source, destination) = if v6 {
            (
                IpAddr::V6(Ipv6Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::from(7u128)),
            )
        } else {
            (
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
            )
        };
        let fields = IpFields {
            source,
            destination,
            traffic_class: class,
            ttl: 64,
            protocol,
            ident: u32::from(class),
        };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, 8);
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes.extend_from_slice(&[0, 80, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn a_flow_is_its_addresses_ports_and_protocol_and_nothing_else() {
        let hash = FlowHash::new(&mut Rng::for_name(1, "q"));
        for v6 in [false, true] {
            let base = hash.wide(&bytes(v6, 5, 0, UDP));
            assert_eq!(base, hash.wide(&bytes(v6, 5, 0xff, UDP)));
            assert_ne!(base, hash.wide(&bytes(v6, 6, 0, UDP)));
            assert_ne!(base, hash.wide(&bytes(v6, 5, 0, TCP)));
        }
        assert_eq!(hash.wide(&[1, 2, 3]), hash.wide(&[]));
    }

    #[test]
    fn the_short_way_and_the_long_way_agree() {
        let hash = FlowHash::new(&mut Rng::for_name(1, "q"));
        let plain = bytes(false, 5, 0, UDP);
        // A header with one word of options takes the long way.
        let mut options = plain.clone();
        options[0] = 0x46;
        options[3] += 4;
        options.splice(20..20, [1, 1, 1, 1]);
        assert_eq!(hash.wide(&plain), hash.wide(&options));
    }

    #[test]
    fn the_key_perturbs_the_hash() {
        let packet = bytes(false, 5, 0, UDP);
        let of = |name| FlowHash::new(&mut Rng::for_name(1, name)).wide(&packet);
        assert_ne!(of("a"), of("b"));
        assert_eq!(of("a"), of("a"));
    }

    #[test]
    fn fragments_behind_the_first_have_no_ports() {
        let hash = FlowHash::new(&mut Rng::for_name(1, "q"));
        // Bytes 6 and 7 are flags and offset: don't fragment 0x40, more fragments 0x20.
        let of = |fragment: [u8; 2], port| {
            let mut packet = bytes(false, port, 0, UDP);
            packet[6..8].copy_from_slice(&fragment);
            hash.wide(&packet)
        };
        for fragment in [[0x00, 0x01], [0x20, 0x01], [0x20, 0x80], [0x1f, 0x00]] {
            assert_eq!(of(fragment, 5), of(fragment, 6), "{fragment:?}");
            assert_ne!(of(fragment, 5), of([0, 0], 5), "{fragment:?}");
        }
        for first in [[0x40, 0x00], [0x20, 0x00]] {
            assert_eq!(of(first, 5), of([0, 0], 5), "{first:?}");
        }
    }
}
