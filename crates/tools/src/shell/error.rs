//! Why a shell could not be opened, or did not last.

use narrows_linux::LinuxError;
use narrows_live::datapath::PathError;

use super::Subnet;
use narrows_linux::foreground::CommandError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The machine refused a step, or the command is not there.
    #[error(transparent)]
    Linux(#[from] LinuxError),
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
    /// The command did not run.
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl ShellError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::Linux(error) | Self::Command(CommandError::Linux(error)) => error.is_of_rights(),
            _ => false,
        }
    }
}
