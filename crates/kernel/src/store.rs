//! The kernels that were built, each in a folder of its own.
//!
//! | File | Holds |
//! |---|---|
//! | `linux` | the kernel, a program |
//! | `config` | its configuration |
//! | `kernel.json` | what it was built from, see [`BuiltKernel`] |
//!
//! A folder whose name begins with a dot is a build under way, or what is left of
//! one that was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use narrows_engine::VirtualKernel;
use serde::{Deserialize, Serialize};

use crate::controls;
use crate::error::BuildError;
use crate::make::own_group;

/// A kernel in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltKernel {
    /// What it was built from and with; its id is the name of its folder.
    #[serde(flatten)]
    pub made: VirtualKernel,
    /// SHA-256, in hexadecimal, of all that decided what was built: the source,
    /// the configuration, the changes, the congestion controls.
    pub digest: String,
    /// The congestion controls of Narrows that are built in, by the names that
    /// `setsockopt(TCP_CONGESTION)` takes.
    pub controls: Vec<String>,
    /// When it was built, in seconds since 1970 (UTC).
    pub built_s: u64,
    /// How long that took, in seconds.
    pub build_took_s: u64,
    /// Steps of make in that time.
    pub steps: u64,
    /// Its folder; not in the file.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
}

/// The name of a kernel's description in its folder.
const DESCRIPTION: &str = "kernel.json";

impl BuiltKernel {
    /// The program.
    pub fn binary(&self) -> PathBuf {
        self.folder.join("linux")
    }

    /// Its configuration, as `.config` of the source tree.
    pub fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    /// Whether its congestion controls are those of this version of Narrows, which hands them
    /// their parameters and reads their records.
    pub fn has_present_controls(&self) -> bool {
        self.made.controls_digest == controls::digest()
    }

    fn read(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(DESCRIPTION);
        let text = fs::read(&path).map_err(|e| StoreError::io("read", &path, e))?;
        let mut kernel: Self = serde_json::from_slice(&text).map_err(|e| StoreError::Damaged {
            path,
            why: e.to_string(),
        })?;
        kernel.folder = folder.to_path_buf();
        Ok(kernel)
    }
}

/// What went wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no place for one.
    #[error("no folder for built kernels: set XDG_CACHE_HOME or HOME")]
    NoPlace,
    /// A file or folder.
    #[error("could not {what} {}: {why}", path.display())]
    Io {
        /// The step, as a verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system answered.
        why: std::io::Error,
    },
    /// A description cannot be read.
    #[error("{} is not readable ({why}): remove its folder and build again", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No kernel was built.
    #[error("no kernel is built here: `narrows kernel build` builds one (about ten minutes)")]
    Empty,
    /// No kernel has this name.
    #[error("no kernel is called `{asked}`: there is {there}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// Those that there are.
        there: String,
    },
    /// What is removed is named in full.
    #[error("`{asked}` is not the whole name of a kernel: is `{id}` meant?")]
    NotWhole {
        /// What was asked for.
        asked: String,
        /// The kernel of which it is the beginning.
        id: String,
    },
}

/// How the names of folders of builds begin.
const WORK: &str = ".building-";

/// The folder of a build; it goes with this.
#[derive(Debug)]
pub(crate) struct Work {
    // Declared in the order in which they are to go.
    folder: tempfile::TempDir,
    _lock: Lock,
}

impl Work {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Lets go of it at once: rm(1) removes the folder, some 80,000 files, after this has ended,
    /// and the next build whatever is left then.
    pub(crate) fn abandon(self) {
        let mut remove = Command::new("rm");
        remove.args(["-rf", "--"]).arg(self.folder.keep());
        remove
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        own_group(&mut remove);
        let _ = remove.spawn();
    }
}

#[cfg(target_os = "linux")]
type Lock = nix::fcntl::Flock<fs::File>;

#[cfg(not(target_os = "linux"))]
type Lock = fs::File;

