//! Folders of runs that have a name, so that others find what stands there.
//!
//! A folder may have been removed by hand, or all of them with the directory that they are in. The
//! run goes on. It is found all the same: by what it wrote down, and where that is gone too, by
//! the file that its process still has open and holds the lock of. A folder has a hard link to the
//! file of its run, by which that file is put back where it alone was removed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::directory::{Directory, directories, is_alive, places};
use super::processes;
use super::state::Record;
use super::undo::Undo;
use crate::RunId;

/// What follows the name of a folder.
const ENDING: &str = ".topology";

/// What the kernel writes behind the path of an open file that was removed (proc_pid_fd(5)).
const REMOVED: &str = " (deleted)";

/// A folder that a run has under a name of its own
/// ([`State::take_name`](super::State::take_name)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    /// The name.
    pub name: String,
    /// The folder, which may be gone.
    pub path: PathBuf,
    /// Whose it is; `None` of one that nobody has any more.
    pub run: Option<RunId>,
    /// Whether that run lives.
    pub alive: bool,
    /// The process of the run, where the folder was removed, or what it has of its run.
    pub process: Option<i32>,
}

impl NamedFolder {
    /// Where the one of `name` is in `directory`.
    pub(super) fn path(directory: &Path, name: &str) -> PathBuf {
        directory.join(format!("{name}{ENDING}"))
    }

    /// The name of the one at `path`; `None` of other files.
    pub(super) fn name_of(path: &Path) -> Option<&str> {
        path.file_name()?.to_str()?.strip_suffix(ENDING)
    }

    fn is_gone(&self) -> bool {
        fs::symlink_metadata(&self.path).is_err()
    }

    /// Whose the one at `path` is, by the link in it.
    fn run(path: &Path) -> Option<RunId> {
        let files = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names = files.map(|file| file.file_name());
        names.find_map(|name| name.to_str()?.parse().ok())
    }
}

/// Links the file of `run` into its `folder`.
pub(super) fn link_run(directory: &Directory, run: &RunId, folder: &Path) -> io::Result<()> {
    fs::hard_link(directory.of(run), folder.join(run.to_string()))
}

/// Puts back the files of runs that were removed from `directory` and are still in folders.
pub(super) fn link_back(directory: &Directory) {
    for (_, folder) in named_in(directory) {
        if let Some(run) = NamedFolder::run(&folder) {
            // Nearly always it is there.
            let _ = fs::hard_link(folder.join(run.to_string()), directory.of(&run));
        }
    }
}

/// This user's folders with names, by name, and those of living runs whose folders were removed.
pub fn named_folders() -> Vec<NamedFolder> {
    named(true)
}

/// This user's folders with names, by name, that are there. To find those that were removed the
/// open files of all processes are looked at, which is too much for who asks again and again.
pub fn present_folders() -> Vec<NamedFolder> {
    named(false)
}

fn named(removed: bool) -> Vec<NamedFolder> {
    let find = if removed { known_in } else { folders_in };
    let mut all: Vec<_> = directories().flat_map(|d| find(&d)).collect();
    if removed {
        // Those of directories that are gone with all that was in them.
        all.extend(lost_folders().filter(NamedFolder::is_gone));
    }
    all.sort_by(|a, b| (&a.name, &a.run).cmp(&(&b.name, &b.run)));
    all.dedup_by(|a, b| (&a.name, &a.run) == (&b.name, &b.run));
    all
}

/// The folders in `directory`, and those of its runs that are gone.
pub(super) fn known_in(directory: &Directory) -> Vec<NamedFolder> {
    let gone = recorded_folders(directory).chain(lost_folders());
    let gone = gone.filter(|folder| folder.is_gone());
    folders_in(directory).into_iter().chain(gone).collect()
}

/// Names and paths of the folders in `directory`.
fn named_in(directory: &Directory) -> impl Iterator<Item = (String, PathBuf)> {
    let of_entry = |entry: fs::DirEntry| {
        let path = entry.path();
        let name = NamedFolder::name_of(&path)?.to_owned();
        // A folder in a folder that is ours and nobody else writes to.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder.then_some((name, path))
    };
    let entries = fs::read_dir(&directory.path).into_iter().flatten();
    entries.flatten().filter_map(of_entry)
}

