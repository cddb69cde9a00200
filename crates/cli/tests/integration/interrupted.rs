//! A signal ends what runs scenarios, wherever it is.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::machine_rig::{has, soon, text};
use narrows_linux::machine::Need;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};

/// A round trip of two nanoseconds: simulated it takes years.
const SCENARIO: &str = r#"
version  = 1
name     = "endless"
duration = "10s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 1ns"]
down = ["netem delay 1ns"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "kernel:cubic"
"#;

/// Both ends of a pipe that is full: who prints into it waits until somebody reads.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().expect("a pipe");
    let room = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(1)).expect("the least size");
    let mut file = std::fs::File::from(writer);
    let room = usize::try_from(room).expect("a size");
    file.write_all(&vec![b'x'; room]).expect("room for so much");
    (reader, file.into())
}

/// The program with these words in `folder`, printing into a full pipe.
fn printing_in_vain(folder: &Path, words: &[&str]) -> (Child, OwnedFd) {
    std::fs::write(folder.join("endless.toml"), SCENARIO).expect("a file");
    let (reader, writer) = full_pipe();
    let child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .current_dir(folder)
        .args(words)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    (child, reader)
}

/// A file of that name below `folder`.
fn below(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    paths.sort();
    paths.into_iter().find_map(|path| match path.is_dir() {
        true => below(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}

/// Sends `signal` once `folder` has the results that say so, and a moment later; the program
/// ends, though it can never print what it has.
fn ends(mut child: Child, folder: &Path, signal: Signal) {
    assert!(
        soon(|| below(folder, "run.json").is_some()),
        "no run begins"
    );
    std::thread::sleep(Duration::from_millis(300));
    kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
    let ended = soon(|| child.try_wait().expect("a child").is_some());
    if !ended {
        child.kill().expect("it lives");
    }
    let output = child.wait_with_output().expect("a child");
    let said = text(&output.stderr);
    assert!(ended, "it goes on: {said}");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the results are not finished"), "{said}");
}

#[test]
fn a_signal_ends_a_run_that_cannot_print_what_it_has() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let at = tempfile::tempdir().expect("a folder");
        let words = ["run", "endless.toml", "--out", "out"];
        let (child, _reader) = printing_in_vain(at.path(), &words);
        ends(child, &at.path().join("out"), signal);
    }
}

#[test]
fn a_signal_ends_a_comparison_that_cannot_print_what_it_has() {
    if !has("a comparison", &[Need::Live]) {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let at = tempfile::tempdir().expect("a folder");
        let words = ["compare", "endless.toml", "--seeds", "1", "--out", "out"];
        let (child, _reader) = printing_in_vain(at.path(), &words);
        ends(child, &at.path().join("out/cells"), signal);
    }
}
