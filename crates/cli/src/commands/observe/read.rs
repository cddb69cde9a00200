//! Captures that are read from files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use narrows_lab::LabError;
use narrows_observe::{Classified, TOGETHER, classify_into};
use narrows_wire::capture::{CaptureError, CaptureReader, Chunk, Record};

use super::watch::Watch;
use crate::status::Status;

/// Chunks that may be read ahead, of 128 KiB and what is made of them: enough
/// that neither thread waits for the other's every pause.
const AHEAD: usize = 4;

type Input = Box<dyn Read + Send>;

/// Packets that were read together, and what they are as far as one can tell
/// without them.
#[derive(Default)]
struct Parcel {
    chunk: Chunk,
    /// Nothing, or one for each packet.
    early: Vec<Early>,
}

/// What is known of a packet before its observer sees it.
enum Early {
    /// All that is needed of it.
    Read(Option<Classified<'static>>),
    /// Nothing: a datagram, whose payload is looked at by who knows its flow.
    Datagram,
}

impl Parcel {
    fn classify(&mut self) {
        self.early.clear();
        self.early.reserve(self.chunk.len());
        for record in self.chunk.records() {
            let mut slot = None;
            if let Some(bytes) = record.ip_packet() {
                classify_into(bytes, &mut slot);
            }
            self.early.push(match slot {
                None => Early::Read(None),
                Some(Err(why)) => Early::Read(Some(Err(why))),
                Some(Ok(packet)) => match packet.detached() {
                    Some(packet) => Early::Read(Some(Ok(packet))),
                    None => Early::Datagram,
                },
            });
        }
    }

    fn packet<'a>(&'a self, at: usize, slot: &mut Option<Classified<'a>>) {
        match self.early.get(at) {
            Some(Early::Read(read)) => *slot = *read,
            Some(Early::Datagram) | None => {
                if let Some(bytes) = self.chunk.record(at).ip_packet() {
                    classify_into(bytes, slot);
                }
            }
        }
    }
}

/// Reads ahead until the file ends or nobody wants more.
fn read_ahead(
    mut capture: CaptureReader<Input>,
    empty: Receiver<Parcel>,
    full: SyncSender<Result<Parcel, CaptureError>>,
) {
    for mut parcel in empty {
        let read = capture.read_chunk(&mut parcel.chunk).map(|more| {
            parcel.classify();
            more.then_some(parcel)
        });
        let Some(read) = read.transpose() else { return };
        let last = read.is_err();
        if full.send(read).is_err() || last {
            return;
        }
    }
}

impl<W: Write> Watch<W> {
    /// Reads a capture to its end, `-` from standard input, or until `stop`.
    /// With two `threads` one reads a file ahead of the other, which observes
    /// what the file holds in its order: results are the same.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture. What comes before an error
    /// in the middle of it counts.
    pub fn read(
        &mut self,
        path: &Path,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<Status, LabError> {
        let (input, is_file) = open(path)?;
        let mut capture = CaptureReader::new(input).map_err(|error| LabError::Content {
            path: path.to_path_buf(),
            what: error.to_string(),
        })?;
        // The tap of each interface of this file.
        let mut taps = Vec::new();
        // What is no file may let its reader wait, for longer than anybody wants more.
        if threads < 2 || !is_file {
            let mut parcel = Parcel::default();
            loop {
                match capture.read_chunk(&mut parcel.chunk) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Status::Done),
                    Err(error) => return Ok(ended_by(&error, path)),
                }
                if let Some(status) = self.parcel(&parcel, &mut taps, stop) {
                    return Ok(status);
                }
            }
        }
        Ok(thread::scope(|scope| {
            let (back, empty) = sync_channel(AHEAD);
            let (full, parcels) = sync_channel(AHEAD);
            for _ in 0..AHEAD {
                // There is room, and somebody who takes them.
                let _ = back.send(Parcel::default());
            }
            scope.spawn(move || read_ahead(capture, empty, full));
            for parcel in parcels {
                let parcel = match parcel {
                    Ok(parcel) => parcel,
                    Err(error) => return ended_by(&error, path),
                };
                if let Some(status) = self.parcel(&parcel, &mut taps, stop) {
                    return status;
                }
                // At the end of the file nobody takes it.
                let _ = back.send(parcel);
            }
            Status::Done
        }))
    }

    /// Observes packets; how it ends, if it does before they do.
    fn parcel(
        &mut self,
        parcel: &Parcel,
        taps: &mut Vec<Option<usize>>,
        stop: &AtomicBool,
    ) -> Option<Status> {
        self.draw();
        if self.is_over() {
            return Some(Status::Done);
        }
        if stop.load(Ordering::Relaxed) {
            return Some(Status::Interrupted);
        }
        for first in (0..parcel.chunk.len()).step_by(TOGETHER) {
            let all = first..parcel.chunk.len().min(first + TOGETHER);
            let mut packets = [const { None }; TOGETHER];
            let mut known = [None; TOGETHER];
            for (slot, at) in all.clone().enumerate() {
                parcel.packet(at, &mut packets[slot]);
                let interface = parcel.chunk.record(at).interface;
                known[slot] = taps.get(interface).copied().flatten();
            }
            self.prefetch(&known[..all.len()], &packets[..all.len()]);
            for (slot, at) in all.enumerate() {
                let record = parcel.chunk.record(at);
                let tap = known[slot].unwrap_or_else(|| self.tap_of(&record, taps));
                let packet = packets[slot].as_ref();
                let taken = self.read_packet(tap, packet, record.at, record.id);
                if taken && self.is_over() {
                    return Some(Status::Done);
                }
            }
        }
        None
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

/// What is read from, and whether it is a file that has all its bytes.
fn open(path: &Path) -> Result<(Input, bool), LabError> {
    if path == Path::new("-") {
        return Ok((Box::new(std::io::stdin()), false));
    }
    let file = File::open(path).map_err(|source| LabError::Io {
        verb: "read",
        path: path.to_path_buf(),
        source,
    })?;
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    Ok((Box::new(file), is_file))
}

/// How reading ends when a capture goes no further.
fn ended_by(error: &CaptureError, path: &Path) -> Status {
    let path = path.display();
    eprintln!("narrows: {path}: {error}; what came before it is counted");
    match error {
        CaptureError::Truncated => Status::Done,
        _ => Status::Failed,
    }
}
