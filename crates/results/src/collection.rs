//! What a collection of campaigns came to: `collection.json`, and a folder for each campaign.

use std::path::{Path, PathBuf};
use std::time::Instant;

use narrows_engine::Engine;
use narrows_scenario::Collection;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folder::{self, CampaignFolder, FileRecord, Folder, Origin, Output, RunRecord};
use crate::verdict::Verdict;

/// The file in the results folder that holds a [`CollectionResult`].
pub const FILE: &str = "collection.json";

/// A collection's outcome, beside those of its campaigns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionResult {
    /// `l4s-tests/risk`.
    pub name: String,
    /// A sentence about it.
    pub title: Option<String>,
    /// What it is, in a paragraph.
    pub about: Option<String>,
    /// Where its campaigns come from.
    pub source: Option<String>,
    /// The folders of its campaigns in order, relative to its own; some may not be there yet.
    pub folders: Vec<String>,
    /// Whether all of them were run to their end.
    pub complete: bool,
}

/// A collection as read from its folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectionFolder {
    /// Where it lies.
    pub dir: PathBuf,
    /// `run.json`.
    pub record: RunRecord,
    /// `collection.json`.
    pub result: CollectionResult,
    /// Its campaigns, those that are there, each with its folder's name.
    pub campaigns: Vec<(String, CampaignFolder)>,
}

/// The folder of a collection while its campaigns run.
#[derive(Debug)]
pub struct CollectionWriter {
    folder: Folder,
    record: RunRecord,
    result: CollectionResult,
    started: Instant,
}

impl CollectionWriter {
    /// Begins a folder for the campaigns of `collection`, which are called `names`.
    ///
    /// # Errors
    /// When the folder has something in it already, or cannot be written.
    pub fn begin(
        engine: &dyn Engine,
        collection: &Collection,
        names: &[&str],
        output: &Output,
        origin: &Origin,
    ) -> Result<Option<Self>, Error> {
        let Some(folder) = Folder::create(output, &collection.name)? else {
            return Ok(None);
        };
        let mut record = folder::begin_named("collection", engine, &collection.name, &[]);
        record.made_by(origin);
        folder.write_record(&record)?;
        let made = Self {
            folder,
            record,
            result: CollectionResult {
                name: collection.name.clone(),
                title: collection.title.clone(),
                about: collection.about.clone(),
                source: collection.source.clone(),
                folders: names.iter().map(|name| folder_of(name)).collect(),
                complete: false,
            },
            started: Instant::now(),
        };
        made.folder.write_json(FILE, &made.result)?;
        Ok(Some(made))
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        self.folder.dir()
    }

    /// Where the campaign `name` goes.
    pub fn campaign_dir(&self, name: &str) -> PathBuf {
        self.dir().join(folder_of(name))
    }

    /// Completes the folder by what its campaigns left in theirs.
    ///
    /// # Errors
    /// When one of these cannot be read, or something cannot be written.
    pub fn finish(mut self) -> Result<CollectionFolder, Error> {
        let dir = self.dir().to_path_buf();
        let campaigns = read(&dir, &self.result)?;
        let ended = campaigns.iter().filter(|(_, c)| c.record.complete).count();
        self.result.complete = ended == self.result.folders.len();
        self.folder.write_json(FILE, &self.result)?;
        let record = &mut self.record;
        record.wall_s = self.started.elapsed().as_secs_f64();
        record.complete = self.result.complete;
        record.verdict = match record.complete {
            true => Verdict::default(),
            false => Verdict::interrupted(),
        };
        let mut files = self.folder.digest_files(vec![FILE.to_owned()])?;
        for (name, campaign) in &campaigns {
            let made = &campaign.record;
            record.virtual_s += made.virtual_s;
            record.events += made.events;
            record.packets += made.packets;
            let findings = made.verdict.findings.iter().cloned().map(|mut finding| {
                finding.entity.clone_from(&campaign.result.name);
                finding
            });
            record.verdict.findings.extend(findings);
            files.push(FileRecord {
                name: name.clone(),
                bytes: made.files.iter().map(|f| f.bytes).sum(),
                sha256: made.digest.clone(),
            });
        }
        record.verdict.findings.sort_by_key(|f| f.weight);
        record.digest = folder::digest_of(&files);
        record.files = files;
        self.folder.write_record(record)?;
        Ok(CollectionFolder {
            dir,
            record: self.record,
            result: self.result,
            campaigns,
        })
    }
}

/// The campaigns of a collection at `dir`, those whose folders are there.
pub(crate) fn read(
    dir: &Path,
    result: &CollectionResult,
) -> Result<Vec<(String, CampaignFolder)>, Error> {
    let mut campaigns = Vec::new();
    for name in &result.folders {
        let at = dir.join(name);
        if !at.join("run.json").is_file() {
            continue;
        }
        if let folder::Results::Campaign(campaign) = folder::open(&at)? {
            campaigns.push((name.clone(), *campaign));
        }
    }
    Ok(campaigns)
}

/// The folder of the campaign `name`, spelled for file systems.
fn folder_of(name: &str) -> String {
    let parts: Vec<String> = name.split('/').map(folder::file_name).collect();
    parts.join("/")
}
