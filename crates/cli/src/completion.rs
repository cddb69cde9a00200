//! What completes a command line that is being typed: names that only the moment knows.
//!
//! The script of `narrows completion` calls the program with [`ASKED`] in its environment and
//! the words so far as arguments; it then prints what can stand next and does nothing else.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{EnvCompleter, Shells};
use narrows::results::{Results, open};
use narrows::scenario::{FileKind, Loaded, catalog, load};

use crate::args::Cli;
use crate::call;
use crate::commands::words;
use crate::output::message;
use crate::status::{REFUSED, Status};

/// Which shell asks.
const ASKED: &str = "NARROWS_COMPLETE";

/// Answers a shell that asks what can stand next; `None` if none did.
pub fn answered() -> Option<u8> {
    let asked = CompleteEnv::with_factory(Cli::command).var(ASKED);
    let here = std::env::current_dir().ok();
    match asked.try_complete(call::words(), here.as_deref()) {
        Ok(answered) => answered.then_some(Status::Done.number()),
        Err(error) => {
            message!("narrows: {ASKED}: {error}");
            Some(REFUSED)
        }
    }
}

/// What has `shell` ask. The program is called by its name, wherever it lies then.
pub fn script(shell: &str) -> String {
    let mut script = Vec::new();
    let known = Shells::builtins();
    let completer: Option<&dyn EnvCompleter> = known.completer(shell);
    let completer = completer.expect("clap_complete writes for each shell of its own list");
    let written = completer.write_registration(ASKED, "narrows", "narrows", "narrows", &mut script);
    written.expect("a vector takes everything");
    String::from_utf8_lossy(&script).into_owned()
}

/// Those of `names` that begin with what is typed.
fn beginning<S: Into<OsString>>(
    names: impl IntoIterator<Item = S>,
    typed: &OsStr,
) -> Vec<CompletionCandidate> {
    let typed = typed.as_encoded_bytes();
    let names = names.into_iter().map(Into::<OsString>::into);
    let begin = names.filter(|name| name.as_encoded_bytes().starts_with(typed));
    begin.map(CompletionCandidate::new).collect()
}

/// Entries of the catalogue of a kind, or of both, with their titles.
fn of_catalogue(typed: &OsStr, kind: Option<FileKind>) -> Vec<CompletionCandidate> {
    let fits = |entry: &catalog::CatalogEntry| {
        let begins = entry.name.as_bytes().starts_with(typed.as_encoded_bytes());
        begins && kind.is_none_or(|kind| Loaded::from(*entry).kind().ok() == Some(kind))
    };
    let entries = catalog::entries().filter(fits);
    entries.map(|e| CompletionCandidate::new(e.name)).collect()
}

/// The same, and files with the ending of such files.
fn entries_and_files(typed: &OsStr, kind: Option<FileKind>) -> Vec<CompletionCandidate> {
    let mut all = of_catalogue(typed, kind);
    let toml = |path: &Path| path.extension().is_some_and(|ending| ending == "toml");
    all.extend(PathCompleter::any().filter(toml).complete(typed));
    all
}

/// Scenarios of the catalogue, and files.
pub fn scenarios(typed: &OsStr) -> Vec<CompletionCandidate> {
    entries_and_files(typed, Some(FileKind::Scenario))
}

/// Campaigns and collections of the catalogue, and files.
pub fn campaigns(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = entries_and_files(typed, Some(FileKind::Campaign));
    all.extend(of_catalogue(typed, Some(FileKind::Collection)));
    all
}

/// Everything in the catalogue, and files.
pub fn entries(typed: &OsStr) -> Vec<CompletionCandidate> {
    entries_and_files(typed, None)
}

/// What `narrows list` takes.
pub fn listed(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = beginning(
        ["apps", "elements", "events", "metrics", "queues", "tests"],
        typed,
    );
    all.extend(of_catalogue(typed, None));
    all
}

/// What `narrows show` takes.
pub fn shown(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = entries(typed);
    all.extend(beginning(["app", "element", "queue", "test"], typed));
    all
}

/// The applications, queues, elements and tests that `narrows show` takes after that word.
pub fn kinds(typed: &OsStr) -> Vec<CompletionCandidate> {
    let kinds = ["app", "element", "queue", "test"];
    beginning(kinds.into_iter().flat_map(words::names), typed)
}

/// The applications that `--app` begins with.
pub fn apps(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(words::names("app"), typed)
}

/// The tests that `--test` begins with.
pub fn tests(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(words::names("test"), typed)
}

