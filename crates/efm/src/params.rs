//! What goes over the border to C: parameters, and the facts of a packet.

use narrows_units::Instant;
use narrows_wire::TcpFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `enum nw_efm_has`.
const HAS_SOCKET: u8 = 4;

/// `enum nw_efm_rule`.
pub(crate) const SPIN_NAIVE: u8 = 0x01;
pub(crate) const DELAY_DYNAMIC: u8 = 0x02;
pub(crate) const DELAY_HOLD: u8 = 0x04;
pub(crate) const DELAY_SKIP_SACK: u8 = 0x08;
pub(crate) const VEC_HOLD: u8 = 0x10;

/// The rules of a sender as its state machines want them: `struct
/// nw_efm_params` of kernel/nw_efm.h. Made from a [`SignalSpec`](crate::SignalSpec). Its bytes
/// are what a program takes that is to be loaded into the kernel of this machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
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

const _: () = assert!(size_of::<SignalParams>() == 24);
const _: () = assert!(core::mem::offset_of!(SignalParams, signals) == 20);

/// A packet, and what its host's socket knows: `struct nw_efm_packet` of
/// kernel/nw_efm.h. Programs in the kernel of this machine report it as bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
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

    /// Whether it is a SYN or a SYN-ACK.
    pub fn is_syn(&self) -> bool {
        self.flags & TcpFlags::SYN as u8 != 0
    }

    /// The three bits of byte 12 as they arrived.
    pub fn bits(&self) -> u8 {
        self.bits
    }
}
