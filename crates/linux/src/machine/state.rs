//! What runs have changed on this machine outside of their own namespaces,
//! written down before it is done: so that it can be undone when the run that
//! did it is no more.
//!
//! A run has a file named by its id in `/run/narrows` (for users
//! `$XDG_RUNTIME_DIR/narrows`), locked as long as the run lives: the kernel
//! gives the lock back however it ends. The first line is the network
//! namespace that the other lines are about; each of them is one [`Undo`].

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use super::named::{NamedFolder, removed_files};
use super::processes;
use super::undo::Undo;
use crate::LinuxError;
use crate::RunId;

/// The file whose lock is held while files of the directory are rewritten.
const DIRECTORY_LOCK: &str = ".lock";

/// The longest that a process which was killed may take to end.
const TO_END: Duration = Duration::from_secs(10);

/// Where the directory of state files may be, best first.
fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/run/narrows")];
    // A relative path is ignored (XDG Base Directory Specification).
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(own) = own.filter(|own| own.is_absolute()) {
        // Root keeps to one place, whoever it became root from. Root of a user
        // namespace of its own cannot write there, and goes on to the next.
        let at = usize::from(geteuid().is_root());
        places.insert(at, own.join("narrows"));
    }
    places.push(std::env::temp_dir().join(format!("narrows-{}", outer_user())));
    places
}

