//! The window in which rules look at a packet's headers.

use crate::field::{Field, Layer, Place};

/// Bytes of the window: 40 for IP, 20 for what is above it, and four of facts.
pub(crate) const WINDOW: usize = 64;

/// Where what is above IP starts in the window.
const ABOVE: usize = 40;
/// Which layers there are, as bits.
const LAYERS: usize = 60;
/// Which way the packet travels: 1 up, 2 down.
const WAY: usize = 61;
/// The protocol above IP.
const UPPER: usize = 62;

/// The headers of a packet side by side at fixed places, so that a rule's equalities are one
/// mask and one key over all of it.
pub(crate) type Window = [u8; WINDOW];

/// The bit for a layer in the window.
pub(crate) const fn layer_bit(layer: Layer) -> u8 {
    match layer {
        Layer::Meta | Layer::Ip => 0,
        Layer::Ip4 => 1,
        Layer::Ip6 => 2,
        Layer::Icmp => 4,
        Layer::Icmp6 => 8,
        Layer::Udp => 16,
        Layer::UdpData => 32,
        Layer::Tcp => 64,
        Layer::Frame => 128,
    }
}

/// The first bit and the bits of `field` in the window; `None` if it is not there.
pub(crate) fn in_window(field: Field) -> Option<(usize, u8)> {
    let base = match field.layer() {
        Layer::Meta | Layer::Frame | Layer::Ip | Layer::Ip4 | Layer::Ip6 => 0,
        Layer::UdpData => ABOVE + 8,
        _ => ABOVE,
    };
    match field.row().place {
        Place::Bits { at, width } => Some((base * 8 + usize::from(at), width)),
        Place::Upper => Some((UPPER * 8, 8)),
        Place::In => Some((WAY * 8, 8)),
        Place::Out => Some((WAY * 8, 8)),
        _ => None,
    }
}

/// The number in `width` bits from bit `at` on.
pub(crate) fn read_bits(bytes: &[u8], at: usize, width: u8) -> u128 {
    let (first, last) = (at / 8, (at + usize::from(width) - 1) / 8);
    let mut value = 0u128;
    // Fields of more than 120 bits start at whole bytes.
    for byte in &bytes[first..=last] {
        value = value << 8 | u128::from(*byte);
    }
    let after = 7 - (at + usize::from(width) - 1) % 8;
    (value >> after) & crate::field::most(width)
}

/// Writes the number into `width` bits from bit `at` on.
pub(crate) fn write_bits(bytes: &mut [u8], at: usize, width: u8, value: u128) {
    let end = at + usize::from(width);
    let (first, last) = (at / 8, (end - 1) / 8);
    if width == 128 {
        // Addresses start at whole bytes.
        bytes[first..=last].copy_from_slice(&value.to_be_bytes());
        return;
    }
    let after = 7 - (end - 1) % 8;
    let mut mask = crate::field::most(width) << after;
    let mut value = value << after & mask;
    for byte in bytes[first..=last].iter_mut().rev() {
        *byte = *byte & !(mask as u8) | value as u8;
        mask >>= 8;
        value >>= 8;
    }
}

/// Marks in `mask`, and requires in `key`, that `layer` is there.
pub(crate) fn require_layer(mask: &mut Window, key: &mut Window, layer: Layer) {
    mask[LAYERS] |= layer_bit(layer);
    key[LAYERS] |= layer_bit(layer);
}

