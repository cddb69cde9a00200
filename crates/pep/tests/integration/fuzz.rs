//! Requests over a kept corpus and mutations of it.

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
    corpus.run(20_000, crate::targets::request);
}

#[test]
fn fuzz_tunnels() {
    let corpus = Corpus::in_directory(CORPUS).with_words(&[
        "\x01\x05\x22\x63",
        "\x0a\x05",
        "PROXY TCP4 10.0.0.7 10.0.0.2 1 2\r\n",
        "\r\n\r\n\0\r\nQUIT\n",
        "\x05\x01\x00",
    ]);
    let mut tunnels = crate::tunnels::Tunnels::new();
    corpus.run(20_000, |bytes| tunnels.feed(bytes));
    tunnels.end();
}
