//! What captures show: packets as a table, and what an observer makes of them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use narrows::observe::format::{Format, Names, Report, Rows};
use narrows::observe::{Filter, Observation, ObserverConfig, Wanted};
use narrows::packets::{self, Packet};
use narrows::scenario::Refusal;
use narrows::units::WordError;
use pyo3::prelude::*;
use serde_json::Value;

use super::column::{Batches, Cell, Growing, Kind};
use super::error::Failure;
use super::table::Table;
use super::watched::watched;

/// The columns of packets.
const PACKETS: [(&str, Kind); 16] = [
    ("time_ns", Kind::Whole),
    ("interface", Kind::Text),
    ("length", Kind::Whole),
    ("source", Kind::Text),
    ("destination", Kind::Text),
    ("protocol", Kind::Whole),
    ("dscp", Kind::Whole),
    ("ecn", Kind::Whole),
    ("ttl", Kind::Whole),
    ("ip_length", Kind::Whole),
    ("source_port", Kind::Whole),
    ("destination_port", Kind::Whole),
    ("tcp_flags", Kind::Whole),
    ("tcp_seq", Kind::Whole),
    ("tcp_ack", Kind::Whole),
    ("tcp_payload", Kind::Whole),
];

/// The columns of an observer's samples.
const SAMPLES: [(&str, Kind); 10] = [
    ("t_s", Kind::Float),
    ("tap", Kind::Text),
    ("flow", Kind::Text),
    ("technique", Kind::Text),
    ("quantity", Kind::Text),
    ("value", Kind::Float),
    ("unit", Kind::Text),
    ("n", Kind::Whole),
    ("first_packet", Kind::Whole),
    ("last_packet", Kind::Whole),
];

fn growing(fields: &[(&str, Kind)]) -> Vec<Growing> {
    fields.iter().map(|(_, kind)| Growing::new(*kind)).collect()
}

fn table(fields: &[(&str, Kind)], columns: Vec<Growing>) -> Batches {
    let mut table = Batches::new(fields);
    table.push(columns.into_iter().map(Growing::done).collect());
    table
}

fn add(columns: &mut [Growing], row: &[Cell]) {
    columns.iter_mut().zip(row).for_each(|(c, v)| c.push(v));
}

fn whole(value: Option<impl Into<i64>>) -> Cell {
    value.map_or(Cell::Absent, |value| Cell::Whole(value.into()))
}

fn row(packet: &Packet<'_>) -> [Cell; 16] {
    let (ip, tcp) = (packet.ip, packet.tcp);
    let text = |address: std::net::IpAddr| Cell::Text(address.to_string());
    [
        whole(packet.time_ns.and_then(|ns| i64::try_from(ns).ok())),
        Cell::Text(packet.interface.to_owned()),
        Cell::Whole(packet.length.into()),
        ip.map_or(Cell::Absent, |ip| text(ip.source)),
        ip.map_or(Cell::Absent, |ip| text(ip.destination)),
        whole(ip.map(|ip| ip.protocol)),
        whole(ip.map(|ip| ip.dscp)),
        whole(ip.map(|ip| ip.ecn)),
        whole(ip.map(|ip| ip.ttl)),
        whole(ip.map(|ip| ip.length)),
        whole(packet.ports.map(|(source, _)| source)),
        whole(packet.ports.map(|(_, destination)| destination)),
        whole(tcp.map(|tcp| tcp.flags)),
        whole(tcp.map(|tcp| tcp.seq)),
        whole(tcp.map(|tcp| tcp.ack)),
        whole(tcp.map(|tcp| tcp.payload)),
    ]
}

/// The packets of a capture, and what was wrong in the middle of it.
#[pyfunction]
pub fn packets_of(py: Python<'_>, path: PathBuf) -> PyResult<(Table, Option<String>)> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (batches, error) = watched(py, None, &cancel, move |watch| {
        let mut columns = growing(&PACKETS);
        let mut each = |packet: &Packet<'_>| add(&mut columns, &row(packet));
        let read = packets::read(&path, watch.cancel, &mut each)?;
        Ok((table(&PACKETS, columns), read.error))
    })?;
    Ok((Table::of(batches), error))
}

/// What an observer writes, a JSON object a line, sorted: samples into columns, the rest as it is.
#[derive(Default)]
struct Sorted {
    line: Vec<u8>,
    samples: Vec<Growing>,
    rest: Vec<Value>,
}

impl Sorted {
    fn ended(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Ok(value) = serde_json::from_slice::<Value>(&line) else {
            return;
        };
        if value["event"] != "sample" {
            return self.rest.push(value);
        }
        let cell = |(name, kind): &(&str, Kind)| match (kind, &value[*name]) {
            (Kind::Float, Value::Number(n)) => n.as_f64().map_or(Cell::Absent, Cell::Float),
            (Kind::Whole, Value::Number(n)) => whole(n.as_i64()),
            (Kind::Text, Value::String(text)) => Cell::Text(text.clone()),
            _ => Cell::Absent,
        };
        let row: Vec<Cell> = SAMPLES.iter().map(cell).collect();
        add(&mut self.samples, &row);
    }
}

/// The writing end of it.
#[derive(Clone)]
struct Lines(Arc<Mutex<Sorted>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sorted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            sorted.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                sorted.ended();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an observer makes of captures: its samples, what else it says as JSON, and what of the
/// captures was not read.
#[pyfunction]
pub fn observe(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    filter: String,
    inner: bool,
) -> PyResult<(Table, String, Vec<String>)> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (samples, rest, unread) = watched(py, None, &cancel, move |watch| {
        let wanted = Wanted {
            filter: wanted(&filter)?,
            inner,
        };
        let lines = Lines(Arc::new(Mutex::new(Sorted {
            samples: growing(&SAMPLES),
            ..Sorted::default()
        })));
        let rows = Rows {
            samples: true,
            estimates: true,
        };
        let report = Report::new(lines.clone(), Format::Json, rows, Names::open(), "");
        let mut observation = Observation::new(ObserverConfig::default(), wanted, None, report);
        let mut unread = Vec::new();
        for path in &paths {
            unread.extend(read(&mut observation, path, watch.cancel)?);
        }
        observation.finish()?;
        let mut sorted = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = std::mem::take(&mut sorted.samples);
        let rest = Value::Array(std::mem::take(&mut sorted.rest)).to_string();
        Ok((table(&SAMPLES, columns), rest, unread))
    })?;
    Ok((Table::of(samples), rest, unread))
}

fn read<W: Write>(
    observation: &mut Observation<W>,
    path: &Path,
    stop: &AtomicBool,
) -> Result<Vec<String>, Failure> {
    let read = observation.read(path, stop)?;
    let mut said: Vec<String> = read.unread.iter().map(ToString::to_string).collect();
    said.extend(read.error.map(|error| error.to_string()));
    let place = |line: String| format!("{}: {line}", path.display());
    Ok(said.into_iter().map(place).collect())
}

fn wanted(words: &str) -> Result<Filter, Failure> {
    // No words take every packet.
    words
        .parse()
        .map_err(|error: WordError| Refusal::new("filter", &error.found, &error.allowed).into())
}
