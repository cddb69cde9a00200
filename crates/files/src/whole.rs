//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::FileError;

/// What stands behind a file's name while it is written.
const PART: &str = ".part";

/// A file in the making, called `NAME.part` until it is [kept](Self::keep). So whoever finds
/// `NAME` finds all of it, even where the program was killed or the disk was full; a part
/// that is dropped is removed.
#[derive(Debug)]
pub struct Whole {
    path: PathBuf,
    part: PathBuf,
    /// `None` once it is kept.
    out: Option<BufWriter<File>>,
}

impl Whole {
    /// Begins the file `path`, in whose folder its part is written.
    ///
    /// # Errors
    /// When the part cannot be made.
    pub fn begin(path: &Path) -> Result<Self, FileError> {
        let mut part = path.as_os_str().to_owned();
        part.push(PART);
        let part = PathBuf::from(part);
        let file = crate::create(&part).map_err(FileError::at("create", path))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            out: Some(BufWriter::with_capacity(1 << 16, file)),
        })
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When what is still buffered cannot be written, or the file cannot be renamed.
    pub fn keep(self) -> Result<(), FileError> {
        self.end(false)
    }

    /// The same, once the disk has it: what a power failure may not take.
    ///
    /// # Errors
    /// As [`keep`](Self::keep), and when the disk cannot be waited for.
    pub fn keep_lasting(self) -> Result<(), FileError> {
        self.end(true)
    }

    fn end(mut self, lasting: bool) -> Result<(), FileError> {
        let mut end = || {
            let out = self.out()?;
            out.flush()?;
            if lasting {
                out.get_ref().sync_data()?;
            }
            fs::rename(&self.part, &self.path)
        };
        end().map_err(FileError::at("write", &self.path))?;
        self.out = None;
        Ok(())
    }

    fn out(&mut self) -> io::Result<&mut BufWriter<File>> {
        let ended = || io::Error::other("the file is complete already");
        self.out.as_mut().ok_or_else(ended)
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out()?.flush()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            // What is buffered shall not be tried once more: the disk may be full.
            let _ = out.into_parts();
            // Nothing more can be done where it stays; its name says what it is.
            fs::remove_file(&self.part).ok();
        }
    }
}

/// Writes all of the file `path` at once.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut file = Whole::begin(path)?;
    file.write_all(content)
        .map_err(FileError::at("write", path))?;
    file.keep()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        write_whole(&path, b"the page before").unwrap();
        let mut file = Whole::begin(&path).unwrap();
        file.write_all(&[b'x'; 1 << 18]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the page before");
        assert_eq!(names(dir.path()), ["report.html", "report.html.part"]);
        file.keep_lasting().unwrap();
        assert_eq!(fs::read(&path).unwrap(), [b'x'; 1 << 18]);
        assert_eq!(names(dir.path()), ["report.html"]);
    }

    #[test]
    fn what_fails_leaves_what_was_there_and_no_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        write_whole(&path, b"the page before").unwrap();
        let mut file = Whole::begin(&path).unwrap();
        file.write_all(b"half of the ne").unwrap();
        drop(file);
        assert_eq!(names(dir.path()), ["report.html"]);
        assert_eq!(fs::read(&path).unwrap(), b"the page before");
    }

    #[test]
    fn what_is_flushed_is_in_the_part() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = Whole::begin(&dir.path().join("a")).unwrap();
        file.write_all(b"half").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read(dir.path().join("a.part")).unwrap(), b"half");
    }
}
