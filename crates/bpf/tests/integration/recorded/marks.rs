//! Files of what the marking programs saw and decided at a device, and their
//! replay through the native build.
//!
//! A file is a gzip stream of
//!
//! | Bytes | Meaning |
//! |---|---|
//! | 8 | `NWMARKS` and the format's number, 1 |
//! | 2 + n | length and text: the profile in `narrows-efm`'s words |
//! | 2 + n | the same: the release of the kernel that ran the programs |
//! | 4 | number of records |
//! | per record: 96 | `struct nw_mark_record` of src/bpf/mark.h |
//!
//! Numbers are little-endian; so are those of records, which come from such a
//! machine.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;

use narrows_efm::{PacketFacts, SignalFlow, SignalSpec, Write};
use narrows_wire::{FlowKey, ip};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::file::{cut_short, damaged, head, pack, take_head, unpack};

const MAGIC: [u8; 8] = *b"NWMARKS\x01";

/// `struct nw_mark_record`: addresses of IPv4 are mapped into IPv6, and with the ports
/// as they are in a packet.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable)]
struct Raw {
    packet: PacketFacts,
    local: [u8; 16],
    remote: [u8; 16],
    local_port: [u8; 2],
    remote_port: [u8; 2],
    unused: u32,
    arrived: u32,
    write: u32,
}

const _: () = assert!(size_of::<Raw>() == 96);

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
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let raw = Raw::read_from_bytes(bytes).expect("a record of the marking programs");
        let address = |octets: [u8; 16]| IpAddr::from(octets).to_canonical();
        let [_, _, mask, bits] = raw.write.to_be_bytes();
        Self {
            flow: FlowKey {
                source: address(raw.local),
                destination: address(raw.remote),
                source_port: u16::from_be_bytes(raw.local_port),
                destination_port: u16::from_be_bytes(raw.remote_port),
                protocol: ip::TCP,
            },
            arrived: raw.arrived != 0,
            packet: raw.packet,
            write: (mask != 0).then_some(Write { mask, bits }),
        }
    }

    fn raw(&self) -> Raw {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let write = self.write;
        Raw {
            packet: self.packet,
            local: octets(self.flow.source),
            remote: octets(self.flow.destination),
            local_port: self.flow.source_port.to_be_bytes(),
            remote_port: self.flow.destination_port.to_be_bytes(),
            unused: 0,
            arrived: self.arrived.into(),
            write: write.map_or(0, |w| u32::from_be_bytes([0, 0, w.mask, w.bits])),
        }
    }
}

/// What the marking programs received of each packet of a device, and what they
/// decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalTrace {
    /// The signals and their rules.
    pub spec: SignalSpec,
    /// Release of the kernel that ran the programs.
    pub kernel: String,
    /// In the order in which the packets came to the device.
    pub records: Vec<SignalRecord>,
}

/// What a replay ran through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalsReplayed {
    /// Connections.
    pub flows: usize,
    /// Packets that left, each with a decision.
    pub left: u64,
    /// Of these, with at least one bit set.
    pub set: u64,
    /// Packets that arrived.
    pub arrived: u64,
}

/// The first packet for which the kernel and the native build decide otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalDifference {
    /// Index of the record.
    pub index: usize,
    /// What differs, with both values.
    pub what: String,
}

impl fmt::Display for SignalDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.index, self.what)
    }
}

impl SignalTrace {
    /// Writes the file.
    ///
    /// # Errors
    /// If `out` cannot be written, or a text or the number of records is beyond
    /// what the format can say.
    pub fn write(&self, out: impl io::Write) -> io::Result<()> {
        let mut bytes = head(MAGIC, &self.spec.to_string(), &self.kernel)?;
        let count = u32::try_from(self.records.len()).map_err(|_| damaged("it is too long"))?;
        bytes.extend_from_slice(&count.to_le_bytes());
        for record in &self.records {
            bytes.extend(record.raw().as_bytes());
        }
        pack(&bytes, out)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is not one, is cut short, or names an unknown profile.
    pub fn read(input: impl io::Read) -> io::Result<Self> {
        let bytes = unpack(input)?;
        let mut rest = bytes.as_slice();
        let (words, kernel) = take_head(&mut rest, MAGIC)?;
        let spec = SignalSpec::parse(&words)
            .map_err(|e| damaged(&format!("its profile `{words}`: {e}")))?;
        let (count, rest) = rest.split_first_chunk().ok_or_else(cut_short)?;
        let count = u32::from_le_bytes(*count) as usize;
        if Some(rest.len()) != count.checked_mul(size_of::<Raw>()) {
            return Err(cut_short());
        }
        let records = rest.chunks_exact(size_of::<Raw>());
        Ok(Self {
            spec,
            kernel,
            records: records.map(SignalRecord::from_bytes).collect(),
        })
    }

    /// Feeds every recorded packet to the native state machines and compares
    /// what they decide with what the kernel's decided.
    ///
    /// # Errors
    /// The first difference; a packet of a connection whose SYN is not in the
    /// trace counts as one.
    pub fn replay(&self) -> Result<SignalsReplayed, SignalDifference> {
        let params = self.spec.params();
        let mut flows: BTreeMap<FlowKey, SignalFlow> = BTreeMap::new();
        let mut done = SignalsReplayed::default();
        for (index, record) in self.records.iter().enumerate() {
            let differs = |what| SignalDifference { index, what };
            if record.packet.is_syn() {
                flows.entry(record.flow).or_default();
            }
            let flow = flows
                .get_mut(&record.flow)
                .ok_or_else(|| differs("a packet of a connection without a SYN".to_owned()))?;
            if record.arrived {
                flow.ingress(&params, &record.packet);
                done.arrived += 1;
                continue;
            }
            let native = flow.egress(&params, &record.packet);
            if native != record.write {
                let kernel = record.write;
                return Err(differs(format!("kernel {kernel:?}, native {native:?}")));
            }
            done.left += 1;
            done.set += u64::from(native.is_some_and(|write| write.bits != 0));
        }
        done.flows = flows.len();
        Ok(done)
    }
}
