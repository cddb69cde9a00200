//! Which engine runs, and as which version of Narrows.

use std::path::PathBuf;
use std::sync::OnceLock;

use narrows::results::folder::Origin;
use narrows::results::store;
use narrows::scenario::Refusal;
use narrows::{Engine, EngineName, Error, Output};
use pyo3::prelude::*;
use sha2::{Digest, Sha256};

use super::error::Failure;

/// The commit that the module is built from.
const COMMIT: Option<&str> = option_env!("NARROWS_COMMIT");

/// The engine of that name.
pub fn engine(name: &str) -> Result<Box<dyn Engine>, Failure> {
    let name = match name {
        "sim" => EngineName::Sim,
        "live" => EngineName::Live,
        "kernel" => {
            let refusal = Refusal::new("engine", "`kernel`", "`sim` or `live` from Python");
            let help = "a kernel in virtual time is booted by the command: \
                        `narrows run … --engine kernel`, whose folder narrows.open reads";
            return Err(refusal.with_help(help).into());
        }
        other => {
            let refusal = Refusal::new("engine", format!("`{other}`"), "`sim` or `live`");
            return Err(refusal.into());
        }
    };
    Ok(name.engine(None)?)
}

/// Where results go.
pub fn output(out: Option<PathBuf>) -> Output {
    out.map_or(Output::Nowhere, Output::Folder)
}

/// What makes them: no command, but this version.
pub fn origin() -> Origin {
    Origin {
        command: Vec::new(),
        commit: COMMIT.map(str::to_owned),
    }
}

/// The version of Narrows by which a store knows cells: that of the command of the same commit;
/// of a module that was built from changed files that of its own `file`, as two builds of
/// changed files are not alike.
pub fn version(file: &str) -> Result<String, Failure> {
    if let Some(commit) = COMMIT.filter(|commit| !commit.ends_with("-dirty")) {
        return Ok(store::version(Some(commit))?);
    }
    // It is long, and stays what was loaded.
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let bytes = std::fs::read(file).map_err(|source| Error::Io {
        verb: "read",
        path: file.into(),
        source,
    })?;
    let digest = Sha256::digest(&bytes);
    let digits: String = digest[..8].iter().map(|b| format!("{b:02x}")).collect();
    let version = format!("{} (module {digits})", env!("CARGO_PKG_VERSION"));
    Ok(KNOWN.get_or_init(|| version).clone())
}

/// Version and commit, as `narrows --version` has them.
#[pyfunction]
pub fn version_line() -> String {
    match COMMIT {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}
