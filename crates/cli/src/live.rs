//! The live engine, and what has to be done for it while the program still has
//! one thread.

use narrows::Engine;
use narrows_scenario::Refusal;

use crate::args::{Command, EngineName};
use crate::output::say;

/// Whether `command` runs anything live.
pub fn is_wanted(command: &Command) -> bool {
    match command {
        Command::Run(args) => args.engine == EngineName::Live,
        Command::Campaign(args) => args.engine == EngineName::Live,
        Command::Compare(_) => true,
        _ => false,
    }
}

/// Gives the process the rights that a live run takes, if its user has not got
/// them: those of root in a user namespace of its own. To be called before any
/// thread is started, for Linux moves no process that has several.
///
/// # Errors
/// When the machine allows no such namespace.
#[cfg(target_os = "linux")]
pub fn gain_rights() -> Result<(), narrows::Error> {
    if narrows_live::world::has_rights() {
        return Ok(());
    }
    narrows_live::become_root_of_own_user_namespace()
        .map_err(|error| narrows::Error::Refused(error.to_string()))?;
    say!(
        "narrows: not root, so the live run has a user namespace of its own: no BPF there; \
         cc = \"reno\" and \"cubic\" are the kernel's, and \"prague\" is refused (sudo has it all)"
    );
    Ok(())
}

/// There is nothing to gain elsewhere.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn gain_rights() -> Result<(), narrows::Error> {
    Ok(())
}

/// The engine called `name`.
///
/// # Errors
/// When this system has no such engine.
pub fn engine(name: EngineName) -> Result<Box<dyn Engine>, Refusal> {
    match name {
        EngineName::Sim => Ok(Box::new(narrows::SimEngine)),
        EngineName::Live => live(),
    }
}

#[cfg(target_os = "linux")]
fn live() -> Result<Box<dyn Engine>, Refusal> {
    Ok(Box::new(narrows::LiveEngine))
}

#[cfg(not(target_os = "linux"))]
fn live() -> Result<Box<dyn Engine>, Refusal> {
    let system = std::env::consts::OS;
    Err(
        Refusal::new("--engine", "`live`", "`sim`").with_help(format!(
            "the live engine measures Linux's stacks, and this is {system}"
        )),
    )
}
