//! The packets of a capture, one by one: what a table of them has in its rows.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use narrows::packets;
//!
//! let never = AtomicBool::new(false);
//! let mut marked = 0;
//! packets::read("flows.pcapng".as_ref(), &never, &mut |packet| {
//!     marked += u64::from(packet.ip.as_ref().is_some_and(|ip| ip.ecn == 3));
//! })?;
//! println!("{marked} packets are marked CE");
//! # Ok::<(), narrows::Error>(())
//! ```

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_results::Error;
use narrows_wire::capture::{CaptureReader, Record, decompressed};
use narrows_wire::{Ip, Tcp, Udp};

/// What was captured of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970, or since the beginning of the run that wrote the capture; `None`
    /// where the file does not say.
    pub time_ns: Option<u64>,
    /// The interface, or the capture point of a scenario; empty if the file names none.
    pub interface: &'a str,
    /// Bytes of the frame on the wire.
    pub length: u32,
    /// Its IP header; `None` if there is none that can be read.
    pub ip: Option<IpPart>,
    /// Its ports; of a fragment that is not the first one, and of other protocols than TCP and
    /// UDP, there are none.
    pub ports: Option<(u16, u16)>,
    /// Its TCP header.
    pub tcp: Option<TcpPart>,
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPart {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// IANA's number of the protocol inside: 6 for TCP, 17 for UDP.
    pub protocol: u8,
    /// The code point of RFC 2474, 0 to 63.
    pub dscp: u8,
    /// The codepoint of RFC 3168: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Hops left.
    pub ttl: u8,
    /// Bytes of the packet with this header.
    pub length: u32,
}

/// A TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpPart {
    /// The bits of RFC 9293 §3.1 with ECE, CWR and, as 0x100, AE: 1 is FIN, 2 SYN, 16 ACK.
    pub flags: u16,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The receive window as it stands there, not scaled.
    pub window: u16,
    /// Bytes of data.
    pub payload: u32,
}

/// How far a capture was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What is wrong in the middle of it, in a sentence; what comes before was read.
    pub error: Option<String>,
    /// Whether `stop` ended it.
    pub interrupted: bool,
}

/// Reads a capture (pcap or pcapng, compressed or not) to its end, or until `stop`, and gives
/// `each` every packet.
///
/// # Errors
/// When it cannot be opened, or is no capture.
pub fn read(
    path: &Path,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&Packet<'_>),
) -> Result<Read, Error> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let capture = decompressed(file).and_then(CaptureReader::new);
    let mut capture = capture.map_err(|error| Error::Content {
        path: path.to_path_buf(),
        what: error.to_string(),
    })?;
    let mut read = Read::default();
    loop {
        if stop.load(Ordering::Relaxed) {
            read.interrupted = true;
            return Ok(read);
        }
        match capture.read() {
            Ok(Some(record)) => each(&packet(&record)),
            Ok(None) => return Ok(read),
            Err(error) => {
                read.error = Some(error.to_string());
                return Ok(read);
            }
        }
    }
}

fn packet<'a>(record: &Record<'a>) -> Packet<'a> {
    let mut packet = Packet {
        time_ns: record.at.map(|at| at.as_nanos()),
        interface: record.interface_name,
        length: record.original_len,
        ip: None,
        ports: None,
        tcp: None,
    };
    let Some(bytes) = record.ip_packet() else {
        return packet;
    };
    let Ok(ip) = Ip::parse_cut(bytes, record.cut()) else {
        return packet;
    };
    packet.ip = Some(IpPart {
        source: ip.source,
        destination: ip.destination,
        protocol: ip.protocol,
        dscp: ip.dscp(),
        ecn: ip.traffic_class & 3,
        ttl: ip.ttl,
        length: u32::try_from(ip.total_len).unwrap_or(u32::MAX),
    });
    let inside = bytes.get(ip.header_len..).unwrap_or_default();
    if ip.fragment_offset > 0 {
        return packet;
    }
    match ip.protocol {
        TCP => {
            if let Ok(tcp) = Tcp::parse(inside) {
                let headers = ip.header_len + tcp.header_len;
                let payload = ip.total_len.saturating_sub(headers);
                packet.ports = Some((tcp.source_port, tcp.destination_port));
                packet.tcp = Some(TcpPart {
                    flags: tcp.flags.0,
                    seq: tcp.seq,
                    ack: tcp.ack,
                    window: tcp.window,
                    payload: u32::try_from(payload).unwrap_or(u32::MAX),
                });
            }
        }
        UDP => {
            let udp = Udp::parse(inside);
            packet.ports = udp.ok().map(|udp| (udp.source_port, udp.destination_port));
        }
        _ => {}
    }
    packet
}

