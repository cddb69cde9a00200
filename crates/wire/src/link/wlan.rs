//! IEEE 802.11 data frames, and radiotap headers before them (<https://www.radiotap.org>).

use super::{above, snap};

/// Bits of a frame's first byte: its type, of which 2 is data, and of data the subtypes
/// that carry none and that have QoS control.
const TYPE: u8 = 0x0c;
const DATA: u8 = 0x08;
const NO_DATA: u8 = 0x40;
const QOS: u8 = 0x80;
/// Bits of its second byte.
const BOTH_DS: u8 = 0x03;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;
/// The bit of QoS control that says that the frame holds several (A-MSDU).
const SEVERAL: u8 = 0x80;

/// The IP packet in an 802.11 frame, whose header is padded to four bytes if `padded`.
/// Encrypted frames show none, nor do those that hold several packets (A-MSDU).
pub(super) fn ip_packet(frame: &[u8], padded: bool) -> Option<&[u8]> {
    let [first, second, ..] = *frame else {
        return None;
    };
    if first & TYPE != DATA || first & NO_DATA != 0 || second & PROTECTED != 0 {
        return None;
    }
    let mut header = 24;
    if second & BOTH_DS == BOTH_DS {
        header += 6;
    }
    if first & QOS != 0 {
        if frame.get(header)? & SEVERAL != 0 {
            return None;
        }
        header += 2;
        if second & ORDER != 0 {
            header += 4;
        }
    }
    if padded {
        header = header.next_multiple_of(4);
    }
    let (kind, rest) = snap(frame.get(header..)?)?;
    above(kind, rest)
}

/// The IP packet in an 802.11 frame after a radiotap header.
pub(super) fn radiotap(frame: &[u8]) -> Option<&[u8]> {
    let length = u16::from_le_bytes([*frame.get(2)?, *frame.get(3)?]);
    let header = frame.get(..usize::from(length))?;
    ip_packet(
        &frame[usize::from(length)..],
        is_padded(header).unwrap_or(false),
    )
}

/// Whether the flags field of a radiotap header says that there is padding between the
/// header of the frame and its body.
fn is_padded(header: &[u8]) -> Option<bool> {
    const TSFT: u8 = 1;
    const FLAGS: u8 = 2;
    const MORE: u8 = 0x80;
    const DATA_PAD: u8 = 0x20;
    let present = *header.get(4)?;
    if present & FLAGS == 0 {
        return None;
    }
    let mut at = 4;
    while header.get(at + 3)? & MORE != 0 {
        at += 4;
    }
    at += 4;
    // A time of eight bytes, aligned to its size, is before the flags.
    if present & TSFT != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    Some(header.get(at)? & DATA_PAD != 0)
}

#[cfg(test)]
mod tests {
    use crate::link::{LinkType, ip_packet};

    const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

    /// A data frame with a header of `header` bytes that begins with these two.
    fn frame(first: u8, second: u8, header: usize) -> Vec<u8> {
        let mut frame = vec![first, second];
        frame.resize(header, 0);
        [&frame[..], &SNAP, &[0x45, 1]].concat()
    }

    #[test]
    fn the_ip_packet_stands_behind_headers_of_each_length() {
        let of = |frame: &[u8]| ip_packet(LinkType::IEEE802_11, frame).map(<[u8]>::to_vec);
        for (first, second, header) in [
            (0x08, 1, 24),
            (0x08, 3, 30),
            (0x88, 2, 26),
            (0x88, 0x83, 36),
        ] {
            let bytes = frame(first, second, header);
            assert_eq!(of(&bytes), Some(vec![0x45, 1]), "{first:x} {second:x}");
            assert_eq!(of(&bytes[..header + 7]), None);
        }
        // A beacon, null data, an encrypted frame, several in one.
        assert_eq!(of(&frame(0x80, 0, 24)), None);
        assert_eq!(of(&frame(0x48, 1, 24)), None);
        assert_eq!(of(&frame(0x08, 0x41, 24)), None);
        let mut several = frame(0x88, 2, 26);
        several[24] = 0x80;
        assert_eq!(of(&several), None);
    }

    #[test]
    fn radiotap_headers_are_as_long_as_they_say_and_may_announce_padding() {
        let of = |frame: &[u8]| ip_packet(LinkType::IEEE802_11_RADIOTAP, frame).map(<[u8]>::to_vec);
        let plain = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &frame(0x88, 2, 26)].concat();
        assert_eq!(of(&plain), Some(vec![0x45, 1]));
        // Time and flags, more fields in a second word: the flags stand at 24.
        let mut head = vec![0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0];
        head.resize(24, 0);
        head.push(0x20);
        let padded = [&head[..], &frame(0x88, 2, 28)].concat();
        assert_eq!(of(&padded), Some(vec![0x45, 1]));
        assert_eq!(of(&padded[..20]), None);
    }
}
