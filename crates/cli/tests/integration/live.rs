//! The command line over this machine's own stacks. What the machine cannot
//! run is skipped, and says so; no test asks how fast it was.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::machine_rig::{has, one_flow, text};
use narrows_linux::machine::Need;
use serde_json::Value;

/// A program beside the flow.
const TOLD: &str = r#"
[[command]]
name = "told"
host = "client"
run  = ["sh", "-c", "echo to {server/ipv6}; echo {{}} >&2; exit 3"]
"#;

fn narrows(dir: &Path, words: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_narrows"));
    program.current_dir(dir).args(words);
    program.output().expect("narrows runs")
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("two.toml"), one_flow("2s", TOLD)).expect("a file");
    dir
}

fn record(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("run.json")).expect("run.json");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_live_run_tells_of_its_rig_and_keeps_what_its_programs_wrote() {
    if !has("a live run", &[Need::Live]) {
        return;
    }
    let at = folder();
    let ran = narrows(
        at.path(),
        &["run", "two.toml", "--engine", "live", "--out", "out"],
    );
    let said = text(&ran.stderr);
    // Whether this machine kept up is for the verdict, not for the test.
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}");
    let out = at.path().join("out");
    let record = record(&out);
    assert_eq!(record["engine"], "live");
    assert_eq!(record["complete"], true);
    assert!(record["rig"]["lateness"]["count"].as_u64() > Some(0));
    assert_eq!(record["rig"]["flows"][0]["congestion_control"], "cubic");
    assert_eq!(record["rig"]["commands"][0]["name"], "command/told");
    assert_eq!(record["rig"]["commands"][0]["status"], 3);
    let wrote = |name| fs::read_to_string(out.join("commands").join(name)).expect(name);
    assert_eq!(wrote("told.out"), "to fd00::2\n");
    assert_eq!(wrote("told.err"), "{}\n");
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("The rig"));
    let text = text(&ran.stdout);
    assert!(text.contains("rig: Linux ") && text.contains("trust: "));
}

#[test]
fn a_comparison_leaves_both_engines_runs_side_by_side() {
    if !has("a comparison", &[Need::Live]) {
        return;
    }
    let at = folder();
    fs::write(at.path().join("plain.toml"), one_flow("2s", "")).expect("a file");
    let words = ["compare", "plain.toml", "--seeds", "2", "--out", "out"];
    let ran = narrows(at.path(), &words);
    let said = text(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}");
    let table = text(&ran.stdout);
    assert!(table.contains("goodput_mbit of flow/first"), "{table}");
    let cell = at.path().join("out/cells/one-flow");
    for (leaf, engine) in [
        ("sim-1", "sim"),
        ("sim-2", "sim"),
        ("live-1", "live"),
        ("live-2", "live"),
    ] {
        assert_eq!(record(&cell.join(leaf))["engine"], engine);
    }
}

#[test]
fn a_program_that_does_not_exist_is_refused_in_a_line() {
    if !has("a missing program", &[Need::Live]) {
        return;
    }
    let at = folder();
    let set = "command/told/run=[\"no-such-program-here\"]";
    let ran = narrows(
        at.path(),
        &["run", "two.toml", "--engine", "live", "--set", set],
    );
    let said = text(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(1 | 2)), "{said}");
    assert!(said.contains("no-such-program-here"), "{said}");
}
