//! A run as a data file of Flent: `run.flent.gz`.
//!
//! Flent (flent.org) draws, combines and compares measurements of real
//! networks; with this file it does so with simulated ones, beside them. The
//! format is its version 4: gzip around one JSON object with `metadata`,
//! `x_values`, `results` and `raw_values` (flent/resultset.py of Flent 2.3.0).
//!
//! A file names the test that made it, and Flent takes its plots from that
//! test's definition, so series are called what the test calls them:
//!
//! | flows | test | series |
//! |---|---|---|
//! | those of a [`FlentTest`] | that one | as there |
//! | all the one way | `tcp_nup` or `tcp_ndown` | `TCP upload::1` … |
//! | both ways | `rrul_var` | `TCP upload::prague`, by the flow's name |
//! | none, but a probe | `ping` | `Ping (ms) ICMP` |
//!
//! What Flent reads off sockets with `ss` (`tcp_rtt`, `tcp_cwnd`,
//! `tcp_delivery_rate`, `tcp_pacing_rate`) is there for each flow, and what it
//! reads off queues with `tc` (`delay`, `backlog_bytes`, `dropped`,
//! `ecn_mark`) for each queue, as `qdisc_stats_<queue>`. The first probe is
//! `Ping (ms) ICMP`, further ones that are not the test's are Flent's `(extra)` hosts.
//!
//! The clock of a run starts at 1970, as in its captures, so that the same run
//! gives the same bytes.

mod columns;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use narrows_files::write_whole;
use narrows_scenario::FlentTest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Error;
use crate::folder::{Results, RunResult, open_run};

use columns::Kind::{Counter, Gauge};
use columns::{Column, Grid, Key, Rows};
use names::Names;

/// The file's name in a results folder.
pub const FILE: &str = "run.flent.gz";

/// `FILEFORMAT_VERSION` of Flent 2.3.0, and of every release since 1.0.0.
const FORMAT_VERSION: u32 = 4;

/// The run's epoch, as Flent spells times.
const EPOCH: &str = "1970-01-01T00:00:00.000000Z";

/// As that of the series: low enough to cost little.
const GZIP_LEVEL: u32 = 4;

/// The whole file, before compression.
#[derive(Serialize)]
struct DataFile<'a> {
    metadata: Value,
    version: u32,
    x_values: Vec<f64>,
    results: BTreeMap<String, Column<'a>>,
    raw_values: BTreeMap<String, Rows<'a>>,
}

/// The last part of a name such as `flow/up1`.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The test that a run is, by the names of its flows and probes and the one that its scenario
/// names.
pub fn test_of(run: &RunResult) -> Option<FlentTest> {
    let streams = run.summary.flows.iter().filter(|f| f.one_way.is_none());
    let flows: Vec<&str> = streams.map(|flow| short(&flow.name)).collect();
    let probes: Vec<&str> = run.summary.probes.iter().map(|p| short(&p.name)).collect();
    let named = run.record.scenario.get("test").and_then(Value::as_str);
    FlentTest::of(named.unwrap_or_default(), &flows, &probes)
}

/// The file of a run; `None` if the run has no samples, which Flent would
/// refuse.
///
/// # Errors
/// Of the compressor; writing to memory, it has none.
pub fn to_gz(run: &RunResult) -> std::io::Result<Option<Vec<u8>>> {
    write_gz(run, Vec::new())
}

/// The same into `to`, which it returns; `None` if the run has no samples.
///
/// # Errors
/// Those of `to`.
pub(crate) fn write_gz<W: Write>(run: &RunResult, to: W) -> std::io::Result<Option<W>> {
    let Some(file) = data_file(run) else {
        return Ok(None);
    };
    // The compressor clears 32 KB for each write, and JSON is written by the word.
    let gz = GzEncoder::new(to, Compression::new(GZIP_LEVEL));
    let mut out = BufWriter::with_capacity(1 << 16, gz);
    serde_json::to_writer(&mut out, &file)?;
    out.write_all(b"\n")?;
    let gz = out.into_inner().map_err(IntoInnerError::into_error)?;
    gz.finish().map(Some)
}

