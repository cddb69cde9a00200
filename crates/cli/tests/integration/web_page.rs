//! The page of `narrows web` in a browser. `make web-test` runs all of its tests; here is one that
//! draws, runs, changes and saves, where node and Chromium are and `make web` has built the page.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::tree::root;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

/// What the test is called in `web/tests/browser`.
const DRAWN: &str = "a scenario that is drawn";

/// Quarters of a second that it may take: five minutes; it takes a tenth of that.
const PATIENCE: u32 = 1200;

/// Whether a program is in one of the folders of `PATH`.
fn is_there(program: &str) -> bool {
    let search = std::env::var("PATH").unwrap_or_default();
    search
        .split(':')
        .any(|folder| Path::new(folder).join(program).is_file())
}

/// Whether the page is in the program: it says on standard error if not, and last what it serves.
fn has_page() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Command::new(NARROWS)
        .args(["web", "--no-open"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("narrows starts");
    let said = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut there = true;
    for line in said.lines().map_while(Result::ok) {
        there &= !line.contains("without the page");
        if line.contains("serves") {
            break;
        }
    }
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    there
}

/// Why the test cannot run.
fn missing() -> Option<&'static str> {
    if !is_there("node") {
        return Some("there is no node");
    }
    if !is_there("chromium") {
        return Some("there is no chromium");
    }
    if !root().join("web/node_modules/playwright-core").is_dir() {
        return Some("web/node_modules is not there (make web)");
    }
    (!has_page()).then_some("this narrows was built without the page (make web)")
}

#[test]
fn what_is_drawn_on_the_page_and_saved_runs_alike_on_the_command_line() {
    if let Some(why) = missing() {
        return eprintln!("skipped: the page in a browser: {why}");
    }
    let said = tempfile::NamedTempFile::new().expect("a file");
    let open = || Stdio::from(File::create(said.path()).expect("it is ours"));
    let mut child = Command::new("node")
        .args([
            "--test",
            "--test-reporter=spec",
            "--test-name-pattern",
            DRAWN,
        ])
        .arg("tests/browser/page.test.mjs")
        .current_dir(root().join("web"))
        .env("NARROWS", NARROWS)
        .stdin(Stdio::null())
        .stdout(open())
        .stderr(Stdio::null())
        .spawn()
        .expect("node starts");
    for _ in 0..PATIENCE {
        if child.try_wait().expect("its state").is_some() {
            break;
        }
        sleep(Duration::from_millis(250));
    }
    // Nothing if it has ended.
    let _ = child.kill();
    let status = child.wait().expect("it ends");
    let mut text = String::new();
    let read = File::open(said.path()).and_then(|mut file| file.read_to_string(&mut text));
    read.expect("what it said");
    assert!(status.success(), "{text}");
    assert!(text.contains(DRAWN), "the test was found: {text}");
}
