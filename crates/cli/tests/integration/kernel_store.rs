//! `narrows kernel` as scripts see it: what is listed and removed, what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// `narrows kernel` with a cache of its own.
fn program(cache: &Path, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_narrows"));
    program
        .arg("kernel")
        .args(arguments)
        .env("XDG_CACHE_HOME", cache);
    program
}

/// Runs it.
fn kernel(cache: &Path, arguments: &[&str]) -> Output {
    let ran = program(cache, arguments).output();
    ran.expect("the program runs")
}

fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = output.status.code().expect("it ended by itself");
    (status, text(&output.stdout), text(&output.stderr))
}

/// A kernel in the cache, as a build leaves it.
fn put(cache: &Path, id: &str) {
    let folder = cache.join("narrows/kernels").join(id);
    fs::create_dir_all(&folder).expect("a folder");
    let text = format!(
        "{{\"id\": \"{id}\", \"release\": \"7.3.4\", \"source\": \"linux-source-7.3 7.3.4-1\", \
         \"digest\": \"ab\", \"controls\": [\"nw_cubic\", \"nw_reno\"], \"changes\": [\"clock\"], \
         \"built_s\": 1782000000, \"build_took_s\": 420, \"steps\": 1000}}"
    );
    fs::write(folder.join("kernel.json"), text).expect("a file");
}

#[test]
fn kernels_are_listed_as_a_table_and_as_json() {
    let cache = tempfile::tempdir().expect("a folder");
    let (status, out, err) = said(&kernel(cache.path(), &["list"]));
    assert_eq!((status, out.as_str()), (0, ""));
    assert!(err.contains("narrows kernel build"), "{err}");
    put(cache.path(), "7.3.4-aaaa");
    let (status, out, _) = said(&kernel(cache.path(), &["list"]));
    assert_eq!(status, 0);
    assert_eq!(
        out,
        "ID          SOURCE                    CONTROLS          BUILT (UTC)\n\
         7.3.4-aaaa  linux-source-7.3 7.3.4-1  nw_cubic nw_reno  2026-06-21T00:00:00Z\n"
    );
    let (_, out, _) = said(&kernel(cache.path(), &["list", "--format", "json"]));
    let list: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(list[0]["id"], "7.3.4-aaaa");
    assert_eq!(list[0]["changes"][0], "clock");
    let binary = list[0]["binary"].as_str().expect("a path");
    assert!(binary.ends_with("narrows/kernels/7.3.4-aaaa/linux"));
}

#[test]
fn kernels_are_removed_by_their_whole_ids() {
    let cache = tempfile::tempdir().expect("a folder");
    for id in ["7.3.4-aaaa", "7.3.4-bbbb", "6.12.9-cccc"] {
        put(cache.path(), id);
    }
    let (status, out, err) = said(&kernel(cache.path(), &["remove", "6.12.9-cccc", "7.3.4"]));
    assert_eq!((status, out.as_str()), (2, ""), "nothing is removed");
    assert!(err.contains("is `7.3.4-aaaa` meant?"), "{err}");
    let (status, out, _) = said(&kernel(cache.path(), &["remove", "7.3.4-bbbb"]));
    assert_eq!((status, out.as_str()), (0, "removed 7.3.4-bbbb\n"));
    let (status, out, _) = said(&kernel(cache.path(), &["remove", "--all"]));
    assert_eq!((status, out.lines().count()), (0, 2));
    let (status, _, err) = said(&kernel(cache.path(), &["remove", "x"]));
    assert_eq!(status, 2);
    assert!(err.contains("no kernel is built here"), "{err}");
}

#[test]
fn a_folder_that_is_no_tree_is_refused() {
    let cache = tempfile::tempdir().expect("a folder");
    let tree = cache.path().join("tree");
    fs::create_dir(&tree).expect("a folder");
    let tree = tree.to_string_lossy();
    let (status, out, err) = said(&kernel(cache.path(), &["build", "--source", &tree]));
    if err.contains("cannot be built without") {
        eprintln!("skipped: a_folder_that_is_no_tree_is_refused: {err}");
        return;
    }
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        err.contains("is no Linux source tree: it has no Makefile"),
        "{err}"
    );
}

/// A build that is interrupted, with programs in the place of apt's and of rm(1) that go on
/// when a file says so.
#[cfg(target_os = "linux")]
mod interrupted {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    /// For a minute at most, so that no process is left.
    const WAIT_FOR: &str = "wait_for() { n=0\n\
        while [ ! -e \"$TEST/$1\" ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done; }";

    /// Waits until `holds`, for a minute at most; whether it ever did.
    fn soon(mut holds: impl FnMut() -> bool) -> bool {
        let asked = Instant::now();
        while !holds() {
            if asked.elapsed() > Duration::from_secs(60) {
                return false;
            }
            sleep(Duration::from_millis(20));
        }
        true
    }

    fn put_program(folder: &Path, name: &str, lines: &str) {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{WAIT_FOR}\n{lines}\n")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    fn begin(at: &Path) -> Child {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", at.join("programs").display());
        let mut build = program(&at.join("cache"), &["build"]);
        build.env("PATH", path).env("TEST", at);
        build.stdout(Stdio::null()).stderr(Stdio::piped());
        build.spawn().expect("the program runs")
    }

    #[test]
    fn a_build_that_is_interrupted_ends_before_what_it_made_is_removed() {
        let at = tempfile::tempdir().expect("a folder");
        let at = at.path();
        let programs = at.join("programs");
        fs::create_dir(&programs).expect("a folder");
        let lines = "case \"$*\" in *indextargets*) exit;; esac\n\
                     touch \"$TEST/begun\"; wait_for go";
        put_program(&programs, "apt-get", lines);
        let lines = "case \"$*\" in\n*pkgnames*) echo linux-source-7.3;;\n\
                     *) echo Version: 7.3.4-1;;\nesac";
        put_program(&programs, "apt-cache", lines);
        put_program(&programs, "rm", "wait_for remove; exec /bin/rm \"$@\"");
        // Of the build in the store.
        let folders = || {
            let entries = fs::read_dir(at.join("cache/narrows/kernels"));
            let entries = entries.into_iter().flatten().flatten();
            entries
                .filter(|entry| {
                    entry
                        .file_name()
                        .to_string_lossy()
                        .starts_with(".building-")
                })
                .count()
        };
        let mut build = begin(at);
        let mut ended = None;
        assert!(soon(|| {
            ended = build.try_wait().expect("its state");
            ended.is_some() || at.join("begun").exists()
        }));
        if ended.is_some() {
            let said = build.wait_with_output().expect("its words");
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            let lacks = ["cannot be built without", "keyring"];
            assert!(lacks.iter().any(|lack| said.contains(lack)), "{said}");
            eprintln!("skipped: an interrupted build: {said}");
            return;
        }
        kill(Pid::from_raw(build.id() as i32), Signal::SIGINT).expect("it lives");
        fs::write(at.join("go"), "").expect("a file");
        assert!(soon(|| {
            ended = build.try_wait().expect("its state");
            ended.is_some()
        }));
        assert_eq!(ended.and_then(|status| status.code()), Some(130));
        assert_eq!(folders(), 1, "rm still waits");
        fs::write(at.join("remove"), "").expect("a file");
        assert!(soon(|| folders() == 0));
    }
}
