//! The words of path elements and queues over a kept corpus and mutations of
//! it: whatever the line, it is refused with a place in it, or read so that it
//! can be written, read again and built.

use narrows_fuzz::Corpus;
use narrows_packet::EntityId;
use narrows_path::{ElementSpec, Site};

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
    let mut read = 0;
    Corpus::lines_of(corpus)
        .with_words(&WORDS)
        .run(20_000, |input| {
            let line = String::from_utf8_lossy(input);
            let spec = match ElementSpec::parse(&line) {
                Ok(spec) => spec,
                Err(e) => {
                    assert!(
                        e.span.start <= e.span.end && e.span.end <= line.len(),
                        "{e:?}"
                    );
                    assert!(line.get(e.span).is_some(), "the place is whole characters");
                    return;
                }
            };
            read += 1;
            let written = spec.to_string();
            let again = ElementSpec::parse(&written)
                .unwrap_or_else(|e| panic!("`{written}` does not read back: {e}"));
            assert_eq!(again, spec, "`{written}` says the same");
            let site = Site {
                entity: EntityId(0),
                name: "fuzz",
                seed: 1,
                mtu: 1500,
                forward: true,
            };
            let _ = spec.build(&site).next_wake();
        });
    assert!(read > 500, "mutations that are still elements: {read}");
}

#[test]
fn every_line_of_the_corpus_is_an_element() {
    let corpus = include_str!("corpus/elements.txt");
    for line in corpus.lines() {
        if let Err(e) = ElementSpec::parse(line) {
            panic!("{line}: {e} at {:?}", e.span);
        }
    }
}
