//! PPP (RFC 1661), its HDLC-like framing (RFC 1662), PPPoE (RFC 2516), and Cisco's HDLC.

use super::{above, half, ip, labelled};

/// Protocol numbers of IPv4 (RFC 1332), IPv6 (RFC 5072) and MPLS (RFC 3032 §4).
const IPV4: u16 = 0x0021;
const IPV6: u16 = 0x0057;
const MPLS: [u16; 2] = [0x0281, 0x0283];

/// The IP packet in a PPP frame, with or without address and control bytes before it.
pub(super) fn ip_packet(frame: &[u8]) -> Option<&[u8]> {
    // 3 is "unnumbered information"; 0 and 1 are pppd's directions.
    let frame = match frame {
        [0xff | 0 | 1, 3, rest @ ..] => rest,
        _ => frame,
    };
    // A protocol number may be compressed to one byte, which then is odd (§6.5).
    let (protocol, rest) = match frame {
        [first, rest @ ..] if first & 1 == 1 => (u16::from(*first), rest),
        _ => (half(frame, 0)?, &frame[2..]),
    };
    match protocol {
        IPV4 | IPV6 => ip(rest),
        _ if MPLS.contains(&protocol) => labelled(rest),
        _ => None,
    }
}

/// The IP packet in a frame of PPP in HDLC-like framing, or of Cisco's HDLC: an address
/// (0x0f unicast, 0x8f broadcast), a zero, an EtherType.
pub(super) fn hdlc(frame: &[u8]) -> Option<&[u8]> {
    match frame {
        [0x0f | 0x8f, 0, a, b, rest @ ..] => above(u16::from_be_bytes([*a, *b]), rest),
        [0x0f | 0x8f, ..] => None,
        _ => ip_packet(frame),
    }
}

/// The IP packet in a PPPoE session: six bytes of header, of which the second is the
/// code, 0 for data, then PPP.
pub(super) fn session(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [_, 0, _, _, _, _, rest @ ..] => ip_packet(rest),
        _ => None,
    }
}
