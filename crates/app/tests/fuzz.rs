//! The words of traffic, and with them tc's spellings of rates and sizes, over
//! a kept corpus and mutations of it.

use narrows_app::Traffic;
use narrows_fuzz::Corpus;
use narrows_units::{Bytes, Duration, Rate, Value, WordError};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/traffic.txt");
const WORDS: [&str; 8] = [
    " rate ",
    " size ",
    "0",
    ".",
    "bps",
    "Gbit",
    "18446744073709551616",
    "-",
];

#[test]
fn fuzz_traffic_words() {
    let corpus = Corpus::lines_of(CORPUS).with_words(&WORDS);
    let place = |e: &WordError| e.span.clone();
    let read = corpus.run_words(20_000, Traffic::parse, place, drop);
    assert!(read > 500, "mutations that are still traffic: {read}");
}

#[test]
fn fuzz_units() {
    let seeds = [
        "10ms",
        "1.5s",
        "200us",
        "50Mbit",
        "1MBps",
        "64kb",
        "2Gb",
        "0.000000001s",
    ];
    Corpus::of(seeds.map(|s| s.as_bytes().to_vec()))
        .with_words(&WORDS)
        .run(20_000, |input| {
            let word = String::from_utf8_lossy(input);
            if let Some(time) = Duration::parse(&word) {
                assert_eq!(Duration::parse(&time.to_string()), Some(time));
            }
            if let Some(rate) = Rate::parse(&word) {
                assert_eq!(Rate::parse(&rate.to_string()), Some(rate));
            }
            if let Some(bytes) = Bytes::parse(&word) {
                assert_eq!(Bytes::parse(&bytes.to_string()), Some(bytes));
            }
        });
}
