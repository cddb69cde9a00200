//! Files of integration tests are modules of one program, which nothing else demands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::{files, root};

/// The files of tests beside a `main.rs` that it does not declare.
fn undeclared(main: &Path) -> Vec<PathBuf> {
    let code = fs::read_to_string(main).expect("a source file");
    let declared: BTreeSet<&str> = code
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let folder = main.parent().expect("a file is in a folder");
    let mut beside = files(folder, ".rs");
    beside.retain(|file| {
        let below = file.strip_prefix(folder).expect("a file below it");
        let first = Path::new(below.iter().next().expect("a name"));
        let module = first.file_stem().and_then(|stem| stem.to_str());
        file != main && !module.is_some_and(|module| declared.contains(module))
    });
    beside
}

/// Cargo finds the programs of tests by itself, but no module that nothing declares.
#[test]
fn every_file_of_integration_tests_is_compiled() {
    let mut programs = files(&root().join("crates"), "main.rs");
    programs.retain(|main| main.iter().any(|part| part == "tests"));
    assert!(programs.len() > 5, "{programs:?}");
    for main in programs {
        assert_eq!(undeclared(&main), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_file_of_tests_that_nothing_declares_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let main = folder.path().join("main.rs");
    fs::create_dir(folder.path().join("rig")).expect("a folder");
    for file in ["known.rs", "forgotten.rs", "rig/mod.rs", "rig/part.rs"] {
        fs::write(folder.path().join(file), "").expect("written");
    }
    fs::write(&main, "mod known;\n#[cfg(unix)]\nmod rig;\n").expect("written");
    assert_eq!(undeclared(&main), [folder.path().join("forgotten.rs")]);
}
