//! Mount namespaces, held by a file descriptor and nothing else.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::LinuxError;
use crate::namespace::in_fresh_thread;

/// A mount namespace: the files of this machine, but for one that is seen elsewhere.
///
/// It has no name in the system: it lives as long as its handle or a process in it does.
#[derive(Debug)]
pub struct MountNamespace(OwnedFd);

impl MountNamespace {
    /// One in which the file `file` is seen at `place`, where there must be one; what is mounted
    /// outside later is seen inside, and not the reverse. `name` is its name in messages.
    ///
    /// # Errors
    /// Without the right to make one, or where there is nothing at `place`.
    pub fn seeing(name: &str, file: &Path, place: &Path) -> Result<Self, LinuxError> {
        const NOTHING: Option<&str> = None;
        let make = || -> std::io::Result<Self> {
            unshare(CloneFlags::CLONE_NEWNS)?;
            let apart = MsFlags::MS_REC | MsFlags::MS_SLAVE;
            mount(NOTHING, "/", NOTHING, apart, NOTHING).map_err(|e| match e {
                Errno::EINVAL => std::io::Error::other("/ is no mount point here, as in a chroot"),
                other => other.into(),
            })?;
            mount(Some(file), place, NOTHING, MsFlags::MS_BIND, NOTHING).map_err(|e| match e {
                Errno::ENOENT if !place.exists() => std::io::Error::other(format!(
                    "there is no {place}, and an empty one would do (`touch {place}`)",
                    place = place.display()
                )),
                other => other.into(),
            })?;
            Ok(Self(fs::File::open("/proc/thread-self/ns/mnt")?.into()))
        };
        let refused = |e| {
            let what = format!("{name}: {} of its own", place.display());
            LinuxError::refused(what, e)
        };
        let made = in_fresh_thread(name, make).map_err(refused)?;
        made.map_err(refused)
    }

    /// The number of its descriptor in this process, by which others find it below
    /// `/proc/PID/fd`.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named_with_what_would_do() {
        let place = Path::new("/etc/no-such-file-of-hosts");
        let made = MountNamespace::seeing("client", Path::new("/proc/version"), place);
        let error = made.expect_err("nothing can be mounted there").to_string();
        if !crate::has_rights() || error.contains("is no mount point") {
            eprintln!("skipped: a_file_that_is_not_there_is_named_with_what_would_do: {error}");
            return;
        }
        assert!(
            error.contains("touch /etc/no-such-file-of-hosts"),
            "{error}"
        );
    }
}
