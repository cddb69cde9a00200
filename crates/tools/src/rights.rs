//! Rights that a program which serves others gives up.

use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{User, setgroups, setresgid, setresuid};

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
