//! Why a command did not run.

use crate::LinuxError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It is not there, or is no program.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The user to run it as is unknown.
    #[error("SUDO_UID is {uid}, and this machine knows no such user: unset it to stay root")]
    NoSuchUser {
        /// What `SUDO_UID` says.
        uid: String,
    },
    /// It is there and could not be started.
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

/// What kept a command from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// There is no such command.
    NotFound,
    /// It is there, but no program, or not for this user.
    NotRun,
    /// The path could not be made, or failed.
    NotMade,
    /// This user may not have it.
    NoPermission,
}

impl Hindrance {
    /// Which one `error` is.
    pub fn of_command(error: &CommandError) -> Self {
        use CommandError::{Linux, NotStarted};
        match error {
            Linux(LinuxError::NoSuchCommand { .. }) => Self::NotFound,
            Linux(LinuxError::NoProgram { .. }) | NotStarted { .. } => Self::NotRun,
            _ => Self::NotMade,
        }
    }
}
