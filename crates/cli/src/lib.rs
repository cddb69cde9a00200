//! The command line of the laboratory: what the program `narrows` is, and the command of the
//! package for Python.
//!
//! It parses arguments, calls the laboratory, prints what comes back, and ends
//! with a status that says how it went. Results go to standard output,
//! progress and notes to standard error.
//!
//! ```no_run
//! // All of what the program does.
//! let status = narrows_cli::main(narrows_cli::Call::of_process());
//! std::process::exit(status.into());
//! ```

#![forbid(unsafe_code)]

mod args;
mod call;
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

use std::ffi::OsString;

use clap::Parser;

pub use call::Call;

/// The commit that this is built from, where it is known.
pub const COMMIT: Option<&str> = option_env!("NARROWS_COMMIT");

/// Version and commit, as `narrows --version` has them.
pub const VERSION: &str = env!("NARROWS_VERSION");

/// Does what `call` asks for; what the process is to end with. Standard output may have a rest
/// of a line that is written as the process exits.
pub fn main(call: Call) -> u8 {
    call::is(call);
    defect::guarded(program).unwrap_or_else(|| status::Status::Defect.number())
}

fn program() -> u8 {
    let words: Vec<OsString> = call::words();
    #[cfg(target_os = "linux")]
    if let Err(error) = narrows::take_part(words.iter().skip(1).cloned()) {
        output::message!("narrows: {error}");
        return status::Status::Failed.number();
    }
    if let Some(answered) = completion::answered() {
        return answered;
    }
    let cli = match args::Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return unknown_option::refuse(&error),
        Err(help) => {
            output::note(help.print());
            return output::status().number();
        }
    };
    match commands::run(cli.command) {
        Ok(status) => status.and(output::status()).number(),
        Err(failure) => failure.report(),
    }
}
