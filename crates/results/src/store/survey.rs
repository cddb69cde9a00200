//! What is in a store, whether it is sound, and what of it can go.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{BEGUN, DAMAGED, Key, LAYOUT, Store, cell};
use crate::Error;

/// How long a run has written nothing before it is taken for one that was killed: longer than
/// any that this is likely to be asked of, as nothing says whether a process on another
/// machine lives.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// A cell of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name of its folder.
    pub name: String,
    /// What it is of.
    pub key: Key,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was written or taken last.
    pub used: SystemTime,
}

/// What a store holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Its cells, by version, engine, scenario and seed.
    pub cells: Vec<Found>,
    /// Folders that are not what their names or digests say, each with why.
    pub damaged: Vec<(PathBuf, String)>,
    /// Runs that are begun, by this or other processes, or were killed.
    pub begun: usize,
    /// Damaged cells that were set aside.
    pub set_aside: usize,
}

/// What is removed beside what was damaged and what killed runs left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unneeded {
    /// Cells of other versions than the running program's.
    pub other_versions: bool,
    /// Cells that were neither written nor taken for so long.
    pub unused: Option<Duration>,
    /// All cells.
    pub all: bool,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Cells.
    pub cells: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Damaged cells, those that had been set aside among them.
    pub damaged: usize,
    /// What killed runs had left.
    pub left: usize,
}

impl Store {
    /// What is in it. With `verify` every file is read and held against its digest.
    ///
    /// # Errors
    /// When its folders cannot be read.
    pub fn survey(&self, verify: bool) -> Result<Survey, Error> {
        let mut survey = Survey {
            begun: folders(&self.below(BEGUN))?.len(),
            set_aside: entries(&self.below(DAMAGED))?.len(),
            ..Survey::default()
        };
        for shelf in entries(&self.dir.join(LAYOUT))? {
            // A shelf may be on another disk.
            if matches!(name_of(&shelf).as_str(), BEGUN | DAMAGED) || !shelf.is_dir() {
                continue;
            }
            for dir in entries(&shelf)? {
                let name = name_of(&dir);
                let outline = cell::outline(&dir, &name);
                let sound = match verify && outline.is_ok() {
                    true => cell::verify(&dir, &name),
                    false => Ok(()),
                };
                match outline.and_then(|outline| sound.map(|()| outline)) {
                    Ok(outline) => survey.cells.push(Found {
                        name,
                        key: outline.key,
                        bytes: outline.bytes,
                        used: outline.used.unwrap_or(SystemTime::UNIX_EPOCH),
                    }),
                    // Another process removed or set it aside meanwhile.
                    Err(_) if fs::symlink_metadata(&dir).is_err() => {}
                    Err(why) => survey.damaged.push((dir, why)),
                }
            }
        }
        survey.cells.sort_by_cached_key(|found| {
            let key = &found.key;
            let kernel = key.kernel.as_ref().map(|kernel| kernel.id.clone());
            let scenario = key.scenario().to_owned();
            (
                key.version.clone(),
                key.engine.clone(),
                kernel,
                scenario,
                key.seed,
                key.series_ns,
            )
        });
        survey.damaged.sort();
        Ok(survey)
    }

    /// The cells that were written or taken last, at most `most` of them, the newest first; and how
    /// many there are in all. Only of these is anything read.
    ///
    /// # Errors
    /// When its folders cannot be read.
    pub fn newest(&self, most: usize) -> Result<(Vec<Found>, usize), Error> {
        let mut known = Vec::new();
        for shelf in entries(&self.dir.join(LAYOUT))? {
            if matches!(name_of(&shelf).as_str(), BEGUN | DAMAGED) || !shelf.is_dir() {
                continue;
            }
            let used = |dir: PathBuf| Some((cell::used_at(&dir)?, dir));
            known.extend(entries(&shelf)?.into_iter().filter_map(used));
        }
        known.sort_by(|a, b| b.cmp(a));
        let all = known.len();
        let found = |(used, dir): (SystemTime, PathBuf)| {
            let name = name_of(&dir);
            let outline = cell::outline(&dir, &name).ok()?;
            Some(Found {
                name,
                key: outline.key,
                bytes: outline.bytes,
                used,
            })
        };
        let found = known.into_iter().filter_map(found).take(most);
        Ok((found.collect(), all))
    }

