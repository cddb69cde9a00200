//! The options of `narrows campaign` and `narrows merge`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use narrows::campaign::Shard;

use super::{EngineName, Format, StoreUse, completing};
use crate::completion;

#[derive(Args, Debug)]
pub struct Campaign {
    /// A campaign's file, its name in the catalogue, or a pattern of names
    #[arg(value_name = "FILE|NAME|GLOB", add = completing(completion::campaigns))]
    pub name: String,
    #[command(flatten)]
    pub runs: CampaignRuns,
    #[command(flatten)]
    pub store: StoreUse,
    /// Run the I-th of N parts of the runs into the store, and judge nothing; `auto` reads I and
    /// N from SLURM_ARRAY_TASK_ID and its like
    #[arg(long, value_name = "I/N|auto", conflicts_with_all = ["no_store", "out"],
        add = completing(completion::shards))]
    pub shard: Option<ShardWord>,
    /// Of --shard, what runs took, by which N parts cost the same: what `narrows store list
    /// --format json` printed; the same file for all shards [default: estimated]
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub costs: Option<PathBuf>,
}

/// Which runs of a campaign there are, and how they are judged and printed.
#[derive(Args, Debug)]
pub struct CampaignRuns {
    /// Run only cells whose names fit: '50Mbit/*/pfifo/*'; may be repeated
    #[arg(long, value_name = "GLOB", add = completing(completion::cells))]
    pub only: Vec<String>,
    /// Run each cell with seeds 1 to N, live N times; figures are medians
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Run each cell with this seed alone
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Cells at a time [default: as many as there are processors; live always one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Fail with status 4 if a group of cells is out of its tolerance
    #[arg(long)]
    pub check: bool,
    /// Print every metric, however wide the table becomes
    #[arg(long)]
    pub wide: bool,
    /// What runs it
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineName,
    /// Of `--engine kernel`, which: how its id begins [default: the one that was built last]
    #[arg(long, value_name = "ID", add = completing(completion::kernels))]
    pub kernel: Option<String>,
    /// Set a value in every cell by name
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// The results folder, which must be empty or new [default: results/<time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows merge cells --campaign l4s-tests/s6 --check

Nothing is run. The options are those that the shards were run with; the results are the same as
those of `narrows campaign` with them."
)]
pub struct Merge {
    /// Stores with the runs, which are only read
    #[arg(value_name = "STORE", required = true, value_hint = clap::ValueHint::DirPath)]
    pub stores: Vec<PathBuf>,
    /// The campaign: its file, its name in the catalogue, or a pattern of names
    #[arg(long, value_name = "FILE|NAME|GLOB", add = completing(completion::campaigns))]
    pub campaign: String,
    #[command(flatten)]
    pub runs: CampaignRuns,
}

/// What `--shard` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardWord {
    /// What the environment says.
    Auto,
    /// This one.
    One(Shard),
}

impl FromStr for ShardWord {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == "auto" {
            return Ok(Self::Auto);
        }
        let number = |text: &str| text.parse().ok();
        let numbers = word.split_once('/');
        match numbers.and_then(|(i, n)| Some((number(i)?, number(n)?))) {
            Some((index, of)) => Shard::new(index, of).map(Self::One),
            None => Err("allowed: I/N, such as 3/8, or auto".to_owned()),
        }
    }
}
