//! Advice for options that belong elsewhere, and for commands that are spelled wrongly.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
use narrows::scenario::{is_obeyed, nearest};

use crate::args::Cli;
use crate::call;
use crate::output::{message, notice};
use crate::status::REFUSED;

/// Says what is wrong with the command line, and what was probably meant: status 2.
pub fn refuse(error: &Error) -> u8 {
    let obeyed = |word: String| word.contains(is_obeyed);
    if call::texts().into_iter().any(obeyed) {
        notice(&error.render().to_string());
    } else {
        // Where standard error cannot be written, the status says it.
        let _ = error.print();
    }
    let arguments = || call::texts().into_iter().skip(1);
    let command = arguments().next().unwrap_or_default();
    let unknown = matches!(error.kind(), ErrorKind::UnknownArgument);
    if let (true, Some(ContextValue::String(option))) =
        (unknown, error.get(ContextKind::InvalidArg))
    {
        if let Some(advice) = advice(&command, option) {
            message!("\n{advice}");
        }
    }
    let meant = matches!(error.kind(), ErrorKind::InvalidSubcommand)
        .then(|| error.get(ContextKind::InvalidSubcommand))
        .flatten();
    if let (Some(ContextValue::String(word)), None) =
        (meant, error.get(ContextKind::SuggestedSubcommand))
    {
        if let Some(command) = meant_command(arguments(), word) {
            message!("\nDid you mean `narrows {command}`?");
        }
    }
    REFUSED
}

/// The command, with those above it, that `word` among the arguments is probably a slip for.
fn meant_command(arguments: impl Iterator<Item = String>, word: &str) -> Option<String> {
    let root = Cli::command();
    let mut at = &root;
    let mut above = String::new();
    for argument in arguments.take_while(|argument| argument != word) {
        if let Some(next) = at.find_subcommand(&argument) {
            at = next;
            above = format!("{above}{argument} ");
        }
    }
    let near = nearest(word, at.get_subcommands().map(Command::get_name))?;
    Some(format!("{above}{near}"))
}

/// What to write for `option`, which `command` has not.
fn advice(command: &str, option: &str) -> Option<&'static str> {
    Some(match (command, option) {
        ("run" | "campaign" | "compare", "--duration" | "--time" | "-t") => {
            "The length of a run is a value of the scenario: --set duration=10s"
        }
        ("run" | "campaign" | "compare", "--measure" | "--window") => {
            "The steady window is a value of the scenario: --set measure=10s..58s"
        }
        ("run", "--seeds") => {
            "A run has one seed, --seed N. A campaign runs its cells with several, --seeds N"
        }
        ("compare", "--seed") => "Seeds 1 to N are run with --seeds N",
        ("run", "--rate" | "--delay" | "--loss" | "--queue" | "--qdisc") => {
            "The path is made of elements: --link 'netem delay 10ms loss 1%' \
             --link 'rate 50Mbit queue fq_codel'"
        }
        ("run", "--cc") => "The congestion control is the flow's: --flow cubic",
        ("run" | "campaign" | "compare", "-o" | "--output") => {
            "The results folder is named by --out DIR"
        }
        _ => return None,
    })
}
