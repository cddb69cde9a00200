//! Captures that are read from files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_lab::LabError;
use narrows_observe::{TOGETHER, classify_into};
use narrows_wire::capture::{CaptureError, CaptureReader, Chunk, Record};

use super::watch::Watch;
use crate::status::Status;

impl<W: Write> Watch<W> {
    /// Reads a capture to its end, `-` from standard input, or until `stop`.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture. What comes before an error
    /// in the middle of it counts.
    pub fn read(&mut self, path: &Path, stop: &AtomicBool) -> Result<Status, LabError> {
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(std::io::stdin().lock())
        } else {
            let file = File::open(path).map_err(|source| LabError::Io {
                verb: "read",
                path: path.to_path_buf(),
                source,
            })?;
            Box::new(file)
        };
        let mut capture = CaptureReader::new(input).map_err(|error| LabError::Content {
            path: path.to_path_buf(),
            what: error.to_string(),
        })?;
        // The tap of each interface of this file.
        let mut taps = Vec::new();
        let mut chunk = Chunk::default();
        loop {
            self.draw();
            if self.is_over() {
                return Ok(Status::Done);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Status::Interrupted);
            }
            match capture.read_chunk(&mut chunk) {
                Ok(true) => self.chunk(&chunk, &mut taps),
                Ok(false) => return Ok(Status::Done),
                Err(error) => {
                    let path = path.display();
                    eprintln!("narrows: {path}: {error}; what came before it is counted");
                    let cut = matches!(error, CaptureError::Truncated);
                    return Ok(if cut { Status::Done } else { Status::Failed });
                }
            }
        }
    }

    /// Observes packets until they end, or nobody wants more.
    fn chunk(&mut self, chunk: &Chunk, taps: &mut Vec<Option<usize>>) {
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
            self.prefetch(&known[..all.len()], &packets[..all.len()]);
            for (slot, at) in all.enumerate() {
                let record = chunk.record(at);
                let tap = known[slot].unwrap_or_else(|| self.tap_of(&record, taps));
                let packet = packets[slot].as_ref();
                let taken = self.read_packet(tap, packet, record.at, record.id);
                if taken && self.is_over() {
                    return;
                }
            }
        }
    }

    /// The tap of the interface at which a packet was captured.
    fn tap_of(&mut self, record: &Record<'_>, taps: &mut Vec<Option<usize>>) -> usize {
        if taps.len() <= record.interface {
            taps.resize(record.interface + 1, None);
        }
        match taps[record.interface] {
            Some(tap) => tap,
            None => *taps[record.interface].insert(self.tap(record.interface_name)),
        }
    }
}
