//! The calls for which no crate has a safe form.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::{Gid, Uid, getppid, setgroups, setresgid, setresuid};

/// ioctl(2) for devices.
mod ioctl {
    use nix::libc;

    nix::ioctl_write_ptr_bad!(
        tunsetiff,
        nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
        libc::ifreq
    );
    nix::ioctl_write_ptr_bad!(siocethtool, libc::SIOCETHTOOL, libc::ifreq);
}

/// Has no program that this process starts get a file that it has open, but standard input,
/// output and error (close_range(2), Linux 5.11; older ones go on as they are).
///
/// # Errors
/// What the system says.
pub fn close_on_exec() -> io::Result<()> {
    /// The first after standard error.
    const FIRST: libc::c_uint = 3;
    // SAFETY: the flag closes nothing here: it sets FD_CLOEXEC of whatever is open, and no memory is
    // handed over.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    let error = io::Error::last_os_error();
    let unknown = [libc::ENOSYS, libc::EINVAL].map(Some);
    match done {
        0 => Ok(()),
        _ if unknown.contains(&error.raw_os_error()) => Ok(()),
        _ => Err(error),
    }
}

/// Gives a file that was opened from `/dev/net/tun` its device (`TUNSETIFF`):
/// IP packets without any header before them. `name` has at most 15 bytes.
pub(crate) fn attach_tun(file: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    name_device(&mut request, name)?;
    // SAFETY: the descriptor is open, and the request is a whole `ifreq` that
    // outlives the call; the kernel reads no pointer in it.
    unsafe { ioctl::tunsetiff(file.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Has the stack of the calling thread's namespace hand single packets with whole checksums to
/// the device `name`, as to one that computes and cuts nothing itself.
pub fn without_offloads(name: &str) -> io::Result<()> {
    /// `ETHTOOL_STXCSUM` (linux/ethtool.h): who leaves checksums to the device leaves cutting
    /// to it, and no other device does (`netdev_fix_features`).
    const SET_TX_CHECKSUM: u32 = 0x17;
    // `struct ethtool_value`.
    let mut value = [SET_TX_CHECKSUM, 0];
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: value.as_mut_ptr().cast(),
        },
    };
    name_device(&mut request, name)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
    // SAFETY: the descriptor is open, and the request is a whole `ifreq`, which points to a
    // whole `ethtool_value`; both outlive the call.
    unsafe { ioctl::siocethtool(socket.as_raw_fd(), &raw const request) }?;
    Ok(())
}

fn name_device(request: &mut libc::ifreq, name: &str) -> io::Result<()> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(())
}

/// Makes the program start in the network namespace behind `namespace`, and be
/// killed when the thread that starts it ends.
pub(crate) fn start_in<N: AsFd + Send + Sync + 'static>(command: &mut Command, namespace: N) {
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
pub fn end_with_this_process(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let die_together = move || {
        // Who reads signals has blocked them, and exec keeps what is blocked.
        SigSet::empty().thread_set_mask()?;
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls and
    // builds errors from their numbers; it takes no lock and no memory.
    unsafe { command.pre_exec(die_together) };
}

/// Makes the program see the file `file` at `place`, in a mount namespace of
/// its own; for everybody else `place` stays what it is. To be called after
/// [`start_in`] and before [`become_user`]: only root may.
///
/// # Errors
/// If a path has a zero in it.
pub(crate) fn see_at(command: &mut Command, file: &Path, place: &Path) -> io::Result<()> {
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
/// called after [`start_in`]: only who is still root may enter. What
/// [`end_with_this_process`] asked for before is taken back by it.
pub fn become_user(command: &mut Command, uid: Uid, gid: Gid, groups: Vec<Gid>) {
    let become_user = move || {
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls, on
    // memory that was taken before, and builds errors from their numbers.
    unsafe { command.pre_exec(become_user) };
}

/// Makes the program start in the control group of which `entrance` is `cgroup.procs`,
/// open for writing. To be called before [`become_user`].
pub fn start_in_group(command: &mut Command, entrance: File) {
    let enter = move || {
        // Who reads signals has blocked them, and exec keeps what is blocked.
        SigSet::empty().thread_set_mask()?;
        // Of the process that writes it.
        nix::unistd::write(&entrance, b"0")?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and builds errors
    // from their numbers; it takes no lock and no memory.
    unsafe { command.pre_exec(enter) };
}

/// A handle of the process `pid` (`pidfd_open`, Linux 5.3).
pub fn open_process(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: it takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    Ok(owned(fd)?)
}

/// Sends `signal` to the process behind `process` (`pidfd_send_signal`, Linux 5.1).
pub fn signal_process(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    let (fd, number) = (process.as_raw_fd(), signal as libc::c_int);
    // SAFETY: it takes numbers, of which the first is an open pidfd, and no structure.
    let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, none, 0) };
    nix::errno::Errno::result(done)?;
    Ok(())
}

/// A duplicate of the descriptor `fd` of a process (`pidfd_getfd`, Linux 5.6).
pub fn descriptor_of(process: &OwnedFd, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: it takes three numbers, of which the first is an open pidfd.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) };
    Ok(owned(fd)?)
}

fn owned(fd: libc::c_long) -> nix::Result<OwnedFd> {
    let fd = nix::errno::Errno::result(fd)?;
    // SAFETY: the kernel has just made the descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Has the calling thread give way to what the process is for, whatever the process was given: it
/// has no real-time policy, preempts nobody when it wakes (`SCHED_BATCH`, sched(7)), and where
/// processors are scarce it gets a tenth of what others get, as its nice value is ten higher.
/// Threads that it starts do the same.
pub fn give_way() {
    /// Steps of the nice value, each of which is a factor of 1.25 (sched(7)).
    const STEPS: libc::c_int = 10;
    // All of the kernel's `struct sched_param`. Not by the C library: musl's structure is longer, and its
    // function always fails.
    let priority: libc::c_int = 0;
    let (call, policy) = (libc::SYS_sched_setscheduler, libc::SCHED_BATCH);
    // SAFETY: the parameters outlive the call, and 0 is the calling thread. Less than one had is
    // never refused.
    unsafe { libc::syscall(call, 0, policy, &raw const priority) };
    // SAFETY: it takes a number; in Linux it is the calling thread's value alone.
    unsafe { libc::nice(STEPS) };
}

/// The sockets that a service manager has handed over (sd_listen_fds(3)), each once.
pub fn given_sockets() -> Vec<OwnedFd> {
    /// The first of them (`SD_LISTEN_FDS_START`).
    const FIRST: i32 = 3;
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let (pid, count) = (number("LISTEN_PID"), number("LISTEN_FDS"));
    if pid != Some(std::process::id()) || GIVEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let last = FIRST + i32::try_from(count.unwrap_or(0)).unwrap_or(0);
    let own = |fd| {
        // SAFETY: it takes numbers; what is no descriptor is refused.
        let set = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: the descriptor is open, as it could be set, it was made for this process
        // by who started it, and is taken here alone, the first time that this is called.
        (set == 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    };
    (FIRST..last).filter_map(own).collect()
}

/// Whether the sockets handed over were taken.
static GIVEN: AtomicBool = AtomicBool::new(false);