/// The extension headers of an IPv6 packet by their kinds, as far as they can be walked.
pub(crate) fn extensions(bytes: &[u8]) -> impl Iterator<Item = u8> {
    /// What follows the five last of them is not looked at: ESP hides it, and the length of
    /// an experiment's header is its own.
    const KINDS: [u8; 11] = [0, 43, 44, 51, 60, 135, 50, 139, 140, 253, 254];
    let mut next = bytes.get(6).copied().filter(|_| bytes.len() >= 40);
    let mut at = 40;
    std::iter::from_fn(move || {
        let kind = next.filter(|kind| KINDS.contains(kind))?;
        next = match (kind, bytes.get(at..at + 8)) {
            (50 | 139.., _) | (_, None) => None,
            (_, Some(header)) => {
                at += match kind {
                    44 => 8,
                    51 => (usize::from(header[1]) + 2) * 4,
                    _ => (usize::from(header[1]) + 1) * 8,
                };
                // What follows a later fragment's header is its data.
                let later = kind == 44 && (header[2] != 0 || header[3] & 0xf8 != 0);
                (!later).then_some(header[0])
            }
        };
        Some(kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_written_where_they_are_read() {
        for (at, width) in [
            (0, 1),
            (3, 4),
            (4, 8),
            (12, 20),
            (51, 13),
            (96, 32),
            (64, 128),
        ] {
            let mut bytes = [0xa5; 40];
            let value = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef & crate::field::most(width);
            write_bits(&mut bytes, at, width, value);
            assert_eq!(read_bits(&bytes, at, width), value, "{at} {width}");
            write_bits(&mut bytes, at, width, read_bits(&[0xa5; 40], at, width));
            assert_eq!(bytes, [0xa5; 40], "{at} {width}: nothing beside it");
        }
    }

    #[test]
    fn extension_headers_are_walked_to_the_end_of_what_is_there() {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 32, 0, 64];
        bytes.resize(40, 0);
        bytes.extend([60, 0, 0, 0, 0, 0, 0, 0]); // hop-by-hop, then destination options
        bytes.extend([44, 0, 0, 0, 0, 0, 0, 0]); // then a fragment header
        bytes.extend([6, 0, 0, 8, 0, 0, 0, 0]); // of a later fragment
        bytes.extend([43; 8]);
        assert_eq!(extensions(&bytes).collect::<Vec<_>>(), [0, 60, 44]);
        assert_eq!(extensions(&bytes[..50]).collect::<Vec<_>>(), [0, 60]);
        assert_eq!(extensions(&bytes[..39]).count(), 0);
    }

    /// A packet of IPv6 whose first header is of that kind, and what follows it is `above`.
    fn packet(kind: u8, above: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, kind, 64];
        bytes.resize(40, 0);
        bytes.extend(above);
        bytes
    }

    #[test]
    fn each_kind_of_extension_header_has_its_own_unit_of_length() {
        // Of a fragment header the second byte is reserved (RFC 8200 §4.5), of an authentication header it
        // counts words of four bytes less two (RFC 4302 §2.2), of others units of eight bytes less one.
        for (kind, length, bytes) in [
            (44, 0, 8),
            (44, 2, 8),
            (51, 1, 12),
            (51, 4, 24),
            (60, 0, 8),
            (60, 2, 24),
        ] {
            let mut above = vec![0xff; bytes];
            above[..4].copy_from_slice(&[135, length, 0, 0]);
            // The one behind it says what the third is.
            above.extend([0, 0, 0, 0, 0, 0, 0, 0]);
            above.extend([59, 0, 0, 0, 0, 0, 0, 0]);
            let found: Vec<u8> = extensions(&packet(kind, &above)).collect();
            assert_eq!(found, [kind, 135, 0], "{length}");
        }
    }

    #[test]
    fn what_follows_the_header_of_a_later_fragment_is_its_data() {
        // The offset is the first thirteen of sixteen bits, and the last one says that more follow.
        for (bits, later) in [
            (0, false),
            (1, false),
            (7, false),
            (0x0008, true),
            (0x0009, true),
            (0x0100, true),
            (0xfff8, true),
        ] {
            let [high, low] = u16::to_be_bytes(bits);
            let above = [60, 0, high, low, 0, 0, 0, 1, 59, 0, 0, 0, 0, 0, 0, 0];
            let found: Vec<u8> = extensions(&packet(44, &above)).collect();
            assert_eq!(found.len(), if later { 1 } else { 2 }, "{bits:04x}");
        }
    }
}
