//! Which of Flent's tests a run is like, and that test's names.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::folder::RunResult;
use crate::series::ByName;
use crate::summary::{FlowSummary, millionths};

use super::columns::Grid;
use super::short;

/// Names of a run's parts in Flent's file, in the order of the summary.
pub(super) struct Names {
    /// The test.
    pub(super) test: &'static str,
    pub(super) parameters: Value,
    pub(super) flows: Vec<String>,
    pub(super) probes: Vec<String>,
    pub(super) queues: Vec<String>,
    /// The host that Flent would have run on, and the one that it would have
    /// been pointed at.
    pub(super) near: Option<String>,
    pub(super) far: Option<String>,
    /// How long the probes are alone at first and at last: in one of Flent's own tests.
    pub(super) delay_s: f64,
    /// 4 or 6 where all flows have the same.
    pub(super) ip_version: Option<u8>,
    ways: Vec<Way>,
    asked: Vec<AskedFlow>,
}

/// How a flow's data go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Way {
    const fn word(self) -> &'static str {
        match self {
            Self::Up => "upload",
            Self::Down => "download",
        }
    }
}

/// What of a scenario is needed here that a summary does not say.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    flows: Vec<AskedFlow>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AskedFlow {
    traffic: String,
    dscp: u8,
    ip: String,
}

impl AskedFlow {
    fn is_udp(&self) -> bool {
        self.traffic.starts_with("cbr")
    }
}

impl Names {
    pub(super) fn of(run: &RunResult) -> Self {
        let summary = &run.summary;
        // A folder of another version may have it otherwise; then what it adds
        // is left out.
        let mut asked = Asked::deserialize(&run.record.scenario)
            .unwrap_or_default()
            .flows;
        asked.resize_with(summary.flows.len(), AskedFlow::default);
        let ways: Vec<Way> = summary.flows.iter().map(|f| way(run, f)).collect();
        let tcp = || {
            let flows = ways.iter().zip(&asked);
            flows.filter(|(_, a)| !a.is_udp()).map(|(w, _)| *w)
        };
        let (ups, downs) = (
            tcp().filter(|w| *w == Way::Up).count(),
            tcp().filter(|w| *w == Way::Down).count(),
        );
        let labels: Vec<String> = summary
            .flows
            .iter()
            .map(|f| short(&f.name).to_owned())
            .collect();
        let probe_names: Vec<String> = summary
            .probes
            .iter()
            .map(|p| short(&p.name).to_owned())
            .collect();
        let of_tcp = labels.iter().zip(&asked).filter(|(_, a)| !a.is_udp());
        let tcp_labels: Vec<&str> = of_tcp.map(|(label, _)| &**label).collect();
        let probe_labels: Vec<&str> = probe_names.iter().map(|name| &**name).collect();
        let own = super::test_of(run);
        let test = match (&own, ups, downs, summary.probes.len()) {
            (Some(own), ..) => own.name,
            (None, 0, 0, 1..) => "ping",
            (None, _, 0, _) => "tcp_nup",
            (None, 0, _, _) => "tcp_ndown",
            _ => "rrul_var",
        };
        let mut number = 0;
        let flows = (0..labels.len())
            .map(|i| {
                let way = ways[i].word();
                if asked[i].is_udp() {
                    return format!("UDP {way}::{}", labels[i]);
                }
                let own = own.iter().flat_map(|own| &own.flows);
                if let Some(flow) = own.clone().find(|flow| flow.name == labels[i]) {
                    return flow.series.clone();
                }
                number += 1;
                match test {
                    "rrul_var" => format!("TCP {way}::{}", labels[i]),
                    _ => format!("TCP {way}::{number}"),
                }
            })
            .collect();

        let first = match test {
            "rrul_var" => "Ping (ms)::ICMP",
            _ => "Ping (ms) ICMP",
        };
        let of_own = |name: &str| {
            let mut probes = own.iter().flat_map(|own| &own.probes);
            let probe = probes.find(|probe| probe.name == name);
            probe.map(|probe| probe.series.to_owned())
        };
        let extra: Vec<&str> = match &own {
            Some(_) => probe_labels
                .iter()
                .copied()
                .filter(|name| of_own(name).is_none())
                .collect(),
            None => probe_labels.iter().copied().skip(1).collect(),
        };
        let probes = probe_names
            .iter()
            .map(|name| match (of_own(name), extra.contains(&&**name)) {
                (Some(series), _) => series,
                (None, true) => format!("Ping (ms) ICMP {name} (extra)"),
                (None, false) => first.to_owned(),
            })
            .collect();
        let queues: Vec<&str> = summary.queues.iter().map(|q| &*q.name).collect();

        let controls: Vec<&str> = summary
            .flows
            .iter()
            .zip(&asked)
            .filter(|(_, a)| !a.is_udp())
            .map(|(f, _)| f.cc.split(' ').next().unwrap_or_default())
            .collect();
        let mut parameters = json!({ "cc_algos": controls.join(",") });
        match test {
            "tcp_nup" => parameters["upload_streams"] = json!(ups),
            "tcp_ndown" => parameters["download_streams"] = json!(downs),
            "rrul_var" => {
                parameters["bidir_streams"] = json!(ups + downs);
                parameters["labels"] = json!(tcp_labels.join(","));
            }
            _ => {}
        }
        if !extra.is_empty() {
            parameters["ping_hosts"] = json!(extra.join(","));
        }
        if !queues.is_empty() {
            parameters["qdisc_stats_hosts"] = json!(queues.join(","));
            let elements: Vec<String> = queues.iter().map(|q| short(q).to_owned()).collect();
            parameters["qdisc_stats_interfaces"] = json!(elements.join(","));
        }

        let (near, far) = match summary.flows.first().zip(ways.first()) {
            Some((flow, Way::Up)) => (Some(flow.from.clone()), Some(flow.to.clone())),
            Some((flow, Way::Down)) => (Some(flow.to.clone()), Some(flow.from.clone())),
            None => (None, None),
        };
        let ip_version = asked
            .first()
            .filter(|one| asked.iter().all(|a| a.ip == one.ip))
            .and_then(|one| one.ip.parse().ok());
        Self {
            test,
            parameters,
            flows,
            probes,
            queues: queues.iter().map(|q| format!("qdisc_stats_{q}")).collect(),
            near,
            far,
            delay_s: match (&own, summary.flows.first()) {
                (Some(_), Some(flow)) => flow.start_s,
                _ => 0.0,
            },
            ip_version,
            ways,
            asked,
        }
    }

