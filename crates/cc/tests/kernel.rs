//! The same C elsewhere: under a compiler with the BPF target, and under
//! sanitizers with pseudo-random facts.

use std::path::{Path, PathBuf};

use narrows_freestanding::{bpf_assembly, run_check};

fn kernel(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("kernel")
        .join(file)
}

#[test]
fn the_same_source_compiles_for_bpf() {
    let source = kernel("check/bpf.c");
    if let Some(assembly) = bpf_assembly("the_same_source_compiles_for_bpf", &source, &[]) {
        assert!(assembly.contains("prague_cong_control:"));
    }
}

#[test]
fn random_facts_meet_no_undefined_behaviour_and_no_empty_window() {
    let sources = ["native.c", "check/harness.c"].map(kernel);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run_check("cc-harness", scratch, &["-std=c11"], &sources);
}
