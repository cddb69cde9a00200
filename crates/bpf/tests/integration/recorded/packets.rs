//! Packets of a host as its TCP has them, and files of them.
//!
//! A file is a gzip stream of
//!
//! | Bytes | Meaning |
//! |---|---|
//! | 8 | `NWPACKS` and the format's number, 1 |
//! | per packet: 8 | when it passed the device, ns of `CLOCK_MONOTONIC` |
//! | 8 | when TCP sent it, ns of the same clock; 0 for a packet that came in |
//! | 4 | bytes from the IP header on, of the whole super-packet |
//! | 2 | payload of each of its segments; 0 if it is one segment |
//! | 1 | 1 if it went out, 0 if it came in |
//! | 1 | bytes kept: the headers |
//! | n | these bytes |
//!
//! Numbers are little-endian; the stream ends with the last packet.

use std::io::{self, Read, Write};

use zerocopy::{FromBytes, Immutable};

use super::file::{cut_short, damaged, pack, unpack};

const MAGIC: [u8; 8] = *b"NWPACKS\x01";
/// Bytes of a packet in a file besides its own.
const HEAD: usize = 24;

/// `struct nw_packet` of src/bpf/tap.bpf.c.
#[repr(C)]
#[derive(FromBytes, Immutable)]
struct Tapped {
    passed_ns: u64,
    sent_ns: u64,
    len: u32,
    segment: u32,
    egress: u32,
    kept: u32,
    bytes: [u8; 100],
    _unused: u32,
}

/// One packet, super-packets as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it passed the device, ns of `CLOCK_MONOTONIC`.
    pub passed_ns: u64,
    /// When TCP sent it, on the same clock; 0 for one that came in.
    pub sent_ns: u64,
    /// Bytes from the IP header on.
    pub len: u32,
    /// Payload bytes of each segment but the last; 0 if there is one.
    pub segment: u16,
    /// It went out.
    pub egress: bool,
    /// Its headers.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Reads what came through a tap's ring buffer.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let tapped = Tapped::read_from_bytes(bytes).expect("a packet of the tap");
        Self {
            passed_ns: tapped.passed_ns,
            sent_ns: tapped.sent_ns,
            len: tapped.len,
            segment: u16::try_from(tapped.segment).unwrap_or(u16::MAX),
            egress: tapped.egress != 0,
            bytes: tapped.bytes[..tapped.kept as usize].to_vec(),
        }
    }
}

/// Writes `packets` as a file.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(packets: &[Packet], out: impl Write) -> io::Result<()> {
    let mut bytes = Vec::from(MAGIC);
    for p in packets {
        let kept = u8::try_from(p.bytes.len()).expect("headers of less than 256 bytes");
        bytes.extend(p.passed_ns.to_le_bytes());
        bytes.extend(p.sent_ns.to_le_bytes());
        bytes.extend(p.len.to_le_bytes());
        bytes.extend(p.segment.to_le_bytes());
        bytes.extend([u8::from(p.egress), kept]);
        bytes.extend(&p.bytes);
    }
    pack(&bytes, out)
}

/// Reads such a file.
///
/// # Errors
/// If it is not one, or is cut short.
pub fn read(input: impl Read) -> io::Result<Vec<Packet>> {
    let bytes = unpack(input)?;
    let mut rest = bytes
        .strip_prefix(&MAGIC)
        .ok_or_else(|| damaged("it does not begin as a file of packets"))?;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (head, more) = rest.split_first_chunk::<HEAD>().ok_or_else(cut_short)?;
        let number = |from: usize, n: usize| {
            let all = head[from..from + n].iter().rev();
            all.fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let (own, more) = more
            .split_at_checked(usize::from(head[HEAD - 1]))
            .ok_or_else(cut_short)?;
        packets.push(Packet {
            passed_ns: number(0, 8),
            sent_ns: number(8, 8),
            len: number(16, 4) as u32,
            segment: number(20, 2) as u16,
            egress: head[22] != 0,
            bytes: own.to_vec(),
        });
        rest = more;
    }
    Ok(packets)
}

#[test]
fn a_file_of_packets_is_read_as_it_was_written_and_refused_when_damaged() {
    let packet = |i: u8| Packet {
        passed_ns: 1 << 40 | u64::from(i),
        sent_ns: u64::MAX - u64::from(i),
        len: 70_000,
        segment: 1448,
        egress: i == 1,
        bytes: vec![i; usize::from(i) * 40],
    };
    let packets: Vec<_> = (0..3).map(packet).collect();
    let mut file = Vec::new();
    write(&packets, &mut file).expect("written");
    assert_eq!(read(&*file).expect("read"), packets);
    assert!(read(&file[..file.len() / 2]).is_err());
    assert!(read(&b"no packets"[..]).is_err());
    let mut cut = Vec::new();
    pack(&[&MAGIC[..], &[0; HEAD - 1]].concat(), &mut cut).expect("written");
    assert!(read(&*cut).is_err());
}
