//! `narrows`: the program of the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    narrows_cli::main(narrows_cli::Call::of_process()).into()
}
