//! The same C elsewhere: under a compiler with the BPF target, under sanitizers
//! with pseudo-random packets, and under two threads at once.

use std::path::{Path, PathBuf};

use narrows_cbuild::{bpf_assembly, run_check};

fn kernel(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("kernel")
        .join(file)
}

#[test]
fn the_same_source_compiles_for_bpf_with_and_without_atomics() {
    let test = "the_same_source_compiles_for_bpf_with_and_without_atomics";
    for (flags, atomic) in [
        (&["-mcpu=v2"][..], false),
        (&["-mcpu=v3", "-DNW_EFM_ATOMIC"], true),
    ] {
        if let Some(assembly) = bpf_assembly(test, &kernel("check/bpf.c"), flags) {
            assert!(assembly.contains("flow_egress:"));
            assert_eq!(assembly.contains("cmpxchg"), atomic);
        }
    }
}

fn check(name: &str, flags: &[&str], sources: &[&str]) {
    let sources: Vec<_> = sources.iter().map(|s| kernel(s)).collect();
    run_check(
        name,
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        flags,
        &sources,
    );
}

#[test]
fn random_packets_meet_no_undefined_behaviour_and_no_bit_outside_of_the_mask() {
    let sources = ["native.c", "check/harness.c"];
    check("efm-harness", &["-std=c11"], &sources);
}

#[test]
fn a_delay_sample_is_taken_once_whatever_comes_between_look_and_swap() {
    check("efm-interleave", &["-std=c11"], &["check/interleave.c"]);
}

#[test]
fn a_delay_sample_is_taken_once_by_two_cpus() {
    let flags = ["-std=gnu11", "-pthread", "-DNW_EFM_ATOMIC"];
    check("efm-race", &flags, &["check/race.c"]);
}
