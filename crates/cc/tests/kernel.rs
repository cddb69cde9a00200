//! The same C elsewhere: under a compiler with the BPF target, and under
//! sanitizers with pseudo-random facts.

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
fn the_same_source_compiles_for_bpf() {
    let Some(clang) = clang_for_bpf() else {
        println!("skipped: no clang with the BPF target (Debian: apt install clang)");
        return;
    };
    let source = kernel().join("check/bpf.c");
    let warnings = ["-Wall", "-Wextra", "-Werror", "-ffreestanding"];
    let assembly = run(
        &clang,
        ["-target", "bpf", "-O2", "-S", "-o", "-"]
            .into_iter()
            .chain(warnings)
            .map(OsStr::new)
            .chain([source.as_os_str()]),
    )
    .unwrap();
    assert!(assembly.status.success(), "{}", text(&assembly));
    // What is called must be ours: no memset, no 128-bit helper.
    let assembly = text(&assembly);
    let foreign: Vec<&str> = assembly
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("call "))
        .map(str::trim)
        .filter(|name| !name.starts_with("nw_"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert!(assembly.contains("prague_cong_control:"));
}

/// The C compiler that the build used, and whether it links `flags`.
fn compiler_with(flags: &[&str], folder: &Path) -> Option<String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let probe = folder.join("probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
    let binary = folder.join("probe");
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

#[test]
fn random_facts_meet_no_undefined_behaviour_and_no_empty_window() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let sanitizers = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-g",
    ];
    let (compiler, flags) = match compiler_with(&sanitizers, folder) {
        Some(compiler) => (compiler, sanitizers.as_slice()),
        None => {
            println!("without sanitizers: the C compiler cannot link or run them");
            match compiler_with(&[], folder) {
                Some(compiler) => (compiler, [].as_slice()),
                None => {
                    println!("skipped: no C compiler at test time");
                    return;
                }
            }
        }
    };
    let binary = folder.join("harness");
    let built = Command::new(compiler)
        .args(flags)
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&binary)
        .arg(kernel().join("native.c"))
        .arg(kernel().join("check/harness.c"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let ran = Command::new(&binary).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
}
