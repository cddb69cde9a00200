//! One file for each command.

mod by;
mod campaign;
mod catalogue;
mod compare;
mod descriptors;
#[cfg(target_os = "linux")]
mod device_events;
mod doctor;
mod events;
mod kernel;
mod manual;
mod mark;
mod metrics;
mod mmb;
mod observe;
mod pep;
mod pmtud;
mod results;
mod run;
mod selftest;
mod shard;
mod shell;
mod store;
mod testbed;
mod traffic;
mod up;
mod web;
pub mod words;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use doctor::Doctor;

use narrows::report::pages;
use narrows::results::folder::Origin;
use narrows::{Error, Output};

use crate::COMMIT;
use crate::args::{
    By, Campaign, Compare, Completion, Diff, Down, EngineName, Enter, Export, Import, Kernel, List,
    Man, Mark, Merge, Mmb, Observe, Pep, Plot, Pmtud, Report, Run, Selftest, Shell, Show, Store,
    Testbed, TopologyStatus, Traffic, Up, Web,
};
use crate::live;
use crate::output::{message, print_json};
use crate::status::{Outcome, Status};

/// The commands: what `--help` says of each, and its options.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the catalogue
    List(List),
    /// Show one entry or file: topology, source, text
    Show(Show),
    /// Run one scenario
    Run(Run),
    /// Run a campaign's cells and set published beside measured
    Campaign(Campaign),
    /// Make a campaign's results of the runs in stores
    Merge(Merge),
    /// Run the same in the simulator and live, and say where the two differ
    Compare(Compare),
    /// Run a command, or a shell, behind a path of its own
    Shell(Shell),
    /// Build the hosts and links of a scenario, which stay until they are taken down
    Up(Up),
    /// Take down what `narrows up` has built
    Down(Down),
    /// Run a command, or a shell, in a host that is up
    Enter(Enter),
    /// Say what is up: hosts, links, programs, and what passed
    Status(TopologyStatus),
    /// Have the connections of a command yield as far as a deadline allows
    By(By),
    /// Serve a split proxy, and use one
    Pep(Pep),
    /// Find the size that a path carries, and help others find it
    Pmtud(Pmtud),
    /// Read traffic mixes, and run them between hosts
    Traffic(Traffic),
    /// Start four virtual machines in a line, and run a scenario's flows between them
    Testbed(Testbed),
    /// Make a scenario of another tool's topology or descriptor
    Import(Import),
    /// Write a scenario as another tool's topology or descriptor
    Export(Export),
    /// Serve the page of a folder's scenarios, and its HTTP interface
    Web(Web),
    /// Build, list and remove kernels that run in virtual time
    Kernel(Kernel),
    /// List, verify and prune a store of cells
    Store(Store),
    /// Compare two results
    Diff(Diff),
    /// Write the HTML page of results again
    Report(Report),
    /// Draw figures for a paper
    Plot(Plot),
    /// Measure round trips and loss from what packets show
    Observe(Observe),
    /// Mark packets at a device so that an observer can measure
    Mark(Mark),
    /// Try a middlebox by rules: explain captures, send them through it
    Mmb(Mmb),
    /// Print the JSON Schema of scenario and campaign files
    Schema,
    /// Say what this machine can run, and what is missing
    Doctor(Doctor),
    /// Check that this installation gives the results that it should
    Selftest(Selftest),
    /// Print what completes commands in a shell
    Completion(Completion),
    /// Write manual pages into a folder
    Man(Man),
}

/// Does what the command says.
pub fn run(command: Command) -> Outcome {
    // Before anything here starts a thread: signal handlers and bars do.
    if live::is_wanted(&command) {
        live::gain_rights()?;
    }
    match command {
        Command::List(args) => catalogue::list(&args),
        Command::Show(args) => catalogue::show(&args),
        Command::Run(args) => run::run(&args),
        Command::Campaign(args) => campaign::campaign(&args),
        Command::Merge(args) => campaign::merge(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Shell(args) => shell::shell(&args),
        Command::Up(args) => up::up(&args),
        Command::Down(args) => up::down(&args),
        Command::Enter(args) => up::enter(&args),
        Command::Status(args) => up::status(&args),
        Command::By(args) => by::by(&args),
        Command::Pep(args) => pep::pep(&args),
        Command::Pmtud(args) => pmtud::pmtud(&args),
        Command::Traffic(args) => traffic::traffic(&args),
        Command::Testbed(args) => testbed::testbed(&args),
        Command::Import(args) => descriptors::import(&args),
        Command::Export(args) => descriptors::export(&args),
        Command::Web(args) => web::web(&args),
        Command::Kernel(args) => kernel::kernel(&args),
        Command::Store(args) => store::store(&args),
        Command::Diff(args) => results::diff(&args),
        Command::Report(args) => results::report(&args),
        Command::Plot(args) => results::plot(&args),
        Command::Observe(args) => observe::observe(&args),
        Command::Mark(args) => mark::mark(&args),
        Command::Mmb(args) => mmb::mmb(&args),
        Command::Schema => {
            print_json(&narrows::scenario::schema());
            Ok(Status::Done)
        }
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Selftest(args) => selftest::selftest(&args),
        Command::Completion(args) => manual::completion(&args),
        Command::Man(args) => manual::man(&args),
    }
}

/// Where results go: into `out`, or into a new folder below `results`.
fn output(out: Option<&Path>) -> Output {
    match out {
        Some(dir) => Output::Folder(dir.to_path_buf()),
        None => Output::Below(PathBuf::from("results")),
    }
}

/// What makes the results of `command`.
fn origin(command: Vec<String>) -> Origin {
    Origin {
        command,
        commit: COMMIT.map(str::to_owned),
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

/// What asks for an engine that is not the one by default.
fn engine_words(engine: EngineName) -> Vec<String> {
    match engine {
        EngineName::Sim => Vec::new(),
        other => ["--engine", other.word()].map(str::to_owned).to_vec(),
    }
}

/// Writes the page of a results folder, if the laboratory has not done so, and
/// says where things are.
fn finish(dir: &Path) -> Result<(), Error> {
    let page = dir.join(pages::FILE);
    if !page.exists() {
        pages::again(dir)?;
    }
    message!("results in {}, page {}", dir.display(), page.display());
    Ok(())
}
