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
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::directory::{Directory, directories, is_alive, lock_or_make, open_locked};
use super::named::{self, NamedFolder};
use super::undo::Undo;
use crate::LinuxError;
use crate::RunId;

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
    // Programs that remove old files leave a directory alone that is locked, and what is in it
    // (tmpfiles.d(5)).
    _kept: Flock<File>,
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
            let kept = File::open(&directory.path)?;
            let kept = Flock::lock(kept, FlockArg::LockShared).map_err(|(_, e)| e)?;
            Ok(Self {
                directory: directory.path.clone(),
                run: run.clone(),
                alive,
                _kept: kept,
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
            let mut others = named::known_in(&directory);
            others.retain(|other| other.path == folder);
            let living = others.iter().find(|other| other.alive);
            if let Some(run) = living.and_then(|other| other.run.clone()) {
                return Err(TakeNameError::Taken { run });
            }
            if fs::symlink_metadata(&folder).is_ok() {
                match others.into_iter().find_map(|other| other.run) {
                    Some(run) if !swept => {
                        swept = true;
                        drop(directory);
                        super::sweep_run(&run);
                        continue;
                    }
                    // Nobody's any more.
                    _ => Undo::Folder(folder.clone())
                        .apply()
                        .map(drop)
                        .map_err(|e| failed(io::Error::other(e)))?,
                }
            }
            self.append(&directory, &Undo::Folder(folder.clone()))
                .and_then(|()| DirBuilder::new().mode(0o700).create(&folder))
                .and_then(|()| named::link_run(&directory, &self.run, &folder))
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
pub(super) struct Record {
    namespace: u64,
    undo: Vec<Undo>,
}

impl Record {
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&fs::read_to_string(path)?))
    }

    pub(super) fn of(text: &str) -> Self {
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

    /// The folder with a name that was made.
    pub(super) fn folder(&self) -> Option<&Path> {
        let mut folders = self.undo.iter().filter_map(|undo| match undo {
            Undo::Folder(path) => NamedFolder::name_of(path).map(|_| path.as_path()),
            _ => None,
        });
        folders.next()
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

/// The runs that have ended without taking down what they made.
pub(super) fn dead_runs() -> Vec<RunId> {
    let mut dead = Vec::new();
    for directory in directories() {
        let runs = directory.runs().into_iter();
        dead.extend(runs.filter(|run| !is_alive(&directory.of(run))));
    }
    dead
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
