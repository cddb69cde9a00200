//! Which commit the program says it is of, and that results do not depend on it.

#[path = "../../commit.rs"]
mod commit;

use std::fs;
use std::path::Path;
use std::process::Command;

/// A repository with one commit of one file that counts.
fn repository(at: &Path) {
    fs::create_dir_all(at.join("crates")).unwrap();
    fs::write(at.join("crates/a.rs"), "fn a() {}\n").unwrap();
    fs::write(at.join("notes.md"), "a\n").unwrap();
    for words in [
        &["init", "--quiet"][..],
        &["add", "."],
        &["commit", "--quiet", "--message", "a"],
    ] {
        let done = Command::new("git")
            .arg("-C")
            .arg(at)
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(words)
            .status();
        assert!(done.unwrap().success(), "{words:?}");
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 12 && text.chars().all(|c| c.is_ascii_hexdigit())
}

#[test]
fn a_checkout_has_its_commit_and_says_when_it_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let clean = commit::of(dir.path()).unwrap();
    assert!(is_hash(&clean), "{clean}");
    // What is not built may change.
    fs::write(dir.path().join("notes.md"), "b\n").unwrap();
    assert_eq!(commit::of(dir.path()), Some(clean.clone()));
    fs::write(dir.path().join("crates/a.rs"), "fn b() {}\n").unwrap();
    assert_eq!(commit::of(dir.path()), Some(format!("{clean}-dirty")));
}

#[test]
fn an_archive_has_its_commit_without_git() {
    let dir = tempfile::tempdir().unwrap();
    let hint = dir.path().join(commit::ARCHIVED);
    fs::write(&hint, "0123456789ab\n").unwrap();
    assert_eq!(commit::of(dir.path()).as_deref(), Some("0123456789ab"));
    // The placeholder that a checkout has is no commit.
    fs::write(&hint, "$Format:%h$\n").unwrap();
    assert_eq!(commit::of(dir.path()), None);
}

#[test]
fn a_tree_inside_another_project_does_not_take_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let inside = dir.path().join("crates");
    assert_eq!(commit::of(&inside), None);
    assert_eq!(commit::of(&dir.path().join("nowhere")), None);
}

#[test]
fn the_version_and_run_json_have_the_same_commit() {
    let narrows = || Command::new(env!("CARGO_BIN_EXE_narrows"));
    let output = narrows().arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let said = version
        .trim()
        .split_once('(')
        .map(|(_, rest)| rest.trim_end_matches(')'));
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let words = [
        "run",
        "lone-prague",
        "--set",
        "duration=2s",
        "--set",
        "measure=1s..2s",
    ];
    let done = narrows()
        .args(words)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(out.join("run.json").is_file(), "{done:?}");
    let text = fs::read_to_string(out.join("run.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["commit"].as_str(), said);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(commit) = commit::of(&root) {
        // The tree may have been changed, or changed back, since it was built.
        let clean = |text: &str| text.trim_end_matches("-dirty").to_owned();
        assert_eq!(said.map(clean), Some(clean(&commit)));
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(&format!("({})", said.unwrap())));
    }
}
