//! The user behind sudo.

use std::env;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, geteuid, setfsgid, setfsuid};

/// A user who called sudo, and is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    uid: Uid,
    gid: Gid,
}

/// Who called this program by sudo(8), as `SUDO_UID` and `SUDO_GID` say; nobody where this
/// process is not root, where root called sudo, and where they are no numbers.
pub fn behind_sudo() -> Option<Caller> {
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    let uid = number("SUDO_UID").map(Uid::from_raw)?;
    // Without a group, one as private as its user: most users have one of their own number.
    let gid = number("SUDO_GID").unwrap_or(uid.as_raw());
    let gid = Gid::from_raw(gid);
    (geteuid().is_root() && !uid.is_root()).then_some(Caller { uid, gid })
}

/// Has this thread make files as a user until it is dropped.
struct Acting {
    root: (Uid, Gid),
}

impl Drop for Acting {
    fn drop(&mut self) {
        // The user first: with it the right comes back to set the group.
        setfsuid(self.root.0);
        setfsgid(self.root.1);
    }
}

impl Caller {
    /// The user's home, if this machine knows the user.
    pub(crate) fn home(self) -> Option<PathBuf> {
        Some(User::from_uid(self.uid).ok()??.dir)
    }

    /// Calls `act` with this thread's rights to files those of the user. Where this process may
    /// not change them, they stay root's.
    pub(crate) fn does<T>(self, act: impl FnOnce() -> T) -> T {
        let gid = setfsgid(self.gid);
        let uid = setfsuid(self.uid);
        let acting = Acting { root: (uid, gid) };
        let done = act();
        drop(acting);
        done
    }

    /// Gives the file `path` to the user; a link itself, not what it leads to.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        lchown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
    }
}
