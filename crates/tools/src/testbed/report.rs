//! What came of a run: of each machine what its programs wrote, and the figures in it.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::line::Role;
use super::state::{Phase, RunState, Written};

/// Estimates of the observer that are shown: technique and quantity.
const SHOWN: [(&str, &str); 5] = [
    ("handshake", "full_rtt_initiator"),
    ("ts-all", "left_rtt"),
    ("ts-all", "right_rtt"),
    ("seq-ack", "left_rtt"),
    ("seq-ack", "right_rtt"),
];

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// What ran the machines' instructions: `kvm` or `tcg`.
    pub hypervisor: String,
    /// The checksum of the program in the machines, SHA-256 in hexadecimal.
    pub program_sha256: String,
    /// The round trip of a small packet through all elements without a queue, in milliseconds.
    pub base_rtt_ms: f64,
    /// From the first machine's start until all were ready, in seconds.
    pub ready_s: f64,
    /// From the first webhook to the last answer, in seconds.
    pub run_s: f64,
    /// Whether each machine ran what it was to.
    pub complete: bool,
    /// What of the scenario was not run.
    pub left_out: Vec<String>,
    /// The machines from source to sink.
    pub machines: Vec<RoleReport>,
}

/// What came of it in a machine.
#[derive(Clone, Debug, Serialize)]
pub struct RoleReport {
    /// What the machine is.
    pub role: Role,
    /// From its start until it was ready, in seconds.
    pub ready_s: f64,
    /// The program's version there.
    pub version: String,
    /// Its run; none of a source, which serves all the time.
    pub run: Option<RunState>,
}

impl RoleReport {
    /// The last program of its run.
    fn written(&self) -> Option<&Written> {
        self.run.as_ref()?.programs.last()
    }
}

impl Report {
    fn machine(&self, role: Role) -> Option<&Written> {
        self.machines
            .iter()
            .find(|machine| machine.role == role)?
            .written()
    }

    /// The files that keep what programs wrote: a name and a text each.
    pub fn files(&self) -> Vec<(String, &str)> {
        let mut files = Vec::new();
        for machine in &self.machines {
            for written in machine.run.iter().flat_map(|run| &run.programs) {
                let kind = match machine.role {
                    Role::Observer => "jsonl",
                    _ => "json",
                };
                files.push((format!("{}.{kind}", machine.role), written.output.as_str()));
                if !written.errors.is_empty() {
                    files.push((format!("{}.log", machine.role), written.errors.as_str()));
                }
            }
        }
        files
    }
}

/// `value` with so many digits, or `-`.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// A text that a machine wrote, without what a terminal would obey.
fn plain(value: &Value) -> String {
    let text = value.as_str().unwrap_or("-");
    text.chars().filter(|c| !c.is_control()).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: four machines ({}), ready after {:.0} s, run {:.0} s\n",
            self.name, self.hypervisor, self.ready_s, self.run_s
        )?;
        self.flows(f)?;
        self.observed(f)?;
        self.elements(f)?;
        for machine in &self.machines {
            let failed = |run: &&RunState| run.state != Phase::Done;
            let Some(run) = machine.run.as_ref().filter(failed) else {
                continue;
            };
            let errors = run
                .programs
                .last()
                .map(|w| w.errors.as_str())
                .unwrap_or_default();
            let last = errors.lines().last().unwrap_or("it wrote no reason");
            writeln!(f, "{} failed: {}", machine.role, plain(&Value::from(last)))?;
        }
        Ok(())
    }
}

impl Report {
    /// What the sink got.
    fn flows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |w: &Written| serde_json::from_str::<Value>(&w.output).ok();
        let Some(result) = self.machine(Role::Sink).and_then(value) else {
            return Ok(());
        };
        let seconds = result["seconds"].as_f64().filter(|s| *s > 0.0);
        writeln!(
            f,
            "{:<24} {:>12} {:>14} {:>9}",
            "flow", "received_MB", "received_mbit", "complete"
        )?;
        for set in result["sets"].as_array().into_iter().flatten() {
            let bytes = set["received_bytes"].as_f64();
            let mbit = bytes.zip(seconds).map(|(bytes, s)| bytes * 8.0 / s / 1e6);
            writeln!(
                f,
                "{:<24} {:>12} {:>14} {:>9}",
                plain(&set["label"]),
                number(bytes.map(|bytes| bytes / 1e6), 2),
                number(mbit, 2),
                format!("{}/{}", set["complete"], set["transfers"]),
            )?;
        }
        writeln!(f)
    }

    /// What the observer found out about the flow with the most packets.
    fn observed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(written) = self.machine(Role::Observer) else {
            return Ok(());
        };
        let rows: Vec<Value> = (written.output.lines())
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let of = |event: &'static str| rows.iter().filter(move |row| row["event"] == event);
        let packets = |row: &Value| {
            let side = |name: &str| row[name]["packets"].as_u64().unwrap_or(0);
            side("initiator") + side("responder")
        };
        let Some(flow) = of("end").max_by_key(|row| packets(row)) else {
            return writeln!(f, "the observer saw no flow\n");
        };
        writeln!(
            f,
            "observer: {} ({} packets); without a queue, the elements' round trip is {:.1} ms",
            plain(&flow["flow"]),
            packets(flow),
            self.base_rtt_ms
        )?;
        for (technique, quantity) in SHOWN {
            let mut rows = of("estimate").filter(|row| row["flow"] == flow["flow"]);
            let fits = |row: &&Value| row["technique"] == technique && row["quantity"] == quantity;
            let Some(row) = rows.find(fits) else { continue };
            writeln!(
                f,
                "  {technique:<10} {quantity:<18} median {:>8} ms  min {:>8} ms  n {}",
                number(row["median_ms"].as_f64(), 2),
                number(row["min_ms"].as_f64(), 2),
                row["n"],
            )?;
        }
        writeln!(f)
    }

    /// What passed the elements of the box.
    fn elements(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |w: &Written| serde_json::from_str::<Value>(&w.output).ok();
        let Some(status) = self.machine(Role::Box).and_then(value) else {
            return Ok(());
        };
        let links = status[0]["figures"]["links"].as_array();
        let ways = links
            .into_iter()
            .flatten()
            .flat_map(|link| [&link["up"], &link["down"]]);
        let elements = ways.filter_map(|way| way["elements"].as_array()).flatten();
        let busy = elements.filter(|e| e["sojourn_mean_ms"].is_number() || e["drops"] != 0);
        for element in busy {
            writeln!(
                f,
                "box: {}: {} packets, {} marks, {} drops, sojourn_ms mean {} max {}",
                plain(&element["name"]),
                element["packets"],
                element["marks"],
                element["drops"],
                number(element["sojourn_mean_ms"].as_f64(), 2),
                number(element["sojourn_max_ms"].as_f64(), 2),
            )?;
        }
        Ok(())
    }
}
