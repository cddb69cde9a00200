//! What the fuzz targets do with an input: as tests, kept inputs and mutations of
//! them; by libFuzzer, in `fuzz/` at the root, inputs that coverage guides.

use std::io::{self, Read};

use narrows_wire::capture::{CaptureReader, decompressed};
use narrows_wire::quic::MAX_CID_LEN;
use narrows_wire::{
    Ecn, FlowKey, Icmp, Ip, Plus, Quic, QuicModel, Tcp, TcpOptions, Udp, ip, link, tunnel,
};

/// An input that gives few bytes at a time, another number each time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 97 + 1;
        let n = self.1.min(self.0.len()).min(buffer.len());
        let (now, later) = self.0.split_at(n);
        buffer[..n].copy_from_slice(now);
        self.0 = later;
        Ok(n)
    }
}

/// Reads a capture file that comes in pieces: packets and the end are those of the whole.
pub fn pieces(bytes: &[u8]) {
    let few = CaptureReader::new(Drops(bytes, bytes.len() % 89));
    let (Ok(mut whole), Ok(mut few)) = (CaptureReader::new(bytes), few) else {
        return;
    };
    loop {
        match (whole.read(), few.read()) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one, other);
                if one.is_none() {
                    return;
                }
            }
            (Err(one), Err(other)) => return assert_eq!(one.to_string(), other.to_string()),
            (one, other) => panic!("{one:?} and {other:?}"),
        }
    }
}

/// Reads everything that can be read of a packet.
pub fn packet(bytes: &[u8]) {
    let key = FlowKey::of(bytes);
    let Ok(ip) = Ip::parse(bytes) else {
        assert_eq!(key, None);
        return;
    };
    assert!(ip.header_len <= bytes.len() && ip.header_len <= ip.total_len);
    assert_eq!(key.map(|k| k.reversed().reversed()), key);
    let above = &bytes[ip.header_len..];
    if let Ok(tcp) = Tcp::parse(above) {
        assert!((20..=60).contains(&tcp.header_len) && tcp.header_len <= above.len());
        let mut written = Vec::new();
        tcp.options.write(&mut written);
        assert_eq!(TcpOptions::parse(&written), Ok(tcp.options));
    }
    if let Ok(udp) = Udp::parse(above) {
        assert!(udp.length >= 8);
        datagram(above.get(8..).unwrap_or_default());
    }
    let icmp = Icmp::parse(ip.protocol, above);
    // ICMPv6 over IPv4 is read as it stands, but nobody writes it.
    if let (Ok(icmp), true) = (icmp, ip.protocol == Icmp::protocol(ip.source)) {
        let mut written = Vec::new();
        icmp.write(&mut written, ip.source, ip.destination, &[], 0);
        assert_eq!(Icmp::parse(ip.protocol, &written), Ok(icmp));
    }
    let inside = tunnel::innermost(bytes);
    assert!(bytes.ends_with(inside));
    let mut marked = bytes.to_vec();
    ip::set_ecn(&mut marked, Ecn::Ce);
    assert_eq!(ip::ecn(&marked), Ecn::Ce);
    assert_eq!(ip::dscp(&marked), ip::dscp(bytes));
}

/// Reads what a datagram may hold: QUIC, modelled QUIC, PLUS.
pub fn datagram(bytes: &[u8]) {
    if let Ok(Quic::Long(long)) = Quic::parse(bytes) {
        let (destination, source) = (long.destination.len(), long.source.len());
        // Their lengths and themselves, after the first byte and the version.
        assert!(5 + 2 + destination + source <= bytes.len());
        assert!(!long.is_likely() || destination <= MAX_CID_LEN && source <= MAX_CID_LEN);
    }
    if let Ok(header) = QuicModel::parse(bytes) {
        let mut written = Vec::new();
        header.write(&mut written);
        assert_eq!(written.len(), header.len());
        assert_eq!(QuicModel::parse(&written), Ok(header));
    }
    if let Ok(header) = Plus::parse(bytes) {
        assert!(Plus::opens(bytes));
        let mut written = Vec::new();
        header.write(&mut written);
        assert_eq!(written.len(), header.len());
        assert_eq!(Plus::parse(&written), Ok(header));
    }
}

/// Reads a capture file and every packet in it.
pub fn capture(bytes: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(bytes) else {
        return;
    };
    while let Ok(Some(record)) = reader.read() {
        assert!(record.bytes.len() <= bytes.len());
        if let Some(bytes) = record.ip_packet() {
            packet(bytes);
        }
    }
}

/// Decompresses what may be compressed, a megabyte of it, and reads that as a capture.
pub fn compressed(bytes: &[u8]) {
    if let Ok(input) = decompressed(bytes) {
        let mut plain = Vec::new();
        let _ = input.take(1 << 20).read_to_end(&mut plain);
        capture(&plain);
    }
}

/// Reads a frame of every link layer.
pub fn frame(bytes: &[u8]) {
    for number in 0..=300 {
        let link = link::LinkType(number);
        if let Some(bytes) = link::ip_packet(link, bytes) {
            assert!(link.is_read());
            packet(bytes);
        }
        assert!(link::vlan(link, bytes).is_none_or(|vlan| vlan < 4096));
    }
}
