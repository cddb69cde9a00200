//! Link layers of captures: where in a frame the IP packet starts.

/// A link-layer type by its registered number
/// (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a four-byte family in the writer's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet, with or without VLAN tags.
    pub const ETHERNET: Self = Self(1);
    /// The packet starts with its IP header; what Narrows writes.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: a four-byte family in network order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, 16 bytes.
    pub const LINUX_SLL: Self = Self(113);
    /// The packet starts with an IPv4 header.
    pub const IPV4: Self = Self(228);
    /// The packet starts with an IPv6 header.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture version 2, 20 bytes.
    pub const LINUX_SLL2: Self = Self(276);
    /// An older number for raw IP in files (`DLT_RAW` of most systems).
    pub const DLT_RAW: Self = Self(12);
}

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags (IEEE 802.1Q, 802.1ad, and the older 0x9100).
pub const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// The IP packet inside `frame`, from its IP header to the end of the frame
/// (which may hold padding after the packet); `None` if there is none.
#[inline]
pub fn ip_packet(link: LinkType, frame: &[u8]) -> Option<&[u8]> {
    let packet = match link {
        LinkType::RAW | LinkType::DLT_RAW | LinkType::IPV4 | LinkType::IPV6 => frame,
        LinkType::NULL | LinkType::LOOP => frame.get(4..)?,
        LinkType::ETHERNET => match frame.split_first_chunk::<14>() {
            // Most frames: IPv4, without a tag.
            Some(([.., 0x08, 0x00], packet)) => packet,
            _ => tagged(frame, 12)?,
        },
        LinkType::LINUX_SLL => tagged(frame, 14)?,
        LinkType::LINUX_SLL2 => ethertype(frame, 0).and_then(|_| frame.get(20..))?,
        _ => return None,
    };
    matches!(packet.first().map(|b| b >> 4), Some(4 | 6)).then_some(packet)
}

/// What follows the EtherType at `at` and any VLAN tags after it.
fn tagged(frame: &[u8], mut at: usize) -> Option<&[u8]> {
    while let Some(kind) = frame.get(at..at + 2) {
        let kind = u16::from_be_bytes([kind[0], kind[1]]);
        if !VLAN_TAGS.contains(&kind) {
            ethertype(frame, at)?;
            return frame.get(at + 2..);
        }
        at += 4;
    }
    None
}

/// The EtherType at `at`, if it is IP's.
fn ethertype(frame: &[u8], at: usize) -> Option<u16> {
    let b = frame.get(at..at + 2)?;
    let kind = u16::from_be_bytes([b[0], b[1]]);
    matches!(kind, ETHERTYPE_IPV4 | ETHERTYPE_IPV6).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 3] = [0x45, 1, 2];

    fn frame(head: &[u8]) -> Vec<u8> {
        [head, &IP].concat()
    }

    #[test]
    fn the_ip_packet_is_found_behind_each_link_layer() {
        let mut ether = vec![0; 12];
        ether.extend_from_slice(&[8, 0]);
        let mut vlan = vec![0; 12];
        vlan.extend_from_slice(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0]);
        let mut sll = vec![0; 14];
        sll.extend_from_slice(&[8, 0]);
        let mut sll2 = vec![8, 0];
        sll2.resize(20, 0);
        for (link, head) in [
            (LinkType::RAW, vec![]),
            (LinkType::NULL, vec![2, 0, 0, 0]),
            (LinkType::ETHERNET, ether),
            (LinkType::ETHERNET, vlan),
            (LinkType::LINUX_SLL, sll),
            (LinkType::LINUX_SLL2, sll2),
        ] {
            assert_eq!(ip_packet(link, &frame(&head)), Some(&IP[..]), "{link:?}");
        }
    }

    #[test]
    fn frames_without_ip_and_unknown_links_give_nothing() {
        let mut arp = vec![0; 12];
        arp.extend_from_slice(&[8, 6]);
        assert_eq!(ip_packet(LinkType::ETHERNET, &frame(&arp)), None);
        assert_eq!(ip_packet(LinkType::ETHERNET, &[0; 13]), None);
        assert_eq!(ip_packet(LinkType::RAW, &[0x15]), None);
        assert_eq!(ip_packet(LinkType(105), &frame(&[])), None);
    }
}