    /// Removes what is of no use to anyone, and what `unneeded` says.
    ///
    /// # Errors
    /// When something cannot be read or removed.
    pub fn prune(&self, unneeded: &Unneeded) -> Result<Pruned, Error> {
        let now = SystemTime::now();
        let survey = self.survey(true)?;
        let mut pruned = Pruned {
            damaged: survey.damaged.len() + survey.set_aside,
            ..Pruned::default()
        };
        for (dir, _) in &survey.damaged {
            self.set_aside(dir)?;
        }
        for found in &survey.cells {
            let old = |limit| is_older(found.used, limit, now);
            let other = unneeded.other_versions && found.key.version != self.version;
            if unneeded.all || other || unneeded.unused.is_some_and(old) {
                // First out of everybody's way, in one step.
                self.set_aside(&self.place(&found.name))?;
                pruned.cells += 1;
                pruned.bytes += found.bytes;
            }
        }
        for dir in entries(&self.below(DAMAGED))? {
            remove(&dir)?;
        }
        for dir in entries(&self.below(BEGUN))? {
            if is_older(written(&dir), LEFT, now) {
                remove(&dir)?;
                pruned.left += 1;
            }
        }
        Ok(pruned)
    }
}

/// Whether what was at `then` is more than `limit` ago.
fn is_older(then: SystemTime, limit: Duration, now: SystemTime) -> bool {
    now.duration_since(then).is_ok_and(|age| age > limit)
}

/// When something was last written in `dir`, be it a file or a folder of files.
fn written(dir: &Path) -> SystemTime {
    let time = |path: &Path| fs::symlink_metadata(path).and_then(|m| m.modified()).ok();
    let mut newest = time(dir);
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            newest = newest.max(time(&path));
            if is_folder(&path) {
                folders.push(path);
            }
        }
    }
    newest.unwrap_or_else(SystemTime::now)
}

fn remove(dir: &Path) -> Result<(), Error> {
    let removed = match is_folder(dir) {
        true => fs::remove_dir_all(dir),
        false => fs::remove_file(dir),
    };
    match removed {
        // Another process was faster.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", dir)),
    }
}

/// Whether `path` is a folder, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// The folders among the [`entries`] of `dir`.
fn folders(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut entries = entries(dir)?;
    entries.retain(|path| is_folder(path));
    Ok(entries)
}

/// What is in `dir`, in the order of names; nothing where it is not there.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = match fs::read_dir(dir) {
        Ok(read) => read,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", dir)(e)),
    };
    let paths: std::io::Result<Vec<PathBuf>> = read.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(Error::io("read", dir))?;
    paths.sort();
    Ok(paths)
}

fn name_of(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_old_when_more_than_the_limit_has_passed() {
        let then = SystemTime::UNIX_EPOCH + LEFT;
        let second = Duration::from_secs(1);
        let nano = Duration::from_nanos(1);
        assert!(is_older(then, second, then + second + nano));
        assert!(!is_older(then, second, then + second));
        assert!(
            !is_older(then, Duration::ZERO, then - nano),
            "it is to come"
        );
    }

    #[test]
    fn what_is_gone_is_removed_and_what_cannot_be_removed_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("folder/below")).unwrap();
        fs::write(at("file"), "").unwrap();
        for name in ["folder", "file", "nothing"] {
            remove(&at(name)).unwrap();
            assert!(!at(name).exists());
        }
        fs::write(at("file"), "").unwrap();
        assert!(remove(&at("file/below")).is_err());
    }

    #[test]
    fn entries_come_in_the_order_of_names_and_folders_are_those_that_are_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["b", "a"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("c"), "").unwrap();
        let mut all = vec![at("a"), at("b"), at("c")];
        #[cfg(unix)]
        {
            narrows_files::symlink(at("a"), at("link")).unwrap();
            all.push(at("link"));
        }
        assert_eq!(entries(dir.path()).unwrap(), all);
        assert_eq!(folders(dir.path()).unwrap(), [at("a"), at("b")]);
        assert_eq!(entries(&at("nowhere")).unwrap(), [""; 0].map(PathBuf::from));
        assert!(entries(&at("c")).is_err(), "a file has no entries");
    }
}
