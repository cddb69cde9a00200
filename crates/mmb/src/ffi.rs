//! The border to C: the only unsafe code of the crate.

use std::mem::size_of;

use narrows_core::{Port, UP};
use narrows_units::{Duration, Instant};
use narrows_wire::ip;

use crate::connections::Direction;
use crate::field::Layer;
use crate::layout::layer_bit;
use crate::structs::{
    Flow, Fragmented, OPTIONS, ProgramMapping, ProgramOption, ProgramSet, Reading, Tracked,
};

/// The layers of a packet of IPv6 with nothing above.
const IP6: u32 = layer_bit(Layer::Ip6) as u32;

/// `struct nw_skb` of `kernel/native.h`.
#[repr(C)]
struct Skb {
    bytes: *mut u8,
    len: u32,
    stored: u32,
    room: u32,
    mtu: u32,
    protocol: u16,
    unused: u16,
    unused_too: u32,
}

const _: () = assert!(size_of::<*mut u8>() != 8 || size_of::<Skb>() == 32);

// SAFETY: the declarations match kernel/native.h. Every function reads and writes what its
// pointers point at, for the length of the call, and of a packet's bytes `stored` ones, or
// `room` where it makes a header longer; `kernel/check/harness.c` has them do so under
// sanitizers with whatever packets.
unsafe extern "C" {
    fn nw_mmb_native_read(skb: *mut Skb, p: *mut Reading, way: u32, options: u32) -> u32;
    fn nw_mmb_native_is_tiny(p: *const Reading) -> u32;
    fn nw_mmb_native_payload_at(p: *const Reading, layer: u32) -> u32;
    fn nw_mmb_native_fragment(p: *mut Reading);
    fn nw_mmb_native_key(skb: *mut Skb, p: *mut Reading) -> u32;
    fn nw_mmb_native_left(skb: *mut Skb, p: *mut Reading);
    fn nw_mmb_native_set(
        skb: *mut Skb,
        p: *mut Reading,
        sets: *const ProgramSet,
        count: u32,
    ) -> u32;
    fn nw_mmb_native_set_payload(
        skb: *mut Skb,
        p: *mut Reading,
        layer: u32,
        bytes: *const u8,
        len: u32,
    ) -> u32;
    fn nw_mmb_native_list_options(skb: *mut Skb, p: *mut Reading) -> u32;
    fn nw_mmb_native_change_options(
        p: *mut Reading,
        changes: *const ProgramOption,
        count: u32,
    ) -> u32;
    fn nw_mmb_native_put_options(skb: *mut Skb, p: *mut Reading) -> u32;
    fn nw_mmb_native_is_over(p: *const Reading, c: *const Tracked, reverse: u32) -> u32;
    fn nw_mmb_native_came(p: *mut Reading, c: *mut Tracked, reverse: u32);
    fn nw_mmb_native_kept_for(c: *const Tracked) -> u64;
    fn nw_mmb_native_is_assured(c: *const Tracked) -> u32;
    fn nw_mmb_native_is_followed(seen: u64, now: u64) -> u32;
    fn nw_mmb_native_is_there(p: *const Reading, m: *const ProgramMapping) -> u32;
    fn nw_mmb_native_map(
        p: *mut Reading,
        c: *mut Tracked,
        m: *const ProgramMapping,
        draw: u32,
    ) -> u32;
    fn nw_mmb_native_begin(skb: *mut Skb, p: *mut Reading, c: *mut Tracked) -> u32;
    fn nw_mmb_native_next_port(p: *mut Reading, c: *mut Tracked);
    fn nw_mmb_native_translate(skb: *mut Skb, p: *mut Reading, c: *const Tracked) -> u32;
    fn nw_mmb_native_quotes(skb: *mut Skb, p: *mut Reading) -> u32;
    fn nw_mmb_native_translate_error(skb: *mut Skb, p: *mut Reading, c: *const Tracked) -> u32;
}

impl Tracked {
    /// How long it is kept without packets.
    pub(crate) fn kept_for(&self) -> Duration {
        // SAFETY: C reads the struct, which has its layout.
        Duration::from_nanos(unsafe { nw_mmb_native_kept_for(self) })
    }

    /// When it is forgotten without further packets.
    pub(crate) fn expiry(&self) -> Instant {
        Instant::from_nanos(self.last_active) + self.kept_for()
    }

    /// Whether its other end has shown itself: it makes no room for others.
    pub(crate) fn is_assured(&self) -> bool {
        // SAFETY: as in `kept_for`.
        unsafe { nw_mmb_native_is_assured(self) != 0 }
    }
}

/// Whether a TCP connection is open of which these flags were seen, forward and reverse: SYN and ACK
/// both ways, and neither FIN nor RST.
pub fn is_established(flags: [u8; 2]) -> bool {
    Tracked::with(ip::TCP, flags).is_assured()
}

/// How long a connection of `protocol` is kept without packets; of TCP these flags were seen, forward
/// and reverse.
pub fn kept_for(protocol: u8, flags: [u8; 2]) -> Duration {
    Tracked::with(protocol, flags).kept_for()
}

