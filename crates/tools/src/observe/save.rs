//! The packets that a filter takes, written to a capture.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use narrows_results::Error;
use narrows_units::Instant;
use narrows_wire::capture::{Interface, PcapngWriter, Record, ToWrite};
use narrows_wire::link::LinkType;

/// A capture in the making.
pub struct Saved {
    path: PathBuf,
    writer: PcapngWriter<BufWriter<File>>,
    /// The interfaces in it by tap and link.
    interfaces: Vec<(usize, LinkType, usize)>,
    /// When the last packet passed.
    last: Instant,
    /// The first thing that went wrong; nothing is written after it.
    failed: Option<io::Error>,
}

impl Saved {
    /// Begins a capture that is none of those that are read.
    ///
    /// # Errors
    /// When the file cannot be made, or is one that is read.
    pub fn create(path: &Path, read: &[PathBuf]) -> Result<Self, Error> {
        let whole = |path: &Path| fs::canonicalize(path).ok();
        if whole(path).is_some_and(|file| read.iter().any(|r| whole(r).as_ref() == Some(&file))) {
            let path = path.display();
            return Err(Error::Refused(format!(
                "`{path}` is a capture that is read; write to another file"
            )));
        }
        let made = || -> io::Result<_> {
            let out = BufWriter::with_capacity(1 << 20, narrows_files::create(path)?);
            PcapngWriter::new(out, concat!("narrows ", env!("CARGO_PKG_VERSION")))
        };
        let writer = made().map_err(|source| unwritten(path, source))?;
        Ok(Self {
            path: path.to_path_buf(),
            writer,
            interfaces: Vec::new(),
            last: Instant::from_nanos(0),
            failed: None,
        })
    }

    /// Whether writing has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes a packet that was seen at a tap with this name.
    pub fn packet(&mut self, tap: usize, name: &str, record: &Record<'_>) {
        if self.failed.is_none() {
            self.failed = self.write(tap, name, record).err();
        }
    }

    fn write(&mut self, tap: usize, name: &str, record: &Record<'_>) -> io::Result<()> {
        let link = record.link;
        let known = |(t, l, _): &&(usize, LinkType, usize)| (*t, *l) == (tap, link);
        let interface = match self.interfaces.iter().find(known) {
            Some((.., interface)) => *interface,
            None => {
                let interface = self.writer.add_interface(&Interface {
                    name: name.to_owned(),
                    link,
                    snaplen: 0,
                })?;
                self.interfaces.push((tap, link, interface));
                interface
            }
        };
        self.last = record.at.unwrap_or(self.last);
        let packet = ToWrite {
            at: self.last,
            bytes: record.bytes,
            zero_tail: 0,
            cut: record.cut(),
            id: record.id,
            direction: record.direction,
            comment: record.comment,
        };
        self.writer.write(interface, &packet)
    }

    /// Ends it.
    ///
    /// # Errors
    /// The first failure to write, whenever it was.
    pub fn finish(self) -> Result<(), Error> {
        let flushed = |writer: PcapngWriter<BufWriter<File>>| writer.finish()?.flush();
        let ended = match self.failed {
            Some(error) => Err(error),
            None => flushed(self.writer),
        };
        ended.map_err(|source| unwritten(&self.path, source))
    }
}

fn unwritten(path: &Path, source: io::Error) -> Error {
    Error::Io {
        verb: "write",
        path: path.to_path_buf(),
        source,
    }
}
