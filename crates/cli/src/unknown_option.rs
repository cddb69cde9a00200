//! Advice for options that belong elsewhere.

use std::process::ExitCode;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::message;

/// Says what is wrong with the command line, and what was probably meant: status 2.
pub fn refuse(error: &Error) -> ExitCode {
    // Where standard error cannot be written, the status says it.
    let _ = error.print();
    let command = std::env::args().nth(1).unwrap_or_default();
    let unknown = matches!(error.kind(), ErrorKind::UnknownArgument);
    if let (true, Some(ContextValue::String(option))) =
        (unknown, error.get(ContextKind::InvalidArg))
    {
        if let Some(advice) = advice(&command, option) {
            message!("\n{advice}");
        }
    }
    ExitCode::from(2)
}

/// What to write for `option`, which `command` has not.
fn advice(command: &str, option: &str) -> Option<&'static str> {
    Some(match (command, option) {
        ("run" | "campaign" | "compare", "--duration" | "--time" | "-t") => {
            "The length of a run is a value of the scenario: --set duration=10s"
        }
        ("run" | "campaign" | "compare", "--measure" | "--window") => {
            "The steady window is a value of the scenario: --set measure=10s..58s"
        }
        ("run", "--seeds") => {
            "A run has one seed, --seed N. A campaign runs its cells with several, --seeds N"
        }
        ("campaign" | "compare", "--seed") => "Seeds 1 to N are run with --seeds N",
        ("run", "--rate" | "--delay" | "--loss" | "--queue" | "--qdisc") => {
            "The path is made of elements: --link 'netem delay 10ms loss 1%' \
             --link 'rate 50Mbit queue fq_codel'"
        }
        ("run", "--cc") => "The congestion control is the flow's: --flow cubic",
        ("run" | "campaign" | "compare", "-o" | "--output") => {
            "The results folder is named by --out DIR"
        }
        ("plot", "--format") => "The format is named by --as: svg, png, pdf or flent",
        _ => return None,
    })
}
