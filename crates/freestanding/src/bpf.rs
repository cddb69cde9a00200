//! The same source under a compiler for BPF.

use std::path::Path;
use std::process::{Command, Output};

use crate::said;

/// Versions of clang that have names of their own in distributions, and know what
/// the sources ask for.
const VERSIONS: std::ops::RangeInclusive<u32> = 14..=22;

fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).output().ok()
}

/// A clang that knows the BPF target: `NARROWS_CLANG`, `clang`, or the newest with
/// a version in its name.
pub fn clang() -> Option<String> {
    let asked = std::env::var("NARROWS_CLANG").ok();
    let versions = VERSIONS.rev().map(|v| format!("clang-{v}"));
    let mut all = asked
        .into_iter()
        .chain(std::iter::once("clang".to_owned()))
        .chain(versions);
    all.find(|clang| {
        run(clang, &["--print-targets"]).is_some_and(|output| {
            let targets = said(&output);
            let mut lines = targets.lines();
            lines.any(|line| line.trim_start().starts_with("bpf "))
        })
    })
}

/// Takes the debugging information off an object for BPF, ten times the rest; the
/// types (BTF) stay. Without llvm-strip the object is merely larger.
pub fn strip(object: &Path) {
    let versions = VERSIONS.rev().map(|v| format!("llvm-strip-{v}"));
    for strip in std::iter::once("llvm-strip".to_owned()).chain(versions) {
        let done = Command::new(strip).arg("-g").arg(object).status();
        if done.is_ok_and(|s| s.success()) {
            return;
        }
    }
}

/// The assembly of `source` for BPF, compiled with `flags` and without a warning.
/// `None`, and why `test` is skipped, where no compiler has that target.
///
/// # Panics
/// When the compiler refuses the source, or what it makes calls what is not ours:
/// a memset, say, or a helper for 128-bit numbers.
pub fn bpf_assembly(test: &str, source: &Path, flags: &[&str]) -> Option<String> {
    let Some(clang) = clang() else {
        eprintln!("skipped: {test}: no clang with the BPF target (Debian: apt install clang)");
        return None;
    };
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-O2", "-S", "-o", "-"])
        .args(["-Wall", "-Wextra", "-Werror", "-ffreestanding"])
        .args(flags)
        .arg(source)
        .output()
        .unwrap_or_else(|e| panic!("{clang}: {e}"));
    let assembly = said(&output);
    assert!(output.status.success(), "{clang}: {assembly}");
    let foreign: Vec<&str> = assembly
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("call "))
        .map(str::trim)
        .filter(|name| !name.starts_with("nw_"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    Some(assembly)
}
