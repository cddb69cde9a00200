//! Link layers of captures: where in a frame the IP packet starts.

mod nflog;
mod ppp;
mod wlan;

/// A link-layer type by its registered number
/// (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a four-byte family in the writer's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet, with or without VLAN tags, MPLS labels and PPPoE.
    pub const ETHERNET: Self = Self(1);
    /// PPP, with or without address and control bytes (RFC 1661, RFC 1662).
    pub const PPP: Self = Self(9);
    /// An older number for raw IP in files (`DLT_RAW` of most systems).
    pub const DLT_RAW: Self = Self(12);
    /// PPP in HDLC-like framing (RFC 1662), or Cisco's HDLC.
    pub const PPP_HDLC: Self = Self(50);
    /// A PPPoE session (RFC 2516), without the Ethernet header.
    pub const PPP_ETHER: Self = Self(51);
    /// The packet starts with its IP header; what Narrows writes.
    pub const RAW: Self = Self(101);
    /// Cisco's HDLC.
    pub const C_HDLC: Self = Self(104);
    /// IEEE 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// OpenBSD loopback: a four-byte family in network order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, 16 bytes.
    pub const LINUX_SLL: Self = Self(113);
    /// IEEE 802.11 after a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = Self(127);
    /// PPP as pppd writes it: the direction, 0 or 1, in place of the address byte.
    pub const PPP_PPPD: Self = Self(166);
    /// The packet starts with an IPv4 header.
    pub const IPV4: Self = Self(228);
    /// The packet starts with an IPv6 header.
    pub const IPV6: Self = Self(229);
    /// Messages of Linux's netfilter log.
    pub const NFLOG: Self = Self(239);
    /// Linux "cooked" capture version 2, 20 bytes.
    pub const LINUX_SLL2: Self = Self(276);

    /// Whether [`ip_packet`] reads frames of this type.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Self::NULL
                | Self::ETHERNET
                | Self::PPP
                | Self::DLT_RAW
                | Self::PPP_HDLC
                | Self::PPP_ETHER
                | Self::RAW
                | Self::C_HDLC
                | Self::IEEE802_11
                | Self::LOOP
                | Self::LINUX_SLL
                | Self::IEEE802_11_RADIOTAP
                | Self::PPP_PPPD
                | Self::IPV4
                | Self::IPV6
                | Self::NFLOG
                | Self::LINUX_SLL2
        )
    }

    /// The registered name of a type that is met in captures and not read here.
    pub fn unread_name(self) -> Option<&'static str> {
        Some(match self.0 {
            6 => "IEEE802_5",
            10 => "FDDI",
            107 => "FRELAY",
            117 => "PFLOG",
            119 => "IEEE802_11_PRISM",
            147..=162 => "USER0 to USER15",
            163 => "IEEE802_11_AVS",
            187 => "BLUETOOTH_HCI_H4",
            189 => "USB_LINUX",
            192 => "PPI",
            195 => "IEEE802_15_4_WITHFCS",
            201 => "BLUETOOTH_HCI_H4_WITH_PHDR",
            220 => "USB_LINUX_MMAPPED",
            226 => "IPNET",
            227 => "CAN_SOCKETCAN",
            247 => "INFINIBAND",
            249 => "USBPCAP",
            252 => "WIRESHARK_UPPER_PDU",
            253 => "NETLINK",
            258 => "PKTAP",
            _ => return None,
        })
    }
}

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags (IEEE 802.1Q, 802.1ad, and the older 0x9100).
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// EtherTypes of MPLS (RFC 3032 §5), unicast and multicast.
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// EtherType of a PPPoE session (RFC 2516 §4).
const PPPOE_SESSION: u16 = 0x8864;
/// The largest value of an Ethernet type field that is a length (IEEE 802.3 §3.2.6).
const LONGEST_802_3: u16 = 1500;

