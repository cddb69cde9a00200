//! Captures that are read from files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_lab::LabError;
use narrows_observe::{Classified, TOGETHER, classify_into};
use narrows_units::Instant;
use narrows_wire::capture::{CaptureError, CaptureReader, Chunk, Record};

use super::watch::{Stop, Watch};
use crate::status::Status;

/// Who takes packets as they are read.
pub trait Takes {
    /// Whether nobody wants more: enough was observed, whoever reads the output
    /// has gone, or the table was closed.
    fn is_over(&self) -> bool;

    /// The tap with this name.
    fn tap(&mut self, name: &str) -> usize;

    /// Brings near what is kept of the flows of packets that come next, each at
    /// its tap if there is one yet.
    fn prefetch(&self, taps: &[Option<usize>], packets: &[Option<Classified<'_>>]);

    /// A packet at a tap that somebody has read; whether the filter takes it.
    fn read_packet(
        &mut self,
        tap: usize,
        packet: Option<&Classified<'_>>,
        at: Option<Instant>,
        id: Option<u64>,
    ) -> bool;
}

/// A capture that is being read.
pub struct Source<R: Read> {
    capture: CaptureReader<R>,
    chunk: Chunk,
    /// The tap of each of its interfaces.
    taps: Vec<Option<usize>>,
}

impl<W: Write> Watch<W> {
    /// Reads a capture to its end, `-` from standard input, or until `stop`.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture. What comes before an error
    /// in the middle of it counts.
    pub fn read(&mut self, path: &Path, stop: &AtomicBool) -> Result<Status, LabError> {
        let input: Box<dyn Read + Send> = if path == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            let file = File::open(path).map_err(|source| LabError::Io {
                verb: "read",
                path: path.to_path_buf(),
                source,
            })?;
            Box::new(file)
        };
        let capture = CaptureReader::new(input).map_err(|error| LabError::Content {
            path: path.to_path_buf(),
            what: error.to_string(),
        })?;
        let mut source = Source {
            capture,
            chunk: Chunk::default(),
            taps: Vec::new(),
        };
        self.read_all(&mut source, stop).or_else(|error| {
            let path = path.display();
            eprintln!("narrows: {path}: {error}; what came before it is counted");
            let cut = matches!(error, CaptureError::Truncated);
            Ok(if cut { Status::Done } else { Status::Failed })
        })
    }

    fn read_all<R: Read + Send>(
        &mut self,
        source: &mut Source<R>,
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

impl<R: Read> Source<R> {
    /// Reads what comes next; `false` at the end.
    ///
    /// # Errors
    /// As [`CaptureReader::read_chunk`] has them.
    pub fn read(&mut self) -> Result<bool, CaptureError> {
        self.capture.read_chunk(&mut self.chunk)
    }

    /// Tells of the packets that were read, until nobody wants more.
    pub fn tell(&mut self, to: &mut impl Takes) {
        let Self { chunk, taps, .. } = self;
        for first in (0..chunk.len()).step_by(TOGETHER) {
            let all = first..chunk.len().min(first + TOGETHER);
            let mut packets = [const { None }; TOGETHER];
            let mut known = [None; TOGETHER];
            for (slot, at) in all.clone().enumerate() {
                if let Some(bytes) = chunk.ip_packet(at) {
                    classify_into(bytes, &mut packets[slot]);
                }
                known[slot] = taps.get(chunk.interface(at)).copied().flatten();
            }
            to.prefetch(&known[..all.len()], &packets[..all.len()]);
            for (slot, at) in all.enumerate() {
                let record = chunk.record(at);
                let tap = known[slot].unwrap_or_else(|| tap_of(&record, taps, to));
                let packet = packets[slot].as_ref();
                let taken = to.read_packet(tap, packet, record.at, record.id);
                if taken && to.is_over() {
                    return;
                }
            }
        }
    }
}

/// The tap of the interface at which a packet was captured.
fn tap_of(record: &Record<'_>, taps: &mut Vec<Option<usize>>, to: &mut impl Takes) -> usize {
    if taps.len() <= record.interface {
        taps.resize(record.interface + 1, None);
    }
    match taps[record.interface] {
        Some(tap) => tap,
        None => *taps[record.interface].insert(to.tap(record.interface_name)),
    }
}
