//! Writing a results folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fs, io};

use narrows_files::Whole;
use narrows_reduce::observers::{SAMPLES, SECONDS, TOTALS};
use serde::Serialize;

use super::patience::{Patience, Until};
use super::{FileRecord, Output, RunRecord, RunResult, digest, time};
use crate::Error;
use crate::capture::CAPTURES;
use crate::flent;
use crate::metric;
use crate::verdict::Verdict;

/// How long results are still written after an interrupt.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where what programs wrote is kept.
const COMMANDS: &str = "commands";

/// A results folder that is being filled.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    /// Whether each file waits for the disk. Those of a campaign's cells do not: they are
    /// many, and cheap to make again.
    lasting: bool,
}

impl Folder {
    /// The folder that `output` asks for, made and empty; `None` if nothing is
    /// to be written.
    ///
    /// # Errors
    /// When the folder has something in it already, or cannot be made.
    pub fn create(output: &Output, name: &str) -> Result<Option<Self>, Error> {
        match output {
            Output::Nowhere => Ok(None),
            Output::Folder(dir) => {
                check_empty(dir)?;
                let made = Self::at(dir.clone())?;
                Ok(Some(Self {
                    lasting: true,
                    ..made
                }))
            }
            Output::Below(parent) => {
                let stem = format!(
                    "{}-{}",
                    time::compact(std::time::SystemTime::now()),
                    file_name(name)
                );
                narrows_files::create_dir_all(parent).map_err(Error::io("create", parent))?;
                let leaf = create_new(parent, &stem)?;
                point_latest(parent, &leaf);
                Ok(Some(Self {
                    dir: parent.join(leaf),
                    lasting: true,
                }))
            }
        }
    }

    /// A folder at `dir`, made where it is missing.
    pub fn at(dir: PathBuf) -> Result<Self, Error> {
        narrows_files::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        Ok(Self {
            dir,
            lasting: false,
        })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes `run.json`, whole or not at all.
    pub fn write_record(&self, record: &RunRecord) -> Result<(), Error> {
        self.write_json("run.json", record)
    }

    /// Writes `value` as JSON for people: indented, with a newline at the end.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let path = self.dir.join(name);
        let mut text = serde_json::to_string_pretty(value).map_err(|e| Error::Content {
            path: path.clone(),
            what: e.to_string(),
        })?;
        text.push('\n');
        self.write_file(name, text.as_bytes())
    }

    /// Writes `value` as JSON in one line, for files that are many.
    pub fn write_json_line(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let path = self.dir.join(name);
        let mut text = serde_json::to_vec(value).map_err(|e| Error::Content {
            path,
            what: e.to_string(),
        })?;
        text.push(b'\n');
        self.write_file(name, &text)
    }

    /// Writes a file, whole or not at all.
    pub fn write_file(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.dir.join(name);
        let mut file = Whole::begin(&path)?;
        file.write_all(content).map_err(Error::io("write", &path))?;
        self.keep(file)
    }

    fn keep(&self, file: Whole) -> Result<(), Error> {
        match self.lasting {
            true => file.keep_lasting()?,
            false => file.keep()?,
        }
        Ok(())
    }

    /// Writes `name` as it comes, as [`write_file`](Self::write_file) does: whole or not at
    /// all. Nothing is written where `write` finds nothing to write; whether there was.
    fn write_as_it_comes<'a>(
        &self,
        name: &str,
        patience: &'a Patience<'a>,
        write: impl FnOnce(Until<'a, &mut Whole>) -> io::Result<bool>,
    ) -> Result<bool, Error> {
        let path = self.dir.join(name);
        let mut file = Whole::begin(&path)?;
        let any = write(patience.guard(&mut file)).map_err(Error::io("write", &path))?;
        if any {
            self.keep(file)?;
        }
        Ok(any)
    }

    /// Writes all data files of a run and then `run.json` with their digests. Once `cancel`
    /// is set it goes on for half a second; what is not written then is left out, and the
    /// record says that the run is not complete.
    pub fn write_run(
        &self,
        result: &mut RunResult,
        with_flent: bool,
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        self.write_run_within(result, with_flent, &Patience::new(cancel, PATIENCE))
    }

    /// Writes the summary of a run alone, and then `run.json` with its digest.
    pub fn write_summary(&self, result: &mut RunResult) -> Result<(), Error> {
        self.write_json("summary.json", &result.summary)?;
        let files = self.digest_files(vec!["summary.json".to_owned()])?;
        result.record.digest = digest::of_all(&files);
        result.record.files = files;
        self.write_record(&result.record)
    }

    fn write_run_within(
        &self,
        result: &mut RunResult,
        with_flent: bool,
        patience: &Patience<'_>,
    ) -> Result<(), Error> {
        match self.write_data(result, with_flent, patience) {
            Ok(files) => {
                result.record.digest = digest::of_all(&files);
                result.record.files = files;
            }
            Err(_) if patience.is_over() => {
                result.record.complete = false;
                result.record.verdict = Verdict::interrupted();
            }
            Err(error) => return Err(error),
        }
        self.write_record(&result.record)?;
        result.dir = Some(self.dir.clone());
        Ok(())
    }

