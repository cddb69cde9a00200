//! Takes the files of the page into the program, if `make web` has built them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dist = here.join("../../web/dist");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if dist.is_dir() {
        // A path that is not there would have the crate built again each time: where there is
        // no page yet, `make web` touches this file.
        println!("cargo:rerun-if-changed={}", dist.display());
        collect(&dist, &dist, &mut files);
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (name, path) in files {
        let _ = writeln!(list, "({name:?}, include_bytes!({path:?}) as &[u8]),");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("page.rs"), list).expect("the list is written");
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the page's folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
        } else if let (Ok(name), Ok(full)) = (path.strip_prefix(root), path.canonicalize()) {
            let name = name.to_string_lossy().replace('\\', "/");
            files.push((name, full.to_string_lossy().into_owned()));
        }
    }
}
