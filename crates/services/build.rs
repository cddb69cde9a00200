//! Compiles the library that leads connections from within programs. Where there is no compiler
//! that makes shared objects, `narrows pep run` does without it, and says so.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/pep/preload.c");
    println!("cargo::rerun-if-changed=../bpf/src/bpf/lead_end.h");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("preload.so");
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let source = Path::new("src/pep/preload.c");
    let made = linux && {
        let made = narrows_cbuild::compile_shared(source, "../bpf/src/bpf", &library);
        if let Err(why) = &made {
            println!("cargo::warning=`narrows pep run` will need root: no shared object: {why}");
        }
        made.is_ok()
    };
    if !made {
        std::fs::write(library, []).expect("OUT_DIR can be written");
    }
}
