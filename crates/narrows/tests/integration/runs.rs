//! One run: its folder, its numbers, its verdict.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{ModelEngine, by_seed, equal_shares, files, plan, run, run_to, unwatched};
use narrows::report::table::run_table;
use narrows::results::folder::{Origin, open, open_run};
use narrows::{Error, Output, Progress, Results, RunOptions, RunResult, Watch, diff, run_scenario};

/// A run by the model, with `seed`, into `dir`.
fn model(dir: &Path, seed: u64) -> RunResult {
    run_to(&ModelEngine::new(by_seed), &plan(), seed, dir)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let first = model(dirs[0].path(), 7);
    let again = model(dirs[1].path(), 7);
    let other = model(dirs[2].path(), 8);
    assert!(
        files(dirs[0].path()) == files(dirs[1].path()),
        "the files differ"
    );
    assert_eq!(first.record.digest, again.record.digest);
    assert_eq!(first.record.digest.len(), 64);
    assert_ne!(first.record.digest, other.record.digest);
}

#[test]
fn what_made_a_run_is_recorded_and_changes_no_digest() {
    let of = |commit: Option<&str>| {
        let dir = tempfile::tempdir().unwrap();
        let options = RunOptions {
            output: Output::Folder(dir.path().to_path_buf()),
            origin: Origin {
                command: vec!["narrows".to_owned()],
                commit: commit.map(str::to_owned),
            },
            ..RunOptions::default()
        };
        let engine = ModelEngine::new(by_seed);
        unwatched(|w| run_scenario(&engine, &plan(), &options, w)).unwrap();
        open_run(dir.path()).unwrap().record
    };
    let (one, other) = (of(Some("0123456789ab")), of(None));
    assert_eq!(one.commit.as_deref(), Some("0123456789ab"));
    assert_eq!(one.version(), format!("{} (0123456789ab)", one.narrows));
    assert_eq!(other.version(), other.narrows);
    assert_eq!(one.digest, other.digest);
    assert!(!one.digest.is_empty());
}

#[test]
fn a_folder_reads_as_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let made = model(dir.path(), 1);
    let read = open_run(dir.path()).unwrap();
    assert_eq!(read.record, made.record);
    assert_eq!(read.summary, made.summary);
    assert!(read.series == made.series, "the series differ");
    assert_eq!(read.dir, made.dir);
    let names: Vec<String> = files(dir.path()).into_keys().collect();
    assert_eq!(
        names,
        [
            "run.flent.gz",
            "series.csv.gz",
            "summary.csv",
            "summary.json"
        ]
    );
}

#[test]
fn the_law_of_the_model_comes_out_of_the_reduction() {
    let result = run(&ModelEngine::new(equal_shares), &plan());
    let summary = &result.summary;
    for flow in &summary.flows {
        let goodput = flow.goodput_mbit.unwrap();
        assert!((goodput - 23.85).abs() < 0.05, "{goodput}");
        let rtt = flow.rtt_ms.unwrap();
        assert!(rtt.min >= 20.5 && rtt.max < 29.5 && rtt.p50 > 24.0 && rtt.p50 < 26.0);
        // Over the four seconds of the window: a mark for every 100 packets.
        assert!((60..110).contains(&flow.ce_marks), "{}", flow.ce_marks);
    }
    assert!(summary.jain.unwrap() > 0.9999);
    let queue = summary.queue("link/access/up/bottleneck").unwrap();
    let wire = 47.7 * 1514.0 / 1448.0 / 50.0;
    assert!((queue.utilisation.unwrap() - wire).abs() < 0.002);
    assert_eq!(queue.rate_mbit, Some(50.0));
    assert_eq!(queue.bands.len(), 2);
    assert_eq!(queue.peak_backlog_packets, 40);
    assert_eq!(
        queue.marks.total(),
        summary.flows.iter().map(|f| f.ce_marks).sum::<u64>()
    );
    let rate = result.series.track("flow/first", "goodput_mbit").unwrap();
    assert_eq!(rate.t_s.len(), 120);
    assert_eq!((rate.t_s[0], rate.t_s[119]), (0.05, 6.0));
    let mean = rate.value.iter().sum::<f64>() / 120.0;
    assert!((mean - 23.85).abs() < 0.05, "{mean}");
    assert!(result.series.track("flow/first", "alpha").is_none());
    assert_eq!(result.record.verdict.line(), "trust: yes");
}

