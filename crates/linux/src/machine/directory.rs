//! The directory in which runs are entered: one file for each, locked as long as the run lives.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use super::{named, processes};
use crate::RunId;

/// The file whose lock is held while files of the directory are rewritten.
const DIRECTORY_LOCK: &str = ".lock";

/// The longest that a process which was killed may take to end.
const TO_END: Duration = Duration::from_secs(10);

/// Where the directory of state files may be, best first.
pub(super) fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/run/narrows")];
    // A relative path is ignored (XDG Base Directory Specification).
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(own) = own.filter(|own| own.is_absolute()) {
        // Root uses one place, however it became root. Root of a user namespace
        // cannot write there, and uses the next.
        let at = usize::from(geteuid().is_root());
        places.insert(at, own.join("narrows"));
    }
    places.push(std::env::temp_dir().join(format!("narrows-{}", outer_user())));
    places
}

/// Locks the first place where a directory can be had, which is made if it is
/// not there.
pub(super) fn lock_or_make() -> io::Result<Directory> {
    let mut last = io::ErrorKind::NotFound.into();
    for place in places() {
        match Directory::lock(&place, true) {
            Ok(directory) => return Ok(directory),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The user as the machine knows it, whatever this namespace calls it.
fn outer_user() -> u32 {
    let inner = geteuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse::<u32>);
            let mut next = || numbers.next()?.ok();
            let (first, outside, count) = (next()?, next()?, next()?);
            let offset = inner.checked_sub(first).filter(|o| *o < count)?;
            outside.checked_add(offset)
        })
        .next()
        .unwrap_or(inner)
}

/// The directory of state files, locked against other runs.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    _lock: Flock<File>,
}

impl Directory {
    pub(super) fn lock(path: &Path, make: bool) -> io::Result<Self> {
        let lock = path.join(DIRECTORY_LOCK);
        loop {
            if make {
                match DirBuilder::new().mode(0o700).create(path) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
            }
            is_ours(path)?;
            let locked = open_locked(&lock, FlockArg::LockExclusive);
            match (locked, fs::metadata(&lock)) {
                (Ok(locked), Ok(now)) if locked.metadata()?.ino() == now.ino() => {
                    let directory = Self {
                        path: path.to_owned(),
                        _lock: locked,
                    };
                    named::link_back(&directory);
                    return Ok(directory);
                }
                (Err(e), _) if !(make && e.kind() == io::ErrorKind::NotFound) => return Err(e),
                // The last run to leave took the directory along in between.
                _ => {}
            }
        }
    }

    /// The file of `run`.
    pub(super) fn of(&self, run: &RunId) -> PathBuf {
        self.path.join(run.to_string())
    }

    /// The runs that are entered.
    pub(super) fn runs(&self) -> Vec<RunId> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
        let mut runs: Vec<_> = names
            .filter_map(|name| RunId::from_str(&name).ok())
            .collect();
        runs.sort();
        runs
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The last to leave.
        if self.runs().is_empty() {
            let _ = fs::remove_file(self.path.join(DIRECTORY_LOCK));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Makes sure that `place` is a directory that only this user writes to: what
/// is there is acted upon.
fn is_ours(place: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(place)?;
    let ours = found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0;
    if found.is_dir() && ours {
        return Ok(());
    }
    // Not that a right is missing: root would be refused the same.
    Err(io::Error::other(format!(
        "{} is not this user's own directory",
        place.display()
    )))
}

pub(super) fn open_locked(path: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    Flock::lock(file, how).map_err(|(_, e)| e.into())
}

/// Whether the run whose file this is holds its lock. Asked under the
/// directory's lock, so that a run that is just starting cannot use it. One whose process is
/// just being killed is waited for: closing its devices takes it a moment.
pub(super) fn is_alive(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return false;
    };
    let inode = file.metadata().map_or(0, |found| found.ino());
    let asked = Instant::now();
    let mut file = file;
    // How often nobody seems to hold the lock that cannot be had.
    let mut unowned = 0;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(_) => return false,
            Err((file, _)) => file,
        };
        let owners = processes::lock_owners(inode);
        let is_ending = match owners.is_empty() {
            // It was given back since, or another container has it.
            true => {
                unowned += 1;
                unowned <= 3
            }
            false => owners.into_iter().any(processes::is_ending),
        };
        if !is_ending || asked.elapsed() > TO_END {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
}

/// Where this user's runs are entered now.
pub(super) fn directories() -> impl Iterator<Item = Directory> {
    let places = places().into_iter();
    places.filter_map(|place| Directory::lock(&place, false).ok())
}
