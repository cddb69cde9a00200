//! Campaigns over a store of cells, whatever is done to them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::machine_rig::text;
use crate::program::{campaign, ended, narrows, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The number of cells of [`write_campaign`].
const CELLS: usize = 12;

/// Writes a campaign of cells that last so long each.
fn write_campaign(at: &Path, duration: &str) {
    let rest = r#"[axis]
rate = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]
[set]
"link/access/up/bottleneck" = "rate {rate}Mbit queue fq_codel"
[metric]
goodput = "goodput_mbit of flow/bulk"
"#;
    let text = campaign("mine", "{rate}", duration, rest);
    fs::write(at.join("mine.toml"), text).expect("a file");
}

fn start(at: &Path, words: &[&str]) -> Child {
    program(at, words).spawn().expect("the program starts")
}

fn digest(out: &Path) -> String {
    let record = fs::read_to_string(out.join("run.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["complete"], true);
    record["digest"].as_str().expect("a digest").to_owned()
}

/// The folders in `cells/v1`, of cells and of those that are begun.
fn cells(at: &Path) -> usize {
    let folders = |dir: &Path| -> Vec<_> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let shelves = folders(&at.join("cells/v1"));
    let of_cells = shelves.iter().filter(|shelf| {
        let name = shelf.file_name().expect("a name");
        name.len() == 2
    });
    of_cells.map(|shelf| folders(shelf).len()).sum()
}

fn begun(at: &Path) -> usize {
    fs::read_dir(at.join("cells/v1/begun")).map_or(0, Iterator::count)
}

/// Waits, for a minute at most, until there are so many cells; whether there are.
fn come(at: &Path, count: usize) -> bool {
    let asked = Instant::now();
    while cells(at) < count {
        if asked.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

const INTO: [&str; 6] = ["campaign", "mine.toml", "--store", "cells", "--jobs", "1"];

/// The words of a campaign over the store, with results in `out`.
fn into(out: &str) -> Vec<&str> {
    [&INTO[..], &["--out", out]].concat()
}

#[test]
fn a_kill_loses_one_cell_and_the_results_are_those_of_a_single_run() {
    let at = tempfile::tempdir().expect("a folder");
    write_campaign(at.path(), "60s");
    let single = narrows(at.path(), &["campaign", "mine.toml", "--out", "single"]);
    ended(&single, 0);
    // Each is killed as soon as it has added some cells, at a moment that nobody chose: while
    // it runs the next one, or while it writes it.
    let mut kills = 0;
    while cells(at.path()) < CELLS - 2 {
        let before = cells(at.path());
        let lost = begun(at.path());
        let out = format!("killed-{kills}");
        let mut child = start(at.path(), &into(&out));
        let more = come(at.path(), before + 1);
        std::thread::sleep(Duration::from_millis(7 * kills % 40));
        child.kill().expect("it is there");
        let output = child.wait_with_output().expect("it ends");
        assert!(more, "no cell was added: {}", text(&output.stderr));
        assert!(begun(at.path()) <= lost + 1, "more than one cell was lost");
        kills += 1;
    }
    let verified = narrows(at.path(), &["store", "verify", "--store", "cells"]);
    ended(&verified, 0);
    let there = cells(at.path());
    let last = program(at.path(), &into("last")).output().expect("it ends");
    let said = ended(&last, 0);
    let taken = format!("{there} of {CELLS} runs were taken from ");
    assert!(there == CELLS || said.contains(&taken), "{said}");
    let [single, last] = ["single", "last"].map(|out| digest(&at.path().join(out)));
    assert_eq!(single, last);
    assert!(kills > 1, "{kills}");
}

#[test]
fn a_signal_leaves_no_cell_half_way_and_what_was_done_is_kept() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let at = tempfile::tempdir().expect("a folder");
        // The last ones are under way when the signal comes.
        write_campaign(at.path(), "60s");
        let child = start(at.path(), &into("cut"));
        assert!(come(at.path(), 2), "no cell is kept");
        kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
        let output = child.wait_with_output().expect("it ends");
        ended(&output, 130);
        assert_eq!(begun(at.path()), 0, "{}", text(&output.stderr));
        let kept = cells(at.path());
        let verified = narrows(at.path(), &["store", "verify", "--store", "cells"]);
        ended(&verified, 0);
        let printed = text(&verified.stdout);
        assert!(
            printed.starts_with(&format!("{kept} cells are sound")),
            "{printed}"
        );
    }
}

#[test]
fn what_cannot_be_written_gets_no_name_and_ends_the_campaign() {
    let at = tempfile::tempdir().expect("a folder");
    write_campaign(at.path(), "4s");
    // No file may grow beyond that, as on a disk that is full.
    let words = into("full").join(" ");
    let limited = Command::new("sh")
        .current_dir(at.path())
        .args([
            "-c",
            &format!("trap '' XFSZ; ulimit -f 4; exec \"$NARROWS\" {words}"),
        ])
        .env("NARROWS", env!("CARGO_BIN_EXE_narrows"))
        .output()
        .expect("sh starts");
    let said = ended(&limited, 1);
    assert!(said.contains("could not write "), "{said}");
    assert_eq!((cells(at.path()), begun(at.path())), (0, 0), "{said}");
    ended(
        &program(at.path(), &into("room")).output().expect("it ends"),
        0,
    );
    assert_eq!(cells(at.path()), CELLS);
}

#[test]
fn a_store_is_listed_verified_and_pruned() {
    let at = tempfile::tempdir().expect("a folder");
    write_campaign(at.path(), "4s");
    let store = |words: &[&str]| {
        let words = [&["store"], words, &["--store", "cells"]].concat();
        narrows(at.path(), &words)
    };
    let refused = ended(&store(&["list"]), 2);
    assert!(refused.contains("is not a store of cells"), "{refused}");
    ended(
        &program(at.path(), &into("a")).output().expect("it ends"),
        0,
    );
    let listed = store(&["list"]);
    ended(&listed, 0);
    let listed = text(&listed.stdout);
    assert!(
        listed.lines().count() == 2 && listed.contains(" * "),
        "{listed}"
    );
    let json = store(&["list", "--only", "2*", "--format", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(10));
    assert_eq!(json[0]["scenario"], "20");

    let name = json[0]["name"].as_str().expect("a name");
    let damaged = at.path().join("cells/v1").join(&name[..2]).join(name);
    fs::write(damaged.join("summary.json"), "{}").expect("a file");
    let verified = store(&["verify"]);
    let said = ended(&verified, 1);
    assert!(said.contains("summary.json has changed"), "{said}");
    let pruned = store(&["prune"]);
    ended(&pruned, 0);
    let printed = text(&pruned.stdout);
    assert!(
        printed.starts_with("removed 0 cells (0 B), 1 damaged ones"),
        "{printed}"
    );
    ended(&store(&["verify"]), 0);
    let all = store(&["prune", "--all"]);
    assert!(
        text(&all.stdout).starts_with("removed 11 cells ("),
        "{all:?}"
    );
    assert_eq!(cells(at.path()), 0);
}

#[test]
fn a_store_is_where_the_option_the_environment_or_the_cache_says() {
    let at = tempfile::tempdir().expect("a folder");
    write_campaign(at.path(), "4s");
    let one = ["campaign", "mine.toml", "--only", "20"];
    let run = |more: &[&str], variable: Option<&str>, cache: &str| {
        let words = [&one[..], more].concat();
        let mut program = program(at.path(), &words);
        match variable {
            Some(dir) => program.env("NARROWS_STORE", dir),
            None => program.env_remove("NARROWS_STORE"),
        };
        program.env("XDG_CACHE_HOME", at.path().join(cache));
        program.output().expect("it ends")
    };
    let there = |dir: &str| at.path().join(dir).join("v1").is_dir();
    ended(&run(&["--no-store"], Some("a"), "cache"), 0);
    ended(&run(&[], Some(""), "cache"), 0);
    assert!(!there("a") && !there("cache/narrows/cells"));
    ended(&run(&[], None, "cache"), 0);
    assert!(there("cache/narrows/cells"));
    ended(&run(&[], Some("a"), "cache"), 0);
    assert!(there("a") && !there("b"));
    ended(&run(&["--store", "b"], Some("a"), "cache"), 0);
    assert!(there("b"));
    // A named one that cannot be used is an error, the user's own place is not.
    fs::write(at.path().join("file"), "").expect("a file");
    let said = ended(&run(&["--store", "file"], None, "cache"), 2);
    assert!(said.contains("file is not a store of cells"), "{said}");
    let said = ended(&run(&[], None, "file"), 0);
    assert!(said.contains("cells are not kept"), "{said}");
}