#[test]
fn a_folder_with_something_in_it_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let options = RunOptions {
        seed: None,
        output: Output::Folder(dir.path().to_path_buf()),
        ..RunOptions::default()
    };
    let error =
        unwatched(|w| run_scenario(&ModelEngine::new(by_seed), &plan(), &options, w)).unwrap_err();
    assert!(matches!(error, Error::NotEmpty(_)) && error.is_refusal());
    assert_eq!(files(dir.path()).len(), 1);
}

#[test]
fn an_interrupted_run_leaves_a_readable_incomplete_folder() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let progress = |p: Progress<'_>| {
        if let Progress::Run { reached, .. } = p {
            if reached.as_millis() >= 3000 {
                cancel.store(true, Ordering::Relaxed);
            }
        }
    };
    let watch = Watch {
        cancel: &cancel,
        progress: &progress,
    };
    let options = RunOptions {
        seed: None,
        output: Output::Folder(dir.path().to_path_buf()),
        ..RunOptions::default()
    };
    run_scenario(&ModelEngine::new(equal_shares), &plan(), &options, &watch).unwrap();
    let read = open_run(dir.path()).unwrap();
    assert!(!read.record.complete);
    assert_eq!(
        read.record.verdict.line(),
        "trust: no, because it was interrupted"
    );
    let track = read.series.track("flow/first", "goodput_mbit").unwrap();
    assert_eq!(track.t_s.last(), Some(&3.0));
    let goodput = read.summary.flows[0].goodput_mbit.unwrap();
    assert!((goodput - 23.85).abs() < 0.1, "{goodput}");
}

#[test]
fn a_run_that_was_killed_at_once_leaves_a_readable_incomplete_folder() {
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions {
        seed: None,
        output: Output::Folder(dir.path().join("killed")),
        ..RunOptions::default()
    };
    let mut engine = ModelEngine::new(by_seed);
    engine.panics_on = Some("two flows");
    let killed = std::panic::catch_unwind(|| {
        unwatched(|w| run_scenario(&engine, &plan(), &options, w).map(|_| ()))
    });
    assert!(killed.is_err());
    let read = open_run(&dir.path().join("killed")).unwrap();
    assert!(!read.record.complete && read.record.digest.is_empty());
    assert_eq!(read.record.scenario["name"], "two flows");
}

#[test]
fn results_below_a_folder_have_names_and_a_link_to_the_latest() {
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions {
        seed: None,
        output: Output::Below(dir.path().join("results")),
        ..RunOptions::default()
    };
    let run = || {
        unwatched(|w| run_scenario(&ModelEngine::new(by_seed), &plan(), &options, w))
            .unwrap()
            .dir
            .unwrap()
    };
    let (first, second) = (run(), run());
    assert_ne!(first, second);
    assert!(first.to_string_lossy().contains("Z-two-flows"));
    let latest = dir.path().join("results/latest");
    assert_eq!(
        fs::canonicalize(&latest).unwrap(),
        fs::canonicalize(second).unwrap()
    );
    assert!(matches!(open(&latest).unwrap(), Results::Run(_)));
}

#[test]
fn what_is_no_results_folder_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let say = |path: &Path| open(path).unwrap_err().to_string();
    assert!(say(&dir.path().join("nowhere")).contains("no such folder"));
    assert!(say(dir.path()).contains("it has no run.json"));
    fs::write(dir.path().join("run.json"), "{ truncated").unwrap();
    assert!(say(dir.path()).contains("run.json cannot be read"));
}

#[test]
fn two_results_are_compared_number_by_number() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let seeds = [1, 1, 2];
    let opened: Vec<Results> = dirs
        .iter()
        .zip(seeds)
        .map(|(dir, seed)| {
            model(dir.path(), seed);
            open(dir.path()).unwrap()
        })
        .collect();
    let same = diff::diff(&opened[0], &opened[1]).unwrap();
    assert!(same.identical && same.changed().next().is_none());
    let other = diff::diff(&opened[0], &opened[2]).unwrap();
    assert!(!other.identical);
    let row = other
        .rows
        .iter()
        .find(|r| r.metric == "goodput_mbit of flow/first")
        .unwrap();
    assert_eq!(row.difference, Some(row.b.unwrap() - row.a.unwrap()));
    assert!(other.table().contains("goodput_mbit of flow/first"));
}

#[test]
fn the_tables_of_a_run_read_well() {
    let mut result = run(&ModelEngine::new(equal_shares), &plan());
    result.summary.queues.truncate(1);
    insta::assert_snapshot!(run_table(&result));
}

#[test]
fn the_summary_csv_is_stable() {
    let result = run(&ModelEngine::new(equal_shares), &plan());
    insta::assert_snapshot!(narrows::results::metric::to_csv(&result.summary));
}
