//! Frames in a block of the ring.

use narrows_units::Instant;
use narrows_wire::link;
use nix::libc;
use std::mem::offset_of;

use crate::ring::{READ_FROM, Ring};

/// Frames that the kernel has handed over together. They are given back when
/// this is dropped.
#[derive(Debug)]
pub struct Block<'a> {
    ring: &'a mut Ring,
    /// A device whose outgoing frames are left out.
    incoming_only: Option<u32>,
}

/// One packet as it passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When, by the machine's clock, from 1970 on.
    pub at: Instant,
    /// What was kept of its IP packet; `None` if it holds none.
    pub packet: Option<&'a [u8]>,
    /// How many bytes of it after these were not kept.
    pub cut: u32,
    /// The outermost VLAN that it was tagged with.
    pub vlan: Option<u16>,
    /// The number of the device that it passed.
    pub device: u32,
    /// Whether this machine sent it.
    pub outgoing: bool,
}

/// Where the kernel puts the address of a frame's sender: after the header,
/// which is aligned to 16 bytes (`TPACKET_ALIGN`).
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
const PROTOCOL: usize = ADDRESS + offset_of!(libc::sockaddr_ll, sll_protocol);
const DEVICE: usize = ADDRESS + offset_of!(libc::sockaddr_ll, sll_ifindex);
const KIND: usize = ADDRESS + offset_of!(libc::sockaddr_ll, sll_pkttype);

const HEAD: usize = offset_of!(libc::tpacket_block_desc, hdr);
const FRAMES: usize = HEAD + offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST: usize = HEAD + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);

impl<'a> Block<'a> {
    /// The next block, if one is full.
    pub(crate) fn next(ring: &'a mut Ring, incoming_only: Option<u32>) -> Option<Self> {
        ring.filled()?;
        Some(Self {
            ring,
            incoming_only,
        })
    }

    fn bytes(&self) -> &[u8] {
        self.ring.filled().unwrap_or_default()
    }

    /// How many frames it holds, those included that are left out.
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
        let frames = (0..self.len()).map_while(move |_| {
            let frame = bytes.get(at..)?;
            let next = word(frame, offset_of!(libc::tpacket3_hdr, tp_next_offset)) as usize;
            at = at.wrapping_add(next);
            read(frame)
        });
        let left_out = self.incoming_only;
        frames.filter(move |frame| !(frame.outgoing && left_out == Some(frame.device)))
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
    let bytes = frame.get(start..start + kept)?;
    let whole = word(frame, offset_of!(libc::tpacket3_hdr, tp_len));
    Some(Frame {
        at: Instant::from_nanos(u64::from(seconds) * 1_000_000_000 + u64::from(nanos)),
        // Tags and labels that the device leaves in come first.
        packet: link::above(protocol, bytes),
        cut: whole.saturating_sub(kept as u32),
        vlan: taken_out(frame).or_else(|| link::tag(protocol, bytes)),
        device: word(frame, DEVICE),
        outgoing: frame[KIND] == libc::PACKET_OUTGOING,
    })
}

/// The VLAN of a tag that the device or the kernel has taken out of the frame.
fn taken_out(frame: &[u8]) -> Option<u16> {
    const TAG: usize =
        offset_of!(libc::tpacket3_hdr, hv1) + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tci);
    let status = word(frame, offset_of!(libc::tpacket3_hdr, tp_status));
    (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| word(frame, TAG) as u16 & 0x0fff)
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
        put(DEVICE, &3u32.to_ne_bytes());
        put(80, &[0x60, 9, 8, 7, 6]);
        let wanted = Frame {
            at: Instant::from_nanos(3_000_000_007),
            packet: Some(&[0x60, 9, 8, 7]),
            cut: 1496,
            vlan: None,
            device: 3,
            outgoing: true,
        };
        assert_eq!(read(&frame), Some(wanted));
        let mut tagged = frame.clone();
        let mut put = |at: usize, value: &[u8]| tagged[at..at + value.len()].copy_from_slice(value);
        let tag = offset_of!(libc::tpacket3_hdr, hv1);
        put(
            tag + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tci),
            &0xe007u32.to_ne_bytes(),
        );
        put(
            offset_of!(libc::tpacket3_hdr, tp_status),
            &libc::TP_STATUS_VLAN_VALID.to_ne_bytes(),
        );
        assert_eq!(read(&tagged).and_then(|f| f.vlan), Some(7), "taken out");
        // One that the device has left in.
        tagged.resize(120, 0);
        let mut put = |at: usize, value: &[u8]| tagged[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(libc::tpacket3_hdr, tp_status), &[0; 4]);
        put(
            offset_of!(libc::tpacket3_hdr, tp_snaplen),
            &7u32.to_ne_bytes(),
        );
        put(PROTOCOL, &[0x88, 0xa8]);
        put(80, &[0, 9, 0x08, 0, 0x45, 1, 2]);
        let left_in = read(&tagged).expect("a frame");
        assert_eq!(
            (left_in.vlan, left_in.packet),
            (Some(9), Some(&[0x45, 1, 2][..]))
        );
        assert_eq!(read(&frame[..83]), None, "cut");
        assert_eq!(read(&frame[..40]), None, "cut in its header");
    }
}
