//! The same source under a compiler for BPF.

use std::path::Path;
use std::process::{Command, Output};

use crate::{controls, said, write_models};

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
    let mut all = asked.into_iter().chain(installed_names());
    all.find(|clang| has_bpf(clang))
}

/// Every clang that knows the BPF target, the same one perhaps by two names.
pub fn clangs() -> Vec<String> {
    installed_names().filter(|clang| has_bpf(clang)).collect()
}

/// The first line of `clang --version`; `None` if it does not run.
pub fn version(clang: &str) -> Option<String> {
    let output = run(clang, &["--version"])?;
    said(&output).lines().next().map(str::to_owned)
}

fn installed_names() -> impl Iterator<Item = String> {
    let versions = VERSIONS.rev().map(|v| format!("clang-{v}"));
    std::iter::once("clang".to_owned()).chain(versions)
}

fn has_bpf(clang: &str) -> bool {
    run(clang, &["--print-targets"]).is_some_and(|output| {
        let targets = said(&output);
        let mut lines = targets.lines();
        lines.any(|line| line.trim_start().starts_with("bpf "))
    })
}

/// Warnings are errors, as in the native build of the same C.
const FLAGS: [&str; 9] = [
    "-target",
    "bpf",
    // 32-bit jumps and arithmetic, atomics that answer: Linux 5.12.
    "-mcpu=v3",
    "-O2",
    // The types (BTF) come with the debugging information.
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
];

/// Builds the objects for the kernel, `NAME.bpf.o` in `out`, of the crate in `folder` (that is
/// `narrows-bpf`): one for each congestion control, one for transfers, and the `hooks`. Answers
/// the controls' names.
///
/// # Panics
/// When `clang` refuses a source, or warns.
pub fn bpf_objects(
    clang: &str,
    big_endian: bool,
    folder: &Path,
    out: &Path,
    of_tests: bool,
    hooks: &[&str],
) -> Vec<String> {
    let mut flags = FLAGS;
    if big_endian {
        flags[1] = "bpfeb";
    }
    let compile = |source: &str, more: &[String], object: &str| {
        let object = out.join(format!("{object}.bpf.o"));
        let output = Command::new(clang)
            .current_dir(folder)
            .args(flags)
            // The types name their sources: the same on every machine.
            .arg("-ffile-compilation-dir=.")
            .arg(format!("-ffile-prefix-map={}=out", out.display()))
            .args([
                "-Isrc/bpf",
                "-I../cc/kernel",
                "-I../efm/kernel",
                "-I../mmb/kernel",
            ])
            .args(more)
            .arg("-c")
            .arg(format!("src/bpf/{source}.bpf.c"))
            .arg("-o")
            .arg(&object)
            .output()
            .unwrap_or_else(|e| panic!("{clang}: {e}"));
        assert!(
            output.status.success(),
            "{clang} could not compile {source}.bpf.c:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        strip(&object);
    };
    let cc = folder.join("../cc");
    write_models(&cc, out);
    // It reads the state of one control.
    let made = format!("-I{}", out.display());
    compile("transfer", std::slice::from_ref(&made), "transfer");
    for hook in hooks {
        compile(hook, &[], hook);
    }
    let mut names = Vec::new();
    for control in controls(&cc, of_tests) {
        let place = control
            .folder
            .strip_prefix(folder)
            .unwrap_or(&control.folder);
        let name = control.name;
        let more = [
            format!("-I{}", place.display()),
            made.clone(),
            format!("-DNW_ALGORITHM={name}"),
            format!("-DNW_HEADER=\"{name}.h\""),
        ];
        compile("control", &more, &name);
        names.push(name);
    }
    names
}

/// Takes the debugging information off an object for BPF, ten times the rest; the
/// types (BTF) stay. Without llvm-strip the object is merely larger.
fn strip(object: &Path) {
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
