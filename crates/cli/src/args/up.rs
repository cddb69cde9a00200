//! The options of `narrows up`, `down`, `enter` and `status`.

use std::ffi::OsString;

use clap::Args;

use super::{Format, completing};
use crate::completion;

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows up lab.toml && narrows enter client -- ping -c 3 server

The hosts and links stay until `narrows down`; the file's flows are not started. Exit status: 0 it \
is up, 2 refused, as when a topology of that name is up already."
)]
pub struct Up {
    /// A scenario's file, or its name in the catalogue
    #[arg(value_name = "FILE|NAME", add = completing(completion::scenarios))]
    pub scenario: String,
    /// What the topology is called [default: as the scenario]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The seed of the elements' randomness
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Set a value by name: link/access/up/bottleneck='rate 20Mbit queue dualpi2'
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// Hold it here, until Ctrl-C or `narrows down`, and not in the background
    #[arg(long)]
    pub foreground: bool,
    /// How to print what is up
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Go into the background once it is up: what `narrows up` starts itself with
    #[arg(long, hide = true)]
    pub background: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Programs in the hosts are asked to end, and killed two seconds later. It \
returns when nothing of the topology is left. Exit status: 0 it is down, 2 there is none of that name."
)]
pub struct Down {
    /// Which topology [default: the only one]
    #[arg(value_name = "NAME", add = completing(completion::topologies))]
    pub name: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows enter client -- iperf3 -c server

Exit status: that of the command, 128+N if signal N ended it; 126 if it cannot be run, 127 if \
there is no such command, 125 if the host cannot be entered, 77 if this user may not, 2 there is \
no such host.")]
pub struct Enter {
    /// A host: its name in the scenario where one topology alone has it, or <topology>-<host>
    #[arg(value_name = "HOST", add = completing(completion::hosts))]
    pub host: String,
    /// The command and its arguments [default: your shell]
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct TopologyStatus {
    /// Which topology [default: all]
    #[arg(value_name = "NAME", add = completing(completion::topologies))]
    pub name: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
