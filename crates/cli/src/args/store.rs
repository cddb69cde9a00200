//! The options of `narrows store`, and those by which a campaign uses one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use narrows::units::{Duration, Value};

use super::Format;

/// Where cells are kept that need not be run again.
#[derive(Args, Debug)]
pub struct StoreUse {
    /// The store of cells [default: $NARROWS_STORE, or narrows/cells in the user's cache]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub store: Option<PathBuf>,
    /// Run every cell, though it may be in the store, and hold it against what is there
    #[arg(long)]
    pub fresh: bool,
    /// Take no cell from a store and keep none in it
    #[arg(long, conflicts_with_all = ["store", "fresh"])]
    pub no_store: bool,
}

/// What is done with a store of cells.
#[derive(Args, Debug)]
pub struct Store {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// List what is in it, by version and engine, or cell by cell
    List(StoreList),
    /// Hold every file against its digest
    Verify(StoreVerify),
    /// Remove what is damaged, what killed runs left, and what is no longer wanted
    Prune(StorePrune),
}

#[derive(Args, Debug)]
pub struct StoreList {
    /// The store [default: $NARROWS_STORE, or narrows/cells in the user's cache]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub store: Option<PathBuf>,
    /// A line for each cell whose name fits: '50Mbit/*'
    #[arg(long, value_name = "GLOB")]
    pub only: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct StoreVerify {
    /// The store [default: $NARROWS_STORE, or narrows/cells in the user's cache]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct StorePrune {
    /// The store [default: $NARROWS_STORE, or narrows/cells in the user's cache]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub store: Option<PathBuf>,
    /// Also cells of other versions than this program's
    #[arg(long)]
    pub other_versions: bool,
    /// Also cells that were neither run nor taken for this time, such as 720h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub unused: Option<std::time::Duration>,
    /// Also all cells
    #[arg(long)]
    pub all: bool,
}

fn time(word: &str) -> Result<std::time::Duration, String> {
    let parsed = Duration::parse(word).map(|time| std::time::Duration::from_nanos(time.as_nanos()));
    parsed.ok_or_else(|| format!("allowed: {}, or min and h", Duration::ALLOWED))
}
