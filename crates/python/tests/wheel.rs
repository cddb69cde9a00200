//! The wheel, installed into an environment of its own: its tests are in `python/tests`.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any step takes on a busy machine, and shorter than anybody waits.
const LONGEST: Duration = Duration::from_secs(900);

/// Names of Pythons, the oldest that is meant first: what it can do all others can.
const PYTHONS: [&str; 7] = [
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "python3",
    "python",
];

/// Answers where Python is new enough, and can make environments with pip.
const FITS: &str = "import sys, venv, ensurepip\nassert sys.version_info >= (3, 10)";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn skipped(why: &str) {
    eprintln!("skipped: the wheel for Python: {why}");
}

/// The Python that the tests run with.
fn python() -> Option<&'static str> {
    PYTHONS.into_iter().find(|name| {
        let tried = Command::new(name).args(["-c", FITS]).output();
        tried.is_ok_and(|tried| tried.status.success())
    })
}

/// What a build for tests left in the folder of this test's own program.
fn built(names: &[&str]) -> Option<PathBuf> {
    let own = std::env::current_exe().expect("a program has a file");
    let deps = own.parent().expect("it is in a folder");
    let folders = [deps, deps.parent().expect("and that in one")];
    let all = folders
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)));
    all.filter(|path| path.is_file())
        .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
}

/// Whether a command succeeded, and all that it printed. One that does not end is ended.
fn run(command: &mut Command) -> (bool, String) {
    let mut printed = tempfile::tempfile().expect("a file");
    let end = || Stdio::from(printed.try_clone().expect("a second handle"));
    // What the user's Python has is none of ours.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    command.stdin(Stdio::null()).stdout(end()).stderr(end());
    let mut child = command.spawn().expect("it starts");
    let until = Instant::now() + LONGEST;
    let status = loop {
        match child.try_wait().expect("it is ours") {
            Some(status) => break Some(status),
            None if Instant::now() > until => {
                child.kill().expect("it is ours");
                child.wait().expect("it is ours");
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let mut text = String::new();
    printed.rewind().expect("a file");
    printed.read_to_string(&mut text).expect("UTF-8");
    (status.is_some_and(|status| status.success()), text)
}

fn done(command: &mut Command) -> String {
    let (succeeded, text) = run(command);
    assert!(succeeded, "{command:?}\n{text}");
    text
}

#[test]
fn the_wheel_passes_its_tests_in_a_fresh_environment() {
    let Some(python) = python() else {
        return skipped("there is no Python from 3.10 on with venv and pip");
    };
    // Cargo builds it for this test, which it is a library of: without it nothing is tested.
    let module = built(&["lib_narrows.so", "lib_narrows.dylib"]).expect("the module is built");
    let at = tempfile::tempdir().expect("a folder");
    done(
        Command::new(python)
            .args(["-m", "venv"])
            .arg(at.path().join("env")),
    );
    let inside = at.path().join("env/bin/python");
    let pip = |words: &[&str]| {
        let mut command = Command::new(&inside);
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        command.arg("install").args(words);
        command
    };
    let lock = root().join("python/requirements/test.txt");
    let lock = lock.to_string_lossy();
    let (got, said) = run(&mut pip(&[
        "--require-hashes",
        "--only-binary",
        ":all:",
        "-r",
        &lock,
    ]));
    if !got {
        // A package that is not the one that was locked is no lack of a network.
        assert!(
            !said.to_lowercase().contains("do not match the hashes"),
            "{said}"
        );
        let last = said.lines().last().unwrap_or("pip failed").to_owned();
        return skipped(&format!("pip cannot get what the tests need: {last}"));
    }
    let wheel = done(
        Command::new(&inside)
            .arg(root().join("python/tests/assemble.py"))
            .arg(env!("CARGO_PKG_VERSION"))
            .arg(&module)
            .arg(env!("CARGO_BIN_EXE_narrows-guest"))
            .arg(at.path()),
    );
    done(&mut pip(&["--no-deps", "--no-index", wheel.trim()]));
    fs::remove_file(wheel.trim()).expect("it was there");
    let mut tests = Command::new(&inside);
    tests
        .args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"])
        .arg(root().join("python/tests"))
        .current_dir(at.path())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let said = done(&mut tests);
    for line in said.lines() {
        // SKIPPED [1] python/tests/test_x.py:12: why
        if let Some((_, why)) = line
            .split_once("SKIPPED ")
            .and_then(|(_, s)| s.split_once(": "))
        {
            skipped(why);
        }
    }
}
