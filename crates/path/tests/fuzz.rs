//! The words of path elements and queues over a kept corpus and mutations of
//! it: whatever the line, it is refused with a place in it, or read so that it
//! can be written, read again and built.

use narrows_core::EntityId;
use narrows_fuzz::Corpus;
use narrows_path::{ElementSpec, Site};
use narrows_units::WordError;

const WORDS: [&str; 24] = [
    " queue ",
    " rate ",
    " netem ",
    " by ",
    " dscp ",
    " ecn ",
    " else ",
    "(",
    ")",
    " | ",
    "%",
    " 0",
    " -1",
    " 1e9",
    "ms",
    "us",
    "Mbit",
    "kb",
    " 99999999999999999999",
    " limit 0",
    " flows ",
    " target ",
    "\u{00b5}s",
    "\t",
];

#[test]
fn fuzz_element_words() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/elements.txt");
    let corpus = Corpus::lines_of(corpus).with_words(&WORDS);
    let place = |e: &WordError| e.span.clone();
    let read = corpus.run_words(20_000, ElementSpec::parse, place, |spec| {
        let site = Site {
            entity: EntityId(0),
            name: "fuzz",
            seed: 1,
            mtu: 1500,
            forward: true,
            addresses: [[0; 4].into(), [0; 16].into()],
            other_end: None,
            ports: &[],
        };
        let _ = spec.build(&site).next_wake();
    });
    assert!(read > 500, "mutations that are still elements: {read}");
}
