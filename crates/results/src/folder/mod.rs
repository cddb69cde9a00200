//! The results folder: what a run leaves behind, and how it is read again.

pub(crate) mod digest;
mod patience;
mod read;
mod time;
mod write;

use std::path::PathBuf;

use narrows_scenario::Plan;
use serde::{Deserialize, Serialize};

use crate::campaign::CampaignResult;
use crate::collection::CollectionFolder;
use crate::comparison::Comparison;
use crate::series::Series;
use crate::summary::RunSummary;
use crate::verdict::Verdict;
use narrows_engine::{Engine, Rig, VirtualKernel};

pub use digest::{of_all as digest_of, of_bytes as digest_of_bytes};
pub use read::{open, open_run};
pub use time::rfc3339;
pub use write::Folder;
pub use write::file_name;

/// Version of the folder's layout, `RunRecord::format`.
pub const FORMAT: u32 = 1;

/// Where results go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Nowhere; the result is in memory only.
    #[default]
    Nowhere,
    /// Into this folder, which must be empty or not exist yet.
    Folder(PathBuf),
    /// Into a new folder `<UTC time>-<name>` below this one (`results`), where
    /// the link `latest` is made to point to it.
    Below(PathBuf),
}

/// `run.json`: what ran, when, on what, and whether it got to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the folder's layout; 1.
    pub format: u32,
    /// `run`, `campaign`, `compare` or `collection`.
    pub kind: String,
    /// Name of the scenario or campaign.
    pub name: String,
    /// Narrows' version.
    pub narrows: String,
    /// The commit that it was built from, `-dirty` behind it where files were
    /// changed; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// `sim` or `live`.
    pub engine: String,
    /// The seed, or the seeds of a campaign.
    pub seeds: Vec<u64>,
    /// The command line that repeats it, word by word; empty where it was not
    /// made by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Kernel release of the machine, or of the kernel in virtual time that ran.
    pub kernel: String,
    /// The kernel in virtual time, where one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_kernel: Option<VirtualKernel>,
    /// When it started, RFC 3339 in UTC.
    pub started_utc: String,
    /// Seconds that it took.
    pub wall_s: f64,
    /// Seconds of network time that were run.
    pub virtual_s: f64,
    /// Events that the engine processed.
    pub events: u64,
    /// Packets made.
    pub packets: u64,
    /// SHA-256 over the names and contents of all data files; empty while
    /// incomplete.
    pub digest: String,
    /// The data files with their own digests.
    pub files: Vec<FileRecord>,
    /// What is known of the machine, of a live run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rig: Option<Rig>,
    /// Whether the run can be trusted.
    pub verdict: Verdict,
    /// Whether it got to its end; `false` also while it runs.
    pub complete: bool,
    /// The scenario with every default filled in.
    pub scenario: serde_json::Value,
}

/// What made a result. It is written into `run.json` and decides nothing: the
/// data and their digest do not depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// [`RunRecord::command`].
    pub command: Vec<String>,
    /// [`RunRecord::commit`].
    pub commit: Option<String>,
}

/// A data file of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path below the folder, with `/`.
    pub name: String,
    /// Length.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// A run as it was just made, or as it was read from its folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Where it lies; `None` if it was not written.
    pub dir: Option<PathBuf>,
    /// `run.json`.
    pub record: RunRecord,
    /// `summary.json`; empty if the run got nowhere.
    pub summary: RunSummary,
    /// `series.csv.gz`; empty if there is none.
    pub series: Series,
}

/// What a results folder holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Results {
    /// One run.
    Run(Box<RunResult>),
    /// A campaign; its cells are folders of runs, see
    /// [`CellResult::folder`](crate::campaign::CellResult::folder).
    Campaign(Box<CampaignFolder>),
    /// A comparison; its runs are folders below its own, see
    /// [`CellComparison`](crate::comparison::CellComparison).
    Comparison(Box<ComparisonFolder>),
    /// A collection of campaigns.
    Collection(Box<CollectionFolder>),
}

impl Results {
    /// Its `run.json`.
    pub fn record(&self) -> &RunRecord {
        match self {
            Self::Run(run) => &run.record,
            Self::Campaign(campaign) => &campaign.record,
            Self::Comparison(comparison) => &comparison.record,
            Self::Collection(collection) => &collection.record,
        }
    }
}

impl RunRecord {
    /// Whether its data never became whole: it still runs, or was killed, or its disk was
    /// full. One that was interrupted and wrote what there was is finished.
    pub fn is_unfinished(&self) -> bool {
        !self.complete && self.verdict.is_unfinished()
    }

    /// Records what made it.
    pub fn made_by(&mut self, origin: &Origin) {
        self.command.clone_from(&origin.command);
        self.commit.clone_from(&origin.commit);
    }

    /// The same of a run whose plan became `plan` while it went on: no command repeats it.
    pub(crate) fn amended(self, plan: &Plan) -> Self {
        Self {
            scenario: scenario(plan),
            command: Vec::new(),
            ..self
        }
    }

    /// Narrows' version with its commit: `0.1.0 (f2ad165c9d3e)`.
    pub fn version(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} ({commit})", self.narrows),
            None => self.narrows.clone(),
        }
    }

    /// What it is called in a comparison: name, seeds, version and time.
    pub fn title(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        format!(
            "{} (seed {}, narrows {}, {})",
            self.name,
            seeds.join(", "),
            self.version(),
            self.started_utc
        )
    }
}

/// A campaign as read from its folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignFolder {
    /// Where it lies.
    pub dir: PathBuf,
    /// `run.json`.
    pub record: RunRecord,
    /// `campaign.json`.
    pub result: CampaignResult,
}

/// A comparison as read from its folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonFolder {
    /// Where it lies.
    pub dir: PathBuf,
    /// `run.json`.
    pub record: RunRecord,
    /// `compare.json`; empty while no cell is compared.
    pub result: Comparison,
}

/// `plan` as [`RunRecord::scenario`].
fn scenario(plan: &Plan) -> serde_json::Value {
    // A plan holds nothing that JSON cannot: no map with other keys than strings, no number
    // that is not finite.
    serde_json::to_value(plan).unwrap_or_default()
}

/// The record of a run of `plan` that starts now and is not complete.
pub fn begin(engine: &dyn Engine, plan: &Plan, seed: u64) -> RunRecord {
    RunRecord {
        scenario: scenario(plan),
        ..begin_named("run", engine, &plan.name, &[seed])
    }
}

/// The same for anything else that leaves a folder.
pub fn begin_named(kind: &str, engine: &dyn Engine, name: &str, seeds: &[u64]) -> RunRecord {
    let built = engine.virtual_kernel();
    RunRecord {
        format: FORMAT,
        kind: kind.to_owned(),
        name: name.to_owned(),
        narrows: env!("CARGO_PKG_VERSION").to_owned(),
        engine: engine.name().to_owned(),
        seeds: seeds.to_vec(),
        kernel: built.map_or_else(kernel, |built| built.release.clone()),
        virtual_kernel: built.cloned(),
        started_utc: time::rfc3339(std::time::SystemTime::now()),
        verdict: Verdict::unfinished(),
        ..RunRecord::default()
    }
}

/// The kernel's release, or the system's name where there is no such file.
fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |release| release.trim().to_owned(),
    )
}

#[cfg(test)]
mod tests;
