//! The same C elsewhere: under a compiler with the BPF target, under sanitizers
//! with pseudo-random packets, and under two threads at once.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn kernel() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel")
}

fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Option<Output> {
    Command::new(program).args(arguments).output().ok()
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// The newest clang that knows the BPF target.
fn clang_for_bpf() -> Option<String> {
    let versions = (14..=22).rev().map(|v| format!("clang-{v}"));
    std::iter::once("clang".to_owned())
        .chain(versions)
        .find(|clang| {
            run(clang, ["--print-targets"]).is_some_and(|o| {
                text(&o)
                    .lines()
                    .any(|line| line.trim_start().starts_with("bpf "))
            })
        })
}

#[test]
fn the_same_source_compiles_for_bpf_with_and_without_atomics() {
    let Some(clang) = clang_for_bpf() else {
        eprintln!(
            "skipped: the_same_source_compiles_for_bpf: no clang with the BPF target (Debian: apt install clang)"
        );
        return;
    };
    let source = kernel().join("check/bpf.c");
    let flags = ["-target", "bpf", "-O2", "-S", "-o", "-"];
    let warnings = ["-Wall", "-Wextra", "-Werror", "-ffreestanding"];
    for more in [&["-mcpu=v2"] as &[_], &["-mcpu=v3", "-DNW_EFM_ATOMIC"]] {
        let arguments = flags.iter().chain(&warnings).chain(more);
        let assembly = run(
            &clang,
            arguments.map(OsStr::new).chain([source.as_os_str()]),
        )
        .unwrap();
        assert!(assembly.status.success(), "{}", text(&assembly));
        let assembly = text(&assembly);
        // What is called must be ours: no memset, no 128-bit helper.
        let foreign: Vec<&str> = assembly
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("call "))
            .map(str::trim)
            .filter(|name| !name.starts_with("nw_"))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert!(assembly.contains("flow_egress:"));
        let atomic = assembly.contains("cmpxchg");
        assert_eq!(atomic, more.contains(&"-DNW_EFM_ATOMIC"));
    }
}

/// The C compiler that the build used, if what it makes with `flags` runs.
fn compiler_with(flags: &[&str], folder: &Path, name: &str) -> Option<String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let probe = folder.join(format!("{name}-probe.c"));
    std::fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
    let binary = folder.join(format!("{name}-probe"));
    let output = Command::new(&compiler)
        .args(flags)
        .arg(&probe)
        .arg("-o")
        .arg(&binary)
        .output()
        .ok()?;
    let runs = Command::new(&binary)
        .status()
        .is_ok_and(|status| status.success());
    (output.status.success() && runs).then_some(compiler)
}

/// Builds and runs `sources` of the check folder.
fn check(name: &str, flags: &[&str], sources: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let sanitizers = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-g",
    ];
    let (compiler, sanitizers) = match compiler_with(&sanitizers, folder, name) {
        Some(compiler) => (compiler, sanitizers.as_slice()),
        None => {
            eprintln!("{name} without sanitizers: the C compiler cannot link or run them");
            match compiler_with(flags, folder, name) {
                Some(compiler) => (compiler, [].as_slice()),
                None => {
                    eprintln!("skipped: {name}: no C compiler at test time");
                    return;
                }
            }
        }
    };
    let binary = folder.join(name);
    let built = Command::new(compiler)
        .args(sanitizers)
        .args(flags)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&binary)
        .args(sources.iter().map(|s| kernel().join(s)))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let ran = Command::new(&binary).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
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
