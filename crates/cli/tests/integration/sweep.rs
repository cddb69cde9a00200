//! Campaigns in shards, as processes: killed and started again, and merged to what one run is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::machine_rig::text;
use crate::program::{campaign, ended, narrows, program};
use narrows_units::Rng;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

/// The number of cells of [`write_campaign`].
const CELLS: usize = 24;

/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes a campaign of cells that last so long each.
fn write_campaign(at: &Path, duration: &str) {
    let rates: Vec<usize> = (20..20 + CELLS).collect();
    let rest = format!(
        r#"[axis]
rate = {rates:?}
[set]
"link/access/up/bottleneck" = "rate {{rate}}Mbit queue fq_codel"
[metric]
goodput = "goodput_mbit of flow/bulk"
[[check]]
id = "C"
text = "there is enough of it"
holds = "goodput[20] >= 15"
"#
    );
    let text = campaign("mine", "{rate}", duration, &rest);
    fs::write(at.join("mine.toml"), text).expect("a file");
}

fn digest(out: &Path) -> String {
    let record = fs::read_to_string(out.join("run.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["complete"], true);
    record["digest"].as_str().expect("a digest").to_owned()
}

/// The folders of cells in `store`.
fn cells(store: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let shelves = below(&store.join("v1")).into_iter();
    let shelves = shelves.filter(|shelf| shelf.file_name().is_some_and(|name| name.len() == 2));
    let mut cells: Vec<_> = shelves.flat_map(|shelf| below(&shelf)).collect();
    cells.sort();
    cells
}

fn begun(store: &Path) -> usize {
    fs::read_dir(store.join("v1/begun")).map_or(0, Iterator::count)
}

/// One shard of the campaign, into the store of its number.
fn shard(at: &Path, number: usize, of: usize) -> std::process::Command {
    let (shard, store) = (format!("{number}/{of}"), format!("store-{number}"));
    let words = ["campaign", "mine.toml", "--jobs", "1", "--shard", &shard];
    program(at, &[&words[..], &["--store", &store]].concat())
}

/// What `child` printed, which ends before [`PATIENCE`] does.
fn waited(mut child: Child) -> Output {
    let started = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().ok();
            let output = child.wait_with_output().expect("it ends");
            panic!("it does not end: {}", text(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("it ends")
}

/// All files below `dir` but pages and records, which have times of day.
fn data(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if name != "run.json" && name != "report.html" {
                let name = path.strip_prefix(dir).expect("below").display().to_string();
                found.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn shards_that_are_killed_and_started_again_merge_to_what_a_single_run_is() {
    const SHARDS: usize = 3;
    const KILLS: usize = 8;
    let at = tempfile::tempdir().expect("a folder");
    let at = at.path();
    write_campaign(at, "40s");
    let words = ["campaign", "mine.toml", "--check", "--out", "single"];
    ended(&narrows(at, &words), 0);
    let mut draw = Rng::for_name(1, "kills");
    let store = |number: usize| at.join(format!("store-{number}"));
    let start = |number: usize| shard(at, number, SHARDS).spawn().expect("it starts");
    let mut running: Vec<(usize, Child)> = (1..=SHARDS).map(|n| (n, start(n))).collect();
    let mut lost = [0; SHARDS + 1];
    let mut kills = 0;
    while !running.is_empty() {
        let place = draw.below(running.len() as u32) as usize;
        let (number, mut child) = running.swap_remove(place);
        // It is killed a drawn while after it has added a cell: while it runs the next one, or
        // while it writes it.
        let (before, started) = (cells(&store(number)).len(), Instant::now());
        let ends = loop {
            if child.try_wait().expect("it can be waited for").is_some() {
                break true;
            }
            if kills < KILLS && cells(&store(number)).len() > before {
                break false;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "shard {number} does not go on"
            );
            std::thread::sleep(Duration::from_millis(1));
        };
        if ends {
            ended(&child.wait_with_output().expect("it ends"), 0);
            continue;
        }
        std::thread::sleep(Duration::from_millis(u64::from(draw.below(40))));
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        let left = begun(&store(number));
        assert!(left <= lost[number] + 1, "more than one cell was lost");
        lost[number] = left;
        kills += 1;
        running.push((number, start(number)));
    }
    assert!(kills > 1, "{kills}");
    let stores: Vec<String> = (1..=SHARDS).map(|n| format!("store-{n}")).collect();
    let stores: Vec<&str> = stores.iter().map(String::as_str).collect();
    let merge = [&["merge"][..], &stores].concat();
    let merge = [&merge[..], &["--campaign", "mine.toml", "--check"]].concat();
    ended(
        &narrows(at, &[&merge[..], &["--out", "merged"]].concat()),
        0,
    );
    assert_eq!(digest(&at.join("merged")), digest(&at.join("single")));
    assert!(
        data(&at.join("merged")) == data(&at.join("single")),
        "files differ"
    );
    let record = |out: &str| -> Value {
        let text = fs::read_to_string(at.join(out).join("run.json")).expect("a record");
        serde_json::from_str(&text).expect("JSON")
    };
    let (mut merged, mut single) = (record("merged"), record("single"));
    for record in [&mut merged, &mut single] {
        record["started_utc"].take();
        record["wall_s"].take();
    }
    assert_eq!(merged, single);
}

/// What is said of a cell that was spoilt, and how it is.
type Spoil = (&'static str, fn(&Path));

#[test]
fn what_is_missing_is_named_and_counted_and_what_is_not_a_cell_is_not_merged() {
    let at = tempfile::tempdir().expect("a folder");
    let at = at.path();
    write_campaign(at, "4s");
    for number in [1, 2] {
        ended(&shard(at, number, 3).output().expect("it ends"), 0);
    }
    // What was written by another, in place of cells and of their files.
    let spoil: [Spoil; 9] = [
        ("cell.json cannot be read", |cell| {
            fs::remove_file(cell.join("cell.json")).expect("it was there");
            mkfifo(&cell.join("cell.json"), Mode::S_IRWXU).expect("a pipe");
        }),
        ("series.csv.gz cannot be read", |cell| {
            fs::remove_file(cell.join("series.csv.gz")).expect("it was there");
            mkfifo(&cell.join("series.csv.gz"), Mode::S_IRWXU).expect("a pipe");
        }),
        ("summary.json cannot be read", |cell| {
            fs::remove_file(cell.join("summary.json")).expect("it was there");
            std::os::unix::fs::symlink("/dev/zero", cell.join("summary.json")).expect("a link");
        }),
        ("it is no folder", |cell| {
            let other = cell.with_extension("other");
            fs::rename(cell, &other).expect("it was there");
            std::os::unix::fs::symlink(other, cell).expect("a link");
        }),
        ("it is no folder", |cell| {
            fs::remove_dir_all(cell).expect("it was there");
            mkfifo(cell, Mode::S_IRWXU).expect("a pipe");
        }),
        ("cell.json is too large", |cell| {
            let file = fs::File::create(cell.join("cell.json")).expect("a file");
            file.set_len(1 << 40).expect("a file with holes");
        }),
        ("summary.csv has changed", |cell| {
            let file = fs::File::options()
                .write(true)
                .open(cell.join("summary.csv"));
            file.expect("a file").set_len(1 << 40).expect("holes");
        }),
        ("outside its folder", |cell| {
            let path = cell.join("cell.json");
            let text = fs::read_to_string(&path).expect("a file");
            let text = text.replace("\"summary.csv\"", "\"../../summary.csv\"");
            fs::write(path, text).expect("written");
        }),
        ("names `summary.csv` twice", |cell| {
            let path = cell.join("cell.json");
            let text = fs::read_to_string(&path).expect("a file");
            let text = text.replace("\"series.csv.gz\"", "\"summary.csv\"");
            fs::write(path, text).expect("written");
        }),
    ];
    let sound = cells(&at.join("store-1"));
    assert!(sound.len() >= 8);
    let all: Vec<PathBuf> = [sound, cells(&at.join("store-2"))].concat();
    for ((_, spoil), cell) in spoil.iter().zip(&all) {
        spoil(cell);
    }
    let words = ["merge", "store-1", "store-2", "--campaign", "mine.toml"];
    let json = [&words[..], &["--check", "--format", "json", "--out", "out"]].concat();
    let merged = waited(program(at, &json).spawn().expect("it starts"));
    let said = ended(&merged, 1);
    assert!(
        said.contains(&format!("{} of {CELLS} runs are missing", spoil.len() + 8)),
        "{said}"
    );
    let merged: Value = serde_json::from_slice(&merged.stdout).expect("JSON");
    let missing = merged["missing"].as_array().expect("a list");
    let reasons: Vec<&str> = missing.iter().filter_map(|m| m["why"].as_str()).collect();
    let absent = reasons
        .iter()
        .filter(|why| why.starts_with("it is not in "));
    assert_eq!(absent.count(), 8);
    for (why, _) in &spoil {
        let wanted = spoil.iter().filter(|(w, _)| w == why).count();
        let found = reasons.iter().filter(|r| r.contains(why)).count();
        assert_eq!(found, wanted, "{why}: {reasons:#?}");
    }
    // Neither can they be listed, verified or removed by halves.
    for words in [&["list"][..], &["verify"], &["prune"]] {
        let words = [&["store"], words, &["--store", "store-1"]].concat();
        waited(program(at, &words).spawn().expect("it starts"));
    }
    assert!(!at.join("summary.csv").exists() && !at.join("out/summary.csv").exists());
    let left: Vec<_> = cells(&at.join("store-1"));
    assert!(left.iter().all(|cell| !all[..8].contains(cell)), "{left:?}");
    // The shards run what is missing, over whatever is in its place.
    for number in [1, 2, 3] {
        let child = shard(at, number, 3).spawn().expect("it starts");
        ended(&waited(child), 0);
    }
    let words = [&words[..], &["store-3", "--check", "--out", "whole"]].concat();
    ended(&narrows(at, &words), 0);
    ended(
        &narrows(at, &["campaign", "mine.toml", "--out", "single"]),
        0,
    );
    assert_eq!(digest(&at.join("whole")), digest(&at.join("single")));
}

#[test]
fn a_shard_is_known_by_words_or_where_asked_by_the_environment_and_judges_nothing() {
    let at = tempfile::tempdir().expect("a folder");
    let at = at.path();
    write_campaign(at, "4s");
    let run = |words: &[&str], variables: &[(&str, &str)]| {
        let words = [&["campaign", "mine.toml", "--seeds", "2"], words].concat();
        let mut program = program(at, &words);
        for name in [
            "SLURM_ARRAY_TASK_ID",
            "JOB_COMPLETION_INDEX",
            "NARROWS_SHARD_INDEX",
        ] {
            program.env_remove(name);
        }
        program.envs(variables.iter().copied());
        program.output().expect("it ends")
    };
    let kubernetes = [("JOB_COMPLETION_INDEX", "3"), ("NARROWS_SHARDS", "4")];
    let shard = ["--store", "cells", "--shard"];
    let auto = [&shard[..], &["auto", "--check", "--format", "json"]].concat();
    let ran = run(&auto, &kubernetes);
    let said = ended(&ran, 0);
    assert!(said.contains("a shard judges nothing"), "{said}");
    let ran: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!((&ran["shard"], &ran["runs"]), (&"4/4".into(), &12.into()));
    assert_eq!((&ran["ran"], &ran["of"]), (&12.into(), &48.into()));
    assert_eq!(cells(&at.join("cells")).len(), 12);
    assert!(!at.join("results").exists());
    // By words it is the same one, and nothing is left to run.
    let again = run(&[&shard[..], &["4/4"]].concat(), &[]);
    let said = ended(&again, 0);
    let division = ran["division"].as_str().expect("a name");
    assert!(said.contains(&format!("division {division}")), "{said}");
    assert_eq!(
        text(&again.stdout).trim_end(),
        "shard 4/4 of mine: 12 of 12 runs are in cells, 12 of them were there before"
    );
    // What runs took divides them otherwise.
    let listed = narrows(
        at,
        &["store", "list", "--store", "cells", "--format", "json"],
    );
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert!(
        listed[0]["wall_s"].as_f64().is_some_and(|s| s > 0.0),
        "{listed}"
    );
    let costs: Vec<Value> = (20..20 + CELLS)
        .map(|rate| serde_json::json!({ "scenario": rate.to_string(), "wall_s": if rate == 20 { 50 } else { 1 } }))
        .collect();
    fs::write(at.join("costs.json"), Value::Array(costs).to_string()).expect("a file");
    let costed = run(
        &[
            "--store",
            "costed",
            "--shard",
            "1/2",
            "--costs",
            "costs.json",
            "--format",
            "json",
        ],
        &[],
    );
    ended(&costed, 0);
    let costed: Value = serde_json::from_slice(&costed.stdout).expect("JSON");
    // Two seeds of the costly cell, one in each half.
    assert_eq!(costed["runs"], 24);
    assert_ne!(costed["division"].as_str(), Some(division));

    // Without the word the environment is not looked at: all of it runs.
    let whole = run(&["--store", "cells", "--out", "whole"], &kubernetes);
    let said = ended(&whole, 0);
    assert!(said.contains("12 of 48 runs were taken"), "{said}");
    for (words, variables, says) in [
        (&["auto"][..], &[][..], "no variable says which shard"),
        (&["auto"], &kubernetes[..1], "NARROWS_SHARDS is missing"),
        (&["5/4"], &[], "I from 1 to N"),
        (&["x"], &[], "such as 3/8, or auto"),
        (&["1/2", "--no-store"], &[], "cannot be used with"),
        (&["1/2", "--out", "x"], &[], "cannot be used with"),
        (&["1/2", "--costs", "mine.toml"], &[], "cannot be read"),
        (&["1/2", "--engine", "live"], &[], "are in no store"),
    ] {
        let refused = run(
            &[&["--store", "none", "--shard"], words].concat(),
            variables,
        );
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(says), "{said}");
    }
    let nowhere = ended(&run(&["--shard", "1/2"], &[]), 2);
    assert!(nowhere.contains("none is named"), "{nowhere}");
    assert!(!at.join("none").exists());
}

#[test]
fn a_collection_is_merged_to_its_page() {
    let at = tempfile::tempdir().expect("a folder");
    let at = at.path();
    write_campaign(at, "4s");
    let text = fs::read_to_string(at.join("mine.toml")).expect("a file");
    fs::write(at.join("other.toml"), text.replace("\"mine\"", "\"other\"")).expect("a file");
    let both = "version = 1\nkind = \"collection\"\nname = \"both\"\ncampaigns = [\"mine.toml\", \"other.toml\"]\n";
    fs::write(at.join("both.toml"), both).expect("a file");
    for shard in ["1/2", "2/2"] {
        let words = [
            "campaign",
            "both.toml",
            "--store",
            "cells",
            "--shard",
            shard,
        ];
        ended(&narrows(at, &words), 0);
    }
    let merge = [
        "merge",
        "cells",
        "--campaign",
        "both.toml",
        "--check",
        "--out",
        "merged",
    ];
    ended(&narrows(at, &merge), 0);
    let single = ["campaign", "both.toml", "--check", "--out", "single"];
    ended(&narrows(at, &single), 0);
    assert!(
        data(&at.join("merged")) == data(&at.join("single")),
        "files differ"
    );
    for (words, says) in [
        (&["merge", "cells"][..], "--campaign"),
        (
            &["merge", "nowhere", "--campaign", "mine.toml"],
            "is not a store of cells",
        ),
        (&["merge", "cells", "--campaign", "nothing"], "`nothing`"),
    ] {
        let mut refused = program(at, words);
        let said = ended(&refused.stdin(Stdio::null()).output().expect("it ends"), 2);
        assert!(said.contains(says), "{said}");
    }
}
