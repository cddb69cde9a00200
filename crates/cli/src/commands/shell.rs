//! `narrows shell`: a command behind a path of its own.

#[cfg(target_os = "linux")]
mod rates;
#[cfg(target_os = "linux")]
mod summary;

#[cfg(target_os = "linux")]
use narrows::scenario::notes;
#[cfg(target_os = "linux")]
use narrows::shell::{self, OpenError, ShellOptions};

use crate::args::Shell;
#[cfg(target_os = "linux")]
use crate::gauge::Gauge;
use crate::output::{message, notice};
use crate::status::{Outcome, Status};
#[cfg(target_os = "linux")]
use rates::Rates;

#[cfg(not(target_os = "linux"))]
pub fn shell(_: &Shell) -> Outcome {
    message!("narrows: `narrows shell` needs Linux's network namespaces");
    Ok(Status::NOT_MADE)
}

#[cfg(target_os = "linux")]
pub fn shell(args: &Shell) -> Outcome {
    for note in args.path.0.iter().flat_map(|words| notes(words)) {
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
            let mut rates = Rates::default();
            let closed = shell.run(&mut |reading| {
                if let Some(text) = rates.since_last(&reading) {
                    gauge.show(&text);
                }
            });
            closed.map_err(OpenError::from)
        }
    };
    Ok(match closed {
        Ok(closed) => {
            notice(&summary::text(&closed));
            Status::Command(closed.code)
        }
        Err(e) => {
            message!("narrows: {e}");
            match e {
                OpenError::Failed(error) => shell::hindrance(&error).into(),
                _ => Status::NOT_MADE,
            }
        }
    })
}