/// The IP packet inside `frame`, from its IP header to the end of the frame
/// (which may hold padding after the packet); `None` if there is none.
#[inline]
pub fn ip_packet(link: LinkType, frame: &[u8]) -> Option<&[u8]> {
    let packet = match link {
        LinkType::RAW | LinkType::DLT_RAW | LinkType::IPV4 | LinkType::IPV6 => frame,
        LinkType::ETHERNET => match frame.split_first_chunk::<14>() {
            // Most frames: IPv4, without a tag.
            Some(([.., 0x08, 0x00], packet)) => packet,
            _ => return typed(frame, 12, 14),
        },
        _ => return other(link, frame),
    };
    ip(packet)
}

/// The IP packet in a frame of a link that is neither Ethernet nor raw IP.
fn other(link: LinkType, frame: &[u8]) -> Option<&[u8]> {
    match link {
        LinkType::NULL | LinkType::LOOP => ip(frame.get(4..)?),
        LinkType::LINUX_SLL => typed(frame, 14, 16),
        LinkType::LINUX_SLL2 => typed(frame, 0, 20),
        LinkType::PPP | LinkType::PPP_PPPD => ppp::ip_packet(frame),
        LinkType::PPP_HDLC | LinkType::C_HDLC => ppp::hdlc(frame),
        LinkType::PPP_ETHER => ppp::session(frame),
        LinkType::IEEE802_11 => wlan::ip_packet(frame, false),
        LinkType::IEEE802_11_RADIOTAP => wlan::radiotap(frame),
        LinkType::NFLOG => nflog::ip_packet(frame),
        _ => None,
    }
}

/// Where the type field of a frame is whose VLAN tags can be read, and what follows it.
fn type_field(link: LinkType, frame: &[u8]) -> Option<(u16, &[u8])> {
    let (at, after) = match link {
        LinkType::ETHERNET => (12, 14),
        LinkType::LINUX_SLL => (14, 16),
        LinkType::LINUX_SLL2 => (0, 20),
        _ => return None,
    };
    Some((half(frame, at)?, frame.get(after..)?))
}

/// The number of the outermost VLAN that a frame is tagged with.
pub fn vlan(link: LinkType, frame: &[u8]) -> Option<u16> {
    let (kind, rest) = type_field(link, frame)?;
    tag(kind, rest)
}

/// The number of the VLAN in a tag that a type field announces.
pub fn tag(ethertype: u16, rest: &[u8]) -> Option<u16> {
    let is_tag = VLAN_TAGS.contains(&ethertype);
    Some(half(rest, 0).filter(|_| is_tag)? & 0x0fff)
}

/// The IP packet in what follows a type field, be it behind VLAN tags, MPLS labels, a
/// PPPoE session or an 802.2 header.
pub fn above(ethertype: u16, rest: &[u8]) -> Option<&[u8]> {
    let (mut kind, mut rest) = (ethertype, rest);
    loop {
        if kind <= LONGEST_802_3 {
            (kind, rest) = snap(rest)?;
        } else if VLAN_TAGS.contains(&kind) {
            (kind, rest) = (half(rest, 2)?, rest.get(4..)?);
        } else if MPLS.contains(&kind) {
            return labelled(rest);
        } else {
            return match kind {
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => ip(rest),
                PPPOE_SESSION => ppp::session(rest),
                _ => None,
            };
        }
    }
}

/// The IP packet above the type field at `at`, in what begins at `after`.
fn typed(frame: &[u8], at: usize, after: usize) -> Option<&[u8]> {
    above(half(frame, at)?, frame.get(after..)?)
}

/// The EtherType after the header of IEEE 802.2 with a SNAP extension, and what follows.
fn snap(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let kind = u16::from_be_bytes([head[6], head[7]]);
    (head[..6] == [0xaa, 0xaa, 3, 0, 0, 0] && kind > LONGEST_802_3).then_some((kind, rest))
}

/// The IP packet under a stack of MPLS labels. Neither names its protocol, so its first
/// bits decide.
fn labelled(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (label, rest) = bytes.split_first_chunk::<4>()?;
        bytes = rest;
        if label[2] & 1 != 0 {
            return ip(bytes);
        }
    }
}

