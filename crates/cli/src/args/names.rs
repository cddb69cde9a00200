//! One name for one meaning, over all commands.

use std::collections::BTreeMap;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// What options are not called, and what they are called instead. Older names are aliases.
const INSTEAD: [(&str, &[&str]); 14] = [
    ("dev", &["device", "interface", "iface", "if", "nic"]),
    ("duration", &["for", "time", "length", "timeout"]),
    ("format", &["as", "type", "output-format"]),
    ("link", &["element", "path"]),
    ("out", &["output", "outdir", "dest", "into"]),
    ("only", &["cells", "filter", "match"]),
    ("seed", &["random", "rng"]),
    ("seeds", &["repetitions", "repeat", "runs"]),
    ("jobs", &["threads", "parallel", "workers"]),
    ("set", &["option", "param", "define"]),
    ("file", &["load", "rules"]),
    ("socket", &["status", "control"]),
    ("metric", &["metrics", "figure-of"]),
    ("kernel", &["kernel-id", "id"]),
];

/// What words for a value may stand for in several options: these say how it is written, not
/// what it is.
const OF_ANY_KIND: [&str; 10] = [
    "N", "TIME", "NAME", "FILE", "DIR", "ADDR", "NETWORK", "ADDRESS", "AXIS", "PATH",
];

/// Every command with the words that lead to it.
fn commands(command: &Command, above: &str, all: &mut Vec<(String, Command)>) {
    let name = format!("{above}{}", command.get_name());
    for below in command.get_subcommands() {
        commands(below, &format!("{name} "), all);
    }
    all.push((name, command.clone()));
}

/// The options of `tree` that have a second name for one meaning, each in a line.
fn second_names(tree: &Command) -> Vec<String> {
    let mut all = Vec::new();
    commands(tree, "", &mut all);
    let mut wrong = Vec::new();
    let mut called: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (command, of) in &all {
        // Those that are not shown are older names of one that is.
        for option in of.get_arguments().filter(|a| !a.is_hide_set()) {
            let Some(long) = option.get_long() else {
                continue;
            };
            let instead = INSTEAD.iter().find(|(_, others)| others.contains(&long));
            if let Some((name, _)) = instead {
                wrong.push(format!("{command} --{long}: call it --{name}"));
            }
            for value in option.get_value_names().into_iter().flatten() {
                if !OF_ANY_KIND.contains(&value.as_str()) && takes_a_value(option) {
                    let names = called.entry(value.to_string()).or_default();
                    names.insert(long.to_owned(), command.clone());
                }
            }
        }
    }
    for (value, names) in called.into_iter().filter(|(_, names)| names.len() > 1) {
        wrong.push(format!("{value} is the value of {names:?}"));
    }
    wrong
}

fn takes_a_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

#[test]
fn no_option_is_a_second_name_for_one_meaning() {
    assert_eq!(second_names(&Cli::command()), Vec::<String>::new());
}

#[test]
fn a_second_name_is_found() {
    let tree = |long: &'static str, value: &'static str| {
        let of = |name: &'static str, option: Arg| Command::new(name).arg(option);
        let option = |long| Arg::new("x").long(long);
        Command::new("narrows")
            .subcommand(of("a", option("dev").value_name("DEV")))
            .subcommand(of("b", option(long).value_name(value)))
    };
    assert_eq!(second_names(&tree("dev", "DEV")), Vec::<String>::new());
    assert_eq!(second_names(&tree("interface", "IF")).len(), 1);
    assert_eq!(second_names(&tree("port", "DEV")).len(), 1);
    assert_eq!(second_names(&tree("again", "N")), Vec::<String>::new());
}

#[test]
fn the_older_names_are_still_taken() {
    let parse = |words: &str| {
        let words = std::iter::once("narrows").chain(words.split(' '));
        Cli::command().try_get_matches_from(words.collect::<Vec<_>>())
    };
    for words in [
        "mark --dev v0 --profile d --for 1s",
        "mark -i v0 --profile d --duration 1s",
        "mark --interface v0 --profile d",
        "observe -i v0 --duration 1s",
        "observe --interface v0 --for 1s",
        "observe --dev v0",
        "shell --up x --down y --link z",
        "run --up x --down y --flow cubic",
        "plot results --as pdf",
        "plot results --format pdf",
        "campaign x --seed 3",
        "campaign x --seeds 3",
        "pep serve --listen a --clients b --to c --status d",
    ] {
        assert!(parse(words).is_ok(), "{words}: {:?}", parse(words).err());
    }
    assert!(parse("campaign x --seed 3 --seeds 3").is_err());
}

#[test]
fn elements_keep_their_order_and_say_their_direction() {
    use clap::Parser;
    let words = [
        "narrows", "shell", "--up", "a", "--link", "b", "--down", "c",
    ];
    let cli = Cli::try_parse_from(words).expect("a command");
    let crate::commands::Command::Shell(shell) = cli.command else {
        panic!("another command");
    };
    assert_eq!(shell.path.0, ["up a", "b", "down c"]);
}
