//! `narrows completion` and `narrows man`: the command line described for shells and for
//! man(1), from the same definition that reads it.

use std::fs;

use clap::CommandFactory;
use narrows::{Error, files};

use crate::args::{Cli, Completion, Man};
use crate::completion;
use crate::output::{message, print};
use crate::status::{Outcome, Status};

pub fn completion(args: &Completion) -> Outcome {
    print(&completion::script(&args.shell.to_string()));
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
    // Not those of root's folders: /usr/local/share/man stays root's.
    files::written_by_caller(|| fs::create_dir_all(&args.dir)).map_err(failed("create"))?;
    // `help` would have a page for each command again.
    let command = Cli::command().disable_help_subcommand(true);
    let write = || clap_mangen::generate_to(command.clone(), &args.dir);
    files::written_by_caller(write).map_err(failed("write"))?;
    message!("narrows: manual pages are in {}", args.dir.display());
    Ok(Status::Done)
}
