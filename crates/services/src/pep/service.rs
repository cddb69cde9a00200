//! The daemon as a service: its rights, its descriptors, and what the service manager
//! receives.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use narrows_units::Duration;
use nix::unistd::User;

use super::error::PepError;
use crate::rights;

/// The user of this name.
pub(super) fn user(name: &str) -> Result<User, PepError> {
    let found = User::from_name(name).ok().flatten();
    found.ok_or_else(|| PepError::NoUser(name.to_owned()))
}

/// No program that this thread or those that it starts from now on may run has more rights
/// than they.
pub(super) fn gain_no_rights() -> Result<(), PepError> {
    rights::gain_no_more().map_err(PepError::setup("give up rights"))
}

/// Becomes `user` for good.
pub(super) fn become_user(user: &User) -> Result<(), PepError> {
    rights::become_user(user).map_err(|reason| PepError::NotBecome {
        user: user.name.clone(),
        reason: reason.into(),
    })
}

/// How often the service manager is to hear `WATCHDOG=1`, if it wants that of this process: twice
/// as often as it asks for (sd_watchdog_enabled(3)).
pub(super) fn watchdog() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let pid = number("WATCHDOG_PID");
    let us = number("WATCHDOG_USEC").filter(|us| *us > 0)?;
    pid.is_none_or(|pid| pid == u64::from(std::process::id()))
        .then(|| Duration::from_micros(us / 2))
}

/// Sends `state` to the service manager (sd_notify(3)), if there is one.
pub(super) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let send = || -> io::Result<()> {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
        Ok(())
    };
    if let Err(error) = send() {
        tracing::warn!("{state:?} could not be sent to the service manager: {error}");
    }
}
