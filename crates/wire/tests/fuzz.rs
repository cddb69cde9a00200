//! The parsers over a kept corpus and mutations of it: whatever the bytes,
//! they answer or refuse, and what they answer can be used.

use std::io::{self, Read};

use narrows_fuzz::Corpus;
use narrows_wire::capture::{CaptureReader, Chunk};
use narrows_wire::{Ecn, FlowKey, Icmp, Ip, Tcp, TcpOptions, Udp, ip, link};

fn corpus(name: &str) -> Corpus {
    Corpus::in_directory(format!(
        "{}/tests/corpus/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
}

/// Reads everything that can be read of a packet.
fn read_packet(bytes: &[u8]) {
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
    }
    let icmp = Icmp::parse(ip.protocol, above);
    // ICMPv6 over IPv4 is read as it stands, but nobody writes it.
    if let (Ok(icmp), true) = (icmp, ip.protocol == Icmp::protocol(ip.source)) {
        let mut written = Vec::new();
        icmp.write(&mut written, ip.source, ip.destination, &[], 0);
        assert_eq!(Icmp::parse(ip.protocol, &written), Ok(icmp));
    }
    let mut marked = bytes.to_vec();
    ip::set_ecn(&mut marked, Ecn::Ce);
    assert_eq!(ip::ecn(&marked), Ecn::Ce);
    assert_eq!(ip::dscp(&marked), ip::dscp(bytes));
}

#[test]
fn fuzz_packet_views() {
    corpus("packet").run(20_000, read_packet);
}

#[test]
fn fuzz_capture_files() {
    corpus("capture").run(20_000, |bytes| {
        let Ok(mut reader) = CaptureReader::new(bytes) else {
            return;
        };
        while let Ok(Some(record)) = reader.read() {
            assert!(record.bytes.len() <= bytes.len());
            if let Some(packet) = record.ip_packet() {
                read_packet(packet);
            }
        }
    });
}

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

/// Chunks hold what single reads give, and end as they do.
fn chunks_agree(mut single: CaptureReader<impl Read>, mut many: CaptureReader<impl Read>) {
    let mut chunk = Chunk::default();
    loop {
        match many.read_chunk(&mut chunk) {
            Ok(true) => {
                assert!(!chunk.is_empty());
                for record in chunk.records() {
                    assert_eq!(single.read().expect("as the chunk has it"), Some(record));
                }
            }
            Ok(false) => {
                assert!(chunk.is_empty());
                assert_eq!(single.read().expect("the end"), None);
                return;
            }
            Err(error) => {
                let wanted = single.read().expect_err("what the chunk ended with");
                assert_eq!(error.to_string(), wanted.to_string());
                return;
            }
        }
    }
}

#[test]
fn fuzz_chunks_against_single_reads() {
    corpus("capture").run(10_000, |bytes| {
        let of = || CaptureReader::new(bytes);
        if let (Ok(single), Ok(many)) = (of(), of()) {
            chunks_agree(single, many);
        }
        let few = CaptureReader::new(Drops(bytes, bytes.len() % 89));
        if let (Ok(single), Ok(many)) = (of(), few) {
            chunks_agree(single, many);
        }
    });
}

#[test]
fn fuzz_link_layers() {
    corpus("packet").run(5_000, |bytes| {
        for number in [0, 1, 12, 101, 108, 113, 228, 229, 276, 65_535] {
            if let Some(packet) = link::ip_packet(link::LinkType(number), bytes) {
                read_packet(packet);
            }
        }
    });
}
