//! The options of `narrows shell`.

use std::ffi::OsString;

use clap::{ArgMatches, Args, FromArgMatches};
use narrows::scenario::Side;

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows shell --link 'netem delay 20ms' \
    --link 'rate 20Mbit queue dualpi2' -- ping -c 5 HOST

Exit status: that of the command, 128+N if signal N ended it; 126 if it cannot be run, 127 if \
there is no such command, 125 if the path cannot be made or fails, 2 refused input.")]
pub struct Shell {
    #[command(flatten)]
    pub path: PathElements,
    /// The seed of the elements' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where the path's addresses are taken from [default: 198.18.0.0/15]
    #[arg(long, value_name = "NETWORK")]
    pub subnet: Option<String>,
    /// Show no running figures
    #[arg(long)]
    pub no_gauge: bool,
    /// The command and its arguments [default: your shell]
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// The elements of a path, in the order of the options.
#[derive(Debug)]
pub struct PathElements(pub Vec<(Side, String)>);

/// The options that make one, and what each says.
const PATH_OPTIONS: [(&str, Side, &str); 3] = [
    (
        "link",
        Side::Both,
        "An element of the path, in both directions",
    ),
    (
        "up",
        Side::Up,
        "An element of the way from the command to the outside",
    ),
    (
        "down",
        Side::Down,
        "An element of the way from the outside to the command",
    ),
];

impl Args for PathElements {
    fn augment_args(command: clap::Command) -> clap::Command {
        PATH_OPTIONS
            .iter()
            .fold(command, |command, (name, _, help)| {
                command.arg(
                    clap::Arg::new(*name)
                        .long(*name)
                        .value_name("ELEMENT")
                        .action(clap::ArgAction::Append)
                        .help(*help),
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
        for (name, side, _) in PATH_OPTIONS {
            let places = matches.indices_of(name).into_iter().flatten();
            let words = matches.get_many::<String>(name).into_iter().flatten();
            all.extend(places.zip(words).map(|(at, w)| (at, side, w.clone())));
        }
        all.sort_by_key(|(at, ..)| *at);
        let elements = all.into_iter().map(|(_, side, words)| (side, words));
        Ok(Self(elements.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
