//! Takes the C of the congestion controls into the crate: a built kernel needs it, and
//! whoever has the program has no folder of sources.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The C around an algorithm: what both builds for the kernel share, and what the
/// built-in one has alone.
const AROUND: [&str; 9] = [
    "bpf/facts.h",
    "bpf/record.h",
    "bpf/control.h",
    "bpf/hooks.h",
    "bpf/per_socket.h",
    "built_in/kernel.h",
    "built_in/algorithm.c",
    "built_in/registry.c",
    "built_in/registry.h",
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let controls = here.join("../cc");
    let mut names: Vec<_> = narrows_cbuild::controls(&controls, false)
        .into_iter()
        .map(|control| control.name)
        .collect();
    names.sort();

    let around = here.join("../bpf/src");
    println!("cargo::rerun-if-changed={}", around.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files: Vec<PathBuf> = AROUND.iter().map(|file| around.join(file)).collect();
    let folder = fs::read_dir(controls.join("kernel")).expect("the controls' folder");
    let headers = folder.map(|entry| entry.expect("the controls' folder").path());
    // The native build's table is for programs.
    let for_kernel =
        |path: &Path| path.extension().is_some_and(|e| e == "h") && !path.ends_with("native.h");
    files.extend(headers.filter(|path| for_kernel(path)));
    narrows_cbuild::write_models(&controls, &out);
    files.push(out.join("nw_models.h"));
    files.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));

    let mut code =
        format!("const NAMES: &[&str] = &{names:?};\nconst FILES: &[(&str, &str)] = &[\n");
    for path in files {
        let path = path.canonicalize().expect("the file is there");
        let name = path.file_name().expect("a file has a name");
        let (name, path) = (name.to_string_lossy(), path.display().to_string());
        writeln!(code, "({name:?}, include_str!({path:?})),").expect("a string can be written");
    }
    fs::write(out.join("controls.rs"), code + "];\n").expect("OUT_DIR can be written");
}
