//! The portable C of a crate: its native build, for build scripts, and what its
//! tests ask of every such source, under a compiler with the BPF target and
//! under sanitizers.
//!
//! A crate keeps its C in `kernel/`, as headers without a libc; `native.c` there
//! is the unit of the native build, and `check/` holds programs of the tests.
//!
//! In a build script:
//!
//! ```no_run
//! narrows_cbuild::compile_native("narrows_example", &["kernel"], &[]);
//! ```

#![forbid(unsafe_code)]

mod bpf;
mod controls;
mod sanitized;

pub use bpf::{bpf_assembly, bpf_objects, clang, clangs, version};
pub use controls::{ControlSource, controls, write_list, write_models};
pub use sanitized::{build_check, run_check};

use std::path::Path;
use std::process::Output;

/// Compiles `kernel/native.c` of the crate whose build script calls this, as the
/// static library `name`. Headers are searched in `folders`, which it depends on,
/// and in those `made` by the build.
///
/// # Panics
/// When the compiler refuses it, or warns.
pub fn compile_native(name: &str, folders: &[&str], made: &[&Path]) {
    for folder in folders {
        println!("cargo::rerun-if-changed={folder}");
    }
    cc::Build::new()
        .file("kernel/native.c")
        .includes(folders)
        .includes(made)
        .std("c11")
        // Debug builds run whole scenarios too.
        .opt_level(2)
        .flag("-ffreestanding")
        .flag_if_supported("-Wdeclaration-after-statement")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile(name);
}

/// Compiles `source` as the shared object `library`; headers are searched in `folder`.
///
/// # Errors
/// What the compiler said that made none, or warned.
pub fn compile_shared(source: &Path, folder: &str, library: &Path) -> Result<(), String> {
    let compiler = cc::Build::new()
        .include(folder)
        .std("c11")
        .opt_level(2)
        .pic(true)
        .flag("-fvisibility=hidden")
        .flag_if_supported("-Wdeclaration-after-statement")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .cargo_metadata(false)
        .try_get_compiler()
        .map_err(|e| e.to_string())?;
    let mut command = compiler.to_command();
    command.arg("-shared").arg("-o").arg(library).arg(source);
    let output = command.output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(said(&output)),
    }
}

/// What a program said, on either stream.
fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}
