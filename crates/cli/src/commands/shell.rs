//! `narrows shell`: a command behind a path of its own.

#[cfg(target_os = "linux")]
mod gauge;
#[cfg(target_os = "linux")]
mod summary;

#[cfg(target_os = "linux")]
use narrows_live::{LiveError, shell as live};
#[cfg(target_os = "linux")]
use narrows_scenario::{Refusal, lone_link, notes};

use crate::args::Shell;
use crate::output::{notice, say};
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
    say!("narrows: `narrows shell` needs Linux's network namespaces");
    Ok(Status::Command(NOT_MADE))
}

#[cfg(target_os = "linux")]
pub fn shell(args: &Shell) -> Outcome {
    let plan = lone_link("shell", ("inside", "outside"), &args.path.0)?;
    for note in args.path.0.iter().flat_map(|(_, words)| notes(words)) {
        say!("narrows: {note}");
    }
    let subnet = args.subnet.as_deref().map(str::parse).transpose();
    let subnet = subnet.map_err(|_: live::NoSubnet| {
        let found = args.subnet.as_deref().unwrap_or_default();
        let allowed = "an IPv4 network of 2 to 30 bits, such as 198.18.4.0/24";
        Refusal::new("--subnet", format!("`{found}`"), allowed)
    })?;
    let request = live::Request {
        plan: &plan,
        seed: args.seed,
        subnet,
        command: &args.command,
    };
    let closed = open(&request).and_then(|shell| {
        for note in shell.notes() {
            say!("narrows: {note}");
        }
        let mut gauge = Gauge::new(shell.interactive() || args.no_gauge);
        shell.run(&mut |reading| gauge.show(&reading))
    });
    Ok(Status::Command(match closed {
        Ok(closed) => {
            notice(&summary::text(&closed));
            closed.code
        }
        Err(e) => {
            say!("narrows: {e}");
            code_of(&e)
        }
    }))
}

#[cfg(target_os = "linux")]
fn open(request: &live::Request<'_>) -> Result<live::Shell, live::ShellError> {
    live::gain_rights()?;
    live::Shell::open(request)
}

#[cfg(target_os = "linux")]
fn code_of(error: &live::ShellError) -> u8 {
    use live::ShellError::{Live, NotStarted};
    match error {
        Live(LiveError::NoSuchCommand { .. }) => NOT_FOUND,
        // There, but no program, or not for this user.
        Live(LiveError::NoProgram { .. }) | NotStarted { .. } => NOT_RUN,
        _ => NOT_MADE,
    }
}
