//! The options of `narrows kernel`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, completing};
use crate::completion;

/// What is done with kernels in virtual time.
#[derive(Args, Debug)]
pub struct Kernel {
    #[command(subcommand)]
    pub command: KernelCommand,
}

#[derive(Subcommand, Debug)]
pub enum KernelCommand {
    /// Build one, from Debian's sources or from a tree of yours
    Build(KernelBuild),
    /// List those that were built
    List(KernelList),
    /// Remove some
    Remove(KernelRemove),
}

#[derive(Args, Debug)]
#[command(
    after_help = "A copy of the source is changed and built; a tree of yours is only \
read. What is changed, and why: docs/kernel.md.

For instance: narrows kernel build --source ~/src/net-next"
)]
pub struct KernelBuild {
    /// A tree of Linux 6.12 or newer
    #[arg(long, value_name = "DIR", conflicts_with = "package")]
    pub source: Option<PathBuf>,
    /// A package of Debian, such as linux-source-6.12 [default: the newest kernel's]
    #[arg(long, value_name = "NAME")]
    pub package: Option<String>,
    /// Compilers at a time [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Build it although there is an equal one
    #[arg(long)]
    pub again: bool,
}

#[derive(Args, Debug)]
pub struct KernelList {
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct KernelRemove {
    /// Whole ids, as `narrows kernel list` shows them
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with = "all",
        add = completing(completion::kernels)
    )]
    pub ids: Vec<String>,
    /// All of them
    #[arg(long)]
    pub all: bool,
}
