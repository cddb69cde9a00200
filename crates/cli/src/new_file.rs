//! A file that a command writes to, and that is not there before.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use narrows::scenario::Refusal;
use narrows::{Error, files};

use crate::status::Failure;

/// Makes the file that `option` names.
///
/// # Errors
/// A refusal where something has that name, which is never written over, or its folder is not
/// there; others of the system.
pub fn make(option: &str, path: &Path) -> Result<File, Failure> {
    files::create_new(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let found = format!("`{}`, which exists", path.display());
            let refusal = Refusal::new(option, found, "a file that does not exist yet");
            let help = "remove or rename it first, or name another file";
            refusal.with_help(help).into()
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            let found = format!("`{}`: {error}", path.display());
            Refusal::new(option, found, "a new file in a folder that exists").into()
        }
        _ => Error::io("create", path)(error).into(),
    })
}

/// Writes `text` to a file that [`make`] has made.
///
/// # Errors
/// Those of the system.
pub fn write(mut file: File, path: &Path, text: &str) -> Result<(), Failure> {
    let written = file.write_all(text.as_bytes());
    Ok(written.map_err(Error::io("write", path))?)
}
