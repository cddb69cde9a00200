use std::io::{Cursor, Read};

use narrows_units::Instant;

use super::*;

/// Words and bytes in one byte order.
struct Bytes {
    big: bool,
    out: Vec<u8>,
}

impl Bytes {
    fn u32(mut self, word: u32) -> Self {
        self.out.extend(if self.big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        });
        self
    }

    fn u16s(mut self, a: u16, b: u16) -> Self {
        for half in [a, b] {
            self.out.extend(if self.big {
                half.to_be_bytes()
            } else {
                half.to_le_bytes()
            });
        }
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
    }

    fn block(self, kind: u32, body: impl FnOnce(Self) -> Self) -> Self {
        let big = self.big;
        let inner = body(Self {
            big,
            out: Vec::new(),
        });
        let total = inner.out.len() as u32 + 12;
        self.u32(kind).u32(total).raw(&inner.out).u32(total)
    }

    fn section(self) -> Self {
        self.block(0x0a0d_0d0a, |b| {
            b.u32(0x1a2b_3c4d).u16s(1, 0).u32(u32::MAX).u32(u32::MAX)
        })
    }
}

fn start(big: bool) -> Bytes {
    Bytes {
        big,
        out: Vec::new(),
    }
}

const SIMPLEST_IP: [u8; 4] = [0x45, 0, 0, 4];

#[test]
fn pcap_is_read_in_both_orders_and_both_units() {
    for big in [false, true] {
        for (magic, ns) in [(0xa1b2_c3d4, 7_000), (0xa1b2_3c4d, 7)] {
            let file = start(big)
                .u32(magic)
                .u16s(2, 4)
                .u32(0)
                .u32(0)
                .u32(96)
                .u32(101)
                .u32(3)
                .u32(7)
                .u32(4)
                .u32(60)
                .raw(&SIMPLEST_IP);
            let mut reader = CaptureReader::new(&file.out[..]).unwrap();
            let record = reader.read().unwrap().unwrap();
            assert_eq!(record.at, Some(Instant::from_nanos(3_000_000_000 + ns)));
            assert_eq!(record.original_len, 60);
            assert_eq!(record.ip_packet(), Some(&SIMPLEST_IP[..]));
            assert_eq!(reader.read().unwrap(), None);
            assert_eq!(reader.interfaces()[0].snaplen, 96);
        }
    }
}

/// One enhanced packet whose interface has the given options; its stamp.
fn stamp_of(big: bool, options: impl Fn(Bytes) -> Bytes, stamp: u64) -> Instant {
    let file = start(big)
        .section()
        .block(1, |b| options(b.u16s(1, 0).u32(0)))
        .block(6, |b| {
            b.u32(0)
                .u32((stamp >> 32) as u32)
                .u32(stamp as u32)
                .u32(0)
                .u32(0)
        });
    let mut reader = CaptureReader::new(&file.out[..]).unwrap();
    reader.read().unwrap().unwrap().at.unwrap()
}

#[test]
fn stamps_follow_the_resolution_and_offset_of_their_interface() {
    for big in [false, true] {
        let resolution = |r: u8| move |b: Bytes| b.u16s(9, 1).raw(&[r, 0, 0, 0]);
        let ns = |i: Instant| i.as_nanos();
        assert_eq!(ns(stamp_of(big, |b| b, 1_500_001)), 1_500_001_000);
        assert_eq!(ns(stamp_of(big, resolution(9), 1_500_001)), 1_500_001);
        assert_eq!(ns(stamp_of(big, resolution(0), 2)), 2_000_000_000);
        assert_eq!(ns(stamp_of(big, resolution(12), 5_999)), 5);
        assert_eq!(ns(stamp_of(big, resolution(0x8a), 1_536)), 1_500_000_000);
        let offset = |b: Bytes| {
            b.u16s(14, 8).raw(&{
                let two: i64 = 2;
                if big {
                    two.to_be_bytes()
                } else {
                    two.to_le_bytes()
                }
            })
        };
        assert_eq!(ns(stamp_of(big, offset, 1)), 2_000_001_000);
    }
}

#[test]
fn a_second_section_may_change_the_byte_order_and_numbers_its_own_interfaces() {
    let packet = |b: Bytes| b.u32(0).u32(0).u32(0).u32(0).u32(9);
    let second = start(true)
        .section()
        .block(1, |b| b.u16s(101, 0).u32(0))
        .block(6, packet);
    let file = start(false)
        .section()
        .block(1, |b| b.u16s(1, 0).u32(0))
        .block(6, packet)
        .raw(&second.out);
    let mut reader = CaptureReader::new(&file.out[..]).unwrap();
    assert_eq!(reader.read().unwrap().unwrap().interface, 0);
    let record = reader.read().unwrap().unwrap();
    assert_eq!((record.interface, record.link), (1, LinkType::RAW));
    assert_eq!(record.original_len, 9);
}

#[test]
fn simple_and_obsolete_packets_are_read_and_unknown_blocks_are_skipped() {
    let file = start(false)
        .section()
        .block(1, |b| b.u16s(101, 0).u32(2))
        .block(0x0bad, |b| b.u32(1))
        .block(3, |b| b.u32(9).raw(&[0x45, 0, 0, 0]))
        .block(2, |b| {
            b.u16s(0, 77).u32(0).u32(4).u32(4).u32(4).raw(&SIMPLEST_IP)
        });
    let mut reader = CaptureReader::new(&file.out[..]).unwrap();
    let simple = reader.read().unwrap().unwrap();
    assert_eq!((simple.at, simple.original_len), (None, 9));
    assert_eq!(simple.bytes, [0x45, 0]);
    let old = reader.read().unwrap().unwrap();
    assert_eq!(old.at, Some(Instant::from_nanos(4_000)));
    assert_eq!(old.bytes, SIMPLEST_IP);
    assert_eq!(reader.read().unwrap(), None);
}