/// Writes the file of a run, or those of a campaign's cells, and returns where
/// they are: in the results folders, or below `out`.
///
/// # Errors
/// When there is no run with samples, or a file cannot be written.
pub fn write(results: &Results, out: Option<&Path>) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut write = |run: &RunResult, path: PathBuf| -> Result<(), Error> {
        let Some(gz) = to_gz(run).map_err(Error::io("write", &path))? else {
            return Ok(());
        };
        if let Some(dir) = path.parent() {
            narrows_files::create_dir_all(dir).map_err(Error::io("create", dir))?;
        }
        write_whole(&path, &gz)?;
        files.push(path);
        Ok(())
    };
    match results {
        Results::Run(run) => {
            let dir = out.or(run.dir.as_deref()).unwrap_or(Path::new("."));
            write(run, dir.join(FILE))?;
        }
        Results::Campaign(campaign) => {
            for cell in &campaign.result.cells {
                let dir = campaign.dir.join(&cell.folder);
                if cell.folder.is_empty() || !dir.is_dir() {
                    continue;
                }
                let path = out.map_or(dir.clone(), |out| out.join(&cell.folder));
                write(&open_run(&dir)?, path.join(FILE))?;
            }
        }
        Results::Collection(_) => {
            let why = "a collection holds campaigns; name the folder of one of them";
            return Err(Error::Refused(why.to_owned()));
        }
        Results::Comparison(comparison) => {
            for folder in comparison.result.cells.iter().flat_map(|c| c.folders()) {
                let dir = comparison.dir.join(folder);
                let path = out.map_or(dir.clone(), |out| out.join(folder));
                write(&open_run(&dir)?, path.join(FILE))?;
            }
        }
    }
    if files.is_empty() {
        return Err(Error::Refused("there are no data to write".into()));
    }
    Ok(files)
}

/// What is kept of series, by their names.
#[derive(Default)]
struct Parts<'a> {
    results: BTreeMap<String, Column<'a>>,
    raw_values: BTreeMap<String, Rows<'a>>,
    meta: BTreeMap<String, Value>,
}

impl<'a> Parts<'a> {
    /// Takes `rows` in: its column `main` becomes the series `name`, those in
    /// `under` the series `name::…`.
    fn add(&mut self, name: &str, rows: Rows<'a>, meta: Value, main: &str, under: &[&str]) {
        self.meta.insert(name.to_owned(), meta);
        if rows.is_empty() {
            return;
        }
        for (key, column) in rows.columns() {
            if key == main {
                self.results.insert(name.to_owned(), column);
            } else if under.contains(&key) {
                self.results.insert(format!("{name}::{key}"), column);
            }
        }
        self.raw_values.insert(name.to_owned(), rows);
    }
}

fn data_file(run: &RunResult) -> Option<DataFile<'_>> {
    let grid = Grid::of(&run.series)?;
    let names = Names::of(run);
    let series = run.series.by_name();
    let mut parts = Parts::default();
    for ((index, flow), name) in run.summary.flows.iter().enumerate().zip(&names.flows) {
        let meta = names.flow_meta(run, &series, index);
        let rows = Rows::of(&series, &grid, &flow.name, &FLOW_KEYS);
        parts.add(name, rows, meta, "val", &SOCKET_KEYS);
    }
    for (probe, name) in run.summary.probes.iter().zip(&names.probes) {
        let rows = Rows::of(&series, &grid, &probe.name, &PROBE_KEYS);
        let meta = json!({
            "UNITS": "ms",
            "MEAN_VALUE": probe.rtt_ms.map(|d| d.mean),
            "NARROWS_NAME": probe.name,
        });
        parts.add(name, rows, meta, "val", &[]);
    }
    for (queue, name) in run.summary.queues.iter().zip(&names.queues) {
        let rows = Rows::of(&series, &grid, &queue.name, &QUEUE_KEYS);
        let meta = json!({ "UNITS": "misc", "NARROWS_NAME": queue.name, "QDISC": queue.words });
        parts.add(name, rows, meta, "", &["dropped", "ecn_mark"]);
    }
    if parts.raw_values.is_empty() {
        return None;
    }
    for (name, units, values) in names.computed(run, &series, &grid) {
        parts.results.insert(name.clone(), Column::Computed(values));
        parts.meta.insert(name, json!({ "UNITS": units }));
    }
    Some(DataFile {
        metadata: metadata(run, &names, &grid, json!(parts.meta)),
        version: FORMAT_VERSION,
        x_values: grid.times().collect(),
        results: parts.results,
        raw_values: parts.raw_values,
    })
}