/// The folders in `directory`.
fn folders_in(directory: &Directory) -> Vec<NamedFolder> {
    let of_path = |(name, path): (String, PathBuf)| {
        if let Some(run) = NamedFolder::run(&path) {
            let alive = is_alive(&directory.of(&run));
            return NamedFolder {
                name,
                path,
                run: Some(run),
                alive,
                process: None,
            };
        }
        let mut known = recorded_folders(directory).chain(lost_folders());
        let known = known.find(|known| known.path == path);
        known.unwrap_or(NamedFolder {
            name,
            path,
            run: None,
            alive: false,
            process: None,
        })
    };
    named_in(directory).map(of_path).collect()
}

/// The folders that the runs of `directory` have written down.
fn recorded_folders(directory: &Directory) -> impl Iterator<Item = NamedFolder> {
    directory.runs().into_iter().filter_map(|run| {
        let file = directory.of(&run);
        let record = Record::read(&file).ok()?;
        let path = record.folder()?;
        let owners = fs::metadata(&file).map(|file| processes::lock_owners(file.ino()));
        Some(NamedFolder {
            name: NamedFolder::name_of(path)?.to_owned(),
            path: path.to_owned(),
            run: Some(run),
            alive: is_alive(&file),
            process: owners.unwrap_or_default().first().copied(),
        })
    })
}

/// Those of living runs whose files are gone: their processes have them open.
fn lost_folders() -> impl Iterator<Item = NamedFolder> {
    let files = removed_files(&places()).into_iter();
    files.filter_map(|(run, pid, text)| {
        let record = Record::of(&text);
        let path = record.folder()?;
        Some(NamedFolder {
            name: NamedFolder::name_of(path)?.to_owned(),
            path: path.to_owned(),
            run: Some(run),
            alive: true,
            process: Some(pid),
        })
    })
}

/// Removes the folders that nobody has any more, of which `is_meant`; what was removed, and what
/// could not be.
pub(super) fn remove_ownerless(is_meant: impl Fn(&Path) -> bool) -> Vec<Result<String, String>> {
    let mut all = Vec::new();
    for directory in directories() {
        let folders = folders_in(&directory).into_iter();
        for folder in folders.filter(|f| f.run.is_none() && is_meant(&f.path)) {
            let undo = Undo::Folder(folder.path);
            let removed = undo.apply().map_err(|e| format!("{undo}: {e}"));
            all.extend(removed.transpose());
        }
    }
    all
}

/// A file of a living run that was removed below one of `places`: the run, its process, and what
/// the file says.
fn removed_files(places: &[PathBuf]) -> Vec<(RunId, i32, String)> {
    let user = geteuid().as_raw();
    let mut all = Vec::new();
    for pid in processes::others() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        // What another user's process has open is nothing to go by.
        if !fs::metadata(&process).is_ok_and(|found| found.uid() == user) {
            continue;
        }
        let open = fs::read_dir(process.join("fd"));
        for file in open.into_iter().flatten().flatten().map(|e| e.path()) {
            let Some(run) = fs::read_link(&file)
                .ok()
                .and_then(|to| removed(&to, places))
            else {
                continue;
            };
            // The file itself is there as long as it is open.
            if let Ok(text) = fs::read_to_string(&file) {
                all.push((run, pid, text));
            }
        }
    }
    all
}

/// The run whose file in one of `places` an open file was, going by what its link says.
fn removed(link: &Path, places: &[PathBuf]) -> Option<RunId> {
    let path = Path::new(link.to_str()?.strip_suffix(REMOVED)?);
    let is_there = places.iter().any(|place| path.parent() == Some(place));
    path.file_name()?
        .to_str()?
        .parse()
        .ok()
        .filter(|_| is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_is_a_run_s_in_the_places_of_runs_alone() {
        let run = RunId::random();
        let places = [PathBuf::from("/run/narrows")];
        let found = |link: String| removed(Path::new(&link), &places);
        assert_eq!(
            found(format!("/run/narrows/{run} (deleted)")),
            Some(run.clone())
        );
        assert_eq!(found(format!("/run/narrows/{run}")), None);
        assert_eq!(found(format!("/tmp/narrows/{run} (deleted)")), None);
        assert_eq!(found(format!("/run/narrows/x/{run} (deleted)")), None);
        assert_eq!(found("/run/narrows/.lock (deleted)".to_owned()), None);
    }
}
