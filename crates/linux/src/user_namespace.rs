//! Root of a user namespace: the rights of a live run without the machine's.

use std::fs;
use std::io;

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::LinuxError;

/// `CAP_NET_ADMIN`, bit 12, and `CAP_SYS_ADMIN`, bit 21, of the masks in
/// `/proc/self/status` (`include/uapi/linux/capability.h`): what making
/// namespaces and devices takes.
const NEEDED_CAPABILITIES: u64 = 1 << 12 | 1 << 21;

/// Whether the process may make namespaces and devices as it is.
pub fn has_rights() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & NEEDED_CAPABILITIES == NEEDED_CAPABILITIES)
}

/// Puts the process into a user namespace of its own in which its user is
/// root, and so gives it the rights to make network namespaces and TUN
/// devices; nothing outside of them can be changed from there. Files are
/// written as the user that started the process.
///
/// To be called before any thread is started: Linux moves no process with
/// several threads.
///
/// # Errors
/// When the machine allows none, with the switch that allows it.
pub fn become_root_of_own_user_namespace() -> Result<(), LinuxError> {
    enter_own(0, 0)
}

/// The same, with the user's own name kept: the process and the programs that
/// it starts are not root there but have the rights that a network takes. To
/// be called before any thread is started.
///
/// # Errors
/// When the machine allows none, with the switch that allows it.
pub fn gain_rights_in_own_user_namespace() -> Result<(), LinuxError> {
    enter_own(geteuid().as_raw(), getegid().as_raw())?;
    keep_rights()
}

/// Has programs that this process starts keep the rights that it has in its user namespace.
///
/// # Errors
/// Without these rights.
pub(crate) fn keep_rights() -> Result<(), LinuxError> {
    // Programs lose what their users have unless it is ambient
    // (capabilities(7)), for which it must be inheritable first.
    for capability in KEPT {
        for set in [CapSet::Inheritable, CapSet::Ambient] {
            caps::raise(None, set, capability)
                .map_err(|e| LinuxError::refused("keeping rights", io::Error::other(e)))?;
        }
    }
    Ok(())
}

/// What programs in a network of their user's may do.
const KEPT: [Capability; 4] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_SYS_ADMIN,
];

/// Enters a user namespace of one's own, in which the user has these numbers.
fn enter_own(inner_user: u32, inner_group: u32) -> Result<(), LinuxError> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| LinuxError::NoUserNamespace {
        reason: why_no_user_namespace(e),
    })?;
    let map = |file: &str, line: &str| {
        fs::write(format!("/proc/self/{file}"), line)
            .map_err(|e| LinuxError::refused(format!("mapping the user (/proc/self/{file})"), e))
    };
    // A group can be mapped only once membership cannot be given up: a user
    // who is shut out by a group must not get round that.
    map("setgroups", "deny")?;
    map("uid_map", &format!("{inner_user} {user} 1"))?;
    map("gid_map", &format!("{inner_group} {group} 1"))?;
    if has_rights() {
        Ok(())
    } else {
        // Ubuntu's AppArmor lets the namespace be made and takes its rights.
        Err(LinuxError::NoUserNamespace {
            reason: why_no_user_namespace(Errno::EACCES),
        })
    }
}

/// Switches that forbid user namespaces, the value that does, and the command
/// that allows them.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "sudo sysctl user.max_user_namespaces=10000",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sudo sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// The switch that forbids user namespaces to users, if one does: its file and
/// the command that allows them.
pub fn forbidding_switch() -> Option<(&'static str, &'static str)> {
    SWITCHES.iter().find_map(|(file, forbids, command)| {
        let value = fs::read_to_string(file).ok()?;
        (value.trim() == *forbids).then_some((*file, *command))
    })
}

fn why_no_user_namespace(error: Errno) -> String {
    match (forbidding_switch(), error) {
        (Some((file, command)), _) => format!("{file} forbids it; `{command}` allows it"),
        (None, Errno::EINVAL) => {
            "the kernel has none, or the process has started threads already".to_owned()
        }
        (None, e) => io::Error::from(e).to_string(),
    }
}
