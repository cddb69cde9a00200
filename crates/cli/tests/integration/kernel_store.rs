//! `narrows kernel` as scripts see it: what is listed and removed, what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `narrows kernel` with a cache of its own.
fn kernel(cache: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("kernel")
        .args(arguments)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .expect("the program runs")
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
