//! The structs of `kernel/nw_mmb.h` and `kernel/packet.h`, which assert the same sizes and
//! places.

use std::mem::{offset_of, size_of};
use std::net::IpAddr;

use narrows_wire::FlowKey;

use crate::field::Layer;
use crate::layout::{WINDOW, Window, layer_bit};

/// Bytes of options in a TCP header (RFC 9293 §3.1).
pub(crate) const OPTIONS: usize = 40;

/// A change of two bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramSet {
    /// Bits of the layers that have to be there.
    pub layer: u8,
    /// 1 if `at` counts from the IP header, 0 if from the one above.
    pub from_ip: u8,
    /// Bytes, an even number.
    pub at: u16,
    /// Bits that stay.
    pub keep: [u8; 2],
    /// Bits that are set.
    pub value: [u8; 2],
}

/// A change of the TCP options.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramOption {
    /// How: a [`ProgramOptionWhat`](crate::ProgramOptionWhat).
    pub what: u8,
    /// The kind of the options that it is about.
    pub kind: u8,
    /// How many bytes they hold, 38 at most.
    pub len: u8,
    pub(crate) unused: u8,
    /// What they hold; of [`Keep`](crate::ProgramOptionWhat::Keep) a bit for each kind, from the lowest bit of
    /// the first byte.
    pub bytes: [u8; OPTIONS],
}

/// A field of a connection's packets that gets another value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramMapping {
    /// The field: a [`ProgramMapped`](crate::ProgramMapped).
    pub what: u8,
    /// 1 if the value is drawn.
    pub drawn: u8,
    pub(crate) unused: [u8; 2],
    /// The value of what is no address.
    pub number: u32,
    /// An address; that of IPv4 in the first four bytes.
    pub address: [u8; 16],
}

/// A connection's key in packets; of ICMP echo the identifier stands for both ports.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub source: [u8; 16],
    pub destination: [u8; 16],
    /// In network order.
    pub source_port: [u8; 2],
    pub destination_port: [u8; 2],
    pub protocol: u8,
    pub v6: u8,
    pub unused: u16,
}

/// Source, destination, identification and protocol of a fragmented packet.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fragmented {
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub ident: u32,
    pub protocol: u8,
    pub v6: u8,
    pub unused: u16,
}

/// What is known of a connection besides its forward key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Of reverse packets as they come.
    pub reverse: Flow,
    /// Nanoseconds.
    pub last_active: u64,
    pub seq: u32,
    pub ack: u32,
    pub label: u32,
    pub label_before: u32,
    pub ident: u16,
    pub ident_set: u16,
    pub ident_before: u16,
    /// Which addresses and ports of its packets change.
    pub mapped: u8,
    pub sets_ident: u8,
    pub sets_label: u8,
    /// TCP flags seen, forward and reverse.
    pub flags: [u8; 2],
    pub replied: u8,
    pub acked: [u32; 2],
    pub unused: u32,
}

/// Where a TCP option is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub kind: u8,
    pub at: u8,
    pub len: u8,
    pub unused: u8,
}

/// A packet while it is looked at.
#[repr(C)]
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Its headers at fixed places, and what C may touch behind them.
    pub window: [u8; 72],
    pub now: u64,
    /// Bytes of IP, those that are counted and not stored included.
    pub len: u32,
    /// Bytes from its start to what is above IP.
    pub header_len: u32,
    /// Bytes of the TCP header with its options; 0 without TCP.
    pub tcp_len: u32,
    pub layers: u32,
    pub more_fragments: u32,
    pub later: u32,
    pub fragment_ident: u32,
    pub sum_at: u32,
    pub covers: u32,
    pub reverse: u32,
    /// Its key as it came.
    pub flow: Flow,
    /// That of its connection's first packet.
    pub forward: Flow,
    /// Its key as it leaves.
    pub left: Flow,
    /// By what a fragment's packet is known.
    pub fragmented: Fragmented,
    pub quote: [u32; 6],
    pub options: [u8; 72],
    pub options_len: u32,
    pub found: u32,
    pub broken: u32,
    pub repacked: u32,
    pub option: [Found; OPTIONS],
    pub packed: [u8; OPTIONS],
    pub change: ProgramOption,
    pub pack: [u32; 6],
    pub chunk: [u8; 512],
}

