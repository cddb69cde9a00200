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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::CampaignResult;
    use crate::folder::{FORMAT, Results, open};
    use crate::scripted::silent;
    use crate::verdict::{Finding, Weight};

    const NAMES: [&str; 3] = ["risk/long flows", "risk/short", "other"];

    fn begin(output: &Output) -> Result<Option<CollectionWriter>, Error> {
        let collection = Collection {
            name: "l4s-tests/risk".to_owned(),
            title: Some("what may go wrong".to_owned()),
            about: Some("a paragraph".to_owned()),
            source: Some("a report".to_owned()),
            campaigns: Vec::new(),
        };
        let origin = Origin {
            command: vec!["narrows".to_owned(), "campaign".to_owned()],
            commit: None,
        };
        CollectionWriter::begin(&silent(), &collection, &NAMES, output, &origin)
    }

    /// Leaves a folder as that of the campaign `name`, of which everything counted is `n`.
    fn leave(writer: &CollectionWriter, name: &str, n: u32, findings: Vec<Finding>) -> FileRecord {
        let file = |bytes| FileRecord {
            bytes,
            ..FileRecord::default()
        };
        let record = RunRecord {
            format: FORMAT,
            kind: "campaign".to_owned(),
            virtual_s: f64::from(n),
            events: 10 * u64::from(n),
            packets: 100 * u64::from(n),
            digest: format!("digest of {name}"),
            files: vec![file(u64::from(n)), file(1000)],
            complete: true,
            verdict: Verdict { findings },
            ..RunRecord::default()
        };
        let result = CampaignResult {
            name: name.to_owned(),
            ..CampaignResult::default()
        };
        let dir = writer.campaign_dir(name);
        let folder = Folder::at(dir.clone()).unwrap();
        folder.write_record(&record).unwrap();
        folder.write_json("campaign.json", &result).unwrap();
        let name = dir.strip_prefix(writer.dir()).unwrap();
        FileRecord {
            name: name.display().to_string(),
            bytes: 1000 + u64::from(n),
            sha256: record.digest,
        }
    }

    fn finding(weight: Weight) -> Finding {
        Finding {
            weight,
            check: "x".to_owned(),
            entity: "cell".to_owned(),
            line: "a sentence".to_owned(),
        }
    }

    fn opened(dir: &Path) -> CollectionFolder {
        match open(dir).unwrap() {
            Results::Collection(collection) => *collection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_collection_that_is_written_nowhere_has_no_folder() {
        assert!(begin(&Output::Nowhere).unwrap().is_none());
    }

    #[test]
    fn a_collection_adds_up_what_its_campaigns_left_in_their_folders() {
        let dir = tempfile::tempdir().unwrap();
        let writer = begin(&Output::Folder(dir.path().to_owned()))
            .unwrap()
            .unwrap();
        assert_eq!(
            writer.campaign_dir(NAMES[0]),
            dir.path().join("risk/long-flows")
        );
        let begun = opened(dir.path());
        assert!(begun.record.is_unfinished());
        assert_eq!(begun.record.command, ["narrows", "campaign"]);
        assert_eq!(begun.record.kind, "collection");
        assert_eq!(
            begun.result,
            CollectionResult {
                name: "l4s-tests/risk".to_owned(),
                title: Some("what may go wrong".to_owned()),
                about: Some("a paragraph".to_owned()),
                source: Some("a report".to_owned()),
                folders: ["risk/long-flows", "risk/short", "other"]
                    .map(str::to_owned)
                    .to_vec(),
                complete: false,
            }
        );
        assert_eq!(begun.campaigns, []);

        let left = [
            leave(&writer, NAMES[0], 2, vec![finding(Weight::Note)]),
            leave(&writer, NAMES[1], 3, vec![finding(Weight::Distrust)]),
            leave(&writer, NAMES[2], 4, vec![]),
        ];
        let made = writer.finish().unwrap();
        assert!(made.record.complete && made.result.complete);
        let names: Vec<_> = made
            .campaigns
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["risk/long-flows", "risk/short", "other"]);
        assert_eq!(made.campaigns[1].1.result.name, "risk/short");
        let record = &made.record;
        assert_eq!(
            (record.virtual_s, record.events, record.packets),
            (9.0, 90, 900)
        );
        // The grave ones first, each with the campaign that has it.
        let findings: Vec<_> = record.verdict.findings.iter().map(|f| &*f.entity).collect();
        assert_eq!(findings, ["risk/short", "risk/long flows"]);
        assert_eq!(record.files[0].name, FILE);
        assert_eq!(record.files[1..], left);
        assert_eq!(record.digest, folder::digest_of(&record.files));
        assert_eq!(opened(dir.path()), made);
    }

    #[test]
    fn a_collection_of_which_a_campaign_is_missing_is_not_complete() {
        let dir = tempfile::tempdir().unwrap();
        let writer = begin(&Output::Folder(dir.path().to_owned()))
            .unwrap()
            .unwrap();
        leave(&writer, NAMES[0], 2, vec![]);
        leave(&writer, NAMES[2], 4, vec![]);
        let made = writer.finish().unwrap();
        assert!(!made.record.complete && !made.result.complete);
        assert_eq!(made.record.verdict, Verdict::interrupted());
        assert_eq!(made.campaigns.len(), 2);
        assert_eq!(opened(dir.path()), made);
    }
}
