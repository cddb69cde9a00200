//! `narrows`: the command line of the laboratory.
//!
//! It parses arguments, calls the laboratory, prints what comes back, and ends
//! with a status that says how it went. Results go to standard output,
//! progress and notes to standard error.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod live;
mod output;
mod progress;
mod status;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli.command) {
        Ok(status) => status.code(),
        Err(failure) => failure.report(),
    }
}
