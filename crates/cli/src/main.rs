//! `narrows`: the command line of the laboratory.
//!
//! It parses arguments, calls the laboratory, prints what comes back, and ends
//! with a status that says how it went. Results go to standard output,
//! progress and notes to standard error.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod completion;
mod defect;
#[cfg(target_os = "linux")]
mod gauge;
mod live;
mod new_file;
mod output;
mod progress;
mod status;
mod unknown_option;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    defect::guarded(program).unwrap_or_else(|| status::Status::Defect.code())
}

fn program() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Err(error) = narrows::take_part(std::env::args_os().skip(1)) {
        output::message!("narrows: {error}");
        return ExitCode::FAILURE;
    }
    if let Some(answered) = completion::answered() {
        return answered;
    }
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return unknown_option::refuse(&error),
        Err(help) => {
            output::note(help.print());
            return output::status().code();
        }
    };
    match commands::run(cli.command) {
        Ok(status) => status.and(output::status()).code(),
        Err(failure) => failure.report(),
    }
}
