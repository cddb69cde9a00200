//! The same C elsewhere: under a compiler with the BPF target, and under
//! sanitizers with pseudo-random facts.

use std::path::{Path, PathBuf};

use narrows_cbuild::{bpf_assembly, run_check};

fn kernel(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Where the headers are, the build's list among them.
fn includes() -> Vec<String> {
    let folders = [
        kernel("kernel"),
        kernel("tests/kernel"),
        env!("OUT_DIR").into(),
    ];
    folders
        .map(|folder| format!("-I{}", folder.display()))
        .into()
}

#[test]
fn every_hook_of_every_control_compiles_for_bpf() {
    let test = "every_hook_of_every_control_compiles_for_bpf";
    let includes = includes();
    let flags: Vec<&str> = includes.iter().map(String::as_str).collect();
    if let Some(assembly) = bpf_assembly(test, &kernel("kernel/native.c"), &flags) {
        for hook in [
            "prague_cong_control:",
            "vegas_cong_avoid:",
            "dalbe_timer:",
            "roomy_timer:",
            "capped_cong_avoid:",
        ] {
            assert!(assembly.contains(hook), "{hook}");
        }
    }
}

#[test]
fn random_facts_meet_no_undefined_behaviour_and_no_empty_window() {
    let sources = ["kernel/native.c", "kernel/check/harness.c"].map(kernel);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let includes = includes();
    let mut flags: Vec<&str> = includes.iter().map(String::as_str).collect();
    flags.push("-std=c11");
    run_check("cc-harness", scratch, &flags, &sources);
}
