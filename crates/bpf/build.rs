//! Compiles the BPF objects with clang: one per congestion control, one for
//! ECT(1), one for measurement signals and one for what they cost at the least,
//! one that taps packets, one that counts bursts. Without clang the
//! crate is built all the same, and says at run time what it lacks.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Objects, and what tells the compiler which algorithm to put in.
const CONTROLS: [(&str, bool); 3] = [("cubic", true), ("prague", false), ("reno", true)];

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

fn main() {
    println!("cargo::rustc-check-cfg=cfg(bpf_objects)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../cc/kernel");
    println!("cargo::rerun-if-changed=../efm/kernel");
    println!("cargo::rerun-if-env-changed=NARROWS_CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if !linux || env::var_os("CARGO_FEATURE_LOAD").is_none() {
        return;
    }
    let Some(clang) = clang() else {
        println!(
            "cargo::warning=no clang that compiles for BPF: the live engine will be built without Narrows' own congestion controls"
        );
        return;
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let big_endian = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|e| e == "big");
    for (name, window) in CONTROLS {
        let mut more = vec![
            format!("-DNW_ALGORITHM={name}"),
            format!("-DNW_HEADER=\"{name}.h\""),
        ];
        if window {
            more.push("-DNW_WINDOW_MODE".to_owned());
        }
        let object = out.join(format!("{name}.bpf.o"));
        compile(&clang, big_endian, "control.bpf.c", &more, &object);
    }
    for hook in ["burst", "ect1", "mark", "mark_floor", "tap"] {
        let object = out.join(format!("{hook}.bpf.o"));
        compile(&clang, big_endian, &format!("{hook}.bpf.c"), &[], &object);
    }
    println!("cargo::rustc-cfg=bpf_objects");
}

/// The first clang that knows the BPF target: `NARROWS_CLANG`, `clang`, or one
/// with a version in its name.
fn clang() -> Option<String> {
    let asked = env::var("NARROWS_CLANG").ok();
    let versions = (14..=22).rev().map(|v| format!("clang-{v}"));
    asked
        .into_iter()
        .chain(["clang".to_owned()])
        .chain(versions)
        .find(|clang| {
            Command::new(clang)
                .arg("--print-targets")
                .output()
                .is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(" bpf "))
        })
}

fn compile(clang: &str, big_endian: bool, source: &str, more: &[String], object: &Path) {
    let mut flags = FLAGS;
    if big_endian {
        flags[1] = "bpfeb";
    }
    let output = Command::new(clang)
        .args(flags)
        .args(["-Isrc/bpf", "-I../cc/kernel", "-I../efm/kernel"])
        .args(more)
        .arg("-c")
        .arg(Path::new("src/bpf").join(source))
        .arg("-o")
        .arg(object)
        .output()
        .expect("clang ran a moment ago");
    assert!(
        output.status.success(),
        "{clang} could not compile {source}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    strip(object);
}

/// Debugging information is ten times the rest; the types stay. Without
/// llvm-strip the object is merely larger.
fn strip(object: &Path) {
    let versions = (14..=22).rev().map(|v| format!("llvm-strip-{v}"));
    for strip in std::iter::once("llvm-strip".to_owned()).chain(versions) {
        let done = Command::new(strip).arg("-g").arg(object).status();
        if done.is_ok_and(|s| s.success()) {
            return;
        }
    }
}
