//! Reading a results folder.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::{CampaignFolder, ComparisonFolder, FORMAT, Results, RunRecord, RunResult};
use crate::Error;
use crate::collection::{self, CollectionFolder, CollectionResult};
use crate::series::Series;

/// Opens a results folder: of a run, a campaign, a comparison or a collection, or a link to
/// one.
///
/// A folder of a run that was killed has a `run.json` and perhaps nothing
/// else; it opens with an empty summary and series.
///
/// # Errors
/// When `dir` is not a results folder, or a file in it cannot be read.
pub fn open(dir: &Path) -> Result<Results, Error> {
    let record = record(dir)?;
    if record.kind == "campaign" {
        return Ok(Results::Campaign(Box::new(CampaignFolder {
            dir: dir.to_path_buf(),
            result: json(dir, "campaign.json")?.unwrap_or_default(),
            record,
        })));
    }
    if record.kind == "compare" {
        return Ok(Results::Comparison(Box::new(ComparisonFolder {
            dir: dir.to_path_buf(),
            result: json(dir, crate::comparison::FILE)?.unwrap_or_default(),
            record,
        })));
    }
    if record.kind == "collection" {
        let result: CollectionResult = json(dir, collection::FILE)?.unwrap_or_default();
        return Ok(Results::Collection(Box::new(CollectionFolder {
            dir: dir.to_path_buf(),
            campaigns: collection::read(dir, &result)?,
            result,
            record,
        })));
    }
    let series = dir.join("series.csv.gz");
    let series = if series.is_file() {
        let gz = fs::read(&series).map_err(Error::io("read", &series))?;
        Series::from_csv_gz(&gz).map_err(|what| Error::Content { path: series, what })?
    } else {
        Series::default()
    };
    Ok(Results::Run(Box::new(RunResult {
        dir: Some(dir.to_path_buf()),
        summary: json(dir, "summary.json")?.unwrap_or_default(),
        record,
        series,
    })))
}

/// Opens the results folder of one run.
///
/// # Errors
/// As [`open`], and when it is of several runs.
pub fn open_run(dir: &Path) -> Result<RunResult, Error> {
    match open(dir)? {
        Results::Run(run) => Ok(*run),
        Results::Campaign(_) | Results::Comparison(_) | Results::Collection(_) => {
            Err(Error::NotResults {
                dir: dir.to_path_buf(),
                what: "it holds several runs, and a single one is wanted; name a folder of a run \
                   below its cells/"
                    .to_owned(),
            })
        }
    }
}

fn record(dir: &Path) -> Result<RunRecord, Error> {
    let not_results = |what: &str| Error::NotResults {
        dir: dir.to_path_buf(),
        what: what.to_owned(),
    };
    if let Err(source) = dir.metadata() {
        if source.kind() == std::io::ErrorKind::PermissionDenied {
            return Err(Error::io("read", dir)(source));
        }
    }
    if !dir.is_dir() {
        return Err(not_results("there is no such folder"));
    }
    let record: RunRecord = json(dir, "run.json")?.ok_or_else(|| {
        not_results(
            "it has no run.json; if it is of a run, that one is not finished: it still runs, \
             or it was killed and has to be run again",
        )
    })?;
    if record.format != FORMAT {
        return Err(not_results(&format!(
            "its run.json has format {}, and this version reads format {FORMAT}",
            record.format
        )));
    }
    Ok(record)
}

fn json<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, Error> {
    let path = dir.join(name);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("read", &path)(e)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|e| Error::Content {
            path,
            what: e.to_string(),
        })
}
