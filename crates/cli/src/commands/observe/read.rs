//! Captures that are read from files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows::Error;
use narrows_observe::{Classified, Filter, classify_into};
use narrows_wire::capture::{CaptureError, CaptureReader, Interface, Record, decompressed};
use narrows_wire::{link, tunnel};

use super::watch::Watch;
use crate::output::say;
use crate::status::Status;

/// Which packets are observed.
#[derive(Debug, Default)]
pub struct Wanted {
    pub filter: Filter,
    /// Whether those inside tunnels are, in place of these.
    pub inner: bool,
}

impl Wanted {
    /// Reads a packet that starts at its IP header, of which `cut` bytes were not kept.
    pub fn classify<'a>(&self, ip: &'a [u8], cut: u32, slot: &mut Option<Classified<'a>>) {
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
        let asked = self.filter.asks_for_vlan();
        asked.then(|| link::vlan(record.link, record.bytes))?
    }

    /// Whether a packet is taken that is none of a flow.
    pub fn takes_other(&self, record: &Record<'_>, vlan: Option<u16>) -> bool {
        let takes = |ip| self.filter.takes_other(self.chosen(ip), vlan);
        record.ip_packet().is_some_and(takes)
    }
}

impl<W: Write> Watch<W> {
    /// Reads a capture to its end, `-` from standard input, or until `stop`.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture. What comes before an error
    /// in the middle of it counts.
    pub fn read(&mut self, path: &Path, stop: &AtomicBool) -> Result<Status, Error> {
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
        let mut unread = false;
        let status = self.read_all(path, capture, &mut unread, stop);
        let status = status.unwrap_or_else(|error| {
            let path = path.display();
            say!("narrows: {path}: {error}; what came before it is counted");
            match error {
                CaptureError::Truncated => Status::Done,
                _ => Status::Failed,
            }
        });
        Ok(match unread {
            true => status.and(Status::Failed),
            false => status,
        })
    }

    /// Reads packets until nobody wants more. `unread` becomes true at a frame of a
    /// link type that is not read.
    fn read_all<R: Read>(
        &mut self,
        path: &Path,
        mut capture: CaptureReader<R>,
        unread: &mut bool,
        stop: &AtomicBool,
    ) -> Result<Status, CaptureError> {
        // The tap of each interface.
        let mut taps = Vec::new();
        loop {
            self.draw();
            if self.is_over() {
                return Ok(Status::Done);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Status::Interrupted);
            }
            capture.advance()?;
            let Some(record) = capture.record() else {
                return Ok(Status::Done);
            };
            let known = taps.get(record.interface).copied().flatten();
            let tap = known.unwrap_or_else(|| {
                if !record.link.is_read() {
                    *unread = true;
                    say_unread(path, &record);
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

/// Says that frames of an interface are counted, and no more.
fn say_unread(path: &Path, record: &Record<'_>) {
    let (path, link) = (path.display(), record.link);
    let at = match record.interface_name {
        "" => String::new(),
        name => format!(" at {name}"),
    };
    let called = link
        .unread_name()
        .map_or(String::new(), |n| format!(" ({n})"));
    say!(
        "narrows: {path}: frames{at} are of link type {}{called}, which is not read: they are \
         counted, and nothing in them is observed (link types: https://www.tcpdump.org/linktypes.html)",
        link.0
    );
}
