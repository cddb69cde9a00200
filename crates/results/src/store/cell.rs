//! One cell on the disk: written before it has its name, and checked whenever it is read.

use std::collections::BTreeSet;
use std::fs::{self, FileTimes};
use std::io::{self, Read, Write};
use std::path::{Component, Path};
use std::time::SystemTime;

use narrows_files::Whole;
use serde::{Deserialize, Serialize};

use super::{Key, Taken};
use crate::Error;
use crate::folder::{FileRecord, Folder, RunRecord, RunResult, digest};
use crate::series::Series;
use crate::summary::RunSummary;

/// What describes a cell in its folder.
const CELL: &str = "cell.json";
const RECORD: &str = "run.json";
const SUMMARY: &str = "summary.json";
const SERIES: &str = "series.csv.gz";

/// Bytes that a file may have which is read into memory as a whole: far more than any has (our
/// choice).
const MOST_IN_MEMORY: u64 = 256 << 20;

/// A run as it was taken from a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// `run.json`.
    pub record: RunRecord,
    /// `summary.json`.
    pub summary: RunSummary,
}

/// `cell.json`. Nothing in it has to be believed: the name of the folder is the digest of the
/// key, and the files have theirs.
#[derive(Serialize, Deserialize)]
struct CellRecord {
    key: Key,
    files: Vec<FileRecord>,
}

/// Describes the run in `dir`, whose record is written, with these data files.
pub(super) fn complete(dir: &Path, key: &Key, data: &[FileRecord]) -> Result<(), Error> {
    let folder = Folder::at(dir.to_path_buf())?;
    let mut files = folder.digest_files(vec![RECORD.to_owned()])?;
    files.extend_from_slice(data);
    let key = key.clone();
    folder.write_json_line(CELL, &CellRecord { key, files })
}

/// Why a file was not passed on.
enum Failed {
    /// It is not as it was written.
    Damaged(String),
    /// Who wanted it could not take it.
    Write(io::Error),
}

/// Reads the cell in `dir`, which is called `name`, and holds every file against its digest;
/// data files are copied into the folder `into`. Whatever is in `dir`, this ends: pipes, devices
/// and links are damage, and of no file more is read than it is to have.
pub(super) fn take(dir: &Path, name: &str, into: Option<&Path>) -> Result<Taken, Error> {
    let cell = match described(dir, name) {
        Ok(cell) => cell,
        Err(why) => return Ok(Taken::Damaged(why)),
    };
    let (mut record, mut summary) = (Vec::new(), Vec::new());
    let mut copied = Vec::new();
    let mut damage = None;
    for file in &cell.files {
        let passed = match (file.name.as_str(), into) {
            (RECORD, _) => pass(dir, file, &mut record),
            (SUMMARY, None) => pass(dir, file, &mut summary),
            (_, None) => pass(dir, file, &mut io::sink()),
            (name, Some(into)) => {
                let path = into.join(name);
                let parent = path.parent().unwrap_or(into);
                narrows_files::create_dir_all(parent).map_err(Error::io("create", parent))?;
                let mut copy = Whole::begin(&path)?;
                let passed = match name == SUMMARY {
                    true => pass(dir, file, &mut summary)
                        .and_then(|()| copy.write_all(&summary).map_err(Failed::Write)),
                    false => pass(dir, file, &mut copy),
                };
                // What is not kept is removed.
                if passed.is_ok() {
                    copy.keep()?;
                    copied.push(path);
                }
                passed
            }
        };
        match passed {
            Ok(()) => {}
            Err(Failed::Write(source)) => {
                let into = into.unwrap_or(dir);
                return Err(Error::io("write", &into.join(&file.name))(source));
            }
            Err(Failed::Damaged(why)) => {
                damage = Some(why);
                break;
            }
        }
    }
    let run = match damage {
        Some(why) => Err(why),
        None => read(&cell, &record, &summary),
    };
    Ok(match run {
        Ok(run) => {
            used(dir);
            Taken::Cell(Box::new(run))
        }
        Err(why) => {
            for path in copied {
                fs::remove_file(&path).map_err(Error::io("write", &path))?;
            }
            Taken::Damaged(why)
        }
    })
}

