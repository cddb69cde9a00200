//! Captures that are read from files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows::Error;
use narrows_observe::{Classified, Filter, TOGETHER, classify_into};
use narrows_wire::capture::{CaptureError, CaptureReader, Chunk, Interface, Record, decompressed};
use narrows_wire::{link, tunnel};

use super::watch::{Stop, Watch};
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

    /// The VLAN of a frame, if anybody asks.
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

/// Who takes packets as they are read.
pub trait Takes {
    /// Whether nobody wants more: enough was observed, whoever reads the output
    /// has gone, or the table was closed.
    fn is_over(&self) -> bool;

    /// Which packets are observed.
    fn wanted(&self) -> &Wanted;

    /// The tap with this name.
    fn tap(&mut self, name: &str) -> usize;

    /// Brings near what is kept of the flows of packets that come next, each at
    /// its tap if there is one yet.
    fn prefetch(&self, taps: &[Option<usize>], packets: &[Option<Classified<'_>>]);

    /// A packet at a tap, as it was captured and as somebody has read it, if there is
    /// one in the frame; whether the filter takes it.
    fn read_packet(
        &mut self,
        tap: usize,
        packet: Option<&Classified<'_>>,
        record: &Record<'_>,
        vlan: Option<u16>,
    ) -> bool;
}

/// A capture that is being read.
pub struct Source<'p, R: Read> {
    path: &'p Path,
    capture: CaptureReader<R>,
    chunk: Chunk,
    /// The tap of each of its interfaces.
    taps: Vec<Option<usize>>,
    /// Whether there are frames in it of a link that is not read.
    unread: bool,
}

impl<W: Write> Watch<W> {
    /// Reads a capture to its end, `-` from standard input, or until `stop`.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture. What comes before an error
    /// in the middle of it counts.
    pub fn read(&mut self, path: &Path, stop: &AtomicBool) -> Result<Status, Error> {
        let input: Box<dyn Read + Send> = if path == Path::new("-") {
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
        let mut source = Source {
            path,
            capture,
            chunk: Chunk::default(),
            taps: Vec::new(),
            unread: false,
        };
        let status = self.read_all(&mut source, stop).unwrap_or_else(|error| {
            let path = path.display();
            say!("narrows: {path}: {error}; what came before it is counted");
            match error {
                CaptureError::Truncated => Status::Done,
                _ => Status::Failed,
            }
        });
        Ok(match source.unread {
            true => status.and(Status::Failed),
            false => status,
        })
    }

    fn read_all<R: Read + Send>(
        &mut self,
        source: &mut Source<'_, R>,
        stop: &AtomicBool,
    ) -> Result<Status, CaptureError> {
        if self.may_part() && matches!(self.read_apart(source, stop)?, Stop::End) {
            return Ok(Status::Done);
        }
        loop {
            self.draw();
            if self.is_over() {
                return Ok(Status::Done);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Status::Interrupted);
            }
            if !source.read()? {
                return Ok(Status::Done);
            }
            source.tell(self);
        }
    }
}

impl<R: Read> Source<'_, R> {
    /// Reads what comes next; `false` at the end.
    ///
    /// # Errors
    /// As [`CaptureReader::read_chunk`] has them.
    pub fn read(&mut self) -> Result<bool, CaptureError> {
        self.capture.read_chunk(&mut self.chunk)
    }

    /// Tells of the packets that were read, until nobody wants more.
    pub fn tell(&mut self, to: &mut impl Takes) {
        for first in (0..self.chunk.len()).step_by(TOGETHER) {
            let all = first..self.chunk.len().min(first + TOGETHER);
            let mut packets = [const { None }; TOGETHER];
            let mut known = [None; TOGETHER];
            for (slot, at) in all.clone().enumerate() {
                if let Some(ip) = self.chunk.ip_packet(at) {
                    to.wanted()
                        .classify(ip, self.chunk.cut(at), &mut packets[slot]);
                }
                known[slot] = self.taps.get(self.chunk.interface(at)).copied().flatten();
            }
            to.prefetch(&known[..all.len()], &packets[..all.len()]);
            for (slot, at) in all.enumerate() {
                let record = self.chunk.record(at);
                let tap = match known[slot] {
                    Some(tap) => tap,
                    None => {
                        let interfaces = self.capture.interfaces();
                        let section = self.capture.section();
                        let before = interfaces.len() - section.len();
                        let (tap, new) = tap_of(&record, section, before, &mut self.taps, to);
                        if new && !record.link.is_read() {
                            self.unread = true;
                            say_unread(self.path, &record);
                        }
                        tap
                    }
                };
                let vlan = to.wanted().vlan(&record);
                let taken = to.read_packet(tap, packets[slot].as_ref(), &record, vlan);
                if taken && to.is_over() {
                    return;
                }
            }
        }
    }
}

/// The tap of the interface at which a packet was captured, and whether this is the
/// interface's first packet. `section` has the interfaces that are counted together,
/// `before` are those of earlier sections.
fn tap_of(
    record: &Record<'_>,
    section: &[Interface],
    before: usize,
    taps: &mut Vec<Option<usize>>,
    to: &mut impl Takes,
) -> (usize, bool) {
    if taps.len() <= record.interface {
        taps.resize(record.interface + 1, None);
    }
    let tap = &mut taps[record.interface];
    match *tap {
        Some(tap) => (tap, false),
        None => {
            let name = match record.interface_name {
                // Of several without names, each is a point; a lone one needs none.
                "" if section.len() > 1 => {
                    Cow::Owned(format!("interface {}", record.interface - before))
                }
                name => Cow::Borrowed(name),
            };
            (*tap.insert(to.tap(&name)), true)
        }
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
