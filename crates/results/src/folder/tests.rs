//! Records of runs, and what is read as a results folder.

use std::path::Path;

use super::*;
use crate::Error;
use crate::collection::CollectionResult;
use crate::scripted::{Scripted, kernel as virtual_kernel, plan, silent};

#[test]
fn a_record_begins_with_what_is_known_before_the_run() {
    let plan = plan();
    let engine = Scripted {
        name: "kernel",
        kernel: Some(virtual_kernel()),
        ..silent()
    };
    let begun = begin(&engine, &plan, 7);
    let time = &begun.started_utc;
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    assert!(begun.is_unfinished());
    let expected = RunRecord {
        format: 1,
        kind: "run".to_owned(),
        name: "two ends".to_owned(),
        narrows: env!("CARGO_PKG_VERSION").to_owned(),
        engine: "kernel".to_owned(),
        seeds: vec![7],
        kernel: "7.3.4-narrows".to_owned(),
        virtual_kernel: Some(virtual_kernel()),
        started_utc: time.clone(),
        verdict: Verdict::unfinished(),
        scenario: serde_json::to_value(&plan).unwrap(),
        ..RunRecord::default()
    };
    assert_eq!(begun, expected);
    let campaign = begin_named("campaign", &engine, "l4s", &[1, 2]);
    assert_eq!((&*campaign.kind, &*campaign.name), ("campaign", "l4s"));
    assert_eq!(campaign.seeds, [1, 2]);
    assert_eq!(campaign.scenario, serde_json::Value::Null);
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernel_of_a_run_is_the_machines_where_the_engine_brings_none() {
    let uname = std::process::Command::new("uname").arg("-r").output();
    let release = String::from_utf8(uname.unwrap().stdout).unwrap();
    assert_eq!(begin(&silent(), &plan(), 1).kernel, release.trim());
}

#[test]
fn a_record_is_unfinished_until_its_data_are_whole_or_it_was_interrupted() {
    let record = |complete, verdict| RunRecord {
        complete,
        verdict,
        ..RunRecord::default()
    };
    assert!(record(false, Verdict::unfinished()).is_unfinished());
    assert!(!record(false, Verdict::interrupted()).is_unfinished());
    assert!(!record(true, Verdict::default()).is_unfinished());
    assert!(!record(true, Verdict::unfinished()).is_unfinished());
}

#[test]
fn a_record_has_the_command_and_the_commit_that_made_it_and_is_called_by_them() {
    let mut record = RunRecord {
        name: "two ends".to_owned(),
        narrows: "0.1.0".to_owned(),
        seeds: vec![1, 2],
        started_utc: "2026-03-01T12:30:05Z".to_owned(),
        ..RunRecord::default()
    };
    assert_eq!(record.version(), "0.1.0");
    record.made_by(&Origin {
        command: vec!["narrows".to_owned(), "run".to_owned()],
        commit: Some("f2ad165c9d3e".to_owned()),
    });
    assert_eq!(record.command, ["narrows", "run"]);
    assert_eq!(record.version(), "0.1.0 (f2ad165c9d3e)");
    assert_eq!(
        record.title(),
        "two ends (seed 1, 2, narrows 0.1.0 (f2ad165c9d3e), 2026-03-01T12:30:05Z)"
    );
}

#[test]
fn a_run_whose_plan_was_changed_has_the_new_plan_and_no_command_that_repeats_it() {
    let mut plan = plan();
    let mut record = begin(&silent(), &plan, 7);
    record.command = vec!["narrows".to_owned()];
    plan.name = "changed".to_owned();
    let amended = record.clone().amended(&plan);
    let expected = RunRecord {
        command: Vec::new(),
        scenario: serde_json::to_value(&plan).unwrap(),
        ..record
    };
    assert_eq!(amended, expected);
}

fn folder_of(dir: &Path, kind: &str) -> RunRecord {
    let record = RunRecord {
        format: FORMAT,
        kind: kind.to_owned(),
        name: format!("a {kind}"),
        ..RunRecord::default()
    };
    let folder = Folder::at(dir.to_owned()).unwrap();
    folder.write_record(&record).unwrap();
    record
}

#[test]
fn a_folder_is_opened_as_what_its_record_says() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["run", "campaign", "compare", "collection"] {
        let at = dir.path().join(kind);
        let record = folder_of(&at, kind);
        let results = open(&at).unwrap();
        assert_eq!(results.record(), &record);
        let (found, its_dir) = match &results {
            Results::Run(run) => ("run", run.dir.as_ref().unwrap()),
            Results::Campaign(campaign) => ("campaign", &campaign.dir),
            Results::Comparison(comparison) => ("compare", &comparison.dir),
            Results::Collection(collection) => {
                assert_eq!(collection.result, CollectionResult::default());
                ("collection", &collection.dir)
            }
        };
        assert_eq!((found, its_dir), (kind, &at));
        let several = open_run(&at).err().map(|error| error.to_string());
        assert_eq!(several.is_none(), kind == "run", "{several:?}");
    }
}

#[test]
fn what_is_no_results_folder_is_refused_and_what_cannot_be_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |at: &Path, why: &str| {
        let error = open(at).unwrap_err();
        assert!(matches!(error, Error::NotResults { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(&dir.path().join("nowhere"), "there is no such folder");
    refused(dir.path(), "it has no run.json");
    let mut newer = folder_of(dir.path(), "run");
    newer.format = FORMAT + 1;
    let folder = Folder::at(dir.path().to_owned()).unwrap();
    folder.write_record(&newer).unwrap();
    refused(dir.path(), "has format 2");
    // A folder in the place of a file.
    let file = dir.path().join("run.json");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Io { verb: "read", .. }), "{error:?}");
}
