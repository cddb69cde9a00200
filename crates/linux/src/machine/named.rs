//! Folders of runs that have a name, so that others find what stands there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::state;
use crate::RunId;

/// What follows the name of a folder.
const ENDING: &str = ".topology";

/// The file of it that says whose it is.
const RUN_FILE: &str = "run";

/// A folder that a run has under a name of its own
/// ([`State::take_name`](super::State::take_name)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    /// The name.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// Whose it is; `None` where the run was killed before it could say so.
    pub run: Option<RunId>,
    /// Whether that run lives.
    pub alive: bool,
}

impl NamedFolder {
    /// Where the one of `name` is in `directory`.
    pub(super) fn path(directory: &Path, name: &str) -> PathBuf {
        directory.join(format!("{name}{ENDING}"))
    }

    /// The name of the one at `path`; `None` of other files.
    pub(super) fn name_of(path: &Path) -> Option<&str> {
        path.file_name()?.to_str()?.strip_suffix(ENDING)
    }

    /// Whose the one at `path` is.
    pub(super) fn run(path: &Path) -> Option<RunId> {
        let text = fs::read_to_string(path.join(RUN_FILE)).ok()?;
        text.trim_end().parse().ok()
    }

    /// Says whose the one at `path` is.
    pub(super) fn write_run(path: &Path, run: &RunId) -> io::Result<()> {
        fs::write(path.join(RUN_FILE), format!("{run}\n"))
    }
}

/// This user's folders with names, by name.
pub fn named_folders() -> Vec<NamedFolder> {
    state::named()
}
