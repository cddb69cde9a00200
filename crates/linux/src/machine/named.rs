//! Folders of runs that have a name, so that others find what stands there.
//!
//! A folder may have been removed by hand, or all of them with the directory that they are in. The
//! run goes on. It is found all the same: by what it wrote down, and where that is gone too, by
//! the file that its process still has open and holds the lock of.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::{processes, state};
use crate::RunId;

/// What follows the name of a folder.
const ENDING: &str = ".topology";

/// The file of it that says whose it is.
const RUN_FILE: &str = "run";

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
    /// Whose it is; `None` where the run was killed before it could say so.
    pub run: Option<RunId>,
    /// Whether that run lives.
    pub alive: bool,
    /// The process of the run; `None` where the folder itself is there, and can say it.
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

    /// Whose the one at `path` is.
    pub(super) fn run(path: &Path) -> Option<RunId> {
        let text = fs::read_to_string(path.join(RUN_FILE)).ok()?;
        text.trim_end().parse().ok()
    }

    /// Says whose the one at `path` is.
    pub(super) fn write_run(path: &Path, run: &RunId) -> io::Result<()> {
        fs::write(path.join(RUN_FILE), format!("{run}\n"))
    }
}

/// This user's folders with names, by name, and those of living runs whose folders were removed.
pub fn named_folders() -> Vec<NamedFolder> {
    state::named(true)
}

/// This user's folders with names, by name, that are there. To find those that were removed the
/// open files of all processes are looked at, which is too much for who asks again and again.
pub fn present_folders() -> Vec<NamedFolder> {
    state::named(false)
}

/// A file of a living run that was removed below one of `places`: the run, its process, and what
/// the file says.
pub(super) fn removed_files(places: &[PathBuf]) -> Vec<(RunId, i32, String)> {
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
