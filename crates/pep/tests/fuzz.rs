//! Requests over a kept corpus and mutations of it.

mod targets;

use narrows_fuzz::Corpus;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/request");

#[test]
fn fuzz_requests() {
    let corpus = Corpus::in_directory(CORPUS).with_words(&[
        "\x01\x05\x22\x63",
        "\x0a\x05",
        "\x1e\x01",
        "\x16\x03",
    ]);
    corpus.run(20_000, targets::request);
}
