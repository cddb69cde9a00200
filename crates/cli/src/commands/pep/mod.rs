//! `narrows pep`: a split proxy.

#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod status;

use crate::args::Pep;
use crate::status::Outcome;

#[cfg(not(target_os = "linux"))]
pub fn pep(args: &Pep) -> Outcome {
    let _ = args;
    let why = "the proxy of `narrows pep` uses Linux's sockets, and this is not Linux";
    Err(narrows::Error::Engine(why.to_owned()).into())
}

#[cfg(target_os = "linux")]
pub fn pep(args: &Pep) -> Outcome {
    use crate::args::PepCommand;

    match &args.command {
        PepCommand::Run(args) => run::run(args),
        PepCommand::Serve(args) => serve::serve(args),
        PepCommand::Status(args) => status::status(args),
    }
}
