//! Rights that a program which serves others gives up, and descriptors that it may have.

use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{User, geteuid, setgroups, setresgid, setresuid};

use narrows_results::Error;
use narrows_scenario::Refusal;

/// Whom a server that root starts becomes, unless another is named.
const NOBODY: &str = "nobody";

/// No program that this thread or those that it starts from now on may run has more rights
/// than they.
pub(crate) fn gain_no_more() -> nix::Result<()> {
    set_no_new_privs()
}

/// Becomes `user` for good, with no group but its own; all threads do.
pub(crate) fn become_user(user: &User) -> nix::Result<()> {
    setgroups(&[])?;
    setresgid(user.gid, user.gid, user.gid)?;
    setresuid(user.uid, user.uid, user.uid)
}

/// Has nothing that only root may, once the sockets are open: becomes `user`, or `nobody`, where root
/// started it.
///
/// # Errors
/// When another than root names a user, or there is no such one.
pub(crate) fn give_up(user: Option<&str>) -> Result<(), Error> {
    gain_no_more().map_err(|e| Error::Engine(format!("rights cannot be given up: {e}")))?;
    if !geteuid().is_root() {
        return match user {
            Some(_) => Err(Error::NoPermission(
                "only root can become another user: leave --user out, or run it with sudo"
                    .to_owned(),
            )),
            None => Ok(()),
        };
    }
    let name = user.unwrap_or(NOBODY);
    let found = User::from_name(name).ok().flatten().ok_or_else(|| {
        let why = Refusal::new("--user", format!("`{name}`"), "a user of this machine");
        Error::Refused(why.to_string())
    })?;
    let failed = |e| Error::Engine(format!("the process cannot become {name}: {e}"));
    become_user(&found).map_err(failed)
}

/// Raises the number of descriptors as far as the process may; how many that are.
pub(crate) fn all_descriptors() -> u64 {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((now, most)) if setrlimit(Resource::RLIMIT_NOFILE, most, most).is_err() => now,
        Ok((_, most)) => most,
        // As POSIX guarantees (_POSIX_OPEN_MAX).
        Err(_) => 20,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_raised_as_far_as_the_process_may() {
        let limits = || getrlimit(Resource::RLIMIT_NOFILE).expect("limits");
        let (_, most) = limits();
        // One less disturbs no test beside this one.
        setrlimit(Resource::RLIMIT_NOFILE, most - 1, most).expect("less is allowed");
        assert_eq!(all_descriptors(), most);
        assert_eq!(limits(), (most, most));
    }
}