fn written(packets: &[ToWrite<'_>], snaplen: u32) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "narrows").unwrap();
    let interface = writer
        .add_interface(&Interface {
            name: "link/access/tap".into(),
            link: LinkType::RAW,
            snaplen,
        })
        .unwrap();
    for packet in packets {
        writer.write(interface, packet).unwrap();
    }
    writer.finish().unwrap()
}

const PACKET: ToWrite<'static> = ToWrite {
    at: Instant::from_nanos(u64::MAX),
    bytes: &[0x45, 1, 2],
    zero_tail: 6,
    cut: 0,
    id: Some(u64::MAX - 1),
    direction: Some(Direction::Outbound),
    comment: Some("marked: step"),
};

#[test]
fn what_is_written_reads_back_with_its_zeros_id_direction_and_comment() {
    let file = written(&[PACKET], 0);
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    let record = reader.read().unwrap().unwrap();
    assert_eq!(record.at, Some(PACKET.at));
    assert_eq!(record.bytes, [0x45, 1, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(record.original_len, 9);
    assert_eq!(record.id, PACKET.id);
    assert_eq!(record.direction, PACKET.direction);
    assert_eq!(record.comment, PACKET.comment);
    assert_eq!(reader.interfaces()[0].name, "link/access/tap");
}

#[test]
fn a_snap_length_cuts_the_stored_bytes_or_the_tail_but_not_the_length() {
    for (snaplen, kept) in [(2, &[0x45, 1][..]), (5, &[0x45, 1, 2, 0, 0])] {
        let file = written(&[PACKET], snaplen);
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let record = reader.read().unwrap().unwrap();
        assert_eq!((record.bytes, record.original_len), (kept, 9));
    }
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_packets_and_then_says_so() {
    let file = written(&[PACKET, PACKET], 0);
    for cut in 0..file.len() {
        let read = CaptureReader::new(&file[..cut]).and_then(|mut reader| {
            let mut n = 0;
            loop {
                match reader.read() {
                    Ok(Some(_)) => n += 1,
                    Ok(None) => return Ok(n),
                    Err(e) => return Err(e),
                }
            }
        });
        match read {
            Ok(n) => assert!(n < 2, "cut at {cut}"),
            Err(CaptureError::NotACapture) => assert_eq!(cut, 0),
            Err(e) => assert!(matches!(e, CaptureError::Truncated), "cut at {cut}: {e}"),
        }
    }
}

#[test]
fn a_packet_for_an_unknown_interface_is_refused() {
    let mut writer = PcapngWriter::new(Cursor::new(Vec::new()), "narrows").unwrap();
    assert!(writer.write(0, &PACKET).is_err());
    let file = start(false)
        .section()
        .block(6, |b| b.u32(0).u32(0).u32(0).u32(0).u32(0));
    let mut reader = CaptureReader::new(&file.out[..]).unwrap();
    assert!(matches!(
        reader.read(),
        Err(CaptureError::Invalid("interface number"))
    ));
}

#[test]
fn a_claimed_length_costs_no_memory() {
    let file = start(false).section().u32(6).u32(0xffff_fff0).raw(&[0; 8]);
    let mut reader = CaptureReader::new(&file.out[..]).unwrap();
    assert!(matches!(
        reader.read(),
        Err(CaptureError::Invalid("block length"))
    ));
    let text = b"version = 1\n";
    assert!(matches!(
        CaptureReader::new(&text[..]),
        Err(CaptureError::NotACapture)
    ));
}

#[test]
fn a_compressed_capture_of_several_parts_reads_as_the_plain_one() {
    let plain = include_bytes!("../../tests/corpus/compressed/plain.pcap");
    for compressed in [
        &include_bytes!("../../tests/corpus/compressed/members.pcap.gz")[..],
        include_bytes!("../../tests/corpus/compressed/frames.pcap.zst"),
        plain,
    ] {
        let mut read = Vec::new();
        let mut input = decompressed(compressed).unwrap();
        input.read_to_end(&mut read).unwrap();
        assert_eq!(read, plain);
        // What is cut gives what came before, then an error.
        let cut = &compressed[..compressed.len() - 30];
        let mut reader = CaptureReader::new(decompressed(cut).unwrap()).unwrap();
        let mut packets = 0;
        let error = loop {
            match reader.read() {
                Ok(Some(_)) => packets += 1,
                Ok(None) => panic!("the cut goes unseen"),
                Err(error) => break error,
            }
        };
        assert!(packets > 0, "{error}");
    }
}

#[test]
fn what_is_compressed_otherwise_is_named_with_what_decompresses_it() {
    for (magic, said) in [
        (&b"\xfd7zXZ\0\0"[..], "xz -dc"),
        (b"BZh91AY", "bzip2 -dc"),
        (b"\x04\x22\x4d\x18\x40", "lz4 -dc"),
    ] {
        let error = decompressed(magic).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    assert!(decompressed(&b""[..]).is_ok());
}

#[test]
fn each_section_counts_its_interfaces_from_zero() {
    let interface = |b: Bytes| b.block(1, |b| b.u16s(1, 0).u32(0));
    let file = interface(interface(start(false).section()));
    let file = interface(file.section());
    let mut reader = CaptureReader::new(&file.out[..]).unwrap();
    assert_eq!(reader.section().len(), 0);
    assert!(reader.read().unwrap().is_none());
    assert_eq!((reader.interfaces().len(), reader.section().len()), (3, 1));
}