/// Whether the packet of a fragment that was seen at `seen` is still followed.
pub(crate) fn is_followed(seen: Instant, now: Instant) -> bool {
    // SAFETY: plain numbers of any value.
    unsafe { nw_mmb_native_is_followed(seen.as_nanos(), now.as_nanos()) != 0 }
}

impl Default for Reading {
    fn default() -> Self {
        // SAFETY: it consists of numbers, of which 0 is one.
        unsafe { std::mem::zeroed() }
    }
}

impl Reading {
    /// Where the payload of `layer` starts in the packet.
    pub(crate) fn payload(&self, layer: Layer) -> usize {
        // SAFETY: C reads the struct, which has its layout.
        unsafe { nw_mmb_native_payload_at(self, layer_bit(layer).into()) as usize }
    }

    /// Whether a fragment hides from rules what is above IP (RFC 1858 §3, RFC 3128).
    pub(crate) fn is_tiny(&self) -> bool {
        // SAFETY: as in `payload`.
        unsafe { nw_mmb_native_is_tiny(self) != 0 }
    }

    /// By what a fragment's packet is known.
    pub(crate) fn fragmented(&mut self) -> Fragmented {
        // SAFETY: C reads and writes the struct, which has its layout.
        unsafe { nw_mmb_native_fragment(self) };
        self.fragmented
    }

    /// Whether the packet's connection is over: it was idle too long, or closed and its beginner begins
    /// another one.
    pub(crate) fn is_over(&self, connection: &Tracked, direction: Direction) -> bool {
        // SAFETY: C reads both structs, which have its layout.
        unsafe { nw_mmb_native_is_over(self, connection, direction.reverse()) != 0 }
    }

    /// The packet is one of the connection. A RST counts only with the number that the other end waits
    /// for (RFC 5961 §3.2), as far as that is known: anybody can send another one.
    pub(crate) fn comes(&mut self, connection: &mut Tracked, direction: Direction) {
        // SAFETY: C reads and writes both structs, which have its layout and do not overlap.
        unsafe { nw_mmb_native_came(self, connection, direction.reverse()) }
    }

    /// Whether a mapping is about packets with the key `left`.
    pub(crate) fn is_there(&self, mapping: &ProgramMapping) -> bool {
        // SAFETY: C reads both structs, which have its layout.
        unsafe { nw_mmb_native_is_there(self, mapping) != 0 }
    }

    /// Gives the connection, and `left`, what the mapping says, of `draw` where that is drawn. Whether another
    /// source port may be tried.
    pub(crate) fn map(&mut self, connection: &mut Tracked, m: &ProgramMapping, draw: u32) -> bool {
        // SAFETY: C reads and writes the structs, which have its layout and do not overlap.
        unsafe { nw_mmb_native_map(self, connection, m, draw) != 0 }
    }

    /// The connection's packets leave with the next port.
    pub(crate) fn next_port(&mut self, connection: &mut Tracked) {
        // SAFETY: as in `comes`.
        unsafe { nw_mmb_native_next_port(self, connection) }
    }
}

impl Direction {
    fn reverse(self) -> u32 {
        match self {
            Self::Forward => 0,
            Self::Reverse => 1,
        }
    }
}

/// A packet in a box: what was read of it, its bytes, and how many zeros after them are counted and not
/// stored.
pub(crate) struct Packet<'a> {
    pub reading: &'a mut Reading,
    pub bytes: &'a mut Vec<u8>,
    pub zero_tail: &'a mut u32,
    /// Bytes of IP beyond which options make it no longer.
    pub mtu: u32,
}

