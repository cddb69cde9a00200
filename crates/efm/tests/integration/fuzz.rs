//! The words of marks, and packets to be marked, over kept corpora and mutations
//! of them.

use narrows_core::{HostHook, Packet, Role};
use narrows_efm::{SignalHook, SignalSpec};
use narrows_fuzz::Corpus;
use narrows_units::{Instant, WordError};
use narrows_wire::{Ip, ip};

const WORDS: [&str; 10] = [
    " announce ",
    " negotiate",
    " tmax ",
    " 1ms",
    " hold off",
    " n ",
    " 64",
    " delay thesis",
    "+q",
    " threshold ",
];

#[test]
fn fuzz_mark_words() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/marks.txt");
    let corpus = Corpus::lines_of(corpus).with_words(&WORDS);
    let place = |e: &WordError| e.span.clone();
    let read = corpus.run_words(20_000, SignalSpec::parse, place, |spec| {
        let _ = spec.params();
    });
    assert!(read > 100, "mutations that are still marks: {read}");
}

/// Byte of TCP's header with the reserved bits, and those of its checksum.
const RESERVED: usize = 12;
const CHECKSUM: std::ops::Range<usize> = 16..18;
/// The reserved bits but AE (RFC 9768 §3.1.1).
const MARKS: u8 = 0x0e;

/// What a ones' complement sum over the two words comes to.
fn sum(segment: &[u8]) -> u32 {
    let word = |at: usize| u32::from(u16::from_be_bytes([segment[at], segment[at + 1]]));
    (word(RESERVED) + word(CHECKSUM.start)) % 0xffff
}

#[test]
fn fuzz_marked_packets() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/corpus/packet");
    let marker = |words: &str| SignalHook::new(&SignalSpec::parse(words).unwrap()).with_room_for(4);
    let mut markers = ["s+d+q", "d+q+l", "d+q+r", "s+vec", "q announce never"].map(marker);
    let (mut n, mut marked) = (0, 0);
    // About one in 25 mutations is a packet that is marked: the corpus has frames and
    // tunnels, too.
    Corpus::in_directory(corpus).run(40_000, |bytes| {
        n += 1;
        let now = Instant::from_nanos(n * 1_000_000);
        for marker in &mut markers {
            let mut packet = Packet {
                bytes: bytes.to_vec(),
                ..Packet::default()
            };
            let _ = marker.ingress(now, Role::Responder, &mut packet, None);
            assert_eq!(packet.bytes, bytes, "what arrives is only looked at");
            let _ = marker.egress(now, Role::Initiator, &mut packet, None);
            if packet.bytes == bytes {
                continue;
            }
            marked += 1;
            let header = Ip::parse(bytes).expect("only packets are marked");
            assert_eq!(header.protocol, ip::TCP);
            let (before, after) = bytes.split_at(header.header_len);
            let (kept, segment) = packet.bytes.split_at(header.header_len);
            assert_eq!(kept, before);
            for (i, (was, is)) in after.iter().zip(segment).enumerate() {
                let may = match i {
                    RESERVED => MARKS,
                    _ if CHECKSUM.contains(&i) => 0xff,
                    _ => 0,
                };
                assert_eq!((was ^ is) & !may, 0, "byte {i} of TCP's header");
            }
            // What was right stays right, what was wrong wrong by as much.
            assert_eq!(sum(segment), sum(after));
        }
    });
    assert!(marked > 1_000, "mutations that are marked: {marked}");
}
