//! The files of `packaging/cluster`: each is read by a parser where one is at hand, and what it
//! would have a scheduler run is run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{campaign, ended, narrows};
use serde_json::Value;

/// A file of `packaging/cluster`.
pub fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/cluster");
    folder.join(name).canonicalize().expect("it is there")
}

/// A folder with a campaign of six short cells, which was run once.
pub fn place() -> tempfile::TempDir {
    let at = tempfile::tempdir().expect("a folder");
    let rest = r#"[axis]
rate = [20, 21, 22, 23, 24, 25]
[set]
"link/access/up/bottleneck" = "rate {rate}Mbit queue fq_codel"
[metric]
goodput = "goodput_mbit of flow/bulk"
"#;
    let text = campaign("mine", "{rate}", "4s", rest);
    fs::write(at.path().join("mine.toml"), text).expect("a file");
    let single = ["campaign", "mine.toml", "--out", "single"];
    ended(&narrows(at.path(), &single), 0);
    at
}

/// `words` in the folder `at`, whose `narrows` is the one that is tested.
pub fn command(at: &Path, words: &[&str]) -> Command {
    let (program, words) = words.split_first().expect("a program");
    let of_tests = Path::new(env!("CARGO_BIN_EXE_narrows"));
    let mut path = of_tests.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command
        .current_dir(at)
        .args(words)
        .env("PATH", path)
        .env_remove("SLURM_ARRAY_TASK_ID")
        .env_remove("JOB_COMPLETION_INDEX")
        .env_remove("NARROWS_SHARD_INDEX");
    command
}

pub fn assert_merged(at: &Path, out: &Path) {
    let digest = |dir: &Path| -> Value {
        let record = fs::read_to_string(dir.join("run.json")).expect("a record");
        let record: Value = serde_json::from_str(&record).expect("JSON");
        record["digest"].clone()
    };
    assert_eq!(digest(out), digest(&at.join("single")));
}

#[test]
fn slurm_s_scripts_run_the_shards_of_an_array_and_merge_them() {
    let at = place();
    let script = |name: &str, variables: &[(&str, &str)]| {
        let path = file(name);
        let path = path.to_str().expect("UTF-8");
        ended(
            &command(at.path(), &["bash", "-n", path])
                .output()
                .expect("bash"),
            0,
        );
        let mut run = command(at.path(), &["bash", path]);
        run.envs(variables.iter().copied());
        run.output().expect("bash starts")
    };
    // Without a campaign they say what is missing.
    assert!(ended(&script("slurm.sh", &[]), 1).contains("CAMPAIGN"));
    for task in ["1", "2", "3"] {
        let array = [
            ("CAMPAIGN", "mine.toml"),
            ("SLURM_ARRAY_TASK_ID", task),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_MAX", "3"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_CPUS_PER_TASK", "1"),
        ];
        ended(&script("slurm.sh", &array), 0);
    }
    ended(&script("slurm-merge.sh", &[("CAMPAIGN", "mine.toml")]), 0);
    assert_merged(at.path(), &at.path().join("merged"));
}

/// The documents of a YAML file, read by PyYAML; `None` where there is none.
fn yaml(test: &str, name: &str) -> Option<Vec<Value>> {
    let read = "import json, sys, yaml\n\
        json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let path = file(name);
    let output = Command::new("python3")
        .args(["-c", read])
        .arg(&path)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Some(serde_json::from_slice(&output.stdout).expect("JSON"))
        }
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("'yaml'") => {
            panic!("{name}: {}", String::from_utf8_lossy(&output.stderr))
        }
        _ => {
            eprintln!("skipped: {test}: no python3 with PyYAML");
            None
        }
    }
}