const _: () = assert!(size_of::<ProgramSet>() == 8);
const _: () = assert!(size_of::<ProgramOption>() == 44);
const _: () = assert!(size_of::<ProgramMapping>() == 24);
const _: () = assert!(size_of::<Flow>() == 40);
const _: () = assert!(size_of::<Tracked>() == 88);
const _: () = assert!(offset_of!(Tracked, ident) == 64);
const _: () = assert!(offset_of!(Tracked, acked) == 76);
const _: () = assert!(size_of::<Fragmented>() == 40);
const _: () = assert!(offset_of!(Reading, now) == 72);
const _: () = assert!(offset_of!(Reading, flow) == 120);
const _: () = assert!(offset_of!(Reading, fragmented) == 240);
const _: () = assert!(offset_of!(Reading, options) == 304);
const _: () = assert!(offset_of!(Reading, option) == 392);
const _: () = assert!(offset_of!(Reading, packed) == 552);
const _: () = assert!(offset_of!(Reading, chunk) == 660);
const _: () = assert!(size_of::<Reading>() == 1176);

impl Flow {
    /// The ends that it names, and its protocol.
    pub(crate) fn key(&self) -> FlowKey {
        let address = |octets: &[u8; 16]| match (self.v6, octets) {
            (0, [a, b, c, d, ..]) => IpAddr::from([*a, *b, *c, *d]),
            (_, octets) => IpAddr::from(*octets),
        };
        FlowKey {
            source: address(&self.source),
            destination: address(&self.destination),
            source_port: u16::from_be_bytes(self.source_port),
            destination_port: u16::from_be_bytes(self.destination_port),
            protocol: self.protocol,
        }
    }

    /// A hash; no order depends on it.
    pub(crate) fn hash(&self) -> u64 {
        let words = |octets: &[u8; 16]| {
            let number = u128::from_ne_bytes(*octets);
            [number as u64, (number >> 64) as u64]
        };
        let [a, b] = words(&self.source);
        let [c, d] = words(&self.destination);
        let [e, f] = self.source_port;
        let [g, h] = self.destination_port;
        let ports = u64::from_ne_bytes([e, f, g, h, self.protocol, self.v6, 0, 0]);
        crate::table::hash([a, b, c, d, ports].into_iter())
    }
}

impl Tracked {
    /// A connection of that protocol, with these TCP flags seen, forward and reverse.
    pub(crate) fn with(protocol: u8, flags: [u8; 2]) -> Self {
        let reverse = Flow {
            protocol,
            ..Flow::default()
        };
        Self {
            reverse,
            flags,
            ..Self::default()
        }
    }
}

impl Reading {
    /// The window of the packet.
    pub(crate) fn window(&self) -> &Window {
        self.window.first_chunk::<WINDOW>().expect("it has more")
    }

    /// Whether the packet has what `layer` asks for.
    pub(crate) fn has(&self, layer: Layer) -> bool {
        let bit = u32::from(layer_bit(layer));
        self.layers & bit == bit
    }

    /// What the first option of `kind` holds; of any kind if that is `None`.
    pub(crate) fn option(&self, kind: Option<u8>) -> Option<&[u8]> {
        let mut found = self.option.iter().take(self.found as usize);
        let option = found.find(|option| kind.is_none_or(|kind| kind == option.kind))?;
        let at = usize::from(option.at);
        self.options.get(at..at + usize::from(option.len))
    }

    /// Whether the packet is a fragment, and whether one without the header above IP.
    pub(crate) fn fragment(&self) -> (bool, bool) {
        let later = self.later != 0;
        (later || self.more_fragments != 0, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_one_byte_have_different_hashes() {
        let key = |change: usize| {
            let mut flow = Flow::default();
            match change {
                0..16 => flow.source[change] = 1,
                16..32 => flow.destination[change - 16] = 1,
                32 | 33 => flow.source_port[change - 32] = 1,
                34 | 35 => flow.destination_port[change - 34] = 1,
                36 => flow.protocol = 1,
                37 => flow.v6 = 1,
                _ => {}
            }
            flow
        };
        let hashes: std::collections::BTreeSet<u64> = (0..=38).map(|n| key(n).hash()).collect();
        assert_eq!(hashes.len(), 39);
    }
}
