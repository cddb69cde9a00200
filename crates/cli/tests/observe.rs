//! `narrows observe -r` as a program: what it prints, what it refuses, how it
//! ends.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn capture(name: &str) -> PathBuf {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crates.join("../wire/tests/corpus/capture").join(name)
}

fn observe(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("observe")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("narrows runs")
}

fn out(words: &[&str]) -> String {
    let output = observe(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The counters that JSON ends with.
fn counters(words: &[&str]) -> Value {
    let text = out(&[words, &["--format", "json"]].concat());
    serde_json::from_str(text.lines().last().expect("counters")).expect("JSON")
}

#[test]
fn a_capture_is_read_from_a_file_or_from_standard_input_alike() {
    let file = capture("micros-little.pcap");
    let path = file.to_str().expect("a plain name");
    let text = out(&["-r", path]);
    let last = text.lines().last().expect("counters");
    assert!(last.starts_with("packets "), "{last}");
    let piped = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["observe", "-r", "-"])
        .stdin(std::fs::File::open(&file).expect("the capture"))
        .output()
        .expect("narrows runs");
    assert_eq!(String::from_utf8_lossy(&piped.stdout), text);
    let seen = counters(&["-r", path])["packets"].as_u64();
    let twice = counters(&["-r", path, "-r", path])["packets"].as_u64();
    assert_eq!(twice, seen.map(|n| 2 * n));
}

#[test]
fn it_ends_after_a_number_of_packets_that_the_filter_takes() {
    let file = capture("micros-little.pcap");
    let path = file.to_str().expect("a plain name");
    let all = counters(&["-r", path])["observed"].as_u64();
    assert!(all.is_some_and(|n| n > 1), "{all:?}");
    assert_eq!(counters(&["-r", path, "--count", "1"])["observed"], 1);
    assert_eq!(counters(&["-r", path, "not ip and not ip6"])["observed"], 0);
}

#[test]
fn pseudonyms_stand_in_place_of_addresses_and_depend_on_the_key() {
    let file = capture("micros-little.pcap");
    let path = file.to_str().expect("a plain name");
    let of = |words: &[&str]| out(&[&["-r", path], words].concat());
    let open = of(&[]);
    let keyed = of(&["--anonymize", "--anonymize-key", "blue"]);
    assert!(keyed.contains("host-") && !open.contains("host-"));
    assert_eq!(keyed, of(&["--anonymize", "--anonymize-key", "blue"]));
    assert_ne!(keyed, of(&["--anonymize", "--anonymize-key", "red"]));
    assert_ne!(of(&["--anonymize"]), of(&["--anonymize"]));
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_read() {
    let file = capture("micros-little.pcap");
    let path = file.to_str().expect("a plain name");
    for (words, said) in [
        (&[][..], "nothing to observe"),
        (&["-r", path, "-i", "lo"], "cannot be used with"),
        (&["-r", path, "--profile", "s+q+x"], "--profile"),
        (&["-r", path, "--t-max", "0ms"], "more than zero"),
        (&["-r", path, "--block", "3"], "--block"),
        (&["-r", path, "--count", "0"], "--count"),
        (&["-r", path, "--top"], "standard output is no terminal"),
        (&["-r", path, "port", "x"], "filter"),
    ] {
        let output = observe(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}