    /// What Flent keeps of a flow beside its values.
    pub(super) fn flow_meta(&self, run: &RunResult, series: &ByName<'_>, index: usize) -> Value {
        let (flow, asked) = (&run.summary.flows[index], &self.asked[index]);
        let end = flow.finished_s.unwrap_or(run.record.virtual_s);
        let elapsed = end - flow.start_s;
        let mean = (elapsed > 0.0).then(|| millionths(flow.bytes_total as f64 * 8e-6 / elapsed));
        json!({
            "UNITS": "Mbits/s",
            "MEAN_VALUE": mean,
            "ELAPSED_TIME": millionths(elapsed.max(0.0)),
            "BYTES_RECVD": flow.bytes_total,
            "CONG_CONTROL": (!asked.is_udp()).then_some(&flow.cc),
            "DATA_TOS": u32::from(asked.dscp) << 2,
            "TCP_RETRANSMIT": total(series, &flow.name, "retransmissions"),
            "NARROWS_NAME": flow.name,
        })
    }

    /// The series that Flent's tests compute of others: name, unit, values.
    pub(super) fn computed(
        &self,
        run: &RunResult,
        tracks: &ByName<'_>,
        grid: &Grid,
    ) -> Vec<(String, &'static str, Vec<Option<f64>>)> {
        let mut series = Vec::new();
        let mut totals = vec![Sums::default(); grid.len()];
        for way in [Way::Up, Way::Down] {
            let mut sums = vec![Sums::default(); grid.len()];
            let flows = run
                .summary
                .flows
                .iter()
                .zip(self.ways.iter().zip(&self.asked));
            for (flow, _) in flows.filter(|(_, (w, a))| **w == way && !a.is_udp()) {
                add(&mut sums, tracks, grid, &flow.name, "goodput_mbit");
                add(&mut totals, tracks, grid, &flow.name, "goodput_mbit");
            }
            if sums.iter().all(|s| s.count == 0.0) {
                continue;
            }
            let word = way.word();
            let of = |f: fn(&Sums) -> Option<f64>| sums.iter().map(f).collect();
            series.push((format!("TCP {word} avg"), "Mbits/s", of(Sums::average)));
            series.push((format!("TCP {word} sum"), "Mbits/s", of(Sums::total)));
            if !self.test.starts_with("rrul") {
                series.push((format!("TCP {word} fairness"), "Idx", of(Sums::fairness)));
            }
        }
        if self.test.starts_with("rrul") {
            let values = totals.iter().map(Sums::total).collect();
            series.push(("TCP totals".to_owned(), "Mbits/s", values));
            let own = self.test != "rrul_var";
            let probes = run.summary.probes.iter().zip(&self.probes);
            // Of `rrul_var` further probes are of other hosts.
            let probes = probes.filter(|(_, name)| own || !name.ends_with("(extra)"));
            let mut pings = vec![Sums::default(); grid.len()];
            for (probe, _) in probes {
                add(&mut pings, tracks, grid, &probe.name, "rtt_ms");
            }
            if !run.summary.probes.is_empty() {
                let values = pings.iter().map(Sums::average).collect();
                series.push(("Ping (ms) avg".to_owned(), "ms", values));
            }
        }
        series
    }
}

/// A flow is an upload where its data go up the scenario's first link that has
/// an end in common with it.
fn way(run: &RunResult, flow: &FlowSummary) -> Way {
    let mut ends = run.summary.topology.links.iter().map(|l| &l.ends);
    let touched = ends.find(|(a, b)| [a, b].iter().any(|e| **e == flow.from || **e == flow.to));
    match touched {
        Some((a, b)) if *a == flow.to || *b == flow.from => Way::Down,
        _ => Way::Up,
    }
}

/// The sum of a counter over the whole run.
fn total(series: &ByName<'_>, entity: &str, metric: &str) -> f64 {
    let track = series.get(&(entity, metric));
    track.map_or(0.0, |t| t.value.iter().sum())
}

/// Count, sum and sum of squares of what several flows have in an interval.
#[derive(Clone, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn total(&self) -> Option<f64> {
        (self.count > 0.0).then(|| millionths(self.sum))
    }

    fn average(&self) -> Option<f64> {
        (self.count > 0.0).then(|| millionths(self.sum / self.count))
    }

    /// Jain's index.
    fn fairness(&self) -> Option<f64> {
        (self.squares > 0.0).then(|| millionths(self.sum * self.sum / (self.count * self.squares)))
    }
}

fn add(sums: &mut [Sums], series: &ByName<'_>, grid: &Grid, entity: &str, metric: &str) {
    let Some(track) = series.get(&(entity, metric)) else {
        return;
    };
    for (t, value) in track.t_s.iter().zip(&track.value) {
        if let Some(sums) = sums.get_mut(grid.index(*t)) {
            sums.count += 1.0;
            sums.sum += value;
            sums.squares += value * value;
        }
    }
}
