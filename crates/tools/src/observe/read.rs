//! Captures that are read from files.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_observe::{Classified, Filter, classify_into};
use narrows_results::Error;
use narrows_wire::capture::{CaptureError, CaptureReader, Interface, Record, decompressed};
use narrows_wire::link::{self, LinkType};
use narrows_wire::tunnel;

use super::points::Observation;

/// Which packets are observed.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The packets that it takes.
    pub filter: Filter,
    /// Whether those inside tunnels are, in place of these.
    pub inner: bool,
}

impl Wanted {
    /// Reads a packet that starts at its IP header, of which `cut` bytes were not kept.
    pub(super) fn classify<'a>(&self, ip: &'a [u8], cut: u32, slot: &mut Option<Classified<'a>>) {
        classify_into(self.chosen(ip), cut, slot);
    }

    fn chosen<'a>(&self, ip: &'a [u8]) -> &'a [u8] {
        match self.inner {
            true => tunnel::innermost(ip),
            false => ip,
        }
    }

    /// The VLAN of a frame, if the filter asks for one.
    fn vlan(&self, record: &Record<'_>) -> Option<u16> {
        let needed = self.filter.needs_vlan();
        needed.then(|| link::vlan(record.link, record.bytes))?
    }

    /// Whether a packet is taken that is none of a flow.
    pub(super) fn takes_other(&self, record: &Record<'_>, vlan: Option<u16>) -> bool {
        let takes = |ip| self.filter.takes_other(self.chosen(ip), vlan);
        record.ip_packet().is_some_and(takes)
    }
}

/// How far a capture was read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CaptureRead {
    /// Whether it was cancelled before its end.
    pub interrupted: bool,
    /// Interfaces whose frames were counted, and no more.
    pub unread: Vec<Unread>,
    /// What was wrong in the middle of it; what came before is observed.
    pub error: Option<CaptureError>,
}

impl CaptureRead {
    /// Whether a part of it could not be read. That it ends within a packet is no
    /// failure: so do captures that are still being written.
    pub fn failed(&self) -> bool {
        let error = self.error.as_ref();
        !self.unread.is_empty() || error.is_some_and(|e| !matches!(e, CaptureError::Truncated))
    }
}

/// An interface with a link type that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its name; empty where the capture has none.
    pub interface: String,
    /// The link type.
    pub link: LinkType,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match &*self.interface {
            "" => String::new(),
            name => format!(" at {name}"),
        };
        let name = self.link.unread_name();
        let called = name.map_or(String::new(), |n| format!(" ({n})"));
        write!(
            f,
            "frames{at} are of link type {}{called}, which is not read: they are counted, and \
             nothing in them is observed (link types: https://www.tcpdump.org/linktypes.html)",
            self.link.0
        )
    }
}

impl<W: Write> Observation<W> {
    /// Reads a capture to its end, `-` from standard input, or until `stop`.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture. What comes before an error
    /// in the middle of it counts.
    pub fn read(&mut self, path: &Path, stop: &AtomicBool) -> Result<CaptureRead, Error> {
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            let file = File::open(path).map_err(|source| Error::Io {
                verb: "read",
                path: path.to_path_buf(),
                source,
            })?;
            Box::new(file)
        };
        let capture = decompressed(input).and_then(CaptureReader::new);
        let capture = capture.map_err(|error| Error::Content {
            path: path.to_path_buf(),
            what: error.to_string(),
        })?;
        let mut read = CaptureRead::default();
        read.error = self.read_all(capture, &mut read, stop).err();
        Ok(read)
    }

    /// Reads packets until the observation ends.
    fn read_all<R: Read>(
        &mut self,
        mut capture: CaptureReader<R>,
        read: &mut CaptureRead,
        stop: &AtomicBool,
    ) -> Result<(), CaptureError> {
        // The tap of each interface.
        let mut taps = Vec::new();
        loop {
            self.draw();
            if self.is_over() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                read.interrupted = true;
                return Ok(());
            }
            capture.advance()?;
            let Some(record) = capture.record() else {
                return Ok(());
            };
            let known = taps.get(record.interface).copied().flatten();
            let tap = known.unwrap_or_else(|| {
                if !record.link.is_read() {
                    read.unread.push(Unread {
                        interface: record.interface_name.to_owned(),
                        link: record.link,
                    });
                }
                let before = capture.interfaces().len() - capture.section().len();
                let tap = self.tap(&point(&record, capture.section(), before));
                taps.resize(taps.len().max(record.interface + 1), None);
                *taps[record.interface].insert(tap)
            });
            let vlan = self.wanted().vlan(&record);
            self.packet(tap, &record, vlan);
        }
    }
}

/// The name of the point at which a packet was captured. `section` has the interfaces
/// that are counted together, `before` are those of earlier sections.
fn point<'a>(record: &Record<'a>, section: &[Interface], before: usize) -> Cow<'a, str> {
    match record.interface_name {
        // Of several without names, each is a point; a lone one needs none.
        "" if section.len() > 1 => Cow::Owned(format!("interface {}", record.interface - before)),
        name => Cow::Borrowed(name),
    }
}
