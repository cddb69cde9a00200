//! `narrows shell`: a command behind a path of its own.

#[cfg(target_os = "linux")]
mod gauge;
#[cfg(target_os = "linux")]
mod summary;

#[cfg(target_os = "linux")]
use narrows::scenario::notes;
#[cfg(target_os = "linux")]
use narrows::shell::{self, Hindrance, OpenError, ShellOptions};

use crate::args::Shell;
use crate::output::{message, notice};
use crate::status::{Outcome, Status};
#[cfg(target_os = "linux")]
use gauge::Gauge;

/// The statuses of env(1) for what kept a command from running: the path could
/// not be made or failed, the command cannot be run, there is none.
const NOT_MADE: u8 = 125;
#[cfg(target_os = "linux")]
const NOT_RUN: u8 = 126;
#[cfg(target_os = "linux")]
const NOT_FOUND: u8 = 127;

#[cfg(not(target_os = "linux"))]
pub fn shell(_: &Shell) -> Outcome {
    message!("narrows: `narrows shell` needs Linux's network namespaces");
    Ok(Status::Command(NOT_MADE))
}

#[cfg(target_os = "linux")]
pub fn shell(args: &Shell) -> Outcome {
    for note in args.path.0.iter().flat_map(|(_, words)| notes(words)) {
        message!("narrows: {note}");
    }
    let opened = shell::open(&ShellOptions {
        elements: args.path.0.clone(),
        seed: args.seed,
        subnet: args.subnet.clone(),
        command: args.command.clone(),
    });
    let closed = match opened {
        Err(OpenError::Refused(refusal)) => return Err(refusal.into()),
        Err(error) => Err(error),
        Ok(shell) => {
            for note in shell.notes() {
                message!("narrows: {note}");
            }
            let mut gauge = Gauge::new(shell.interactive() || args.no_gauge);
            let closed = shell.run(&mut |reading| gauge.show(&reading));
            closed.map_err(OpenError::from)
        }
    };
    Ok(Status::Command(match closed {
        Ok(closed) => {
            notice(&summary::text(&closed));
            closed.code
        }
        Err(e) => {
            message!("narrows: {e}");
            code_of(&e)
        }
    }))
}

#[cfg(target_os = "linux")]
fn code_of(error: &OpenError) -> u8 {
    let OpenError::Failed(error) = error else {
        return NOT_MADE;
    };
    match Hindrance::of(error) {
        Hindrance::NotFound => NOT_FOUND,
        Hindrance::NotRun => NOT_RUN,
        Hindrance::NotMade => NOT_MADE,
    }
}
