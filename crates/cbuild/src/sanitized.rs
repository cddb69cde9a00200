//! Programs that check the C, under sanitizers where the compiler has them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::said;

const SANITIZERS: [&str; 3] = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-g",
];

/// Builds `sources` with `flags` as a program called `test` in the folder
/// `scratch`, and runs it. Where there is no C compiler it says so.
///
/// # Panics
/// When it does not build without a warning, or fails.
pub fn run_check(test: &str, scratch: &Path, flags: &[&str], sources: &[PathBuf]) {
    if let Some(binary) = build_check(test, scratch, flags, sources) {
        let ran = Command::new(&binary)
            .output()
            .unwrap_or_else(|e| panic!("{test}: {e}"));
        assert!(ran.status.success(), "{}", said(&ran));
    }
}

/// Builds it, and answers where it is; `None` where there is no C compiler, which
/// it says.
///
/// # Panics
/// When it does not build without a warning.
pub fn build_check(
    test: &str,
    scratch: &Path,
    flags: &[&str],
    sources: &[PathBuf],
) -> Option<PathBuf> {
    let sanitized: Vec<&str> = flags.iter().chain(&SANITIZERS).copied().collect();
    let (compiler, flags) = match compiler_with(&sanitized, scratch, test) {
        Some(compiler) => (compiler, sanitized.as_slice()),
        None => {
            eprintln!("{test} without sanitizers: the C compiler cannot link or run them");
            let Some(compiler) = compiler_with(flags, scratch, test) else {
                eprintln!("skipped: {test}: no C compiler at test time");
                return None;
            };
            (compiler, flags)
        }
    };
    let binary = scratch.join(test);
    let built = Command::new(compiler)
        .args(flags)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&binary)
        .args(sources)
        .output()
        .unwrap_or_else(|e| panic!("{test}: {e}"));
    assert!(built.status.success(), "{}", said(&built));
    Some(binary)
}

/// The C compiler that the build used, if what it makes with `flags` runs.
fn compiler_with(flags: &[&str], scratch: &Path, test: &str) -> Option<String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let probe = scratch.join(format!("{test}-probe.c"));
    std::fs::write(&probe, "int main(void) { return 0; }\n").ok()?;
    let binary = scratch.join(format!("{test}-probe"));
    let built = Command::new(&compiler)
        .args(flags)
        .arg(&probe)
        .arg("-o")
        .arg(&binary)
        .output()
        .ok()?;
    let ran = Command::new(&binary).status().ok()?;
    (built.status.success() && ran.success()).then_some(compiler)
}
