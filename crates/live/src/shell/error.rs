//! Why a shell could not be opened, or did not last.

use super::Subnet;
use crate::LiveError;
use crate::datapath::PathError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The machine refused a step, or the command is not there.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The path could not be driven, or not any longer.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path's thread ended without a word.
    #[error("the path's thread ended before the command")]
    PathGone,
    /// No network is free for the path.
    #[error(
        "every network tried in {subnet} is in use on this machine: name another with --subnet"
    )]
    SubnetTaken {
        /// Where one was searched.
        subnet: Subnet,
    },
    /// The network asked for has too few addresses.
    #[error("--subnet {subnet} is too small: {bits} bits of network at most")]
    SmallSubnet {
        /// What was asked for.
        subnet: Subnet,
        /// The most bits that still do.
        bits: u8,
    },
    /// The user to run the command as is unknown.
    #[error("SUDO_UID is {uid}, and this machine knows no such user: unset it to stay root")]
    NoSuchUser {
        /// What `SUDO_UID` says.
        uid: String,
    },
    /// The command is there and could not be started.
    #[error("{command}: {source}")]
    NotStarted {
        /// Its name.
        command: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A signal or a wait failed, which it does not on a working system.
    #[error("waiting for the command: {0}")]
    Waiting(std::io::Error),
}