/// Holds every file of the cell in `dir` against its digest.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn verify(dir: &Path, name: &str) -> Result<(), String> {
    let cell = described(dir, name)?;
    for file in &cell.files {
        match pass(dir, file, &mut io::sink()) {
            Err(Failed::Damaged(why)) => return Err(why),
            // A sink takes everything.
            Ok(()) | Err(Failed::Write(_)) => {}
        }
    }
    Ok(())
}

/// The description of the cell in `dir`, if it is of the one that is called `name`.
fn described(dir: &Path, name: &str) -> Result<CellRecord, String> {
    let unread = |e: &dyn std::fmt::Display| format!("{CELL} cannot be read: {e}");
    if !fs::symlink_metadata(dir).map_err(|e| unread(&e))?.is_dir() {
        return Err("it is no folder".to_owned());
    }
    let mut text = Vec::new();
    let file = narrows_files::open_regular(dir.join(CELL)).map_err(|e| unread(&e))?;
    fits(CELL, file.metadata().map_err(|e| unread(&e))?.len())?;
    let read = file.take(MOST_IN_MEMORY).read_to_end(&mut text);
    read.map_err(|e| unread(&e))?;
    let cell: CellRecord = serde_json::from_slice(&text).map_err(|e| unread(&e))?;
    if cell.key.name() != name {
        return Err(format!("{CELL} is of another cell than its folder's name"));
    }
    let mut names = BTreeSet::from([CELL]);
    for file in &cell.files {
        let mut parts = Path::new(&file.name).components();
        if file.name.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!("{CELL} names `{}`, outside its folder", file.name));
        }
        if !names.insert(&file.name) {
            return Err(format!("{CELL} names `{}` twice", file.name));
        }
    }
    for name in [RECORD, SUMMARY] {
        let Some(file) = cell.files.iter().find(|file| file.name == name) else {
            return Err(format!("{CELL} names no {name}"));
        };
        fits(name, file.bytes)?;
    }
    Ok(cell)
}

/// Refuses a file of so many bytes that is to be read into memory.
fn fits(name: &str, bytes: u64) -> Result<(), String> {
    match bytes <= MOST_IN_MEMORY {
        true => Ok(()),
        false => Err(format!("{name} is too large")),
    }
}

/// The run of `cell`, of which these are the record and the summary.
fn read(cell: &CellRecord, record: &[u8], summary: &[u8]) -> Result<StoredRun, String> {
    let unread = |name: &'static str| move |e: serde_json::Error| format!("{name}: {e}");
    let run = StoredRun {
        record: serde_json::from_slice(record).map_err(unread(RECORD))?,
        summary: serde_json::from_slice(summary).map_err(unread(SUMMARY))?,
    };
    let RunRecord {
        complete,
        engine,
        virtual_kernel,
        seeds,
        files,
        digest,
        ..
    } = &run.record;
    if !complete {
        return Err(format!("{RECORD} is of a run that is not complete"));
    }
    let key = &cell.key;
    if (engine, virtual_kernel) != (&key.engine, &key.kernel) || *seeds != [key.seed] {
        return Err(format!("{RECORD} is of another engine, kernel or seed"));
    }
    let data = cell.files.iter().filter(|file| file.name != RECORD);
    if !data.eq(files) || *digest != digest::of_all(files) {
        return Err(format!("{RECORD} names other files than {CELL}"));
    }
    Ok(run)
}

