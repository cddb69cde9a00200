//! A control group for a command: below that of the process that it is made for, whose
//! limits hold in it, too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::State;
use super::undo::{GROUP_PROCESSES, Undo};
use crate::{LinuxError, RunId};

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no hierarchy of control groups to which BPF can be attached.
    #[error(
        "no control groups of the second hierarchy are mounted (as root: mount -t cgroup2 \
         cgroup2 /sys/fs/cgroup)"
    )]
    NoGroups,
    /// No control group can be made.
    #[error("{}: no control group can be made: {source}", place.display())]
    NoGroup {
        /// Where.
        place: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It cannot be written down.
    #[error(transparent)]
    Linux(#[from] LinuxError),
}

/// A control group. Dropping the state that it was recorded in removes it, and lets the
/// programs in it go on in the one above.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes one for `run` below that of `pid` (`self`, or a number).
    pub fn below(pid: &str, run: &RunId, state: &State) -> Result<Self, GroupError> {
        let root = root()?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let own = place(&groups).ok_or(GroupError::NoGroups)?;
        let path = root
            .join(own.trim_start_matches('/'))
            .join(format!("narrows-{run}"));
        let refused = |source| GroupError::NoGroup {
            place: path.clone(),
            source,
        };
        // Written down before it is done: a killed process undoes nothing.
        state.record(&Undo::Cgroup(path.clone()))?;
        fs::create_dir(&path).map_err(refused)?;
        Ok(Self { path })
    }

    /// For programs to be attached to.
    pub fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Where a process writes itself into it.
    pub fn entrance(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join(GROUP_PROCESSES))
    }

    /// Puts a process and its threads into it.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path.join(GROUP_PROCESSES), pid.to_string())
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<u32> {
        let all = fs::read_to_string(self.path.join(GROUP_PROCESSES)).unwrap_or_default();
        all.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Where the second hierarchy is.
pub(super) fn root() -> Result<PathBuf, GroupError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mount(&mounts)
        .map(Path::to_owned)
        .ok_or(GroupError::NoGroups)
}

/// Where it is mounted.
fn mount(mounts: &str) -> Option<&Path> {
    let mut rows = mounts.lines().map(|line| line.split(' '));
    rows.find_map(|mut row| {
        let place = row.nth(1)?;
        (row.next()? == "cgroup2").then_some(Path::new(place))
    })
}

/// A process's place in it.
fn place(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_hierarchy_is_found_beside_those_of_the_first() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(mounts), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(mount("proc /proc proc rw 0 0\n"), None);
        let groups = "4:memory:/some\n1:name=systemd:/\n0::/user.slice/x.scope\n";
        assert_eq!(place(groups), Some("/user.slice/x.scope"));
        assert_eq!(place("4:memory:/\n"), None);
    }
}
