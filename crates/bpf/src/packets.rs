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

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::error::BpfError;

const MAGIC: [u8; 8] = *b"NWPACKS\x01";
/// Bytes of `struct nw_packet` of bpf/tap.bpf.c, and of its fields before the
/// packet's.
const KERNEL_BYTES: usize = 136;
const KERNEL_HEAD: usize = 32;
/// Bytes of a packet in a file besides its own.
const HEAD: usize = 24;

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
    ///
    /// # Errors
    /// If it has another size.
    pub fn from_bytes(b: &[u8]) -> Result<Self, BpfError> {
        if b.len() != KERNEL_BYTES {
            return Err(BpfError::Record(b.len(), KERNEL_BYTES));
        }
        let word = |at: usize| u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let long = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&b[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let kept = (word(28) as usize).min(KERNEL_BYTES - KERNEL_HEAD);
        Ok(Self {
            passed_ns: long(0),
            sent_ns: long(8),
            len: word(16),
            segment: u16::try_from(word(20)).unwrap_or(u16::MAX),
            egress: word(24) != 0,
            bytes: b[KERNEL_HEAD..KERNEL_HEAD + kept].to_vec(),
        })
    }
}

/// Writes `packets` as a file.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(packets: &[Packet], out: impl Write) -> Result<(), BpfError> {
    let mut gzip = GzEncoder::new(out, Compression::best());
    gzip.write_all(&MAGIC)?;
    for p in packets {
        let kept = u8::try_from(p.bytes.len())
            .map_err(|_| BpfError::Trace("a packet in it has too long headers".to_owned()))?;
        gzip.write_all(&p.passed_ns.to_le_bytes())?;
        gzip.write_all(&p.sent_ns.to_le_bytes())?;
        gzip.write_all(&p.len.to_le_bytes())?;
        gzip.write_all(&p.segment.to_le_bytes())?;
        gzip.write_all(&[u8::from(p.egress), kept])?;
        gzip.write_all(&p.bytes)?;
    }
    gzip.finish()?.flush()?;
    Ok(())
}

/// Reads such a file.
///
/// # Errors
/// If it is not one, or is cut short.
pub fn read(input: impl Read) -> Result<Vec<Packet>, BpfError> {
    let mut bytes = Vec::new();
    GzDecoder::new(input).read_to_end(&mut bytes)?;
    let damaged = |what: &str| BpfError::Trace(what.to_owned());
    let mut rest = bytes
        .strip_prefix(&MAGIC)
        .ok_or_else(|| damaged("it does not begin as a file of packets"))?;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (head, more) = rest
            .split_first_chunk::<HEAD>()
            .ok_or_else(|| damaged("it is cut short"))?;
        let number = |from: usize, n: usize| {
            let all = head[from..from + n].iter().rev();
            all.fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let (own, more) = more
            .split_at_checked(usize::from(head[HEAD - 1]))
            .ok_or_else(|| damaged("it is cut short"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn packets() -> Vec<Packet> {
        (0..3u8)
            .map(|i| Packet {
                passed_ns: 1 << 40 | u64::from(i),
                sent_ns: u64::MAX - u64::from(i),
                len: 70_000,
                segment: 1448,
                egress: i == 1,
                bytes: vec![i; usize::from(i) * 40],
            })
            .collect()
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_refused_when_damaged() {
        let mut file = Vec::new();
        write(&packets(), &mut file).unwrap();
        assert_eq!(read(&*file).unwrap(), packets());
        assert!(read(&file[..file.len() / 2]).is_err());
        assert!(read(&b"no packets"[..]).is_err());
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&MAGIC).unwrap();
        gzip.write_all(&[0; HEAD - 1]).unwrap();
        assert!(read(&*gzip.finish().unwrap()).is_err());
    }

    #[test]
    fn a_packet_has_its_fields_where_the_kernel_wrote_them() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&7u64.to_ne_bytes());
        bytes.extend_from_slice(&8u64.to_ne_bytes());
        for word in [1500u32, 1448, 1, 2] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&[0x45; 104]);
        let packet = Packet::from_bytes(&bytes).unwrap();
        let expected = Packet {
            passed_ns: 7,
            sent_ns: 8,
            len: 1500,
            segment: 1448,
            egress: true,
            bytes: vec![0x45; 2],
        };
        assert_eq!(packet, expected);
        assert!(Packet::from_bytes(&bytes[1..]).is_err());
    }
}
