//! What the marking programs report to user space: counters, and in a trace each
//! packet with what was decided (bpf/mark.h).

use std::net::{IpAddr, Ipv6Addr};

use narrows_efm::{PacketFacts, SignalCounters, Write};
use narrows_wire::{FlowKey, ip};

use crate::error::BpfError;

/// Bytes of `struct nw_mark_record`.
pub(crate) const RECORD_BYTES: usize = 96;
/// 64-bit words of `struct nw_mark_counters`.
const COUNTERS: usize = 19;

/// Adds up `struct nw_mark_counters` of all CPUs. The second number counts records of a trace that found no room.
#[cfg_attr(
    not(all(target_os = "linux", feature = "load", bpf_objects)),
    allow(dead_code)
)]
pub(crate) fn sum(cpus: &[Vec<u8>]) -> (SignalCounters, u64) {
    let mut sum = [0u64; COUNTERS];
    for cpu in cpus {
        for (total, word) in sum.iter_mut().zip(cpu.chunks_exact(8)) {
            let word = <[u8; 8]>::try_from(word).map_or(0, u64::from_ne_bytes);
            *total = total.wrapping_add(word);
        }
    }
    let mut set = [0; 8];
    set.copy_from_slice(&sum[3..11]);
    let counters = SignalCounters {
        flows: sum[0],
        evicted: sum[18],
        announced: sum[1],
        marked: sum[2],
        set,
        segmented: sum[11],
        segments: sum[12],
        without_socket: sum[13],
        refused: sum[14],
        passed_over: sum[16],
        other: sum[17],
    };
    (counters, sum[15])
}

/// One packet at a device, and what was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRecord {
    /// Its connection, this host's end as the source.
    pub flow: FlowKey,
    /// Whether it arrived.
    pub arrived: bool,
    /// What the state machines received.
    pub packet: PacketFacts,
    /// What they wrote.
    pub write: Option<Write>,
}

impl SignalRecord {
    /// The bytes that [`from_bytes`](Self::from_bytes) reads.
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..48].copy_from_slice(&self.packet.to_bytes());
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        bytes[48..64].copy_from_slice(&octets(self.flow.source));
        bytes[64..80].copy_from_slice(&octets(self.flow.destination));
        bytes[80..82].copy_from_slice(&self.flow.source_port.to_be_bytes());
        bytes[82..84].copy_from_slice(&self.flow.destination_port.to_be_bytes());
        bytes[88..92].copy_from_slice(&u32::from(self.arrived).to_ne_bytes());
        let write = self
            .write
            .map_or(0, |w| u32::from_be_bytes([0, 0, w.mask, w.bits]));
        bytes[92..].copy_from_slice(&write.to_ne_bytes());
        bytes
    }

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
        let [_, _, mask, bits] = word(44).to_be_bytes();
        Ok(Self {
            flow: FlowKey {
                source: address(0),
                destination: address(16),
                source_port: port(32),
                destination_port: port(34),
                protocol: ip::TCP,
            },
            arrived: word(40) != 0,
            packet: PacketFacts::from_bytes(packet),
            write: (mask != 0).then_some(Write { mask, bits }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_fields_where_the_kernel_wrote_them() {
        let mut bytes = [0; RECORD_BYTES];
        for (i, byte) in bytes[..43].iter_mut().enumerate() {
            *byte = i as u8;
        }
        bytes[58..64].copy_from_slice(&[0xff, 0xff, 10, 9, 0, 1]);
        bytes[64] = 0xfd;
        bytes[80..84].copy_from_slice(&[0x12, 0x34, 0x13, 0x89]);
        bytes[88..92].copy_from_slice(&1u32.to_ne_bytes());
        bytes[92..].copy_from_slice(&0x0e02u32.to_ne_bytes());
        let record = SignalRecord::from_bytes(&bytes).unwrap();
        assert_eq!(record.flow.source, IpAddr::from([10, 9, 0, 1]));
        assert!(record.flow.destination.is_ipv6() && record.arrived);
        let ports = (record.flow.source_port, record.flow.destination_port);
        assert_eq!(ports, (0x1234, 5001));
        let write = Write {
            mask: 0x0e,
            bits: 2,
        };
        assert_eq!(record.write, Some(write));
        assert_eq!(record.to_bytes(), bytes);
        assert!(SignalRecord::from_bytes(&bytes[1..]).is_err());
    }

    #[test]
    fn counters_of_all_cpus_are_added_up() {
        let cpu = |from: u64| (from..from + 19).flat_map(u64::to_ne_bytes).collect();
        let (counters, untraced) = sum(&[cpu(1), cpu(101)]);
        assert_eq!((counters.flows, counters.evicted), (102, 138));
        assert_eq!((counters.set[0], counters.set[7]), (108, 122));
        assert_eq!(
            (untraced, counters.passed_over, counters.other),
            (132, 134, 136)
        );
    }
}
