//! A store of cells: runs that need not be made again.
//!
//! A store is a folder of folders, without a database and without locks:
//!
//! | Folder | Holds |
//! |---|---|
//! | `v1/<ab>/<name>/` | a cell: the files of its run, and `cell.json` with its [`Key`] and the digests of all its files. Its name is the SHA-256 of the key, `ab` its first two digits |
//! | `v1/begun/<name>/` | a run under way, or what is left of one that was killed |
//! | `v1/damaged/` | what was found not to be what its names and digests say |
//!
//! A cell is written below `begun` and gets its name by one rename, so that there is all of it
//! under its name or nothing. That a run is begun already is a hint for others, who take it last, and no
//! lock: two that run one cell find the same, and the second one is dropped. Whatever is read
//! is held against its digests first; what a disk lost or changed is set aside and run again.

mod cell;
mod key;
mod survey;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use narrows_engine::Engine;
use narrows_scenario::Plan;
use narrows_units::Duration;

use crate::Error;
use crate::folder::{Folder, RunResult};

pub use cell::StoredRun;
pub use key::{Difference, Key, version};
pub use survey::{Found, Pruned, Survey, Unneeded};

/// The folder of everything in this layout.
const LAYOUT: &str = "v1";
/// Below it: runs under way.
const BEGUN: &str = "begun";
/// Below it: what was set aside.
const DAMAGED: &str = "damaged";

/// A store, and the version of Narrows whose cells are taken from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
    version: String,
}

/// What a store has under the name of a cell.
#[derive(Debug)]
pub enum Taken {
    /// Nothing.
    Absent,
    /// Something that is not what its name and digests say, and why.
    Damaged(String),
    /// The cell.
    Cell(Box<StoredRun>),
}

/// Whether a run is begun although another one of the same cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// No: it may be there soon.
    First,
    /// Yes: the process that began it may have been killed.
    Regardless,
}

/// A run under way in a store; what it wrote goes with this unless it is [kept](Store::keep).
#[derive(Debug)]
pub struct Begun {
    dir: PathBuf,
    /// Whether it has its name, so that whatever is in `dir` from then on is somebody else's.
    is_kept: bool,
}

impl Begun {
    /// Where its files are written.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the results of the run, all of them or its summary alone, and `run.json` with
    /// their digests. After an interrupt the record may say that it is not complete.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(
        &self,
        result: &mut RunResult,
        summary_alone: bool,
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        let folder = Folder::at(self.dir.clone())?;
        match summary_alone {
            true => folder.write_summary(result),
            // Files for Flent come when asked for.
            false => folder.write_run(result, false, cancel),
        }
    }
}

impl Begun {
    fn kept(mut self) -> Self {
        self.is_kept = true;
        self
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_kept {
            // Where it stays `prune` removes it.
            fs::remove_dir_all(&self.dir).ok();
        }
    }
}

