//! The words of congestion controls over a kept corpus and mutations of it.

use narrows_cc::{Controller, Facts, Spec};
use narrows_fuzz::Corpus;

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
    " mutant ",
];

#[test]
fn fuzz_control_words() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/controls.txt");
    let mut read = 0;
    Corpus::lines_of(corpus)
        .with_words(&WORDS)
        .run(20_000, |input| {
            let line = String::from_utf8_lossy(input);
            match Spec::parse(&line) {
                Ok(spec) => {
                    read += 1;
                    let written = spec.to_string();
                    assert_eq!(Spec::parse(&written), Ok(spec.clone()), "`{written}`");
                    let mut control = Controller::new(&spec);
                    control.init(&Facts::default());
                }
                Err(e) => assert!(line.get(e.span.clone()).is_some(), "{e:?}"),
            }
        });
    assert!(read > 100, "mutations that are still controls: {read}");
}

#[test]
fn every_line_of_the_corpus_is_a_control() {
    for line in include_str!("corpus/controls.txt").lines() {
        if let Err(e) = Spec::parse(line) {
            panic!("{line}: {e} at {:?}", e.span);
        }
    }
}
