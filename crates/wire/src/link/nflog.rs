//! Messages of Linux's netfilter log
//! (<https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html>): a family, a version, a
//! number, then attributes, each with its length and type in the writer's byte order.

use super::ip;

/// `NFULA_PAYLOAD`.
const PAYLOAD: u16 = 9;
/// Types beyond this are not given; a larger one is read in the wrong byte order.
const LAST_TYPE: u16 = 0xff;

/// The IP packet that a message holds.
pub(super) fn ip_packet(frame: &[u8]) -> Option<&[u8]> {
    let attributes = frame.get(4..)?;
    payload(attributes, u16::from_le_bytes).or_else(|| payload(attributes, u16::from_be_bytes))
}

fn payload(mut bytes: &[u8], number: fn([u8; 2]) -> u16) -> Option<&[u8]> {
    loop {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let len = usize::from(number([head[0], head[1]]));
        // The upper bits say that others are nested in it, or the byte order.
        let kind = number([head[2], head[3]]) & 0x3fff;
        if len < 4 || kind > LAST_TYPE {
            return None;
        }
        if kind == PAYLOAD {
            return ip(rest.get(..len - 4).unwrap_or(rest));
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use crate::link::{LinkType, ip_packet};

    #[test]
    fn the_payload_is_found_among_the_attributes_in_either_byte_order() {
        for big in [false, true] {
            let number = |n: u16| {
                if big {
                    n.to_be_bytes()
                } else {
                    n.to_le_bytes()
                }
            };
            let mut frame = vec![2, 0, 0, 1];
            for (kind, value) in [
                (1u16, &[8u8, 0, 1, 0][..]),
                (10, b"in\0"),
                (9, &[0x45, 1, 2]),
            ] {
                frame.extend(number(value.len() as u16 + 4));
                frame.extend(number(kind));
                frame.extend_from_slice(value);
                frame.resize(frame.len().next_multiple_of(4), 0);
            }
            let found = ip_packet(LinkType::NFLOG, &frame);
            assert_eq!(found, Some(&[0x45, 1, 2][..]), "{big}");
            assert_eq!(ip_packet(LinkType::NFLOG, &frame[..20]), None);
        }
        assert_eq!(ip_packet(LinkType::NFLOG, &[0; 64]), None);
    }
}
