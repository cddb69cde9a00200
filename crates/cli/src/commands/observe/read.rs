//! Captures that are read from files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_lab::LabError;
use narrows_wire::capture::{CaptureError, CaptureReader};

use super::watch::Watch;
use crate::status::Status;

/// Packets after which it is asked whether somebody wants to stop.
const AT_A_TIME: u32 = 1 << 12;

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
        let wrong = |error: CaptureError| LabError::Content {
            path: path.to_path_buf(),
            what: error.to_string(),
        };
        let mut capture = CaptureReader::new(input).map_err(wrong)?;
        // The tap of each interface of this file.
        let mut taps: Vec<Option<usize>> = Vec::new();
        let mut left = AT_A_TIME;
        loop {
            left -= 1;
            if left == 0 {
                left = AT_A_TIME;
                self.draw();
                if self.is_over() {
                    return Ok(Status::Done);
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(Status::Interrupted);
                }
            }
            let record = match capture.read() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(Status::Done),
                Err(error) => {
                    let path = path.display();
                    eprintln!("narrows: {path}: {error}; what came before it is counted");
                    let cut = matches!(error, CaptureError::Truncated);
                    return Ok(if cut { Status::Done } else { Status::Failed });
                }
            };
            if taps.len() <= record.interface {
                taps.resize(record.interface + 1, None);
            }
            let tap = match taps[record.interface] {
                Some(tap) => tap,
                None => *taps[record.interface].insert(self.tap(record.interface_name)),
            };
            let taken = self.packet(tap, record.ip_packet(), record.at, record.id);
            if taken && self.is_over() {
                return Ok(Status::Done);
            }
        }
    }
}