/// IANA's numbers of the two protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of frames on Ethernet, of microseconds, in little endian.
    fn capture(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1]
            .map(u32::to_le_bytes)
            .concat();
        for (second, frame) in (1u32..).zip(frames) {
            let length = frame.len() as u32;
            bytes.extend([second, 5, length, length].map(u32::to_le_bytes).concat());
            bytes.extend_from_slice(frame);
        }
        bytes
    }

    fn frame(ethertype: u16, inside: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(ethertype.to_be_bytes());
        frame.extend_from_slice(inside);
        frame
    }

    fn ipv4(protocol: u8, fragment: [u8; 2], inside: &[u8]) -> Vec<u8> {
        let length = (20 + inside.len() as u16).to_be_bytes();
        // DSCP 46 with CE, from 10.0.0.1 to 10.0.0.2.
        let mut packet = vec![0x45, 46 << 2 | 3, length[0], length[1], 0, 0];
        packet.extend(fragment);
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend_from_slice(inside);
        packet
    }

    /// From port 1000 to 2000, with 3 bytes of data.
    const DATAGRAM: [u8; 11] = [0x03, 0xe8, 0x07, 0xd0, 0, 11, 0, 0, 1, 2, 3];

    fn read_all(bytes: &[u8]) -> (Vec<(Option<u64>, Packet<'static>)>, Read) {
        let at = tempfile::tempdir().expect("a folder");
        let path = at.path().join("a.pcap");
        std::fs::write(&path, bytes).expect("written");
        let mut all = Vec::new();
        let never = AtomicBool::new(false);
        let read = read(&path, &never, &mut |packet| {
            let owned = Packet {
                interface: "",
                ..packet.clone()
            };
            all.push((packet.time_ns, owned));
        });
        (all, read.expect("a capture"))
    }

    #[test]
    fn a_packet_has_what_its_headers_say_and_nothing_that_they_do_not() {
        let udp = frame(0x0800, &ipv4(17, [0, 0], &DATAGRAM));
        let later_fragment = frame(0x0800, &ipv4(17, [0, 1], &DATAGRAM));
        let arp = frame(0x0806, &[0; 28]);
        let (all, read) = read_all(&capture(&[&udp, &later_fragment, &arp]));
        assert_eq!(read, Read::default());
        let times: Vec<_> = all.iter().map(|(at, _)| at.expect("a time")).collect();
        assert_eq!(times, [1_000_005_000, 2_000_005_000, 3_000_005_000]);
        let first = all[0].1.ip.expect("an IP header");
        assert_eq!((first.dscp, first.ecn, first.ttl), (46, 3, 64));
        assert_eq!((first.protocol, first.length), (17, 31));
        assert_eq!(first.source, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(all[0].1.ports, Some((1000, 2000)));
        assert_eq!((all[1].1.ip.is_some(), all[1].1.ports), (true, None));
        assert_eq!((all[2].1.ip, all[2].1.length), (None, 42));
    }

    #[test]
    fn of_a_segment_the_payload_is_what_is_behind_both_headers() {
        let mut segment = vec![0x03, 0xe8, 0x07, 0xd0, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0xc2];
        segment.extend([0x10, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        let (all, _) = read_all(&capture(&[&frame(0x0800, &ipv4(6, [0, 0], &segment))]));
        let tcp = all[0].1.tcp.expect("a TCP header");
        assert_eq!((tcp.seq, tcp.ack, tcp.window), (7, 9, 0x1000));
        assert_eq!((tcp.flags, tcp.payload), (0xc2, 4));
    }

    #[test]
    fn what_comes_before_damage_is_read_and_a_cancelled_reading_says_so() {
        let mut bytes = capture(&[&frame(0x0806, &[0; 28])]);
        bytes.extend([1, 2, 3]);
        let (all, read) = read_all(&bytes);
        assert!(all.len() == 1 && read.error.is_some(), "{read:?}");
        let at = tempfile::tempdir().expect("a folder");
        let path = at.path().join("a.pcap");
        std::fs::write(&path, &bytes).expect("written");
        let stopped = super::read(&path, &AtomicBool::new(true), &mut |_| panic!("a packet"));
        assert!(stopped.expect("a capture").interrupted);
        let none = super::read(
            &at.path().join("b.pcap"),
            &AtomicBool::new(false),
            &mut |_| {},
        );
        assert!(matches!(none, Err(Error::Io { .. })));
    }
}