impl Packet<'_> {
    fn skb(&mut self) -> Skb {
        let stored = self.bytes.len() as u32;
        Skb {
            bytes: self.bytes.as_mut_ptr(),
            len: stored.saturating_add(*self.zero_tail),
            stored,
            room: stored,
            mtu: self.mtu,
            protocol: 0,
            unused: 0,
            unused_too: 0,
        }
    }

    /// Reads its headers, and its TCP options if they are wanted. Whether it is a packet of IP.
    pub(crate) fn read(&mut self, now: Instant, port: Port, options: bool) -> bool {
        let way = if port == UP { 1 } else { 2 };
        self.reading.now = now.as_nanos();
        let mut skb = self.skb();
        // SAFETY: the structs have C's layout, and the packet has `stored` bytes.
        unsafe { nw_mmb_native_read(&mut skb, self.reading, way, options.into()) == 0 }
    }

    /// Its key, into `flow`, if it is no later fragment. Whether it has one.
    pub(crate) fn key(&mut self) -> bool {
        let mut skb = self.skb();
        // SAFETY: as in `read`.
        unsafe { nw_mmb_native_key(&mut skb, self.reading) != 0 }
    }

    /// Its key as it is now, into `left`; `flow` where it has none.
    pub(crate) fn leave(&mut self) {
        let mut skb = self.skb();
        // SAFETY: as in `read`.
        unsafe { nw_mmb_native_left(&mut skb, self.reading) }
    }

    /// Stores the zeros of the packet up to `end`.
    pub(crate) fn store(&mut self, end: usize) {
        let missing = end.saturating_sub(self.bytes.len());
        let missing = missing.min(*self.zero_tail as usize);
        self.bytes.resize(self.bytes.len() + missing, 0);
        *self.zero_tail -= missing as u32;
    }

    /// Stores its headers, all that changes but payloads and quotations.
    pub(crate) fn store_headers(&mut self) {
        let above = match self.reading.layers & !u32::from(layer_bit(Layer::Ip4)) {
            // A header that is cut may hold a checksum.
            0 | IP6 => 20,
            _ => self.reading.tcp_len.max(8),
        };
        self.store((self.reading.header_len + above) as usize);
    }

    /// Changes words of the headers that are there.
    pub(crate) fn set(&mut self, sets: &[ProgramSet]) {
        // What QUIC has in clear is payload.
        if self.reading.has(Layer::UdpData) {
            self.store(self.reading.header_len as usize + 10);
        }
        let mut skb = self.skb();
        let count = sets.len() as u32;
        // SAFETY: as in `read`; of `sets` C reads `count`.
        let failed = unsafe { nw_mmb_native_set(&mut skb, self.reading, sets.as_ptr(), count) };
        debug_assert_eq!(failed, 0);
    }

    /// Puts `new` at the beginning of the payload of `layer`, as far as there is payload.
    pub(crate) fn set_payload(&mut self, layer: Layer, new: &[u8]) {
        let end = self.reading.payload(layer) + new.len();
        // Words of two bytes are written.
        self.store(end.min(self.reading.len as usize).next_multiple_of(2));
        let mut skb = self.skb();
        let (layer, len) = (layer_bit(layer).into(), new.len() as u32);
        // SAFETY: as in `read`; of `new` C reads `len` bytes.
        let failed =
            unsafe { nw_mmb_native_set_payload(&mut skb, self.reading, layer, new.as_ptr(), len) };
        debug_assert_eq!(failed, 0);
    }

    /// Makes these changes of the TCP options; whether all of them were made. None are where the options
    /// cannot be read, nor in fragments, whose places a longer or shorter header would shift.
    pub(crate) fn change_options<'c>(
        &mut self,
        changes: impl Iterator<Item = &'c [ProgramOption]>,
    ) -> bool {
        let mut skb = self.skb();
        // SAFETY: as in `read`.
        if unsafe { nw_mmb_native_list_options(&mut skb, self.reading) } != 0 {
            return false;
        }
        let mut unchanged = 0;
        for changes in changes {
            let (first, count) = (changes.as_ptr(), changes.len() as u32);
            // SAFETY: C reads `count` changes, and what it writes has its layout.
            unchanged |= unsafe { nw_mmb_native_change_options(self.reading, first, count) };
        }
        let mut skb = self.skb();
        self.bytes.extend([0; OPTIONS]);
        (skb.bytes, skb.room) = (self.bytes.as_mut_ptr(), self.bytes.len() as u32);
        // SAFETY: as in `read`; the packet has `room` bytes.
        unchanged |= unsafe { nw_mmb_native_put_options(&mut skb, self.reading) };
        self.bytes.truncate(skb.stored as usize);
        unchanged == 0
    }

    /// Changes a packet of the connection whose first one came with `forward`.
    pub(crate) fn translate(&mut self, forward: &Flow, c: &Tracked, direction: Direction) {
        self.reading.forward = *forward;
        self.reading.reverse = direction.reverse();
        let mut skb = self.skb();
        // SAFETY: as in `read`; C reads the connection.
        let failed = unsafe { nw_mmb_native_translate(&mut skb, self.reading, c) };
        debug_assert_eq!(failed, 0);
    }

    /// Whether it is an ICMP error that quotes a packet; the key of those that would answer that one, into
    /// `left`.
    pub(crate) fn quotes(&mut self) -> bool {
        if !self.reading.has(Layer::Icmp) && !self.reading.has(Layer::Icmp6) {
            return false;
        }
        let mut skb = self.skb();
        // SAFETY: as in `read`.
        unsafe { nw_mmb_native_quotes(&mut skb, self.reading) != 0 }
    }

    /// Changes an ICMP error that goes in `direction`, and what it quotes of a packet of the connection.
    pub(crate) fn translate_error(&mut self, forward: &Flow, c: &Tracked, direction: Direction) {
        self.reading.forward = *forward;
        self.reading.reverse = direction.reverse();
        self.store(self.reading.len as usize);
        let mut skb = self.skb();
        // SAFETY: as in `translate`.
        let failed = unsafe { nw_mmb_native_translate_error(&mut skb, self.reading, c) };
        debug_assert_eq!(failed, 0);
    }

    /// It is the first packet of a connection whose packets leave with `left`.
    pub(crate) fn begin(&mut self, connection: &mut Tracked) {
        let mut skb = self.skb();
        // SAFETY: as in `read`; C writes the connection, which has its layout.
        let failed = unsafe { nw_mmb_native_begin(&mut skb, self.reading, connection) };
        debug_assert_eq!(failed, 0);
    }
}
