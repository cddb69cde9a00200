//! How the program ends.

use std::io::IsTerminal;
use std::process::ExitCode;

use narrows::Error;
use narrows::kernel::{BuildError, StoreError};
use narrows::scenario::Refusal;

use crate::output::message;

/// Why the program ends; scripts distinguish these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done, and what was printed can be trusted.
    Done,
    /// Done, but the verdict says that the figures cannot be trusted.
    NotTrustworthy,
    /// `--check` found a group of cells out of its tolerance.
    OutOfTolerance,
    /// A part of the work failed; it was reported.
    Failed,
    /// Done, but the reader of standard output closed it before the end (`| head`).
    ReaderGone,
    /// Stopped by a signal.
    Interrupted,
    /// The program has a mistake, which was reported.
    Defect,
    /// As a command ended that was run for the user.
    Command(u8),
}

impl Status {
    /// What was to be around a user's command could not be made, or failed: the statuses
    /// of env(1).
    pub const NOT_MADE: Self = Self::Command(125);

    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::NotTrustworthy => 3,
            Self::OutOfTolerance => 4,
            // EX_SOFTWARE of BSD's sysexits.h: an internal software error.
            Self::Defect => 70,
            Self::Interrupted => 130,
            // What a shell shows for a program that SIGPIPE (13) ended: 128 + 13.
            Self::ReaderGone => 141,
            Self::Command(code) => code,
        })
    }

    /// The graver of two.
    pub fn and(self, other: Self) -> Self {
        let gravity = |status| match status {
            Self::Done => 0,
            Self::NotTrustworthy => 1,
            Self::OutOfTolerance => 2,
            Self::ReaderGone => 3,
            Self::Failed => 4,
            Self::Interrupted | Self::Defect | Self::Command(_) => 5,
        };
        if gravity(other) > gravity(self) {
            other
        } else {
            self
        }
    }
}

#[cfg(target_os = "linux")]
impl From<narrows::shell::Hindrance> for Status {
    fn from(hindrance: narrows::shell::Hindrance) -> Self {
        use narrows::shell::Hindrance;
        match hindrance {
            Hindrance::NotFound => Self::Command(127),
            Hindrance::NotRun => Self::Command(126),
            Hindrance::NotMade => Self::NOT_MADE,
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The input was refused before anything ran.
    Refused(Refusal),
    /// The laboratory refused, or failed.
    Lab(Error),
    /// A kernel was not built.
    Kernel(BuildError),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::Kernel(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Kernel(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lab(error)
    }
}

impl Failure {
    /// Says it on standard error, and gives the exit status: 2 for refused
    /// input, 1 for what failed.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Refused(refusal) => {
                // A log wants one line; at a terminal all of it is shown.
                if refusal.file().is_some() && std::io::stderr().is_terminal() {
                    message!("{:?}", miette::Report::new(refusal));
                } else {
                    message!("{}", refusal.to_line());
                }
                ExitCode::from(2)
            }
            Self::Lab(error) => {
                message!("narrows: {error}{}", remedy(&error));
                ExitCode::from(if error.is_refusal() { 2 } else { 1 })
            }
            Self::Kernel(error) => {
                message!("narrows: {error}");
                match error {
                    BuildError::Interrupted => Status::Interrupted.code(),
                    error => ExitCode::from(if error.is_refusal() { 2 } else { 1 }),
                }
            }
        }
    }
}

/// What to do where a folder cannot be written.
fn remedy(error: &Error) -> &'static str {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        Error::Io {
            verb: "create" | "write",
            source,
            ..
        } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) => {
            " (results go below the current folder; --out names another one)"
        }
        _ => "",
    }
}

pub type Outcome = Result<Status, Failure>;