/// The congestion controls that a flow begins with.
pub fn controls(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(narrows::control_names(), typed)
}

/// The controls that decide the window of `narrows by`.
pub fn windows(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(["cubic", "dctcp", "ledbat", "reno", "vegas"], typed)
}

/// How `narrows by` finds the weight.
pub fn policies(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(["mbc", "pid"], typed)
}

/// The network devices of this machine.
pub fn devices(typed: &OsStr) -> Vec<CompletionCandidate> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten();
    let mut names: Vec<_> = entries.flatten().map(|e| e.file_name()).collect();
    names.sort();
    beginning(names, typed)
}

/// The same, and `any` for all of them.
pub fn devices_and_any(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = devices(typed);
    all.extend(beginning(["any"], typed));
    all
}

/// What `--shard` takes that is a word.
pub fn shards(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(["auto"], typed)
}

/// The ids of the kernels in virtual time that were built.
pub fn kernels(typed: &OsStr) -> Vec<CompletionCandidate> {
    let built = narrows::kernel::list().unwrap_or_default();
    beginning(built.into_iter().map(|kernel| kernel.made.id), typed)
}

/// The topologies that this user has.
pub fn topologies(typed: &OsStr) -> Vec<CompletionCandidate> {
    #[cfg(target_os = "linux")]
    return beginning(narrows::up::names(), typed);
    #[cfg(not(target_os = "linux"))]
    beginning([""; 0], typed)
}

/// The hosts of topologies that this user has.
pub fn hosts(typed: &OsStr) -> Vec<CompletionCandidate> {
    #[cfg(target_os = "linux")]
    return beginning(narrows::up::full_names(), typed);
    #[cfg(not(target_os = "linux"))]
    beginning([""; 0], typed)
}

/// Ready boxes, and files.
pub fn boxes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = beginning(narrows::mmb::complete("load ").1, typed);
    all.extend(PathCompleter::any().complete(typed));
    all
}

/// What can stand next in the commands of `narrows mmb`.
pub fn commands_of_boxes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let words = words_before();
    let after = words.iter().rposition(|word| word == "mmb");
    let said = &words[after.map_or(0, |at| at + 1)..];
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    match said.as_slice() {
        ["attach" | "detach" | "list" | "reload"] => devices(typed),
        ["show", "tables" | "connections"] => devices(typed),
        ["attach" | "reload", _] => boxes(typed),
        [.., "explain" | "replay"] => PathCompleter::any().complete(typed),
        _ => {
            let line = format!("{} {}", said.join(" "), typed.to_string_lossy());
            let mut all = beginning(narrows::mmb::complete(line.trim_start()).1, typed);
            if said.is_empty() {
                let further = ["attach", "detach", "detect", "reload", "respond"];
                all.extend(beginning(further, typed));
            }
            all
        }
    }
}

/// The cells of the campaign on the line.
pub fn cells(typed: &OsStr) -> Vec<CompletionCandidate> {
    let words = words_before();
    let campaigns = words.iter().skip(2).filter_map(|word| load(word).ok());
    let cells = campaigns.filter_map(|loaded| loaded.campaign(&[]).ok());
    let names = cells.flat_map(|campaign| campaign.cells);
    beginning(names.map(|cell| cell.name), typed)
}

/// The metrics of the results on the line.
pub fn metrics(typed: &OsStr) -> Vec<CompletionCandidate> {
    let campaigns = words_before().into_iter().filter_map(campaign_in);
    beginning(campaigns.flat_map(|campaign| campaign.metrics), typed)
}

/// The axes of the results on the line.
pub fn axes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let campaigns = words_before().into_iter().filter_map(campaign_in);
    let axes = campaigns.flat_map(|campaign| campaign.axes);
    beginning(axes.map(|axis| axis.name), typed)
}

/// What was measured, if `word` is the results folder of a campaign.
fn campaign_in(word: String) -> Option<narrows::results::campaign::CampaignResult> {
    match open(Path::new(&word)).ok()? {
        Results::Campaign(folder) => Some(folder.result),
        Results::Run(_) | Results::Comparison(_) | Results::Collection(_) => None,
    }
}

/// The words before the one that is being typed, the program's name first.
fn words_before() -> Vec<String> {
    let line = call::texts().into_iter().skip_while(|word| word != "--");
    let mut words: Vec<String> = line.skip(1).collect();
    // Bash and zsh say which one it is; fish ends the line there.
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok();
    let at = index.and_then(|index| index.parse().ok());
    words.truncate(at.unwrap_or(words.len().saturating_sub(1)));
    words
}
