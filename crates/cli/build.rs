//! Which commit the program is built from: for `--version`, `run.json` and pages.
//!
//! Only this crate, on which none but the module for Python depends, is built again for another
//! commit.

mod commit;

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let version = env!("CARGO_PKG_VERSION");
    match commit::of(&root) {
        Some(commit) => {
            println!("cargo::rustc-env=NARROWS_COMMIT={commit}");
            println!("cargo::rustc-env=NARROWS_VERSION={version} ({commit})");
        }
        None => println!("cargo::rustc-env=NARROWS_VERSION={version}"),
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit.rs");
    // The reflog grows with each commit and checkout. A path that is not there
    // would have this run each time.
    let git = [".git/HEAD", ".git/logs/HEAD"];
    for path in git.iter().chain(&commit::PARTS).chain(&[commit::ARCHIVED]) {
        let path = root.join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}
