//! Which commit the module is built from, as for the program: the cells of a store are named by
//! it, and both take each other's.

#[path = "../cli/commit.rs"]
mod commit;

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(commit) = commit::of(&root) {
        println!("cargo::rustc-env=NARROWS_COMMIT={commit}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../cli/commit.rs");
    let git = [".git/HEAD", ".git/logs/HEAD"];
    for path in git.iter().chain(&commit::PARTS).chain(&[commit::ARCHIVED]) {
        let path = root.join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}