/// Passes a file on as it is read; an error at its end if it is not what was written.
fn pass(dir: &Path, file: &FileRecord, to: &mut dyn Write) -> Result<(), Failed> {
    let unread = |e: io::Error| Failed::Damaged(format!("{} cannot be read: {e}", file.name));
    let mut path = dir.to_path_buf();
    for part in Path::new(&file.name).parent().into_iter().flatten() {
        path.push(part);
        if !fs::symlink_metadata(&path).map_err(unread)?.is_dir() {
            return Err(unread(io::ErrorKind::NotADirectory.into()));
        }
    }
    let from = narrows_files::open_regular(dir.join(&file.name)).map_err(unread)?;
    let changed = || Failed::Damaged(format!("{} has changed", file.name));
    if from.metadata().map_err(unread)?.len() != file.bytes {
        return Err(changed());
    }
    match digest::pass(&mut from.take(file.bytes.saturating_add(1)), to) {
        Ok(found) if found == (file.bytes, file.sha256.clone()) => Ok(()),
        Ok(_) => Err(changed()),
        Err(digest::Failed::Read(e)) => Err(unread(e)),
        Err(digest::Failed::Write(e)) => Err(Failed::Write(e)),
    }
}

/// Notes that the cell was used now. In a store that may only be read it cannot be.
fn used(dir: &Path) {
    let touch = || {
        let file = narrows_files::open_regular(dir.join(CELL))?;
        file.set_times(FileTimes::new().set_modified(SystemTime::now()))
    };
    touch().ok();
}

/// Seconds that the run of the cell in `dir`, which is called `name`, took.
pub(super) fn wall_s(dir: &Path, name: &str) -> Result<f64, String> {
    let cell = described(dir, name)?;
    let mut record = Vec::new();
    for file in cell.files.iter().filter(|file| file.name == RECORD) {
        match pass(dir, file, &mut record) {
            Err(Failed::Damaged(why)) => return Err(why),
            // A vector takes everything.
            Ok(()) | Err(Failed::Write(_)) => {}
        }
    }
    let record: RunRecord =
        serde_json::from_slice(&record).map_err(|e| format!("{RECORD}: {e}"))?;
    Ok(record.wall_s)
}

/// What is known of a cell without reading its data.
pub(super) struct Outline {
    pub(super) key: Key,
    pub(super) bytes: u64,
    pub(super) used: Option<SystemTime>,
}

/// The outline of the cell in `dir`, which is called `name`.
pub(super) fn outline(dir: &Path, name: &str) -> Result<Outline, String> {
    let cell = described(dir, name)?;
    Ok(Outline {
        bytes: cell.files.iter().map(|file| file.bytes).sum(),
        key: cell.key,
        used: used_at(dir),
    })
}

/// When the cell in `dir` was written or taken last; `None` if there is none.
pub(super) fn used_at(dir: &Path) -> Option<SystemTime> {
    let facts = fs::symlink_metadata(dir.join(CELL)).ok()?;
    facts.modified().ok()
}

/// Reads the run of the cell in `dir`, which is called `name`, with its series if it has them:
/// every file that is read is held against its digest, and nothing is written.
pub(super) fn open(dir: &Path, name: &str) -> Result<RunResult, String> {
    let cell = described(dir, name)?;
    let file_named = |name: &str| cell.files.iter().find(|file| file.name == name);
    let content = |name: &str| {
        let Some(file) = file_named(name) else {
            return Ok(None);
        };
        fits(name, file.bytes)?;
        let mut content = Vec::new();
        match pass(dir, file, &mut content) {
            Err(Failed::Damaged(why)) => Err(why),
            // A vector takes everything.
            Ok(()) | Err(Failed::Write(_)) => Ok(Some(content)),
        }
    };
    let (record, summary) = (content(RECORD)?, content(SUMMARY)?);
    let run = read(
        &cell,
        &record.unwrap_or_default(),
        &summary.unwrap_or_default(),
    )?;
    let series = match content(SERIES)? {
        Some(gz) => Series::from_csv_gz(&gz).map_err(|why| format!("{SERIES}: {why}"))?,
        None => Series::default(),
    };
    Ok(RunResult {
        dir: None,
        record: run.record,
        summary: run.summary,
        series,
    })
}