/// Locks the first place where a directory can be had, which is made if it is
/// not there.
fn lock_or_make() -> io::Result<Directory> {
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
struct Directory {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Directory {
    fn lock(path: &Path, make: bool) -> io::Result<Self> {
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
                    return Ok(Self {
                        path: path.to_owned(),
                        _lock: locked,
                    });
                }
                (Err(e), _) if !(make && e.kind() == io::ErrorKind::NotFound) => return Err(e),
                // The last run to leave took the directory along in between.
                _ => {}
            }
        }
    }

    fn of(&self, run: &RunId) -> PathBuf {
        self.path.join(run.to_string())
    }

    fn runs(&self) -> Vec<RunId> {
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

fn open_locked(path: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    Flock::lock(file, how).map_err(|(_, e)| e.into())
}

/// Why a run cannot have a name.
#[derive(Debug, thiserror::Error)]
pub enum TakeNameError {
    /// A living run has it.
    #[error("run {run} has that name")]
    Taken {
        /// Which.
        run: RunId,
    },
    /// The machine refused a step.
    #[error(transparent)]
    Linux(#[from] LinuxError),
}

/// A run's entry among the runs of this machine. Dropping it undoes what was
/// recorded, newest first, and removes the file.
#[derive(Debug)]
pub struct State {
    directory: PathBuf,
    run: RunId,
    // The lock says that the run lives. It is read only if the file was removed.
    alive: Flock<File>,
}

impl State {
    /// Enters `run`.
    ///
    /// # Errors
    /// When no directory for it can be written to.
    pub fn open(run: &RunId) -> Result<Self, LinuxError> {
        let open = || -> io::Result<Self> {
            let directory = lock_or_make()?;
            let path = directory.of(run);
            let alive = open_locked(&path, FlockArg::LockExclusiveNonblock)?;
            let nothing = Record {
                namespace: own_namespace()?,
                undo: Vec::new(),
            };
            nothing.write(&path)?;
            Ok(Self {
                directory: directory.path.clone(),
                run: run.clone(),
                alive,
            })
        };
        open().map_err(|e| LinuxError::refused(format!("keeping the state of run {run}"), e))
    }

    fn lock(&self) -> io::Result<Directory> {
        Directory::lock(&self.directory, false)
    }

    /// The run whose entry it is.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Where the run may keep a file of its own called `name`. To be written
    /// down before it is made, as [`Undo::File`].
    pub fn place(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{}.{name}", self.run))
    }

    /// Writes down how to undo what is about to be done. Of a switch that
    /// another run has changed before, the value from before that run is
    /// written down: the last of them sets it back.
    ///
    /// # Errors
    /// When it cannot be written; then it must not be done.
    pub fn record(&self, undo: &Undo) -> Result<(), LinuxError> {
        let write = || self.append(&self.lock()?, undo);
        write().map_err(|e| {
            LinuxError::refused(format!("writing down how to undo a step ({undo})"), e)
        })
    }

    fn append(&self, directory: &Directory, undo: &Undo) -> io::Result<()> {
        let mut users = switch_users(directory, own_namespace()?, undo);
        let undo = users
            .next()
            .map_or_else(|| undo.clone(), |(_, first)| first);
        let path = directory.of(&self.run);
        let mut file = OpenOptions::new().append(true).open(path)?;
        writeln!(file, "{undo}")
    }

    /// Makes a folder for this run under a name that no other living run of this user has;
    /// what a dead one has left under it goes. It is undone with the run.
    ///
    /// # Errors
    /// When a living run has the name, or the folder cannot be made.
    pub fn take_name(&self, name: &str) -> Result<PathBuf, TakeNameError> {
        let failed = |e| {
            let what = format!("making the folder of {name}");
            TakeNameError::Linux(LinuxError::refused(what, e))
        };
        let mut swept = false;
        loop {
            let directory = self.lock().map_err(failed)?;
            let folder = NamedFolder::path(&directory.path, name);
            // A living run has the name, too, whose folder somebody has removed.
            let bare = gone_folders(&directory).into_iter().chain(lost_folders());
            let mut others = bare.filter(|bare| bare.path == folder && bare.alive);
            if let Some(run) = others.find_map(|other| other.run) {
                return Err(TakeNameError::Taken { run });
            }
            if fs::symlink_metadata(&folder).is_ok() {
                let owner = NamedFolder::run(&folder);
                let alive = |run: &RunId| is_alive(&directory.of(run));
                if let Some(run) = owner.as_ref().filter(|run| alive(run)) {
                    let run = run.clone();
                    return Err(TakeNameError::Taken { run });
                }
                match owner.filter(|_| !swept) {
                    Some(run) => {
                        swept = true;
                        drop(directory);
                        super::sweep_run(&run);
                        continue;
                    }
                    // Nobody's any more.
                    None => Undo::Folder(folder.clone())
                        .apply()
                        .map(drop)
                        .map_err(|e| failed(io::Error::other(e)))?,
                }
            }
            self.append(&directory, &Undo::Folder(folder.clone()))
                .and_then(|()| DirBuilder::new().mode(0o700).create(&folder))
                .and_then(|()| NamedFolder::write_run(&folder, &self.run))
                .map_err(failed)?;
            return Ok(folder);
        }
    }

    /// Undoes everything recorded so far, newest first; what could not be
    /// undone.
    pub fn undo(&self) -> Vec<String> {
        // By its descriptor it is found where somebody has removed it, too.
        let held = PathBuf::from(format!("/proc/self/fd/{}", self.alive.as_raw_fd()));
        let undone = || -> io::Result<_> {
            let directory = match self.lock() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                locked => Some(locked?),
            };
            let mut record = Record::read(&held)?;
            let said = undo_all(directory.as_ref(), &self.run, &record);
            record.undo.clear();
            record.write(&held)?;
            Ok(said)
        };
        match undone() {
            Ok(said) => said.into_iter().filter_map(Result::err).collect(),
            Err(e) => vec![format!("run {}: undoing its changes: {e}", self.run)],
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for trouble in self.undo() {
            tracing::warn!("{trouble}");
        }
        if let Ok(directory) = self.lock() {
            let _ = fs::remove_file(directory.of(&self.run));
        }
    }
}

/// A state file's contents.
struct Record {
    namespace: u64,
    undo: Vec<Undo>,
}

impl Record {
    fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&fs::read_to_string(path)?))
    }

    fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let namespace = lines
            .next()
            .and_then(|line| line.strip_prefix("namespace ")?.parse().ok())
            .unwrap_or(0);
        Self {
            namespace,
            // A line cut short is one whose deed was not done.
            undo: lines.filter_map(|line| line.parse().ok()).collect(),
        }
    }

    /// The folder with a name that was made and is there no more, of a run yet unknown.
    fn gone_folder(&self) -> Option<NamedFolder> {
        let folders = self.undo.iter().filter_map(|undo| match undo {
            Undo::Folder(path) => Some((path, NamedFolder::name_of(path)?)),
            _ => None,
        });
        let mut gone = folders.filter(|(path, _)| fs::symlink_metadata(path).is_err());
        let (path, name) = gone.next()?;
        Some(NamedFolder {
            name: name.to_owned(),
            path: path.clone(),
            run: None,
            alive: false,
            process: None,
        })
    }

    /// Replaces the file's contents; the file itself stays, for its lock.
    fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.to_string())
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "namespace {}", self.namespace)?;
        self.undo.iter().try_for_each(|undo| writeln!(f, "{undo}"))
    }
}

/// The network namespace that this process started in.
fn own_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/net")?.ino())
}

/// Undoes a record, newest first: what was done, and what could not be. Without a directory there
/// are no other runs to go by.
fn undo_all(
    directory: Option<&Directory>,
    run: &RunId,
    record: &Record,
) -> Vec<Result<String, String>> {
    // What was in another shell's namespace went with it; here it would hit what is not meant.
    let is_here = own_namespace().ok() == Some(record.namespace);
    let mut said = Vec::new();
    for undo in record.undo.iter().rev() {
        if undo.is_of_a_network() && !is_here {
            continue;
        }
        // Set back by the last run that changed it.
        let mut users = directory
            .into_iter()
            .flat_map(|directory| switch_users(directory, record.namespace, undo));
        if users.any(|(other, _)| other != *run) {
            continue;
        }
        let outcome = undo.apply().map_err(|e| format!("run {run}: {undo}: {e}"));
        said.extend(outcome.transpose());
    }
    said
}

