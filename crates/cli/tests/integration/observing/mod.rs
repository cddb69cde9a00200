//! `narrows observe` over captures, for tests.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The kept capture with this name, below the corpus of the readers.
pub fn corpus(name: &str) -> String {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = crates.join("../wire/tests/corpus").join(name);
    path.to_str().expect("a plain name").to_owned()
}

/// How the command ends with these words.
pub fn observe(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("observe")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("narrows runs")
}

/// What the command prints, which ends well.
pub fn out(words: &[&str]) -> String {
    let output = observe(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}
