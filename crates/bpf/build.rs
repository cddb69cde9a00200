//! Compiles the BPF objects with clang: one per congestion control, one for ECT(1), one for
//! measurement signals, one for boxes by rules, one that counts bursts, one that leads
//! connections, one that shares a transfer among connections, and for the testkit one that taps
//! packets and one for what signals cost at the least. Without clang the crate is built all the
//! same, and says at run time what it lacks.

use narrows_freestanding::{clang, controls, strip, write_models};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    write_models(Path::new("../cc"), &out);
    let mut objects = "&[\n".to_owned();
    let of_tests = env::var_os("CARGO_FEATURE_TEST_CONTROLS").is_some();
    for control in controls(Path::new("../cc"), of_tests) {
        let name = &control.name;
        let more = [
            format!("-I{}", control.folder.display()),
            format!("-I{}", out.display()),
            format!("-DNW_ALGORITHM={name}"),
            format!("-DNW_HEADER=\"{name}.h\""),
        ];
        let object = out.join(format!("{name}.bpf.o"));
        compile(&clang, big_endian, "control.bpf.c", &more, &object);
        objects += &format!("({name:?}, include_bytes!({object:?})),\n");
    }
    std::fs::write(out.join("controls.rs"), objects + "]\n").expect("OUT_DIR can be written");
    // It reads the state of one control.
    let models = [format!("-I{}", out.display())];
    let object = out.join("transfer.bpf.o");
    compile(&clang, big_endian, "transfer.bpf.c", &models, &object);
    let mut hooks = vec!["burst", "ect1", "lead", "mark", "mmb"];
    if env::var_os("CARGO_FEATURE_TESTKIT").is_some() {
        hooks.extend(["signal_cost", "tap"]);
    }
    for hook in hooks {
        let object = out.join(format!("{hook}.bpf.o"));
        compile(&clang, big_endian, &format!("{hook}.bpf.c"), &[], &object);
    }
    println!("cargo::rustc-cfg=bpf_objects");
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
