//! Which engine runs, and as which version of Narrows.

use std::path::PathBuf;

use narrows::results::folder::Origin;
use narrows::scenario::Refusal;
use narrows::{Engine, EngineName, Output};
use narrows_cli::{COMMIT, VERSION};
use pyo3::prelude::*;

use super::error::Failure;

/// The engine of that name.
pub fn engine(name: &str) -> Result<Box<dyn Engine>, Failure> {
    let Some(known) = EngineName::ALL
        .into_iter()
        .find(|engine| engine.word() == name)
    else {
        let refusal = Refusal::new("engine", format!("`{name}`"), "`sim`, `live` or `kernel`");
        return Err(refusal.into());
    };
    known.engine(None).map_err(|refused| {
        // By the name that it has here, not by that of the command's option.
        let refusal = Refusal::new("engine", refused.found(), refused.allowed());
        match refused.advice() {
            Some(advice) => refusal.with_help(advice).into(),
            None => refusal.into(),
        }
    })
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

/// The version of Narrows by which a store knows cells: that of the command.
pub fn version() -> Result<String, Failure> {
    Ok(narrows::program::version(COMMIT)?)
}

/// The file that the module is loaded from, before all else.
#[pyfunction]
pub fn loaded_from(file: PathBuf) {
    narrows::program::is_module(file);
}

/// Version and commit, as `narrows --version` has them.
#[pyfunction]
pub fn version_line() -> &'static str {
    VERSION
}
