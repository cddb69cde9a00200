//! Why a transfer by a deadline could not begin, or go on.

use std::io;

use narrows_bpf::BpfError;
use narrows_linux::LinuxError;
use narrows_linux::machine::GroupError;

use narrows_linux::foreground::CommandError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ByError {
    /// The command did not run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The machine refused a step.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// BPF may be loaded by root of the machine alone.
    #[error(
        "a transfer by a deadline loads a congestion control into the kernel, which takes root \
         of the machine: run it with sudo, the command then runs as you"
    )]
    NotRoot,
    /// There is no control group for it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// There is no such process, or it has ended.
    #[error("there is no process {pid} to attach to: {source}")]
    NoProcess {
        /// Its number.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel did not take the control or its programs.
    #[error(transparent)]
    Kernel(#[from] BpfError),
}

impl ByError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::NotRoot | Self::Kernel(BpfError::NoPermission { .. }) => true,
            Self::Linux(error) | Self::Command(CommandError::Linux(error)) => error.is_of_rights(),
            _ => false,
        }
    }
}
