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

/// The newest clang that knows the BPF target.
fn clang() -> Option<String> {
    let versions = VERSIONS.rev().map(|v| format!("clang-{v}"));
    let mut all = std::iter::once("clang".to_owned()).chain(versions);
    all.find(|clang| {
        run(clang, &["--print-targets"]).is_some_and(|output| {
            let targets = said(&output);
            let mut lines = targets.lines();
            lines.any(|line| line.trim_start().starts_with("bpf "))
        })
    })
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
