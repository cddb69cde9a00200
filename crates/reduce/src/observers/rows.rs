//! `samples.csv.gz`: every sample and estimate of the observers of a run,
//! beside the truth.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use narrows_files::{FileError, Whole};
use narrows_observe::{Estimate, Measured, Sample, Unit};

use super::packets::PacketTable;
use super::{Entry, Watching};

/// The columns: those of `narrows observe --format csv`, then how long the ends
/// held the answer, and whose sample it is.
const HEADER: &str = "t_s,tap,flow,technique,quantity,value,unit,low,high,n,rejected,truth,error,\
                      dwell_ms,observer";

/// As for series: rows are many and alike, higher levels gain little.
const GZIP_LEVEL: u32 = 4;

pub(super) fn write(path: &Path, ledger: &PacketTable, all: &[Watching]) -> Result<(), FileError> {
    let mut file = Whole::begin(path)?;
    rows(&mut file, ledger, all).map_err(FileError::at("write", path))?;
    file.keep()
}

fn rows(file: &mut Whole, ledger: &PacketTable, all: &[Watching]) -> io::Result<()> {
    let mut out = BufWriter::new(GzEncoder::new(file, Compression::new(GZIP_LEVEL)));
    writeln!(out, "{HEADER}")?;
    for watching in all {
        for entry in &watching.found.log {
            match entry {
                Entry::Sample(flow, sample) => {
                    start(&mut out, sample.at.as_nanos(), watching, *flow)?;
                    of_sample(&mut out, ledger, watching, sample)?;
                }
                Entry::Estimate(flow, at, estimate) => {
                    start(&mut out, at.as_nanos(), watching, *flow)?;
                    of_estimate(&mut out, ledger, watching, *flow, estimate)?;
                }
            }
        }
    }
    let gz = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    gz.finish().map(drop)
}

fn start(out: &mut impl Write, at: u64, watching: &Watching, flow: u64) -> io::Result<()> {
    let (s, ns) = (at / 1_000_000_000, at % 1_000_000_000);
    let called = watching.found.flows.get(&flow).map_or("", |f| &f.called);
    write!(out, "{s}.{ns:09},{},{called},", watching.tap)
}

fn of_sample(
    out: &mut impl Write,
    ledger: &PacketTable,
    watching: &Watching,
    sample: &Sample,
) -> io::Result<()> {
    let (technique, quantity) = (sample.technique.name(), sample.quantity.name());
    let (value, unit, n, truth, dwell) = match sample.value {
        Measured::Rtt(rtt) => {
            let trip = ledger.round_trip(sample);
            let truth = trip.map(|t| t.network);
            (
                rtt.as_millis_f64(),
                Unit::Ms,
                1,
                truth,
                trip.map(|t| t.dwell),
            )
        }
        Measured::Block { sent, received } => {
            let lost = 1.0 - f64::from(received) / f64::from(sent.max(1));
            let truth = ledger.block(sample, &watching.passed);
            (lost, Unit::Ratio, sent, truth, None)
        }
    };
    let unit = unit.name();
    write!(out, "{technique},{quantity},{value:.6},{unit},,,{n},,")?;
    end(out, value, truth, dwell, watching)
}

fn of_estimate(
    out: &mut impl Write,
    ledger: &PacketTable,
    watching: &Watching,
    flow: u64,
    e: &Estimate,
) -> io::Result<()> {
    let kind = match e.unit {
        Unit::Ms => "mean",
        Unit::Ratio => "rate",
    };
    let (technique, quantity) = (e.technique.name(), e.quantity.name());
    let unit = e.unit.name();
    write!(out, "{technique},{kind}_{quantity},{:.6},{unit},", e.value)?;
    match e.interval {
        Some(i) => write!(out, "{:.6},{:.6}", i.low, i.high)?,
        None => write!(out, ",")?,
    }
    write!(out, ",{},{},", e.n, e.rejected)?;
    let seen = watching.found.flows.get(&flow);
    let truth = seen
        .and_then(|f| f.plan)
        .and_then(|f| ledger.rate(f, e.quantity, &watching.passed, watching.found.span));
    end(out, e.value, truth, None, watching)
}

fn end(
    out: &mut impl Write,
    value: f64,
    truth: Option<f64>,
    dwell: Option<f64>,
    watching: &Watching,
) -> io::Result<()> {
    match truth {
        Some(truth) => write!(out, "{truth:.6},{:.6},", value - truth)?,
        None => write!(out, ",,")?,
    }
    if let Some(dwell) = dwell {
        write!(out, "{dwell:.6}")?;
    }
    writeln!(out, ",{}", watching.name)
}
