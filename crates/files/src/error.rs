//! Which file an error of the system is of.

use std::io;
use std::path::{Path, PathBuf};

/// A file or folder that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} {}: {source}", .path.display())]
pub struct FileError {
    /// `read`, `write`, `create`.
    pub verb: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// The system's error, of `verb` at `path`.
    pub fn at(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self { verb, path, source }
    }
}
