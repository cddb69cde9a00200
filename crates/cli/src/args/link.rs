//! The elements of a path as options: `--link`, and its older names for one direction.

use clap::{ArgMatches, Args, FromArgMatches};

/// The elements of a path, in the order of the options.
#[derive(Debug)]
pub struct PathElements(pub Vec<String>);

/// The options that make one, and the word before the element that each stands for.
const PATH_OPTIONS: [(&str, &str); 3] = [("link", ""), ("up", "up "), ("down", "down ")];

/// What is said of the option.
const HELP: &str = "An element of the path, in both directions unless `up` or `down` is written \
                    before it";

impl Args for PathElements {
    fn augment_args(command: clap::Command) -> clap::Command {
        PATH_OPTIONS
            .iter()
            .fold(command, |command, (name, before)| {
                command.arg(
                    clap::Arg::new(*name)
                        .long(*name)
                        .value_name("ELEMENT")
                        .action(clap::ArgAction::Append)
                        .hide(!before.is_empty())
                        .help(HELP),
                )
            })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PathElements {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Vec::new();
        for (name, before) in PATH_OPTIONS {
            let places = matches.indices_of(name).into_iter().flatten();
            let words = matches.get_many::<String>(name).into_iter().flatten();
            all.extend(
                places
                    .zip(words)
                    .map(|(at, w)| (at, format!("{before}{w}"))),
            );
        }
        all.sort_by_key(|(at, _)| *at);
        Ok(Self(all.into_iter().map(|(_, words)| words).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
