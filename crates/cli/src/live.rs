//! The live engine, and what has to be done for it while the program still has
//! one thread.

use crate::args::EngineName;
use crate::commands::Command;
use crate::output::message;

/// Whether `command` runs anything live.
pub fn is_wanted(command: &Command) -> bool {
    match command {
        Command::Run(args) => args.engine == EngineName::Live,
        Command::Campaign(args) => args.runs.engine == EngineName::Live,
        Command::Compare(args) => args.engine == EngineName::Live,
        _ => false,
    }
}

/// Gives the process the rights that a live run takes, and says so where they are those
/// of a user namespace.
///
/// # Errors
/// When the machine allows no such namespace.
pub fn gain_rights() -> Result<(), narrows::Error> {
    if narrows::gain_rights()? {
        message!(
            "narrows: not root, so the live run has a user namespace of its own: no BPF there; \
             cc = \"reno\" and \"cubic\" are the kernel's, and \"prague\" is refused (sudo has it all)"
        );
    }
    Ok(())
}

impl From<EngineName> for narrows::EngineName {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Sim => Self::Sim,
            EngineName::Live => Self::Live,
            EngineName::Kernel => Self::Kernel,
        }
    }
}
