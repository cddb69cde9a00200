//! The options of `narrows import` and `narrows export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use narrows::descriptors;

use super::completing;
use crate::completion;

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows import lab.clab.yml --out lab.toml
              narrows import service.nemo | less

What the descriptor has that a scenario has not is named on standard error.")]
pub struct Import {
    /// A topology of containerlab, or intents of NEMO
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,
    /// What it is written in [default: as its content says]
    #[arg(long, value_enum)]
    pub format: Option<ImportFormat>,
    /// A new file for the scenario, in place of standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// What is read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ImportFormat {
    /// A topology of containerlab
    #[value(alias = "containerlab")]
    Clab,
    /// Intents of NEMO
    Nemo,
}

impl From<ImportFormat> for descriptors::Format {
    fn from(format: ImportFormat) -> Self {
        match format {
            ImportFormat::Clab => Self::Containerlab,
            ImportFormat::Nemo => Self::Nemo,
        }
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows export two-bottlenecks --format shell --out lab.sh
              narrows export lab.toml --format containerlab
              narrows export service.nemo --format osm

What the format has no place for is named on standard error and in a comment of the file."
)]
pub struct Export {
    /// A scenario's file, its name in the catalogue, or a file that `narrows import` reads
    #[arg(value_name = "FILE|NAME", add = completing(completion::scenarios))]
    pub name: String,
    /// What it is written as
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Set a value of the scenario first, by name: duration=10s
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// A new file, in place of standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// What is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ExportFormat {
    /// A topology of containerlab
    #[value(alias = "clab")]
    Containerlab,
    /// A descriptor of ETSI GS NFV-SOL 006
    Sol006,
    /// A descriptor for Open Source MANO
    Osm,
    /// Services and networks of Docker Compose
    Compose,
    /// A script of `ip` and `tc`
    Shell,
    /// A Python program for Mininet
    Mininet,
    /// Intents of NEMO
    Nemo,
}

impl From<ExportFormat> for descriptors::Target {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Containerlab => Self::Containerlab,
            ExportFormat::Sol006 => Self::Sol006,
            ExportFormat::Osm => Self::Osm,
            ExportFormat::Compose => Self::Compose,
            ExportFormat::Shell => Self::Shell,
            ExportFormat::Mininet => Self::Mininet,
            ExportFormat::Nemo => Self::Nemo,
        }
    }
}
