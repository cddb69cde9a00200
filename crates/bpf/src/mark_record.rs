//! What the marking programs tell user space: counters, and in a trace each
//! packet with what was decided (bpf/mark.h).

use std::net::{IpAddr, Ipv6Addr};

use narrows_efm::{PacketFacts, Write};
use narrows_wire::{FlowKey, Signal, ip};

use crate::error::BpfError;

/// Bytes of `struct nw_mark_record`.
const RECORD_BYTES: usize = 96;
/// 64-bit words of `struct nw_mark_counters`.
const COUNTERS: usize = 16;

/// Signals in the order of `enum nw_efm_place`.
const PLACES: [Signal; 8] = [
    Signal::Spin,
    Signal::Vec,
    Signal::Delay,
    Signal::Square,
    Signal::Loss,
    Signal::Reflection,
    Signal::RoundTripLoss,
    Signal::EcnEcho,
];

/// What marking has come to at one device so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkCounters {
    /// Connections that began and were looked at.
    pub flows: u64,
    /// Of these, forgotten because there were too many.
    pub evicted: u64,
    /// SYNs and SYN-ACKs that a code other than 000 was written into.
    pub announced: u64,
    /// Packets that signals were written into, all-zero bits included.
    pub marked: u64,
    /// Of these, with each signal's bit set (for the edge counter: not zero),
    /// signals that never were left out.
    pub set: Vec<(Signal, u64)>,
    /// Packets left without marks, but for a spin value, as they were to be cut
    /// in several.
    pub segmented: u64,
    /// What became of those on the wire.
    pub segments: u64,
    /// SYNs and SYN-ACKs that no socket of this host sent, left alone by
    /// profiles with L or E.
    pub without_socket: u64,
    /// Packets that the kernel would not let change.
    pub refused: u64,
    /// Records of a trace that found no room.
    pub untraced: u64,
}

impl MarkCounters {
    /// Adds up the counters of all CPUs; `present` flows are in the table.
    pub(crate) fn sum(cpus: &[Vec<u8>], present: u64) -> Self {
        let mut sum = [0u64; COUNTERS];
        for cpu in cpus {
            for (total, word) in sum.iter_mut().zip(cpu.chunks_exact(8)) {
                let word = <[u8; 8]>::try_from(word).map_or(0, u64::from_ne_bytes);
                *total = total.wrapping_add(word);
            }
        }
        let set = PLACES.into_iter().zip(sum[3..11].iter().copied());
        Self {
            flows: sum[0],
            evicted: sum[0].saturating_sub(present),
            announced: sum[1],
            marked: sum[2],
            set: set.filter(|(_, count)| *count > 0).collect(),
            segmented: sum[11],
            segments: sum[12],
            without_socket: sum[13],
            refused: sum[14],
            untraced: sum[15],
        }
    }

    /// Packets with the bit of `signal` set.
    pub fn set(&self, signal: Signal) -> u64 {
        let found = self.set.iter().find(|(s, _)| *s == signal);
        found.map_or(0, |(_, count)| *count)
    }
}

/// One packet at a device, and what was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRecord {
    /// Its connection, this host's end as the source.
    pub flow: FlowKey,
    /// Whether it arrived.
    pub arrived: bool,
    /// What the state machines were told.
    pub packet: PacketFacts,
    /// What they wrote.
    pub write: Option<Write>,
}

impl MarkRecord {
    /// Reads `struct nw_mark_record`.
    ///
    /// # Errors
    /// If it has another size.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BpfError> {
        let whole: &[u8; RECORD_BYTES] = bytes
            .try_into()
            .map_err(|_| BpfError::Record(bytes.len(), RECORD_BYTES))?;
        let (packet, rest) = whole.split_first_chunk().expect("48 of 96 bytes");
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&rest[at..at + 16]);
            let address = Ipv6Addr::from(octets);
            let mapped = address.to_ipv4_mapped().map(IpAddr::V4);
            mapped.unwrap_or(IpAddr::V6(address))
        };
        let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        let word =
            |at: usize| u32::from_ne_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let [_, _, mask, bits] = word(40).to_be_bytes();
        Ok(Self {
            flow: FlowKey {
                source: address(0),
                destination: address(16),
                source_port: port(32),
                destination_port: port(34),
                protocol: ip::TCP,
            },
            arrived: word(36) != 0,
            packet: PacketFacts::from_bytes(packet),
            write: (mask != 0).then_some(Write { mask, bits }),
        })
    }
}
