//! A whole build, which takes ten minutes and a network: only where NARROWS_KERNEL_BUILD
//! is set, to the name of a package of Debian (`linux-source-7.3`) or to a tree.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use narrows_kernel::{BuildOptions, BuildWatch, Source, Store, build};

#[test]
fn a_kernel_is_built_kept_and_not_built_again() {
    let Ok(what) = std::env::var("NARROWS_KERNEL_BUILD") else {
        eprintln!(
            "skipped: a_kernel_is_built_kept_and_not_built_again: NARROWS_KERNEL_BUILD is not set"
        );
        return;
    };
    let source = match what.contains('/') {
        true => Source::Tree(PathBuf::from(what)),
        false => Source::Package(what),
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path());
    let options = BuildOptions {
        source,
        ..BuildOptions::default()
    };
    let watch = BuildWatch {
        progress: &|_| (),
        cancel: &AtomicBool::new(false),
    };
    let built = build(&store, &options, &watch).unwrap();
    assert!(!built.was_there);
    let kernel = built.kernel;
    let said = Command::new(kernel.binary())
        .arg("--version")
        .output()
        .unwrap();
    let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    assert_eq!(version, kernel.made.release);
    let symbols = std::fs::read(kernel.binary()).unwrap();
    let has = |name: &str| symbols.windows(name.len()).any(|w| w == name.as_bytes());
    for name in narrows_cc::names() {
        assert!(has(&format!("nw_algorithm_{name}")), "{name}");
    }
    let again = build(&store, &options, &watch).unwrap();
    assert!(again.was_there);
    assert_eq!(again.kernel, kernel);
    assert_eq!(store.list().unwrap(), [kernel]);
}
