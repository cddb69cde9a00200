//! Wherever the writing of results ends, no file in the folder is a truncated one that looks
//! whole: a limit on the size of files (RLIMIT_FSIZE) is a full disk that needs no rights where
//! SIGXFSZ is ignored, and a kill in the middle of a write where it is not.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn narrows(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// A run with files of each kind: tables, series, samples, captures, a page.
const SCENARIO: &str = r#"
version  = 1
name     = "cut short"
duration = "4s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "tap mid", "bottleneck: rate 10Mbit queue dualpi2"]
down = ["netem delay 5ms"]

[[flow]]
name = "prague"
from = "client"
to   = "server"
cc   = "prague"

[[mark]]
name    = "efm"
signals = "s+d"

[[observe]]
name = "mid"
tap  = "tap/mid"

[[capture]]
name    = "all"
at      = "tap/mid"
snaplen = 100
"#;

/// Bytes of a block of the shell's `ulimit -f`.
const BLOCK: u64 = 512;

/// Files below `dir` that are called as whole ones are, by their names.
fn whole(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of results") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).expect("below it").display();
            let name = name.to_string();
            if !name.ends_with(".part") {
                found.insert(name, fs::read(&path).expect("a file of results"));
            }
        }
    }
    found
}

/// The run in `folder` into `out`, where no file can be longer than so many blocks.
fn limited(folder: &Path, out: &str, blocks: u64, ignored: bool) -> Output {
    let trap = if ignored { "trap '' XFSZ; " } else { "" };
    let script =
        format!("{trap}ulimit -c 0; ulimit -f {blocks}; exec \"$0\" run cut.toml --out {out}");
    Command::new("sh")
        .current_dir(folder)
        .args(["-c", &script, env!("CARGO_BIN_EXE_narrows")])
        .output()
        .expect("a shell")
}

/// What `run.json` says.
fn record(files: &BTreeMap<String, Vec<u8>>) -> Value {
    serde_json::from_slice(&files["run.json"]).expect("run.json is JSON")
}

#[test]
fn a_full_disk_or_a_kill_leaves_no_truncated_file_that_looks_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("cut.toml"), SCENARIO).unwrap();
    let output = narrows(at, &["run", "cut.toml", "--out", "all"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("page"), "{said}");
    let reference = whole(&at.join("all"));
    let needed = [
        "captures/all.pcapng",
        "report.html",
        "run.flent.gz",
        "run.json",
        "samples.csv.gz",
        "seconds.csv",
        "series.csv.gz",
        "summary.csv",
        "summary.json",
        "totals.csv",
    ];
    let names: Vec<&str> = reference.keys().map(String::as_str).collect();
    assert_eq!(names, needed);
    // Half of each file, and a little less than all of it.
    let mut limits: Vec<u64> = reference
        .values()
        .flat_map(|content| {
            let blocks = content.len() as u64 / BLOCK;
            [blocks / 2, blocks.saturating_sub(1)]
        })
        .filter(|blocks| *blocks > 0)
        .collect();
    limits.sort_unstable();
    limits.dedup();
    let mut cut = BTreeMap::new();
    for (nth, blocks) in limits.iter().enumerate() {
        for ignored in [true, false] {
            let out = format!("cut-{nth}-{ignored}");
            let output = limited(at, &out, *blocks, ignored);
            let (code, signal) = (output.status.code(), output.status.signal());
            let said = String::from_utf8_lossy(&output.stderr);
            match ignored {
                // The system's words for EFBIG.
                true => {
                    assert_eq!(code, Some(1), "{blocks} blocks: {said}");
                    assert!(said.contains("File too large"), "{said}");
                    assert!(said.contains("could not "), "{said}");
                }
                false => assert_eq!(signal, Some(25), "{blocks} blocks: {said}"), // SIGXFSZ
            }
            let files = whole(&at.join(&out));
            for (name, content) in &files {
                *cut.entry(name.clone()).or_insert(0) += 1;
                if !["run.json", "report.html"].contains(&name.as_str()) {
                    assert_eq!(
                        Some(content),
                        reference.get(name),
                        "{name} with {blocks} blocks, ignored: {ignored}"
                    );
                }
            }
            assert!(!files.contains_key("report.html"), "{blocks} blocks");
            if !files.contains_key("run.json") {
                continue;
            }
            let record = record(&files);
            let complete = record["complete"].as_bool().unwrap();
            let data = needed.iter().filter(|n| **n != "report.html");
            let all = data.clone().all(|name| files.contains_key(*name));
            assert_eq!(
                complete, all,
                "{blocks} blocks, ignored: {ignored}: {names:?}"
            );
            // A reader of it is warned.
            let read = narrows(at, &["diff", &out, "all"]);
            let said = String::from_utf8_lossy(&read.stderr);
            assert_eq!(said.contains("is not finished"), !complete, "{said}");
        }
    }
    // The limits reached every kind of file: each was left out by some and there in others.
    for name in needed.iter().filter(|n| **n != "report.html") {
        let there = cut.get(*name).copied().unwrap_or(0);
        assert!(there > 0 && there < 2 * limits.len(), "{name}: {there}");
    }
}

#[test]
fn a_folder_without_run_json_is_not_finished_for_every_reader() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("killed")).unwrap();
    fs::write(folder.path().join("killed/summary.json"), "{}").unwrap();
    let readers: [&[&str]; 3] = [
        &["report", "killed"],
        &["diff", "killed", "killed"],
        &["plot", "killed", "--as", "svg"],
    ];
    for reader in readers {
        let output = narrows(folder.path(), reader);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reader:?}: {said}");
        assert!(said.contains("has no run.json"), "{said}");
        assert!(said.contains("is not finished"), "{said}");
    }
}