/// Flent's key for each of a flow's series; `val` is the test's own value.
const FLOW_KEYS: [Key; 5] = [
    ("val", "goodput_mbit", Gauge),
    // Linux's `ss` prints the smoothed one.
    ("tcp_rtt", "srtt_ms", Gauge),
    ("tcp_cwnd", "cwnd_packets", Gauge),
    ("tcp_delivery_rate", "delivery_rate_mbit", Gauge),
    ("tcp_pacing_rate", "pacing_rate_mbit", Gauge),
];

/// Those which Flent has from sockets.
const SOCKET_KEYS: [&str; 4] = [
    "tcp_rtt",
    "tcp_cwnd",
    "tcp_delivery_rate",
    "tcp_pacing_rate",
];

const PROBE_KEYS: [Key; 1] = [("val", "rtt_ms", Gauge)];

/// Counters are per interval, as since version 4 of the format.
const QUEUE_KEYS: [Key; 5] = [
    ("delay", "sojourn_ms", Gauge),
    ("backlog_bytes", "backlog_bytes", Gauge),
    ("backlog_pkts", "backlog_packets", Gauge),
    ("dropped", "drops", Counter),
    ("ecn_mark", "marks", Counter),
];

fn metadata(run: &RunResult, names: &Names, grid: &Grid, series_meta: Value) -> Value {
    let (summary, record) = (&run.summary, &run.record);
    let made_by = format!("narrows {}", record.narrows);
    let mut metadata = json!({
        "NAME": names.test,
        "TITLE": format!("{}, seed {}", summary.name, summary.seed),
        "HOST": names.far,
        "HOSTS": [names.far],
        "LOCAL_HOST": names.near,
        "LENGTH": summary.duration_s - 2.0 * names.delay_s,
        "TOTAL_LENGTH": summary.duration_s,
        // Flent's tests ping alone for so long before and after they load the
        // path, and leave that out of distributions. Of other runs nothing is left out.
        "DELAY": names.delay_s,
        "STEP_SIZE": grid.step_s(),
        "TIME": EPOCH,
        "T0": EPOCH,
        "IP_VERSION": names.ip_version,
        "TEST_PARAMETERS": names.parameters,
        "NOTE": note(run, names),
        "DATA_FILENAME": FILE,
        "FLENT_VERSION": made_by,
        "FAILED_RUNNERS": 0,
        "BATCH_NAME": null,
        "BATCH_TIME": null,
        "BATCH_TITLE": null,
        "BATCH_UUID": null,
        "NARROWS_SCENARIO": summary.name,
        "NARROWS_SEED": summary.seed,
        "NARROWS_ENGINE": summary.engine,
        "SERIES_META": series_meta,
    });
    // The order of keys depends on how serde_json was built.
    metadata.sort_all_objects();
    metadata
}

/// What a reader has to know who meets the file without its folder.
fn note(run: &RunResult, names: &Names) -> String {
    use std::fmt::Write;
    let summary = &run.summary;
    let window = &summary.window;
    // Writing to a string does not fail.
    let mut text = format!(
        "Made by Narrows {} ({}). Steady window: --data-cutoff={},{}.",
        run.record.narrows, summary.engine, window.from_s, window.to_s
    );
    for (flow, name) in summary.flows.iter().zip(&names.flows) {
        write!(text, " {name}: {}, {}.", flow.name, flow.cc).ok();
    }
    for (probe, name) in summary.probes.iter().zip(&names.probes) {
        write!(text, " {name}: {}, UDP datagrams.", probe.name).ok();
    }
    text
}