/// `bytes`, if they can be an IP packet.
#[inline]
fn ip(bytes: &[u8]) -> Option<&[u8]> {
    matches!(bytes.first().map(|b| b >> 4), Some(4 | 6)).then_some(bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let b = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([b[0], b[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 3] = [0x45, 1, 2];

    /// An Ethernet header, and what follows its addresses.
    fn ether(rest: &[u8]) -> Vec<u8> {
        [&[0; 12], rest].concat()
    }

    #[test]
    fn the_ip_packet_is_found_behind_each_link_layer() {
        let mut sll = vec![0; 14];
        sll.extend_from_slice(&[8, 0]);
        let mut sll2 = vec![8, 0];
        sll2.resize(20, 0);
        let mut sll2_tagged = vec![0x81, 0];
        sll2_tagged.resize(20, 0);
        sll2_tagged.extend_from_slice(&[0, 7, 8, 0]);
        for (link, head) in [
            (LinkType::RAW, vec![]),
            (LinkType::NULL, vec![2, 0, 0, 0]),
            (LinkType::ETHERNET, ether(&[8, 0])),
            (
                LinkType::ETHERNET,
                ether(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]),
            ),
            // Two MPLS labels, of which the second is the last.
            (
                LinkType::ETHERNET,
                ether(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]),
            ),
            // A PPPoE session inside a VLAN.
            (
                LinkType::ETHERNET,
                ether(&[0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 9, 0, 5, 0, 0x21]),
            ),
            (LinkType::PPP_ETHER, vec![0x11, 0, 0, 9, 0, 5, 0, 0x21]),
            // An 802.3 length, 802.2 and SNAP.
            (
                LinkType::ETHERNET,
                ether(&[0, 11, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
            ),
            (LinkType::PPP, vec![0xff, 3, 0, 0x21]),
            (LinkType::PPP, vec![0x21]),
            (LinkType::PPP, vec![2, 0x81, 0, 1, 1, 64]),
            (LinkType::PPP_PPPD, vec![1, 3, 0, 0x57]),
            (LinkType::PPP_HDLC, vec![0xff, 3, 0, 0x21]),
            (LinkType::PPP_HDLC, vec![0x0f, 0, 8, 0]),
            (LinkType::C_HDLC, vec![0x8f, 0, 0x86, 0xdd]),
            (LinkType::LINUX_SLL, sll),
            (LinkType::LINUX_SLL2, sll2),
            (LinkType::LINUX_SLL2, sll2_tagged),
        ] {
            assert!(link.is_read() && link.unread_name().is_none());
            let frame = [&head[..], &IP].concat();
            assert_eq!(ip_packet(link, &frame), Some(&IP[..]), "{link:?} {head:x?}");
            for cut in 0..head.len() {
                assert_eq!(ip_packet(link, &frame[..cut]), None, "{link:?} {cut}");
            }
        }
    }

    #[test]
    fn frames_without_ip_and_unknown_links_give_nothing() {
        let arp = [&ether(&[8, 6])[..], &IP].concat();
        assert_eq!(ip_packet(LinkType::ETHERNET, &arp), None);
        assert_eq!(ip_packet(LinkType::ETHERNET, &[0; 13]), None);
        assert_eq!(ip_packet(LinkType::RAW, &[0x15]), None);
        let user = LinkType(147);
        assert_eq!(ip_packet(user, &IP), None);
        assert!(!user.is_read() && user.unread_name().is_some());
    }

    #[test]
    fn the_outermost_vlan_is_named() {
        let tagged = ether(&[0x88, 0xa8, 0xe0, 1, 0x81, 0, 0, 2, 8, 0, 0x45]);
        assert_eq!(vlan(LinkType::ETHERNET, &tagged), Some(1));
        assert_eq!(vlan(LinkType::ETHERNET, &ether(&[8, 0, 0x45, 0])), None);
        assert_eq!(vlan(LinkType::RAW, &tagged), None);
    }
}
