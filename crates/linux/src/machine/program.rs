//! Programs of this machine.

use std::env;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::LinuxError;

/// Where the program `name` is: itself if it is a path, else the first in
/// `PATH`, as a shell finds it.
///
/// # Errors
/// When there is none, or what is there cannot be run.
pub fn find_program(name: &str) -> Result<PathBuf, LinuxError> {
    let missing = |searched: String| LinuxError::NoSuchCommand {
        command: name.to_owned(),
        searched,
    };
    if name.contains('/') {
        let path = Path::new(name);
        return match path.metadata() {
            Ok(found) if runs(&found) => Ok(path.to_owned()),
            Ok(_) => Err(LinuxError::NoProgram {
                command: name.to_owned(),
            }),
            Err(_) => Err(missing(match path.is_absolute() {
                true => "the directory that it names".to_owned(),
                false => env::current_dir().unwrap_or_default().display().to_string(),
            })),
        };
    }
    // A shell's default where it is not set (sh(1)).
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found = env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| p.metadata().is_ok_and(|m| runs(&m)));
    found.ok_or_else(|| missing(format!("PATH, {}", path.to_string_lossy())))
}

fn runs(file: &Metadata) -> bool {
    // The x bits of user, group and others.
    file.is_file() && file.permissions().mode() & 0o111 != 0
}
