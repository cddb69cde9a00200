//! `narrows completion` and `narrows man`: the command line described for shells and for
//! man(1), from the same definition that reads it.

use std::fs;

use clap::CommandFactory;
use narrows::Error;

use crate::args::{Cli, Completion, Man};
use crate::output::{message, print};
use crate::status::{Outcome, Status};

pub fn completion(args: &Completion) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "narrows", &mut script);
    print(&String::from_utf8_lossy(&script));
    Ok(Status::Done)
}

pub fn man(args: &Man) -> Outcome {
    let failed = |verb: &'static str| {
        move |source: std::io::Error| Error::Io {
            verb,
            path: args.dir.clone(),
            source,
        }
    };
    fs::create_dir_all(&args.dir).map_err(failed("create"))?;
    // `help` would have a page for each command again.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.dir).map_err(failed("write"))?;
    message!("narrows: manual pages are in {}", args.dir.display());
    Ok(Status::Done)
}
