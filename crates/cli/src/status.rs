//! How the program ends.

use std::io::IsTerminal;

use narrows::Error;
use narrows::kernel::{BuildError, StoreError};
use narrows::scenario::Refusal;

use crate::output::{message, shown, styled};

/// What refused input ends with.
pub const REFUSED: u8 = 2;

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
    /// This user lacks a right that it takes: root's, or to a file.
    NoPermission,
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

    /// What the process ends with.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::NotTrustworthy => 3,
            Self::OutOfTolerance => 4,
            // EX_SOFTWARE of BSD's sysexits.h: an internal software error.
            Self::Defect => 70,
            // EX_NOPERM of the same: the right to do it is missing.
            Self::NoPermission => 77,
            Self::Interrupted => 130,
            // What a shell shows for a program that SIGPIPE (13) ended: 128 + 13.
            Self::ReaderGone => 141,
            Self::Command(code) => code,
        }
    }

    /// The graver of two.
    pub fn and(self, other: Self) -> Self {
        let gravity = |status| match status {
            Self::Done => 0,
            Self::NotTrustworthy => 1,
            Self::OutOfTolerance => 2,
            Self::ReaderGone => 3,
            Self::Failed | Self::NoPermission => 4,
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
            Hindrance::NoPermission => Self::NoPermission,
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
    /// input, 77 for a right that is missing, 1 for what failed.
    pub fn report(self) -> u8 {
        match self {
            Self::Refused(refusal) => {
                let of_rights = refusal.is_of_rights();
                // A log wants one line; at a terminal all of it is shown.
                if refusal.file().is_some() && std::io::stderr().is_terminal() {
                    styled(&graphical(refusal));
                } else {
                    message!("{}", refusal.to_line());
                }
                match of_rights {
                    true => Status::NoPermission.number(),
                    false => REFUSED,
                }
            }
            Self::Lab(error) => {
                message!("narrows: {error}{}", remedy(&error));
                if error.is_of_rights() {
                    return Status::NoPermission.number();
                }
                if error.is_refusal() { REFUSED } else { 1 }
            }
            Self::Kernel(error) => {
                message!("narrows: {error}");
                match error {
                    BuildError::Interrupted => Status::Interrupted.number(),
                    error if error.is_refusal() => REFUSED,
                    _ => 1,
                }
            }
        }
    }
}

/// All of it, with the line that it is about.
fn graphical(refusal: Refusal) -> String {
    format!("{:?}\n", miette::Report::new(refusal.spelled(shown)))
}

/// What to do where a folder cannot be written.
fn remedy(error: &Error) -> &'static str {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error {
        Error::Io {
            verb: "create" | "write",
            source,
            ..
        } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) => {
            " (results go below the current folder; --out names another one)"
        }
        Error::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
            " (`narrows store prune` removes what a store of cells does not need; --out and \
             --store name other places)"
        }
        _ => "",
    }
}

pub type Outcome = Result<Status, Failure>;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The statuses in the first table of the guide's page.
    fn documented() -> Vec<u8> {
        let page = include_str!("../../../docs/exit-status.md");
        let rows = page.lines().skip_while(|line| !line.starts_with("|---"));
        let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
        let number = |line: &str| line.split('|').nth(1)?.trim().parse().ok();
        rows.filter_map(number).collect()
    }

    #[test]
    fn a_terminal_gets_nothing_of_a_file_that_it_would_obey() {
        let wild = "a\u{1b}[2J\u{202e}b\u{9b}\r";
        let text = format!("one\n{wild} two\n");
        let refusal = Refusal::in_text((wild, &text), 4..8, wild, wild, wild).with_help(wild);
        // Where tests have no terminal, the program's own has no colours either.
        let all = graphical(refusal);
        assert!(
            !all.contains(|c| c != '\n' && narrows::scenario::is_obeyed(c)),
            "{all:?}"
        );
        assert!(all.contains("a\\u{1b}[2J\\u{202e}b"), "{all}");
    }

    #[test]
    fn the_guide_and_the_help_have_every_status() {
        let mut known: Vec<u8> = [
            Status::Done,
            Status::Failed,
            Status::NotTrustworthy,
            Status::OutOfTolerance,
            Status::Defect,
            Status::NoPermission,
            Status::Interrupted,
            Status::ReaderGone,
        ]
        .map(Status::number)
        .to_vec();
        known.push(REFUSED);
        known.sort();
        assert_eq!(documented(), known);
        let help = crate::args::Cli::command().render_help().to_string();
        let (_, help) = help.split_once("Exit status: ").expect("statuses");
        let words = |c: char| !c.is_ascii_digit();
        let said: Vec<u8> = help.split(words).filter_map(|n| n.parse().ok()).collect();
        assert_eq!(said, known);
    }
}
