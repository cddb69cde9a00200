//! What the running program is, where that matters: a file that holds Narrows, whose digest is a
//! version, and what can be a kernel's first process.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use narrows_results::{Error, store};

/// The file of the module that another program, Python, has loaded Narrows from.
static MODULE: OnceLock<PathBuf> = OnceLock::new();

/// What lies beside a module and is a kernel's first process: the module is no program.
#[cfg(target_os = "linux")]
const GUEST: &str = "narrows-guest";

/// Narrows is no program of its own here, but the module in `file`.
pub fn is_module(file: PathBuf) {
    // Loaded twice it is the same file.
    let _ = MODULE.set(file);
}

/// The version by which a store knows cells, see [`store::version`]. Program and module of one
/// commit have the same.
///
/// # Errors
/// When the file that holds Narrows cannot be read.
pub fn version(commit: Option<&str>) -> Result<String, Error> {
    // Its digest takes a while, and stays what was loaded.
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let version = store::version(commit, file)?;
    Ok(KNOWN.get_or_init(|| version).clone())
}

/// The file that holds Narrows.
fn file() -> io::Result<PathBuf> {
    match MODULE.get() {
        Some(module) => Ok(module.clone()),
        None => std::env::current_exe(),
    }
}

/// The program that is a kernel's first process, and knows its part by
/// [`take_part`](crate::take_part): this one, or what lies beside the module.
///
/// # Errors
/// When there is none.
#[cfg(target_os = "linux")]
pub(crate) fn guest() -> io::Result<PathBuf> {
    let Some(module) = MODULE.get() else {
        return std::env::current_exe();
    };
    let guest = module.with_file_name(GUEST);
    match guest.is_file() {
        true => Ok(guest),
        false => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no {}", guest.display()),
        )),
    }
}