/// Held by whoever builds; the system lets go of it when its process ends.
fn lock(folder: &Path) -> Result<Lock, BuildError> {
    let path = folder.join(".lock");
    let file = narrows_files::create(&path).map_err(BuildError::io("write", &path))?;
    #[cfg(target_os = "linux")]
    let file = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
        .map_err(|_| BuildError::UnderWay(folder.to_path_buf()))?;
    Ok(file)
}

impl StoreError {
    fn unknown(asked: &str, ids: &[String]) -> Self {
        if ids.is_empty() {
            return Self::Empty;
        }
        let ids: Vec<_> = ids.iter().map(|id| format!("`{id}`")).collect();
        Self::Unknown {
            asked: asked.to_owned(),
            there: ids.join(", "),
        }
    }

    /// Whether what was named is not there.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. } | Self::NotWhole { .. } | Self::Empty
        )
    }

    fn io(what: &'static str, path: &Path, why: std::io::Error) -> Self {
        let path = path.to_path_buf();
        Self::Io { what, path, why }
    }
}

/// A folder of built kernels.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The user's: `narrows/kernels` in `$XDG_CACHE_HOME`, or in `~/.cache`; under sudo in that
    /// of the user who called it.
    ///
    /// # Errors
    /// Where neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
    pub fn of_user() -> Result<Self, StoreError> {
        let cache = narrows_files::cache().ok_or(StoreError::NoPlace)?;
        Ok(Self::at(cache.join("narrows/kernels")))
    }

    /// In `folder`, which need not exist.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kernels, those built last first. One that cannot be read is an error, as
    /// a run might otherwise take another than the one meant.
    ///
    /// # Errors
    /// When the folder or a description cannot be read.
    pub fn list(&self) -> Result<Vec<BuiltKernel>, StoreError> {
        let ids = self.ids()?;
        let kernels = ids
            .iter()
            .map(|id| BuiltKernel::read(&self.folder.join(id)));
        let mut kernels: Vec<_> = kernels.collect::<Result<_, _>>()?;
        kernels.sort_by(|a, b| {
            b.built_s
                .cmp(&a.built_s)
                .then_with(|| a.made.id.cmp(&b.made.id))
        });
        Ok(kernels)
    }

    /// The kernel that was built last.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn newest(&self) -> Result<BuiltKernel, StoreError> {
        self.list()?.into_iter().next().ok_or(StoreError::Empty)
    }

    /// A folder for a build, which is removed when the build ends; nobody else builds as long
    /// as it is there. What builds that were killed have left is removed.
    ///
    /// # Errors
    /// When another build is under way, or the folder cannot be made.
    pub(crate) fn begin(&self) -> Result<Work, BuildError> {
        let make = BuildError::io("make", &self.folder);
        narrows_files::create_dir_all(&self.folder).map_err(make)?;
        let lock = lock(&self.folder)?;
        self.sweep()?;
        let folder = tempfile::Builder::new()
            .prefix(WORK)
            .tempdir_in(&self.folder)
            .map_err(BuildError::io("make a folder in", &self.folder))?;
        Ok(Work {
            folder,
            _lock: lock,
        })
    }

    /// Removes the folders of builds; whoever calls it holds the lock.
    fn sweep(&self) -> Result<(), StoreError> {
        let entries =
            fs::read_dir(&self.folder).map_err(|e| StoreError::io("read", &self.folder, e))?;
        for entry in entries.filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(WORK) {
                let path = entry.path();
                let removed = fs::remove_dir_all(&path);
                // An interrupted build's own rm may be at it.
                if path.exists() {
                    removed.map_err(|e| StoreError::io("remove", &path, e))?;
                }
            }
        }
        Ok(())
    }

    /// What make said in the last build.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("build.log")
    }

    /// Puts a kernel into the store, in the place of one of the same id: all of it or
    /// nothing.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn put(
        &self,
        work: &Work,
        kernel: BuiltKernel,
        binary: &Path,
        config: &Path,
    ) -> Result<BuiltKernel, StoreError> {
        let entry = work.path().join("entry");
        narrows_files::create_dir(&entry).map_err(|e| StoreError::io("make", &entry, e))?;
        let copy = |from: &Path, name: &str| {
            let to = entry.join(name);
            narrows_files::copy(from, &to).map_err(|e| StoreError::io("write", &to, e))
        };
        copy(binary, "linux")?;
        copy(config, "config")?;
        let description = entry.join(DESCRIPTION);
        let text = serde_json::to_string_pretty(&kernel).expect("a description is JSON");
        narrows_files::write(&description, text + "\n")
            .map_err(|e| StoreError::io("write", &description, e))?;
        let place = self.folder.join(&kernel.made.id);
        if place.exists() {
            let former = work.path().join("former");
            fs::rename(&place, &former).map_err(|e| StoreError::io("replace", &place, e))?;
        }
        fs::rename(&entry, &place).map_err(|e| StoreError::io("write", &place, e))?;
        BuiltKernel::read(&place)
    }

    /// The ids of the kernels, also of those whose description cannot be read.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StoreError::io("read", &self.folder, e)),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::io("read", &self.folder, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && entry.path().is_dir() {
                ids.push(name);
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// Refuses what is not the whole id of a kernel.
    ///
    /// # Errors
    /// With the kernels that there are.
    pub fn check(&self, id: &str) -> Result<(), StoreError> {
        let ids = self.ids()?;
        if ids.iter().any(|i| i == id) {
            return Ok(());
        }
        match ids.iter().find(|i| i.starts_with(id)) {
            Some(meant) => Err(StoreError::NotWhole {
                asked: id.to_owned(),
                id: meant.clone(),
            }),
            None => Err(StoreError::unknown(id, &ids)),
        }
    }

    /// Removes the kernel with exactly this id.
    ///
    /// # Errors
    /// When there is none, or it cannot be removed.
    pub fn remove(&self, id: &str) -> Result<(), StoreError> {
        self.check(id)?;
        let folder = self.folder.join(id);
        fs::remove_dir_all(&folder).map_err(|e| StoreError::io("remove", &folder, e))
    }

    /// Removes what builds that were killed have left, if none is under way.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn tidy(&self) -> Result<(), StoreError> {
        match self.folder.is_dir().then(|| lock(&self.folder)) {
            Some(Ok(_lock)) => self.sweep(),
            _ => Ok(()),
        }
    }

    /// The newest kernel whose id or release begins with `name`.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn find(&self, name: &str) -> Result<BuiltKernel, StoreError> {
        let kernels = self.list()?;
        let found = kernels.iter().find(|k| k.made.id.starts_with(name));
        found.cloned().ok_or_else(|| {
            let ids: Vec<_> = kernels.iter().map(|k| k.made.id.clone()).collect();
            StoreError::unknown(name, &ids)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &Store, id: &str, built_s: u64) {
        let folder = store.folder().join(id);
        fs::create_dir_all(&folder).unwrap();
        let kernel = BuiltKernel {
            built_s,
            ..built(id)
        };
        let text = serde_json::to_string(&kernel).unwrap();
        fs::write(folder.join(DESCRIPTION), text).unwrap();
    }

    #[test]
    fn the_newest_is_the_one_built_last_and_a_name_may_be_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("kernels"));
        assert!(matches!(store.newest(), Err(StoreError::Empty)));
        assert!(matches!(store.find("7.3"), Err(StoreError::Empty)));
        put(&store, "7.3.4-aaaa", 10);
        put(&store, "6.12.9-bbbb", 20);
        put(&store, "6.12.9-cccc", 15);
        fs::create_dir(store.folder().join(".building")).unwrap();
        assert_eq!(store.list().unwrap().len(), 3);
        let newest = store.newest().unwrap();
        assert_eq!(newest.made.id, "6.12.9-bbbb");
        assert_eq!(newest.binary(), store.folder().join("6.12.9-bbbb/linux"));
        assert_eq!(store.find("7.3").unwrap().made.id, "7.3.4-aaaa");
        assert_eq!(store.find("6.12.9-c").unwrap().made.id, "6.12.9-cccc");
        let said = store.find("5.4").unwrap_err().to_string();
        assert_eq!(
            said,
            "no kernel is called `5.4`: there is `6.12.9-bbbb`, `6.12.9-cccc`, `7.3.4-aaaa`"
        );
    }

    fn built(id: &str) -> BuiltKernel {
        BuiltKernel {
            made: VirtualKernel {
                id: id.to_owned(),
                release: "7.3.4".to_owned(),
                source: "linux-source-7.3 7.3.4-1".to_owned(),
                controls_digest: controls::digest(),
                changes: vec!["seeded randomness".to_owned()],
                ..VirtualKernel::default()
            },
            digest: "ab".repeat(32),
            controls: vec!["nw_reno".to_owned()],
            built_s: 10,
            build_took_s: 420,
            steps: 1400,
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn a_kernel_with_controls_of_another_version_is_known_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        put(&store, "7.3.4-aaaa", 10);
        assert!(store.newest().unwrap().has_present_controls());
        let path = store.folder().join("7.3.4-aaaa").join(DESCRIPTION);
        let text = fs::read_to_string(&path).unwrap();
        let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
        older["controls_digest"] = "ab".repeat(32).into();
        fs::write(&path, older.to_string()).unwrap();
        assert!(!store.newest().unwrap().has_present_controls());
        older.as_object_mut().unwrap().remove("controls_digest");
        fs::write(&path, older.to_string()).unwrap();
        assert!(!store.newest().unwrap().has_present_controls());
    }

    #[test]
    fn a_kernel_is_put_whole_and_removed_by_its_whole_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("kernels"));
        let binary = folder.path().join("linux");
        fs::write(&binary, "program").unwrap();
        let work = store.begin().unwrap();
        assert!(
            store.list().unwrap().is_empty(),
            "a build under way is no kernel"
        );
        // One that fails in the middle leaves nothing.
        let lost = folder.path().join("lost");
        assert!(store.put(&work, built("7.3.4-aaaa"), &lost, &lost).is_err());
        drop(work);
        assert!(store.ids().unwrap().is_empty());

        let work = store.begin().unwrap();
        let kernel = store
            .put(&work, built("7.3.4-aaaa"), &binary, &binary)
            .unwrap();
        drop(work);
        assert_eq!(fs::read_to_string(kernel.binary()).unwrap(), "program");
        assert_eq!(store.list().unwrap(), [kernel]);
        let said = store.remove("7.3").unwrap_err().to_string();
        assert_eq!(
            said,
            "`7.3` is not the whole name of a kernel: is `7.3.4-aaaa` meant?"
        );
        store.remove("7.3.4-aaaa").unwrap();
        assert!(store.list().unwrap().is_empty());
        assert!(matches!(store.remove("x"), Err(StoreError::Empty)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn there_is_one_build_at_a_time_and_what_a_killed_one_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let left = folder.path().join(".building-left");
        fs::create_dir(&left).unwrap();
        let work = store.begin().unwrap();
        assert!(!left.exists());
        assert!(matches!(store.begin(), Err(BuildError::UnderWay(_))));
        // Nor is it tidied away.
        store.tidy().unwrap();
        assert!(work.path().exists());
        // One that is interrupted lets go of the store at once.
        work.abandon();
        drop(store.begin().unwrap());
        fs::create_dir(&left).unwrap();
        store.tidy().unwrap();
        assert!(!left.exists());
        assert!(store.begin().is_ok());
    }

    #[test]
    fn a_description_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        fs::create_dir(folder.path().join("7.3.4-aaaa")).unwrap();
        let said = store.list().unwrap_err().to_string();
        assert!(said.contains("7.3.4-aaaa/kernel.json"), "{said}");
        fs::write(folder.path().join("7.3.4-aaaa/kernel.json"), "{}").unwrap();
        let said = store.list().unwrap_err().to_string();
        assert!(said.contains("remove its folder"), "{said}");
    }
}