/// The runs, living or dead, that have changed the switch which `undo` sets
/// back, with what they wrote down; none if it sets back no switch.
fn switch_users(
    directory: &Directory,
    namespace: u64,
    undo: &Undo,
) -> impl Iterator<Item = (RunId, Undo)> {
    let name = undo.shared();
    let runs = if name.is_some() {
        directory.runs()
    } else {
        Vec::new()
    };
    let records = runs.into_iter().filter_map(move |run| {
        let record = Record::read(&directory.of(&run)).ok()?;
        (record.namespace == namespace).then_some((run, record.undo))
    });
    records.filter_map(move |(run, undo)| {
        let mut undo = undo.into_iter();
        Some((run, undo.find(|u| u.shared() == name)?))
    })
}

/// Whether the run whose file this is holds its lock. Asked under the
/// directory's lock, so that a run that is just starting cannot use it. One whose process is
/// just being killed is waited for: closing its devices takes it a moment.
fn is_alive(path: &Path) -> bool {
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
fn directories() -> impl Iterator<Item = Directory> {
    let places = places().into_iter();
    places.filter_map(|place| Directory::lock(&place, false).ok())
}

/// The runs that have ended without taking down what they made.
pub(super) fn dead_runs() -> Vec<RunId> {
    let mut dead = Vec::new();
    for directory in directories() {
        let runs = directory.runs().into_iter();
        dead.extend(runs.filter(|run| !is_alive(&directory.of(run))));
    }
    dead
}

/// The folders of this user's runs that have names, by name, and whether their runs live; with
/// `removed` those of living runs, too, that are there no more, for which the open files of all
/// processes are looked at.
pub(super) fn named(removed: bool) -> Vec<NamedFolder> {
    let mut all = Vec::new();
    for directory in directories() {
        all.extend(folders_in(&directory));
        if removed {
            all.extend(gone_folders(&directory));
        }
    }
    if removed {
        all.extend(lost_folders());
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The folders with names in `directory`.
fn folders_in(directory: &Directory) -> Vec<NamedFolder> {
    let of_entry = |entry: fs::DirEntry| {
        let path = entry.path();
        let name = NamedFolder::name_of(&path)?.to_owned();
        // A folder in a folder that is ours and nobody else writes to.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return None;
        }
        let run = NamedFolder::run(&path);
        let alive = run.as_ref().is_some_and(|r| is_alive(&directory.of(r)));
        Some(NamedFolder {
            name,
            path,
            run,
            alive,
            process: None,
        })
    };
    let entries = fs::read_dir(&directory.path).into_iter().flatten();
    entries.flatten().filter_map(of_entry).collect()
}

/// The folders that the runs of `directory` have written down and that are gone.
fn gone_folders(directory: &Directory) -> Vec<NamedFolder> {
    let of_run = |run: RunId| {
        let path = directory.of(&run);
        let record = Record::read(&path).ok()?;
        let gone = NamedFolder {
            run: Some(run),
            ..record.gone_folder()?
        };
        let owners = fs::metadata(&path).map(|file| processes::lock_owners(file.ino()));
        Some(NamedFolder {
            alive: is_alive(&path),
            process: owners.unwrap_or_default().first().copied(),
            ..gone
        })
    };
    directory.runs().into_iter().filter_map(of_run).collect()
}

/// The same of living runs whose files are gone, too: their processes have them open.
fn lost_folders() -> Vec<NamedFolder> {
    let of_file = |(run, pid, text): (RunId, i32, String)| {
        Some(NamedFolder {
            run: Some(run),
            alive: true,
            process: Some(pid),
            ..Record::of(&text).gone_folder()?
        })
    };
    let files = removed_files(&places()).into_iter();
    files.filter_map(of_file).collect()
}

/// Whether what a run recorded are control groups, and nothing beside them.
pub(super) fn made_groups_alone(run: &RunId) -> bool {
    let records = directories().filter_map(|d| Record::read(&d.of(run)).ok());
    let mut undo = records.flat_map(|record| record.undo).peekable();
    undo.peek().is_some() && undo.all(|undo| matches!(undo, Undo::Cgroup(_)))
}

/// Undoes what a dead run recorded and removes its file: what was undone, and
/// what could not be.
pub(super) fn reap(run: &RunId) -> Vec<Result<String, String>> {
    let mut all = Vec::new();
    for directory in directories() {
        let path = directory.of(run);
        let Ok(record) = Record::read(&path) else {
            continue;
        };
        if is_alive(&path) {
            continue;
        }
        let said = undo_all(Some(&directory), run, &record);
        // What could not be undone is tried again the next time.
        if said.iter().all(Result::is_ok) {
            let removed = fs::remove_file(&path);
            all.extend(
                removed
                    .err()
                    .map(|e| Err(format!("run {run}: {}: {e}", path.display()))),
            );
        }
        all.extend(said);
    }
    all
}
