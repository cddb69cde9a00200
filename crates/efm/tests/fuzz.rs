//! The words of marks over a kept corpus and mutations of it.

use narrows_efm::Spec;
use narrows_fuzz::Corpus;
use narrows_units::WordError;

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
    let read = corpus.run_words(20_000, Spec::parse, place, |spec| {
        let _ = spec.params();
    });
    assert!(read > 100, "mutations that are still marks: {read}");
}
