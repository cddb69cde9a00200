//! The options of `narrows selftest`.

use clap::Args;

use super::Format;

#[derive(Args, Debug)]
#[command(
    after_help = "Runs of the simulator, a few seconds together. Exit status: 0 all are as \
they should be, 1 one differs."
)]
pub struct Selftest {
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Print the digests found, in the form of the file of those that are expected, and nothing
    /// else
    #[arg(long, conflicts_with = "format")]
    pub digests: bool,
}
