//! `narrows-guest`: the first process of a kernel in virtual time that Python or the command of its
//! package boots, and the process that becomes that kernel. The command of other packages plays
//! both parts itself.

#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Err(error) = narrows::take_part(std::env::args_os().skip(1)) {
        eprintln!("narrows-guest: {error}");
        return ExitCode::FAILURE;
    }
    eprintln!(
        "narrows-guest: this is a part of runs in a kernel in virtual time, which \
         `narrows run … --engine kernel` starts"
    );
    ExitCode::from(2)
}
