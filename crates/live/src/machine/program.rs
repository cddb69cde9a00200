//! Programs of this machine.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::LiveError;

/// Where the program `name` is: itself if it is a path, else the first in
/// `PATH`, as a shell finds it.
///
/// # Errors
/// When there is none that can be run.
pub fn find_program(name: &str) -> Result<PathBuf, LiveError> {
    let missing = |searched: String| LiveError::NoSuchCommand {
        command: name.to_owned(),
        searched,
    };
    if name.contains('/') {
        let path = Path::new(name);
        return if runs(path) {
            Ok(path.to_owned())
        } else {
            let here = env::current_dir().unwrap_or_default();
            Err(missing(here.display().to_string()))
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| runs(p));
    found.ok_or_else(|| missing(format!("PATH, {}", path.to_string_lossy())))
}

fn runs(path: &Path) -> bool {
    // The x bits of user, group and others.
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