    fn write_data(
        &self,
        result: &RunResult,
        with_flent: bool,
        patience: &Patience<'_>,
    ) -> Result<Vec<FileRecord>, Error> {
        let (summary, series) = (&result.summary, &result.series);
        self.write_json("summary.json", summary)?;
        self.write_file("summary.csv", metric::to_csv(summary).as_bytes())?;
        self.write_as_it_comes("series.csv.gz", patience, |out| {
            series.write_csv_gz(out).map(|()| true)
        })?;
        let mut names = vec![
            "series.csv.gz".to_owned(),
            "summary.csv".to_owned(),
            "summary.json".to_owned(),
        ];
        if with_flent {
            let any = self.write_as_it_comes(flent::FILE, patience, |out| {
                Ok(flent::write_gz(result, out)?.is_some())
            })?;
            if any {
                names.push(flent::FILE.to_owned());
            }
        }
        for name in [SAMPLES, SECONDS, TOTALS] {
            if self.dir.join(name).is_file() {
                names.push(name.to_owned());
            }
        }
        for below in [CAPTURES, COMMANDS] {
            let dir = self.dir.join(below);
            if !dir.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&dir).map_err(Error::io("read", &dir))? {
                let entry = entry.map_err(Error::io("read", &dir))?;
                names.push(format!("{below}/{}", entry.file_name().to_string_lossy()));
            }
        }
        self.digest_files(names)
    }

    /// The digests of the files `names`, in the order of names.
    pub fn digest_files(&self, mut names: Vec<String>) -> Result<Vec<FileRecord>, Error> {
        names.sort();
        names
            .iter()
            .map(|name| digest::of_file(&self.dir, name))
            .collect()
    }
}

/// Refuses a folder with anything in it.
fn check_empty(dir: &Path) -> Result<(), Error> {
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Error::NotEmpty(dir.to_path_buf())),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Err(Error::NotEmpty(dir.to_path_buf()))
        }
        Err(e) => Err(Error::io("read", dir)(e)),
    }
}

/// Makes a folder below `parent` that is called `stem`, with a number behind it where there is
/// one already; its name.
fn create_new(parent: &Path, stem: &str) -> Result<String, Error> {
    let mut leaf = stem.to_owned();
    let mut n = 1;
    // Two runs in the same second: the name is taken atomically.
    while let Err(error) = narrows_files::create_dir(parent.join(&leaf)) {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(Error::io("create", &parent.join(&leaf))(error));
        }
        n += 1;
        leaf = format!("{stem}-{n}");
    }
    Ok(leaf)
}

/// Makes `parent/latest` point to `leaf`. A convenience: where links cannot be
/// made, or `latest` is a real folder, it is left alone.
fn point_latest(parent: &Path, leaf: &str) {
    #[cfg(unix)]
    {
        let link = parent.join("latest");
        let is_real = fs::symlink_metadata(&link).is_ok_and(|m| !m.file_type().is_symlink());
        let part = parent.join(format!(".latest-{leaf}"));
        if is_real || narrows_files::symlink(leaf, &part).is_err() {
            return;
        }
        if fs::rename(&part, &link).is_err() {
            // Nothing depends on the link; only the half-made one must go.
            fs::remove_file(&part).ok();
        }
    }
    #[cfg(not(unix))]
    let _ = (parent, leaf);
}

