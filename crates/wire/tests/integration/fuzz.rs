//! The parsers over a kept corpus and mutations of it: whatever the bytes,
//! they answer or refuse, and what they answer can be used.

use narrows_fuzz::Corpus;

use super::targets;

fn corpus(name: &str) -> Corpus {
    Corpus::in_directory(format!(
        "{}/tests/corpus/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
}

#[test]
fn fuzz_packet_views() {
    corpus("packet").run(20_000, targets::packet);
}

#[test]
fn fuzz_capture_files() {
    corpus("capture").run(20_000, targets::capture);
}

#[test]
fn fuzz_captures_that_come_in_pieces() {
    corpus("capture").run(10_000, targets::pieces);
}

#[test]
fn fuzz_compressed_captures() {
    corpus("compressed").run(2_000, targets::compressed);
}

#[test]
fn fuzz_link_layers() {
    corpus("packet").run(5_000, targets::frame);
}

#[test]
fn fuzz_datagrams() {
    corpus("datagram").run(20_000, targets::datagram);
}
