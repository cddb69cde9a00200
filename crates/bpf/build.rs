//! Compiles the BPF objects with clang: one per congestion control, one for ECT(1), one for
//! measurement signals, one for boxes by rules, one that counts bursts, one that leads
//! connections, one that shares a transfer among connections, and for the testkit one that taps
//! packets and one for what signals cost at the least. Without clang the crate is built all the
//! same, and says at run time what it lacks.

use narrows_cbuild::{bpf_objects, clang, version};
use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(bpf_objects)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../efm/kernel");
    println!("cargo::rerun-if-changed=../mmb/kernel");
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
    let of_tests = env::var_os("CARGO_FEATURE_TEST_CONTROLS").is_some();
    let mut hooks = vec!["burst", "ect1", "lead", "mark", "mmb"];
    if env::var_os("CARGO_FEATURE_TESTKIT").is_some() {
        hooks.extend(["signal_cost", "tap"]);
    }
    let controls = bpf_objects(&clang, big_endian, Path::new("."), &out, of_tests, &hooks);
    let mut objects = "&[\n".to_owned();
    for name in controls {
        let object = out.join(format!("{name}.bpf.o"));
        objects += &format!("({name:?}, include_bytes!({object:?})),\n");
    }
    std::fs::write(out.join("controls.rs"), objects + "]\n").expect("OUT_DIR can be written");
    if let Some(version) = version(&clang) {
        println!("cargo::rustc-env=NARROWS_BPF_COMPILER={version}");
    }
    println!("cargo::rustc-cfg=bpf_objects");
}
