//! The wheel, installed into an environment of its own: its tests are in `python/tests`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

fn text(output: &Output) -> String {
    let all = [&output.stdout, &output.stderr];
    all.map(|part| String::from_utf8_lossy(part).into_owned())
        .concat()
}

fn run(command: &mut Command) -> Output {
    // What the user's Python has is none of ours.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    command.output().expect("it starts")
}

fn done(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}\n{}", text(&output));
    text(&output)
}

#[test]
fn the_wheel_passes_its_tests_in_a_fresh_environment() {
    let Some(python) = python() else {
        return skipped("there is no Python from 3.10 on with venv and pip");
    };
    let Some(module) = built(&["lib_narrows.so", "lib_narrows.dylib"]) else {
        return skipped("the module is not built");
    };
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
    let got = run(&mut pip(&[
        "--require-hashes",
        "--only-binary",
        ":all:",
        "-r",
        &lock,
    ]));
    if !got.status.success() {
        let said = text(&got);
        // A package that is not the one that was locked is no lack of a network.
        assert!(
            !said.to_lowercase().contains("do not match the hashes"),
            "{said}"
        );
        let last = said.lines().last().unwrap_or("pip failed").to_owned();
        return skipped(&format!("pip cannot get what the tests need: {last}"));
    }
    let command = built(&["narrows"]).map_or("-".to_owned(), |p| p.display().to_string());
    let wheel = done(
        Command::new(&inside)
            .arg(root().join("python/tests/assemble.py"))
            .arg(env!("CARGO_PKG_VERSION"))
            .arg(&module)
            .arg(&command)
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
    let output = run(&mut tests);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
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
