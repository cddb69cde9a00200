//! The words of congestion controls over a kept corpus and mutations of it.

use narrows_cc::{ControlSpec, Controller, Facts};
use narrows_fuzz::Corpus;
use narrows_units::WordError;

const WORDS: [&str; 10] = [
    " hystart ",
    " beta ",
    " 0",
    " 1024",
    " 4294967296",
    " variant ",
    " rtt_target ",
    "0s",
    "1h",
    " detect ",
];

#[test]
fn fuzz_control_words() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/controls.txt");
    let corpus = Corpus::lines_of(corpus).with_words(&WORDS);
    let place = |e: &WordError| e.span.clone();
    let read = corpus.run_words(20_000, ControlSpec::parse, place, |spec| {
        let mut control = Controller::new(&spec);
        control.init(&Facts::default());
    });
    assert!(read > 100, "mutations that are still controls: {read}");
}
