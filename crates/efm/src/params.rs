//! What goes over the border to C: parameters, and the facts of a packet.

use narrows_units::Instant;
use narrows_wire::TcpFlags;

/// `enum nw_efm_has`.
const HAS_SOCKET: u8 = 4;

/// `enum nw_efm_rule`.
pub(crate) const SPIN_NAIVE: u8 = 0x01;
pub(crate) const DELAY_DYNAMIC: u8 = 0x02;
pub(crate) const DELAY_HOLD: u8 = 0x04;
pub(crate) const DELAY_SKIP_SACK: u8 = 0x08;
pub(crate) const VEC_HOLD: u8 = 0x10;

/// The rules of a sender as its state machines want them: `struct
/// nw_efm_params` of kernel/nw_efm.h. Made from a [`SignalSpec`](crate::SignalSpec).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalParams {
    pub(crate) t_max_us: u32,
    pub(crate) hold_us: u32,
    pub(crate) vec_hold_us: u32,
    pub(crate) q_shift: u32,
    pub(crate) r_threshold: u32,
    pub(crate) signals: u8,
    pub(crate) announce: u8,
    pub(crate) rules: u8,
    pub(crate) unused: u8,
}

impl SignalParams {
    /// The bytes of `struct nw_efm_params` on this machine, for a program that
    /// is to be loaded into its kernel.
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let words = [
            self.t_max_us,
            self.hold_us,
            self.vec_hold_us,
            self.q_shift,
            self.r_threshold,
        ];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[20..].copy_from_slice(&[self.signals, self.announce, self.rules, self.unused]);
        bytes
    }
}

const _: () = assert!(size_of::<SignalParams>() == 24);
const _: () = assert!(core::mem::offset_of!(SignalParams, signals) == 20);

/// A packet, and what its host's socket knows: `struct nw_efm_packet` of
/// kernel/nw_efm.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    pub(crate) now_ns: u64,
    pub(crate) seq: u32,
    pub(crate) seq_end: u32,
    pub(crate) ack: u32,
    pub(crate) tsval: u32,
    pub(crate) segments: u32,
    pub(crate) lost: u32,
    pub(crate) spurious: u32,
    pub(crate) delivered_ce: u32,
    pub(crate) flags: u8,
    pub(crate) bits: u8,
    pub(crate) has: u8,
    pub(crate) unused: [u8; 5],
}

const _: () = assert!(size_of::<PacketFacts>() == 48);
const _: () = assert!(core::mem::offset_of!(PacketFacts, flags) == 40);

impl PacketFacts {
    /// Reads the TCP header at the start of `segment`, which is `len` bytes
    /// long on the wire; `None` where it is not one. Socket facts follow by
    /// [`with_socket`](Self::with_socket).
    pub fn read(now: Instant, segment: &[u8], len: u32) -> Option<Self> {
        let mut header = [0; crate::ffi::HEADER_MAX];
        let there = segment.len().min(header.len());
        header[..there].copy_from_slice(&segment[..there]);
        let mut facts = Self {
            now_ns: now.as_nanos(),
            segments: 1,
            ..Self::default()
        };
        let header_len = crate::ffi::read(&mut facts, &header, len);
        (header_len > 0 && header_len as usize <= there).then_some(facts)
    }

    /// A packet of a transport that numbers its packets, in place of a TCP
    /// header. The state machines learn a connection's roles from its opening:
    /// `opening` is `Some(false)` for the first packet of the initiator,
    /// `Some(true)` for the responder's answer, and `None` for every other
    /// packet. `bits` are signals where [`Profile::mask`](narrows_wire::Profile)
    /// has them.
    pub fn numbered(now: Instant, number: u32, opening: Option<bool>, bits: u8) -> Self {
        let flags = match opening {
            None => 0,
            Some(false) => TcpFlags::SYN,
            Some(true) => TcpFlags::SYN | TcpFlags::ACK,
        };
        Self {
            now_ns: now.as_nanos(),
            seq: number,
            seq_end: number.wrapping_add(1),
            segments: 1,
            flags: flags as u8,
            bits,
            ..Self::default()
        }
    }

    /// With what the socket counted: segments declared lost, of these found to
    /// be spurious, and CE-marked segments that the peer has echoed. Each
    /// counts from the connection's start and may wrap at 32 bits.
    #[must_use]
    pub fn with_socket(self, lost: u32, spurious: u32, delivered_ce: u32) -> Self {
        Self {
            lost,
            spurious,
            delivered_ce,
            has: self.has | HAS_SOCKET,
            ..self
        }
    }

    /// As one that segmentation will cut into `segments` packets.
    #[must_use]
    pub fn with_segments(self, segments: u32) -> Self {
        Self { segments, ..self }
    }

    /// Reads what a program in the kernel of a machine with the same byte order
    /// wrote down: `struct nw_efm_packet`.
    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        let word = |i: usize| {
            let at = 8 + 4 * i;
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut first = [0; 8];
        first.copy_from_slice(&bytes[..8]);
        Self {
            now_ns: u64::from_ne_bytes(first),
            seq: word(0),
            seq_end: word(1),
            ack: word(2),
            tsval: word(3),
            segments: word(4),
            lost: word(5),
            spurious: word(6),
            delivered_ce: word(7),
            flags: bytes[40],
            bits: bytes[41],
            has: bytes[42],
            unused: [0; 5],
        }
    }

    /// The bytes that [`from_bytes`](Self::from_bytes) reads.
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        bytes[..8].copy_from_slice(&self.now_ns.to_ne_bytes());
        let words = [
            self.seq,
            self.seq_end,
            self.ack,
            self.tsval,
            self.segments,
            self.lost,
            self.spurious,
            self.delivered_ce,
        ];
        for (to, word) in bytes[8..40].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[40..43].copy_from_slice(&[self.flags, self.bits, self.has]);
        bytes
    }

    /// Whether it is a SYN or a SYN-ACK.
    pub fn is_syn(&self) -> bool {
        self.flags & TcpFlags::SYN as u8 != 0
    }

    /// The three bits of byte 12 as they arrived.
    pub fn bits(&self) -> u8 {
        self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_wrote_down_is_read_field_by_field() {
        let mut bytes = [0; size_of::<PacketFacts>()];
        bytes[..8].copy_from_slice(&1u64.to_ne_bytes());
        for (i, word) in (2..10u32).enumerate() {
            bytes[8 + 4 * i..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[40..43].copy_from_slice(&[10, 11, 12]);
        let facts = PacketFacts::from_bytes(&bytes);
        assert_eq!((facts.now_ns, facts.seq, facts.seq_end), (1, 2, 3));
        assert_eq!((facts.ack, facts.tsval, facts.segments), (4, 5, 6));
        assert_eq!((facts.lost, facts.spurious, facts.delivered_ce), (7, 8, 9));
        assert_eq!((facts.flags, facts.bits, facts.has), (10, 11, 12));
        assert_eq!(facts.to_bytes(), bytes);
    }
}
