//! The calls for which no crate has a safe form.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Gid, Uid, getppid, setgroups, setresgid, setresuid};

nix::ioctl_write_ptr_bad!(
    tunsetiff,
    nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
    libc::ifreq
);

/// Gives a file that was opened from `/dev/net/tun` its device (`TUNSETIFF`):
/// IP packets without any header before them. `name` has at most 15 bytes.
pub(super) fn attach_tun(file: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open, and the request is a whole `ifreq` that
    // outlives the call; the kernel reads no pointer in it.
    unsafe { tunsetiff(file.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Makes the program start in the network namespace behind `namespace`, and be
/// killed when the thread that starts it ends.
pub(super) fn start_in<N: AsFd + Send + Sync + 'static>(command: &mut Command, namespace: N) {
    let parent = nix::unistd::getpid();
    let enter = move || {
        // Who reads signals has blocked them, and exec keeps what is blocked.
        SigSet::empty().thread_set_mask()?;
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)?;
        set_pdeathsig(Signal::SIGKILL)?;
        // Who died before that sends no signal any more.
        if getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes four system calls and
    // builds errors from their numbers; it takes no lock and no memory.
    unsafe { command.pre_exec(enter) };
}

/// Has the program killed when the thread that starts it ends, wherever it
/// runs.
pub(crate) fn end_with_this_process(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let die_together = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and
    // builds errors from their numbers; it takes no lock and no memory.
    unsafe { command.pre_exec(die_together) };
}

/// Makes the program see the file `file` at `place`, in a mount namespace of
/// its own; for everybody else `place` stays what it is. To be called after
/// [`start_in`] and before [`start_as`]: only root may.
///
/// # Errors
/// If a path has a zero in it.
pub(super) fn see_at(command: &mut Command, file: &Path, place: &Path) -> io::Result<()> {
    let file = CString::new(file.as_os_str().as_bytes())?;
    let place = CString::new(place.as_os_str().as_bytes())?;
    let cover = move || {
        const NOTHING: Option<&CStr> = None;
        unshare(CloneFlags::CLONE_NEWNS)?;
        // What is mounted outside later is seen inside, and not the reverse.
        let apart = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(NOTHING, c"/", NOTHING, apart, NOTHING)?;
        mount(Some(&*file), &*place, NOTHING, MsFlags::MS_BIND, NOTHING)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls, on
    // memory that was taken before, and builds errors from their numbers.
    unsafe { command.pre_exec(cover) };
    Ok(())
}

/// Makes the program start as the user `uid` with `gid` and `groups`. To be
/// called after [`start_in`]: only who is still root may enter.
pub(crate) fn start_as(command: &mut Command, uid: Uid, gid: Gid, groups: Vec<Gid>) {
    let become_user = move || {
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        // A change of user takes the signal back.
        set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes four system calls, on
    // memory that was taken before, and builds errors from their numbers.
    unsafe { command.pre_exec(become_user) };
}
