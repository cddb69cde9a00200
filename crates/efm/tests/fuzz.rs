//! The words of marks over a kept corpus and mutations of it.

use narrows_efm::Spec;
use narrows_fuzz::Corpus;

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
    let mut read = 0;
    Corpus::lines_of(corpus)
        .with_words(&WORDS)
        .run(20_000, |input| {
            let line = String::from_utf8_lossy(input);
            match Spec::parse(&line) {
                Ok(spec) => {
                    read += 1;
                    let written = spec.to_string();
                    assert_eq!(Spec::parse(&written), Ok(spec), "`{written}`");
                    let _ = spec.params();
                }
                Err(e) => assert!(line.get(e.span.clone()).is_some(), "{e:?}"),
            }
        });
    assert!(read > 100, "mutations that are still marks: {read}");
}

#[test]
fn every_line_of_the_corpus_is_a_mark() {
    for line in include_str!("corpus/marks.txt").lines() {
        if let Err(e) = Spec::parse(line) {
            panic!("{line}: {e} at {:?}", e.span);
        }
    }
}