impl Store {
    /// The store in `dir`, which is made where there is nothing; `version` is that of the
    /// program, see [`version`].
    ///
    /// # Errors
    /// When something else is in `dir`, or it cannot be made.
    pub fn open(dir: impl Into<PathBuf>, version: String) -> Result<Self, Error> {
        let dir = dir.into();
        match fs::read_dir(&dir).map(|mut entries| entries.next().is_none()) {
            // Asked after the folder was read: another process may have made it just now.
            _ if dir.join(LAYOUT).is_dir() => {}
            Ok(true) => {}
            Ok(false) => return Err(not_a_store(&dir, "it is not empty")),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                return Err(not_a_store(&dir, "it is a file"));
            }
            Err(e) => return Err(Error::io("read", &dir)(e)),
        }
        let store = Self { dir, version };
        make_folder(&store.below(BEGUN))?;
        Ok(store)
    }

    /// The store in `dir`, which has to be there.
    ///
    /// # Errors
    /// When there is none.
    pub fn existing(dir: impl Into<PathBuf>, version: String) -> Result<Self, Error> {
        let dir = dir.into();
        match dir.join(LAYOUT).is_dir() {
            true => Ok(Self { dir, version }),
            false => Err(not_a_store(&dir, &format!("it has no folder {LAYOUT}"))),
        }
    }

    /// Where the user's is, whether it is there or not: `narrows/cells` in `$XDG_CACHE_HOME` or
    /// `~/.cache`; under sudo in that of the user who called it. `None` without a home.
    pub fn of_user() -> Option<PathBuf> {
        Some(narrows_files::cache()?.join("narrows/cells"))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The version whose cells are taken from it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What names the run of `plan` with `seed`, whose series has a point each `interval`;
    /// zero where its summary alone is kept. `None` for an engine that measures the machine
    /// that it runs on: such a run is no function of its plan.
    pub fn key(
        &self,
        engine: &dyn Engine,
        plan: &Plan,
        seed: u64,
        interval: Duration,
    ) -> Option<Key> {
        match engine.alone() {
            true => None,
            false => Key::of(engine, plan, seed, interval, &self.version),
        }
    }

    /// The cell of that key, its files held against their digests; those of its data but the
    /// record are copied into the folder `into`.
    ///
    /// # Errors
    /// When `into` cannot be written.
    pub fn take(&self, key: &Key, into: Option<&Path>) -> Result<Taken, Error> {
        let name = key.name();
        let dir = self.place(&name);
        match fs::symlink_metadata(&dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Taken::Absent),
            // What else stands there is damage, and so is what may not be read.
            _ => cell::take(&dir, &name, into),
        }
    }

    /// Begins the run of that key; `None` if another one is begun and goes first.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn begin(&self, key: &Key, others: Others) -> Result<Option<Begun>, Error> {
        let begun = self.below(BEGUN);
        let mut dir = begun.join(key.name());
        loop {
            match narrows_files::create_dir(&dir) {
                Ok(()) => {
                    return Ok(Some(Begun {
                        dir,
                        is_kept: false,
                    }));
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => match others {
                    Others::First => return Ok(None),
                    Others::Regardless => dir = begun.join(another(&key.name())),
                },
                Err(e) => return Err(Error::io("create", &dir)(e)),
            }
        }
    }

    /// Gives the run its name, complete as it is in its folder; what is to be said of what was
    /// there before, if anything.
    ///
    /// # Errors
    /// When the run is not complete, or the store cannot be written.
    pub fn keep(
        &self,
        begun: Begun,
        key: &Key,
        result: &RunResult,
    ) -> Result<Option<String>, Error> {
        if !result.record.complete {
            return Err(Error::Refused("only a complete run is kept".to_owned()));
        }
        cell::complete(begun.dir(), key, &result.record.files)?;
        let name = key.name();
        let place = self.place(&name);
        make_folder(place.parent().unwrap_or(&self.dir))?;
        let mut said = None;
        // Another process that runs the same cell may put it there in between.
        for _ in 0..3 {
            let Err(error) = fs::rename(begun.dir(), &place) else {
                begun.kept();
                return Ok(said);
            };
            if fs::symlink_metadata(&place).is_err() {
                return Err(Error::io("create", &place)(error));
            }
            let there = cell::take(&place, &name, None)?;
            match there {
                Taken::Cell(run) if run.record.digest == result.record.digest => return Ok(said),
                Taken::Cell(_) => {
                    said = Some(format!(
                        "{key} gave other data than those in {}, which are set aside: \
                         something else than its key decides about it",
                        self.dir.display()
                    ));
                }
                Taken::Damaged(why) => said = Some(self.damage_in_words(key, &why)),
                Taken::Absent => {}
            }
            self.set_aside(&place)?;
        }
        Ok(said)
    }

    /// Seconds that the run of a cell took.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn wall_s(&self, found: &Found) -> Result<f64, String> {
        cell::wall_s(&self.place(&found.name), &found.name)
    }

    /// The run of the cell called `name`, with its series if it has them. Nothing is written, not
    /// even that it was used.
    ///
    /// # Errors
    /// What is wrong with it, in words; that there is none of that name, among other things.
    pub fn read(&self, name: &str) -> Result<RunResult, String> {
        let is_name = name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit());
        match is_name {
            true => cell::open(&self.place(name), name),
            false => Err("no cell is called so".to_owned()),
        }
    }

    /// What is said of a cell that was found damaged.
    pub fn damage_in_words(&self, key: &Key, why: &str) -> String {
        let place = self.place(&key.name());
        format!("{key} in {} is damaged: {why}", place.display())
    }

    fn set_aside(&self, place: &Path) -> Result<(), Error> {
        let damaged = self.below(DAMAGED);
        make_folder(&damaged)?;
        let name = place.file_name().unwrap_or_default();
        let aside = damaged.join(another(&name.to_string_lossy()));
        match fs::rename(place, aside) {
            // Another process was faster.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(Error::io("write", place)),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.below(&name[..2]).join(name)
    }

    fn below(&self, folder: &str) -> PathBuf {
        self.dir.join(LAYOUT).join(folder)
    }
}

/// `name` with something behind it that no other process and no other call gives.
fn another(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = crate::folder::file_name(host.trim());
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}.{host}-{}-{next}", std::process::id())
}

fn make_folder(dir: &Path) -> Result<(), Error> {
    narrows_files::create_dir_all(dir).map_err(Error::io("create", dir))
}

fn not_a_store(dir: &Path, why: &str) -> Error {
    Error::Refused(format!(
        "{} is not a store of cells: {why}; allowed: a store, or for one that is to be made a \
         new or an empty folder",
        dir.display()
    ))
}

#[cfg(test)]
mod tests;
