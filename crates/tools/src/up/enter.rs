//! A command in a host of a topology.

use std::ffi::OsString;
use std::process::Command;

use narrows_linux::system_calls::end_with_this_process;
use narrows_linux::{LinuxError, RUN_VARIABLE};
use narrows_scenario::Refusal;

use super::folder;
use narrows_linux::foreground::Hindrance;
use narrows_linux::foreground::{CommandError, Program, Signals, exit_code};

/// The environment variable that holds, for a program in a host, the host's full name.
const HOST_VARIABLE: &str = "NARROWS_HOST";

/// Why a command did not run in a host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnterError {
    /// There is no such host.
    #[error("{0}")]
    Refused(Refusal),
    /// The process that held the topology is no more.
    #[error(
        "the process that held {topology} has ended, and its hosts with it: `narrows down {topology}` \
         removes what it left, and `narrows up` makes it again"
    )]
    Gone {
        /// The topology.
        topology: String,
    },
    /// This user may not enter, or the machine refused a step.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The command did not run.
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl EnterError {
    /// What kept the command from running.
    pub fn hindrance(&self) -> Hindrance {
        match self {
            Self::Linux(error) | Self::Command(CommandError::Linux(error))
                if error.is_of_rights() =>
            {
                Hindrance::NoPermission
            }
            Self::Command(error) => Hindrance::of_command(error),
            _ => Hindrance::NotMade,
        }
    }
}

/// Runs a command, or the user's shell, in the host that `host` names, to its end; its exit
/// status, or 128 and the number of the signal that ended it. It is ended when the topology is.
/// To be called in the process's first thread, before others are started.
///
/// # Errors
/// See [`EnterError`].
pub fn enter(host: &str, command: &[OsString]) -> Result<u8, EnterError> {
    let (topology, host) = folder::host(host).map_err(EnterError::Refused)?;
    let program = Program::find_as_this_user(command, &host.full_name)?;
    let gone = || EnterError::Gone {
        topology: topology.name.clone(),
    };
    let process = topology.process().map_err(CommandError::Waiting)?;
    let process = process.ok_or_else(gone)?;
    let joined = process.join(host.mounts, host.network, host.inode);
    if let Err(error) = joined {
        return Err(if process.runs() { error.into() } else { gone() });
    }
    let signals = Signals::hold().map_err(CommandError::Waiting)?;
    let mut command = program.complete(Command::new(program.path()));
    end_with_this_process(&mut command);
    command.env(HOST_VARIABLE, &host.full_name);
    if let Some(record) = &topology.record {
        // What is left of a topology that was killed is known by it.
        command.env(RUN_VARIABLE, &record.run);
    }
    let not_started = |source| CommandError::NotStarted {
        command: program.name(),
        source,
    };
    let mut child = command.spawn().map_err(not_started)?;
    let waited = signals.wait(&mut child, true, &mut || process.runs());
    Ok(exit_code(waited.map_err(CommandError::Waiting)?))
}