/// `name` as a file's name: what is not an ASCII letter, a digit or one of
/// `._-(),=` becomes `-`.
pub fn file_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || "._-(),=".contains(c) => c,
            _ => '-',
        })
        .collect();
    let clean = clean.trim_matches(['-', '.']);
    if clean.is_empty() {
        "run".to_owned()
    } else {
        clean.chars().take(100).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::open_run;
    use crate::series::{Series, Track};

    fn result() -> RunResult {
        // Values that no compressor shrinks, so that the file takes more than one write.
        let value = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64;
        let track = Track {
            entity: "flow/a".to_owned(),
            metric: "rtt_ms".to_owned(),
            t_s: (1..100_000).map(|i| i as f64).collect(),
            value: (1..100_000).map(value).collect(),
        };
        let mut result = RunResult {
            series: Series {
                interval_s: 1.0,
                tracks: vec![track],
            },
            ..RunResult::default()
        };
        result.record = RunRecord {
            format: crate::folder::FORMAT,
            kind: "run".to_owned(),
            complete: true,
            ..RunRecord::default()
        };
        result
    }

    #[test]
    fn a_signal_while_results_are_written_leaves_a_readable_folder_that_says_incomplete() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned()).unwrap();
        let signal = AtomicBool::new(true);
        let patience = Patience::new(&signal, Duration::ZERO);
        let mut interrupted = result();
        folder
            .write_run_within(&mut interrupted, true, &patience)
            .unwrap();
        let read = open_run(dir.path()).unwrap();
        assert!(!read.record.complete && !read.record.verdict.trusted());
        assert_eq!(read.record.digest, "");
        let names = fs::read_dir(dir.path()).unwrap();
        let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
        let half = |name: &&std::ffi::OsString| {
            name.to_string_lossy().ends_with(".part") || *name == "series.csv.gz"
        };
        assert_eq!(names.iter().find(half), None, "{names:?}");
    }

    #[test]
    fn without_a_signal_everything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned()).unwrap();
        let mut made = result();
        folder
            .write_run(&mut made, true, &AtomicBool::new(false))
            .unwrap();
        let read = open_run(dir.path()).unwrap();
        assert!(read.record.complete && read.series == made.series);
    }

    #[test]
    fn an_error_without_a_signal_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned()).unwrap();
        // In the way of a data file.
        fs::create_dir(dir.path().join("summary.csv")).unwrap();
        let failed = folder.write_run(&mut result(), false, &AtomicBool::new(false));
        assert!(failed.unwrap_err().to_string().contains("summary.csv"));
        assert!(!dir.path().join("run.json").exists());
    }

    #[test]
    fn a_summary_alone_is_written_with_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().to_owned()).unwrap();
        let mut made = result();
        made.summary.name = "mine".to_owned();
        folder.write_summary(&mut made).unwrap();
        let read = open_run(dir.path()).unwrap();
        assert_eq!((&read.summary, &read.record), (&made.summary, &made.record));
        assert_eq!(read.series, Series::default());
        let [file] = &read.record.files[..] else {
            panic!("{:?}", read.record.files);
        };
        let text = fs::read(dir.path().join("summary.json")).unwrap();
        assert_eq!(
            (&*file.name, file.bytes),
            ("summary.json", text.len() as u64)
        );
        assert_eq!(file.sha256, digest::of_bytes(&text));
        assert_eq!(read.record.digest, digest::of_all(&read.record.files));
    }

    #[test]
    fn a_folder_that_is_asked_for_has_to_be_new_or_empty_and_waits_for_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let create = |at: &Path| Folder::create(&Output::Folder(at.to_owned()), "x");
        for at in [dir.path().to_owned(), dir.path().join("new/one")] {
            let folder = create(&at).unwrap().unwrap();
            assert_eq!(folder.dir(), at);
            assert!(folder.lasting && at.is_dir());
        }
        assert!(!Folder::at(dir.path().join("cell")).unwrap().lasting);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for taken in [dir.path(), &file] {
            let refused = create(taken).unwrap_err();
            assert!(matches!(refused, Error::NotEmpty(_)), "{refused}");
        }
        // A name that no file system takes.
        let failed = create(&dir.path().join("x".repeat(300))).unwrap_err();
        assert!(matches!(failed, Error::Io { verb: "read", .. }), "{failed}");
        assert!(Folder::create(&Output::Nowhere, "x").unwrap().is_none());
    }

    #[test]
    fn folders_of_one_second_are_numbered_and_no_other_error_is_taken_for_that() {
        let dir = tempfile::tempdir().unwrap();
        let made = [(); 4].map(|()| create_new(dir.path(), "now-x").unwrap());
        assert_eq!(made, ["now-x", "now-x-2", "now-x-3", "now-x-4"]);
        assert!(made.iter().all(|leaf| dir.path().join(leaf).is_dir()));
        assert!(create_new(&dir.path().join("nowhere"), "now-x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn latest_leads_to_the_newest_folder_and_what_else_is_called_so_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("results");
        let latest = parent.join("latest");
        let create = || {
            let made = Folder::create(&Output::Below(parent.clone()), "my run").unwrap();
            let made = made.unwrap();
            assert!(made.lasting && made.dir().parent() == Some(&parent));
            let leaf = made.dir().file_name().unwrap().to_str().unwrap();
            let (time, name) = leaf.split_at(16);
            assert!(time.ends_with('Z') && name.starts_with("-my-run"), "{leaf}");
            PathBuf::from(leaf)
        };
        for _ in 0..2 {
            let leaf = create();
            assert_eq!(fs::read_link(&latest).unwrap(), leaf);
        }
        fs::remove_file(&latest).unwrap();
        fs::write(&latest, "mine").unwrap();
        create();
        assert_eq!(fs::read(&latest).unwrap(), b"mine");
        let entries = fs::read_dir(&parent).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.starts_with('.')).count(), 0);
    }

    #[test]
    fn a_name_is_spelled_for_file_systems() {
        for (name, spelled) in [
            ("plain", "plain"),
            ("a b/c:d", "a-b-c-d"),
            ("rtt=20ms,(x)_1.5", "rtt=20ms,(x)_1.5"),
            ("größe", "gr--e"),
            ("../etc/", "etc"),
            ("...", "run"),
            ("", "run"),
        ] {
            assert_eq!(file_name(name), spelled, "{name}");
        }
        assert_eq!(file_name(&"x".repeat(101)), "x".repeat(100));
    }
}
