//! One file for each command.

mod campaign;
mod catalogue;
mod doctor;
mod results;
mod run;

use std::path::{Path, PathBuf};

use narrows_lab::{LabError, Output, report};
use narrows_scenario::Refusal;

use crate::args::{Command, EngineName};
use crate::output::print_json;
use crate::status::{Outcome, Status};

/// Does what the command says.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::List(args) => catalogue::list(&args),
        Command::Show(args) => catalogue::show(&args),
        Command::Run(args) => run::run(&args),
        Command::Campaign(args) => campaign::campaign(&args),
        Command::Diff(args) => results::diff(&args),
        Command::Report(args) => results::report(&args),
        Command::Plot(args) => results::plot(&args),
        Command::Schema => {
            print_json(&narrows_scenario::schema());
            Ok(Status::Done)
        }
        Command::Doctor => doctor::doctor(),
    }
}

/// Where results go: into `out`, or into a new folder below `results`.
fn output(out: Option<&Path>) -> Output {
    match out {
        Some(dir) => Output::Folder(dir.to_path_buf()),
        None => Output::Below(PathBuf::from("results")),
    }
}

/// Adds `option` with each of `values` to the words of a command.
fn repeated<'a>(
    words: &mut Vec<String>,
    option: &str,
    values: impl IntoIterator<Item = &'a String>,
) {
    for value in values {
        words.extend([option.to_owned(), value.clone()]);
    }
}

/// Writes the page of a results folder, if the laboratory has not done so, and
/// says where things are.
fn finish(dir: &Path) -> Result<(), LabError> {
    let page = dir.join(report::FILE);
    if !page.exists() {
        report::again(dir)?;
    }
    eprintln!("results in {}, page {}", dir.display(), page.display());
    Ok(())
}

/// Refuses an engine that this build does not have.
fn require_engine(engine: EngineName) -> Result<(), Refusal> {
    match engine {
        EngineName::Sim => Ok(()),
        EngineName::Live => Err(Refusal::new("--engine", "`live`", "`sim`")
            .with_help("this version has no live engine yet")),
    }
}
