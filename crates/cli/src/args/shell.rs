//! The options of `narrows shell`.

use std::ffi::OsString;

use clap::Args;

use super::PathElements;

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows shell --link 'netem delay 20ms' \
    --link 'rate 20Mbit queue dualpi2' -- ping -c 5 HOST

Exit status: that of the command, 128+N if signal N ended it; 126 if it cannot be run, 127 if \
there is no such command, 125 if the path cannot be made or fails, 77 if this user may not have \
it, 2 refused input.")]
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
