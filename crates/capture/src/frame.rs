//! Frames in a block of the ring.

use narrows_units::Instant;
use narrows_wire::link::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, VLAN_TAGS};
use nix::libc;
use std::mem::offset_of;

use crate::ring::{READ_FROM, Ring};

/// Frames that the kernel has handed over together. They are given back when
/// this is dropped.
#[derive(Debug)]
pub struct Block<'a> {
    ring: &'a mut Ring,
}

/// One packet as it passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When, by the machine's clock, from 1970 on.
    pub at: Instant,
    /// What was kept of its IP packet; `None` if it holds none.
    pub packet: Option<&'a [u8]>,
    /// Its length without the header of the link.
    pub original_len: u32,
    /// Whether this machine sent it.
    pub outgoing: bool,
}

/// Where the kernel puts the address of a frame's sender: after the header,
/// which is aligned to 16 bytes (`TPACKET_ALIGN`).
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
const PROTOCOL: usize = ADDRESS + offset_of!(libc::sockaddr_ll, sll_protocol);
const KIND: usize = ADDRESS + offset_of!(libc::sockaddr_ll, sll_pkttype);

const HEAD: usize = offset_of!(libc::tpacket_block_desc, hdr);
const FRAMES: usize = HEAD + offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST: usize = HEAD + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);

impl<'a> Block<'a> {
    /// The next block, if one is full.
    pub(crate) fn next(ring: &'a mut Ring) -> Option<Self> {
        ring.filled()?;
        Some(Self { ring })
    }

    fn bytes(&self) -> &[u8] {
        self.ring.filled().unwrap_or_default()
    }

    /// How many frames it holds.
    pub fn len(&self) -> usize {
        word(self.bytes(), FRAMES - READ_FROM) as usize
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its frames in the order in which they passed.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        let bytes = self.bytes();
        let mut at = (word(bytes, FIRST - READ_FROM) as usize).wrapping_sub(READ_FROM);
        (0..self.len()).map_while(move |_| {
            let frame = bytes.get(at..)?;
            let next = word(frame, offset_of!(libc::tpacket3_hdr, tp_next_offset)) as usize;
            at = at.wrapping_add(next);
            read(frame)
        })
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.ring.release();
    }
}

/// A frame that starts with the kernel's header.
fn read(frame: &[u8]) -> Option<Frame<'_>> {
    frame.get(..KIND + 1)?;
    let kept = word(frame, offset_of!(libc::tpacket3_hdr, tp_snaplen)) as usize;
    let start = usize::from(half(frame, offset_of!(libc::tpacket3_hdr, tp_net)));
    let seconds = word(frame, offset_of!(libc::tpacket3_hdr, tp_sec));
    let nanos = word(frame, offset_of!(libc::tpacket3_hdr, tp_nsec));
    let protocol = half(frame, PROTOCOL).to_be();
    Some(Frame {
        at: Instant::from_nanos(u64::from(seconds) * 1_000_000_000 + u64::from(nanos)),
        packet: ip_packet(protocol, frame.get(start..start + kept)?),
        original_len: word(frame, offset_of!(libc::tpacket3_hdr, tp_len)),
        outgoing: frame[KIND] == libc::PACKET_OUTGOING,
    })
}

/// The IP packet in what follows the header of the link, of which the kernel
/// tells the protocol. Where a device leaves VLAN tags in, they come first.
fn ip_packet(mut protocol: u16, mut bytes: &[u8]) -> Option<&[u8]> {
    while VLAN_TAGS.contains(&protocol) {
        let (tag, rest) = bytes.split_first_chunk::<4>()?;
        protocol = u16::from_be_bytes([tag[2], tag[3]]);
        bytes = rest;
    }
    let ip = matches!(protocol, ETHERTYPE_IPV4 | ETHERTYPE_IPV6);
    (ip && matches!(bytes.first().map(|b| b >> 4), Some(4 | 6))).then_some(bytes)
}

/// A word in the machine's byte order; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|b| b.first_chunk::<4>());
    word.map_or(0, |w| u32::from_ne_bytes(*w))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    let half = bytes.get(at..).and_then(|b| b.first_chunk::<2>());
    half.map_or(0, |h| u16::from_ne_bytes(*h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ip_packet_stands_behind_the_tags_that_a_device_leaves_in() {
        let ip = [0x45, 1, 2];
        assert_eq!(ip_packet(0x0800, &ip), Some(&ip[..]));
        let tagged = [0, 7, 0x81, 0, 0, 8, 0x08, 0, 0x45, 1, 2];
        assert_eq!(ip_packet(0x88a8, &tagged), Some(&ip[..]));
        for (protocol, bytes) in [(0x0806, &ip[..]), (0x8100, &tagged[..3]), (0x86dd, &[])] {
            assert_eq!(ip_packet(protocol, bytes), None, "{protocol:04x}");
        }
    }

    #[test]
    fn a_frame_of_the_ring_shows_time_length_direction_and_packet() {
        let mut frame = vec![0; 96];
        let mut put = |at: usize, value: &[u8]| frame[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(libc::tpacket3_hdr, tp_sec), &3u32.to_ne_bytes());
        put(offset_of!(libc::tpacket3_hdr, tp_nsec), &7u32.to_ne_bytes());
        put(
            offset_of!(libc::tpacket3_hdr, tp_snaplen),
            &4u32.to_ne_bytes(),
        );
        put(
            offset_of!(libc::tpacket3_hdr, tp_len),
            &1500u32.to_ne_bytes(),
        );
        put(offset_of!(libc::tpacket3_hdr, tp_net), &80u16.to_ne_bytes());
        put(PROTOCOL, &[0x86, 0xdd]);
        put(KIND, &[libc::PACKET_OUTGOING]);
        put(80, &[0x60, 9, 8, 7, 6]);
        let wanted = Frame {
            at: Instant::from_nanos(3_000_000_007),
            packet: Some(&[0x60, 9, 8, 7]),
            original_len: 1500,
            outgoing: true,
        };
        assert_eq!(read(&frame), Some(wanted));
        assert_eq!(read(&frame[..83]), None, "cut");
        assert_eq!(read(&frame[..40]), None, "cut in its header");
    }
}
