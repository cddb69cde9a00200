//! The commit of a source tree, from git or from what `git archive` wrote.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A file in which `git archive` replaces a placeholder by the commit
/// (`export-subst` in gitattributes(5)).
pub const ARCHIVED: &str = ".git-commit";

/// What the program is made of; other files may be changed.
pub const PARTS: [&str; 4] = ["crates", "catalog", "Cargo.toml", "Cargo.lock"];

/// Digits of a commit: enough to be unique in any repository of this size.
const DIGITS: &str = "--short=12";

/// The commit that the tree at `root` is of, with `-dirty` behind it where it
/// was changed since; `None` where neither git nor an archive says.
pub fn of(root: &Path) -> Option<String> {
    archived(root).or_else(|| checked_out(root))
}

fn archived(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(ARCHIVED)).ok()?;
    let commit = text.trim();
    let is_hash = (7..=64).contains(&commit.len()) && commit.chars().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| commit.to_owned())
}

fn checked_out(root: &Path) -> Option<String> {
    // A tree without git may lie inside another project's.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", DIGITS, "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(PARTS);
    Some(match git(root, &status)?.is_empty() {
        true => commit,
        false => commit + "-dirty",
    })
}

/// What git prints; `None` where it fails or is not there.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(words)
        // Reading must not write the index.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
