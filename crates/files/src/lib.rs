//! Files of the user for whom the program works: who calls it by sudo owns what it writes.
//!
//! Under sudo (root, and `SUDO_UID` names another user) each of these functions first makes the
//! file as that user: with the thread's user for files, setfsuid(2), so that the kernel itself
//! sets the owner, follows links and checks rights as for that user. Only where that user may
//! not write, root makes it, and gives away what was not there before. What existed keeps its
//! owner. Otherwise they are the functions of [`std::fs`] of the same names. [`open_regular`] reads; a
//! [`Whole`] has its name only when all of it is written.
//!
//! ```
//! let folder = std::env::temp_dir().join(format!("narrows-files-{}", std::process::id()));
//! narrows_files::create_dir_all(folder.join("results"))?;
//! narrows_files::write(folder.join("results/table.csv"), "a,b\n")?;
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
mod caller;
#[cfg(not(target_os = "linux"))]
#[path = "nobody.rs"]
mod caller;
mod error;
mod whole;

pub use caller::{Caller, behind_sudo};
pub use error::FileError;
pub use whole::{Whole, write_whole};

/// The home of the user for whom the program works: of the user behind sudo, or else `HOME`;
/// `None` where that is not an absolute path.
pub fn home() -> Option<PathBuf> {
    let of_caller = behind_sudo().and_then(Caller::home);
    let own = || std::env::var_os("HOME").map(PathBuf::from);
    of_caller
        .filter(|home| home.is_dir())
        .or_else(own)
        .filter(|home| home.is_absolute())
}

/// Where what can be made again is kept, as XDG has it: `$XDG_CACHE_HOME`, or `.cache` in the
/// [`home`]; `None` where neither is an absolute path.
pub fn cache() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    named.or_else(|| Some(home()?.join(".cache")))
}

/// Calls `make`, which makes the file `path` or nothing, as the user behind sudo, and again as
/// root where that user may not.
fn made<T>(path: &Path, mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let Some(caller) = behind_sudo() else {
        return make();
    };
    match caller.does(&mut make) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let made = make()?;
            // The caller may not write there, and so has put nothing else in its place. Some
            // file systems know no owners.
            let _ = caller.own(path);
            Ok(made)
        }
        done => done,
    }
}

/// As [`File::create_new`].
///
/// # Errors
/// Those of the system, as of all functions here.
pub fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    made(path, || File::create_new(path))
}

/// As [`OpenOptions::open`] with `options` that write: a file that is not there is made.
fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    match create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made,
    }
    // A link may lead to a file that is not there yet.
    let mut options = options.clone();
    written_by_caller(|| options.create(true).open(path))
}

/// As [`File::create`]: what was in the file is gone.
///
/// # Errors
/// Those of the system.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    open(path.as_ref(), OpenOptions::new().write(true).truncate(true))
}

/// Opens a file to add to its end, which is made where it is missing.
///
/// # Errors
/// Those of the system.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    // What makes it anew opens it at its end, which is its beginning.
    open(path.as_ref(), OpenOptions::new().append(true))
}

/// As [`fs::write`].
///
/// # Errors
/// Those of the system.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(content.as_ref())
}

/// As [`fs::copy`], to a file that is not there yet.
///
/// # Errors
/// Those of the system.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copied = create_new(to)?;
    io::copy(&mut source, &mut copied)?;
    copied.set_permissions(source.metadata()?.permissions())
}

/// Opens the regular file `path` to read. Nothing else is waited for: a pipe that nobody writes
/// to, a device or a link in its place is an error.
///
/// # Errors
/// Those of the system, and `InvalidData` for what is no regular file.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let not_regular = || io::Error::new(ErrorKind::InvalidData, "it is no regular file");
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::OFlag;
        use std::os::unix::fs::OpenOptionsExt;
        // Another one may have come in its place since.
        options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits());
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular()),
    }
}

/// As [`fs::create_dir`].
///
/// # Errors
/// Those of the system.
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    made(path, || fs::create_dir(path))
}

/// As [`fs::create_dir_all`]: each folder on the way that is missing is the caller's.
///
/// # Errors
/// Those of the system.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir_all(parent)?;
    }
    match create_dir(path) {
        // Another process was faster.
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

/// As [`std::os::unix::fs::symlink`].
///
/// # Errors
/// Those of the system.
#[cfg(unix)]
pub fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (target, link) = (target.as_ref(), link.as_ref());
    made(link, || std::os::unix::fs::symlink(target, link))
}

/// Calls `write`, which writes files by itself, as the user behind sudo; again as root, to whom
/// they then belong, where that user may not write.
///
/// # Errors
/// Those of `write`.
pub fn written_by_caller<T>(mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match behind_sudo().map(|caller| caller.does(&mut write)) {
        None => write(),
        Some(Err(error)) if error.kind() == ErrorKind::PermissionDenied => write(),
        Some(done) => done,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let kind = |path: &Path| open_regular(path).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(kind(&file), Ok(()));
        for other in [link.as_path(), dir.path(), Path::new("/dev/null")] {
            assert_eq!(kind(other), Err(ErrorKind::InvalidData), "{other:?}");
        }
        let nowhere = dir.path().join("nowhere");
        assert_eq!(kind(&nowhere), Err(ErrorKind::NotFound));
    }
}