#[test]
fn an_indexed_job_runs_as_many_shards_as_it_has_indices() {
    let test = "an_indexed_job_runs_as_many_shards_as_it_has_indices";
    let (Some(shards), Some(merge)) = (
        yaml(test, "kubernetes.yaml"),
        yaml(test, "kubernetes-merge.yaml"),
    ) else {
        return;
    };
    let at = place();
    let volume = at.path().to_str().expect("UTF-8");
    // The words of the container, its volume in this folder and the campaign another one.
    let words = |job: &Value| -> Vec<String> {
        let command = &job["spec"]["template"]["spec"]["containers"][0]["command"];
        let words = command.as_array().expect("words").iter();
        words
            .map(|word| match word.as_str().expect("text") {
                "l4s-tests/s1" => "mine.toml".to_owned(),
                word => word.replace("/sweep", volume),
            })
            .collect()
    };
    let (job, merge) = (&shards[0], &merge[0]);
    assert_eq!(job["spec"]["completionMode"], "Indexed");
    let indices = job["spec"]["completions"].as_u64().expect("a number");
    let environment = &job["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(environment[0]["name"], "NARROWS_SHARDS");
    assert_eq!(environment[0]["value"], indices.to_string());
    for index in 0..indices {
        let words = words(job);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut shard = command(at.path(), &words);
        shard.env("NARROWS_SHARDS", indices.to_string());
        shard.env("JOB_COMPLETION_INDEX", index.to_string());
        ended(&shard.output().expect("it starts"), 0);
    }
    let words = words(merge);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ended(&command(at.path(), &words).output().expect("it starts"), 0);
    assert_merged(at.path(), &at.path().join("merged"));
}

#[test]
fn a_cluster_of_htcondor_s_runs_all_shards() {
    let text = fs::read_to_string(file("htcondor.sub")).expect("a file");
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .collect();
    let (last, settings) = lines.split_last().expect("lines");
    assert_eq!(*last, "queue $(SHARDS)");
    let mut values = BTreeMap::new();
    for line in settings {
        let (name, value) = line.split_once('=').expect("NAME = VALUE");
        let before = values.insert(name.trim(), value.trim());
        assert_eq!(before, None, "{name} is there twice");
    }
    let at = place();
    for process in 0..3 {
        let expanded = |name: &str| {
            let mut text = values[name].to_owned();
            let own = process.to_string();
            let given = [
                ("CAMPAIGN", "mine.toml"),
                ("SHARDS", "3"),
                ("STORE", "cells"),
            ];
            for (name, value) in given.into_iter().chain([("CPUS", "1"), ("Process", &*own)]) {
                text = text.replace(&format!("$({name})"), value);
            }
            assert!(!text.contains('$'), "{text}");
            text
        };
        let arguments = expanded("arguments");
        let words: Vec<&str> = ["narrows"]
            .into_iter()
            .chain(arguments.split(' '))
            .collect();
        let mut job = command(at.path(), &words);
        for variable in expanded("environment").trim_matches('"').split(' ') {
            let (name, value) = variable.split_once('=').expect("NAME=VALUE");
            job.env(name, value);
        }
        ended(&job.output().expect("it starts"), 0);
    }
    let merge = [
        "merge",
        "cells",
        "--campaign",
        "mine.toml",
        "--out",
        "merged",
    ];
    ended(&narrows(at.path(), &merge), 0);
    assert_merged(at.path(), &at.path().join("merged"));
}

#[test]
fn a_workflow_of_snakemake_s_runs_the_shards_and_merges_them() {
    let test = "a_workflow_of_snakemake_s_runs_the_shards_and_merges_them";
    let has = Command::new("snakemake").arg("--version").output();
    if !has.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {test}: no snakemake");
        return;
    }
    let at = place();
    let path = file("Snakefile");
    let path = path.to_str().expect("UTF-8");
    let words = [
        "snakemake",
        "-s",
        path,
        "--cores",
        "2",
        "--config",
        "campaign=mine.toml",
    ];
    let words = [&words[..], &["shards=3", "options=--seeds 1"]].concat();
    ended(&command(at.path(), &words).output().expect("it starts"), 0);
    assert_merged(at.path(), &at.path().join("merged"));
}
