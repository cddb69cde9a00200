//! A command of this machine behind a path of its own.

use std::ffi::OsString;

use narrows_linux::foreground::Hindrance;
use narrows_scenario::{Refusal, lone_link};

use super::{NoSubnet, Request, Shell, ShellError, gain_rights};
/// What is between a command and its machine, and what the command is.
#[derive(Clone, Debug, Default)]
pub struct ShellOptions {
    /// The elements of the path, in order, each in the words of a scenario and for both ways,
    /// unless `up` or `down` is written before it; up is away from the command.
    pub elements: Vec<String>,
    /// The seed of the elements' randomness.
    pub seed: u64,
    /// The IPv4 network from which the path has its addresses; of 198.18.0.0/15 where it is
    /// not said.
    pub subnet: Option<String>,
    /// The command and its arguments; none for the user's shell.
    pub command: Vec<OsString>,
}

/// Why there is no path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(Refusal),
    /// The machine, the kernel or this user cannot have it.
    #[error(transparent)]
    Failed(#[from] ShellError),
}

impl From<Refusal> for OpenError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Makes the path; the command starts with [`Shell::run`]. Takes rights that the user has
/// not got from a user namespace, so that the process must have one thread yet.
///
/// # Errors
/// See [`OpenError`].
pub fn open(options: &ShellOptions) -> Result<Shell, OpenError> {
    let plan = lone_link("shell", ("inside", "outside"), &options.elements)?;
    let subnet = options.subnet.as_deref().map(str::parse).transpose();
    let subnet = subnet.map_err(|_: NoSubnet| {
        let found = options.subnet.as_deref().unwrap_or_default();
        let allowed = "an IPv4 network of 2 to 30 bits, such as 198.18.4.0/24";
        Refusal::new("--subnet", format!("`{found}`"), allowed)
    })?;
    gain_rights()?;
    Ok(Shell::open(&Request {
        plan: &plan,
        seed: options.seed,
        subnet,
        command: &options.command,
    })?)
}

/// What `error` kept a command from.
pub fn hindrance(error: &ShellError) -> Hindrance {
    match error {
        error if error.is_of_rights() => Hindrance::NoPermission,
        ShellError::Command(error) => Hindrance::of_command(error),
        _ => Hindrance::NotMade,
    }
}
