//! What a run came to: the numbers of `summary.json`.
//!
//! Every field with a unit carries it in its name. Unless a field says
//! otherwise, it is taken over the steady window.

use std::collections::BTreeMap;

pub use narrows_engine::{DisciplineFacts, DropCounts, MarkCounts};
use serde::{Deserialize, Serialize};

pub use crate::distribution::Distribution;
use crate::signals::SignalSummary;
pub use telemetry::{FieldFigures, SourceSummary, TelemetrySummary};
pub use topology::{Topology, TopologyElement, TopologyHost, TopologyLink, TopologySplit};

mod telemetry;
#[cfg(test)]
mod tests;
mod topology;

/// The metrics of one run. `summary.json` is this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The scenario's name.
    pub name: String,
    /// A sentence about it, where the scenario has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `sim` or `live`.
    pub engine: String,
    /// The run's seed.
    pub seed: u64,
    /// Planned length in seconds.
    pub duration_s: f64,
    /// The steady window.
    pub window: WindowSummary,
    /// Jain's fairness index of the goodputs of bulk flows; `None` with fewer than two of
    /// them in the window, and where not all of these compete: each of
    /// [`directions`](Self::directions) has its own.
    pub jain: Option<f64>,
    /// The flows in groups that compete with each other, such as uploads and
    /// downloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionSummary>,
    /// One per flow, in the scenario's order.
    pub flows: Vec<FlowSummary>,
    /// What flows come to in the scenario's further windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<FlowInWindow>,
    /// One per queue that saw a packet, in the order of the name table.
    pub queues: Vec<QueueSummary>,
    /// What other sources than flows report of themselves, in the order of the name table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceSummary>,
    /// One per latency probe.
    #[serde(default)]
    pub probes: Vec<ProbeSummary>,
    /// Elements without a queue that dropped packets (loss, policing).
    #[serde(default)]
    pub droppers: Vec<DropperSummary>,
    /// What the kernel's disciplines counted, on links with `datapath = "kernel"` of a run in
    /// a kernel; such elements are among neither queues nor droppers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disciplines: Vec<DisciplineFacts>,
    /// What the scenario's marks did, one for each of their hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<SignalSummary>,
    /// What the scenario's observers came to, one for each technique and
    /// quantity of each flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<ObservationSummary>,
    /// Hosts, links and elements, for drawing.
    pub topology: Topology,
}

/// Flows whose data cross a link the same way, or are joined by others that do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Hosts that send, in the order of the flows.
    pub from: Vec<String>,
    /// Hosts that receive, in the order of the flows.
    pub to: Vec<String>,
    /// Full names of the flows.
    pub flows: Vec<String>,
    /// Sum of their goodputs; `None` if none of them has one.
    pub goodput_mbit: Option<f64>,
    /// Jain's fairness index of the goodputs of the bulk flows among them, which send for as
    /// long as they may; `None` with fewer than two.
    pub jain: Option<f64>,
    /// How many bulk flows those are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bulk_flows: usize,
}

/// The steady window, in seconds of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowSummary {
    /// Its start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Full name, `flow/prague`.
    pub name: String,
    /// Host that sends the data.
    pub from: String,
    /// Host that gets it.
    pub to: String,
    /// Congestion control, in its own words; `none` for datagrams.
    pub cc: String,
    /// When the flow was to start, in seconds.
    pub start_s: f64,
    /// When its connection was established; `None` if it never was.
    pub established_s: Option<f64>,
    /// When it ended; `None` if it was still running at the end.
    pub finished_s: Option<f64>,
    /// Whether all that it had to send arrived.
    pub complete: bool,
    /// Whether classic ECN was negotiated.
    pub ecn: bool,
    /// Whether AccECN was negotiated.
    pub accecn: bool,
    /// Payload handed to the receiving application, over the part of the
    /// steady window in which the flow was open; `None` if there is none.
    pub goodput_mbit: Option<f64>,
    /// Flow completion time: from its start to its last byte's delivery;
    /// `None` for a flow that was stopped or still runs.
    pub fct_s: Option<f64>,
    /// From its start to the delivery of its first payload; `None` if nothing was.
    pub first_byte_ms: Option<f64>,
    /// RTT samples of the sender.
    pub rtt_ms: Option<Distribution>,
    /// Payload bytes delivered in the window.
    pub bytes: u64,
    /// Payload bytes delivered in the whole run.
    pub bytes_total: u64,
    /// Segments sent again in the window.
    pub retransmissions: u64,
    /// Packets that its sender put on the path in the window, each segment that
    /// was sent again included; 0 where the path does not see them.
    #[serde(default)]
    pub packets: u64,
    /// Mean congestion window over the samples of the sender in the window, in
    /// packets; `None` without a sample.
    #[serde(default)]
    pub mean_window_packets: Option<f64>,
    /// The flow's packets that a queue marked CE in the window.
    pub ce_marks: u64,
    /// The flow's packets that were dropped in the window, by whatever element.
    pub drops: u64,
    /// Where that was, of the elements with a rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<FlowSignals>,
    /// Delay and jitter of a flow of datagrams; `None` of other flows, and if none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWaySummary>,
    /// Changes of congestion state over the whole run.
    pub recovery: RecoverySummary,
    /// What else than congestion held the sender back, over the whole run.
    pub limited: LimitedSummary,
    /// The same in the window, to a sample of the sender.
    #[serde(default)]
    pub limited_in_window: LimitedSummary,
    /// ECN codepoints of the flow's packets as sent and as received, over the
    /// whole run, both directions.
    pub codepoints: CodepointSummary,
    /// What its sender's congestion control reports of itself, in the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub telemetry: Vec<TelemetrySummary>,
}

/// One-way delay and jitter of the packets that were sent in the window and arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWaySummary {
    /// From when a packet was put on the path to when its host received it (RFC 7679).
    pub one_way_ms: Distribution,
    /// Mean over the packets of the interarrival jitter (RFC 3550 §6.4.1).
    pub jitter_mean_ms: f64,
    /// The greatest of its values.
    pub jitter_max_ms: f64,
}

impl OneWaySummary {
    /// The packet delay variation of a delay (RFC 5481 §4.2): by how much it is longer than
    /// the least. Of a percentile of delays it is the percentile of variations.
    pub fn variation_ms(&self, delay_ms: f64) -> f64 {
        millionths(delay_ms - self.one_way_ms.min)
    }
}

/// What an element signalled to a flow in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSignals {
    /// Full name of the element.
    pub element: String,
    /// The flow's packets that it marked CE.
    pub marks: u64,
    /// The flow's packets that it dropped.
    pub drops: u64,
}

impl FlowSummary {
    /// What the element of this name signalled to the flow.
    pub fn signals_at(&self, element: &str) -> FlowSignals {
        let there = self.signals.iter().find(|s| s.element == element);
        there.cloned().unwrap_or_default()
    }
}

/// A flow in one of the scenario's further windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowInWindow {
    /// Full name, `window/mid/prague`.
    pub name: String,
    /// From when to when.
    pub window: WindowSummary,
    /// Payload handed to the receiving application, over all of the window.
    pub goodput_mbit: f64,
    /// The most of it in one of the window's whole seconds; `None` if it is shorter.
    pub peak_mbit: Option<f64>,
    /// Round trips as the sender measured them in the window.
    #[serde(default)]
    pub rtt_ms: Option<Distribution>,
    /// What its sender's congestion control reports of itself, in the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub telemetry: Vec<TelemetrySummary>,
}

/// How often each change of congestion state happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverySummary {
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail-loss probes.
    pub tail_loss_probes: u64,
    /// Reductions on ECN feedback (entries to CWR).
    pub ecn_reductions: u64,
    /// Reductions taken back as spurious.
    pub spurious_undos: u64,
    /// Slow start left by the algorithm's own choice.
    pub slow_start_exits: u64,
}

/// How long a sender was held back by something else than congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedSummary {
    /// By the receive window.
    pub receive_window_s: f64,
    /// By its own send buffer.
    pub send_buffer_s: f64,
    /// It had nothing to send.
    pub application_s: f64,
}

impl LimitedSummary {
    /// What it is more than `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            receive_window_s: (self.receive_window_s - before.receive_window_s).max(0.0),
            send_buffer_s: (self.send_buffer_s - before.send_buffer_s).max(0.0),
            application_s: (self.application_s - before.application_s).max(0.0),
        }
    }
}

/// Packets by ECN codepoint, in the order Not-ECT, ECT(1), ECT(0), CE (the
/// codepoint's value).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodepointSummary {
    /// As they left a host.
    pub sent: [u64; 4],
    /// As they reached one.
    pub received: [u64; 4],
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueSummary {
    /// Full name, `link/access/up/bottleneck`.
    pub name: String,
    /// The element in its own words, `rate 50Mbit queue dualpi2`.
    pub words: String,
    /// Mean rate of the link over the window; `None` if not known.
    pub rate_mbit: Option<f64>,
    /// Share of the link's rate that was used, by what the link counts (IP
    /// packet plus overhead), 0..1.
    pub utilisation: Option<f64>,
    /// Packets let go in the window.
    pub packets: u64,
    /// What the link counted for them.
    pub wire_bytes: u64,
    /// Time in the queue.
    pub sojourn_ms: Option<Distribution>,
    /// Distribution function of the sojourn: pairs (ms, share of packets that
    /// waited at most so long), rising, at most 200.
    pub sojourn_cdf: Vec<(f64, f64)>,
    /// The bands apart that saw packets, where those are more than one.
    pub bands: Vec<BandSummary>,
    /// CE marks in the window.
    pub marks: MarkCounts,
    /// Drops in the window.
    pub drops: DropCounts,
    /// Largest backlog of the whole run, in packets.
    pub peak_backlog_packets: u32,
    /// Largest backlog of the whole run, in bytes.
    pub peak_backlog_bytes: u64,
    /// Mean of the AQM's sampled probability (DualPI2, PIE, RED); `None`
    /// without samples.
    pub probability: Option<f64>,
}

/// One band of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BandSummary {
    /// Its name among those of its queue: of DualPI2 `classic` or `low_latency`.
    pub name: String,
    /// Packets let go in the window.
    pub packets: u64,
    /// What the link counted for them.
    pub wire_bytes: u64,
    /// Time in the queue.
    pub sojourn_ms: Option<Distribution>,
    /// As [`QueueSummary::sojourn_cdf`].
    pub sojourn_cdf: Vec<(f64, f64)>,
}

/// One latency probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeSummary {
    /// Full name, `probe/ping`.
    pub name: String,
    /// Answers' round trips.
    pub rtt_ms: Option<Distribution>,
    /// As [`QueueSummary::sojourn_cdf`], of the round trips.
    pub rtt_cdf: Vec<(f64, f64)>,
    /// Questions that were sent in the window, and had time to be answered.
    #[serde(default)]
    pub asked: u64,
    /// Those of them without an answer.
    pub lost: u64,
    /// Delay and jitter of the questions; `None` if none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<OneWaySummary>,
    /// Delay and jitter of the answers; `None` if none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<OneWaySummary>,
}

/// An element without a queue that dropped packets in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropperSummary {
    /// Full name, `link/access/up/netem`.
    pub name: String,
    /// Its drops.
    pub drops: DropCounts,
}

/// What an observer says of one flow by one technique, over the whole run,
/// beside the truth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservationSummary {
    /// The observer's name.
    pub observer: String,
    /// Its tap, `tap/mid`.
    pub tap: String,
    /// The flow's name, `prague`; of packets that are no flow's, addresses and
    /// ports.
    pub flow: String,
    /// `delay`, `spin-pn`, `q`; `seen` for what the flow carried, both
    /// directions together: `ip` bytes, segments that were sent
    /// `again_or_late`, its `growth` after slow start; `ss` for the smoothed round trip
    /// of the flow's sender, sampled once a second.
    pub technique: String,
    /// `full_rtt_initiator`, `upstream_loss_responder`; `inflated` for how many samples
    /// of `delay` and `vec` were more than 2 ms longer than what the network took.
    pub quantity: String,
    /// What the figures below are in: `ms`, `ratio`, `samples`, or of what was seen
    /// `MiB`, `packets` and `Mbit/s per s`.
    pub unit: String,
    /// `measured`, `assumed`, `learnt` or `pinned`.
    pub basis: String,
    /// The mean of round trips, or a rate.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
    /// Samples that it rests on: round trips, or packets.
    pub n: u64,
    /// What was seen and not taken.
    pub rejected: u64,
    /// Standard deviation of round trips.
    pub sd: Option<f64>,
    /// The shortest round trip.
    pub min: Option<f64>,
    /// The median of round trips.
    pub p50: Option<f64>,
    /// 95 of 100 round trips are at most this.
    pub p95: Option<f64>,
    /// What it really was: the mean of what the network took for the packets
    /// of each sample, or the share of the flow's packets that was dropped or
    /// marked.
    pub truth: Option<f64>,
    /// Standard deviation of what the network took for each sample.
    #[serde(default)]
    pub truth_sd: Option<f64>,
    /// Mean of value less truth.
    pub error: Option<f64>,
    /// Of round trips: the mean of what the network took over every packet of the flow
    /// that could have ended one, those too of which no sample was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth_all: Option<f64>,
    /// The value less `truth_all`: what samples that were not taken hide is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_all: Option<f64>,
    /// How long the ends held the answers on average.
    pub dwell_ms: Option<f64>,
    /// Where the errors of round trips lie; of one technique held against
    /// another, the differences in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorSpread>,
}

/// How errors spread: value less truth, in the unit of the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSpread {
    /// 25 of 1000 are at most this.
    pub p025: f64,
    /// The median.
    pub p50: f64,
    /// 975 of 1000 are at most this.
    pub p975: f64,
    /// The largest.
    pub max: f64,
    /// The share of samples that are shorter than a tenth of the truth.
    pub short: f64,
}

impl RunSummary {
    /// The flow of that full or short name.
    pub fn flow(&self, name: &str) -> Option<&FlowSummary> {
        self.flows
            .iter()
            .find(|f| f.name == name || f.name.strip_prefix("flow/") == Some(name))
    }

    /// A flow's percentage of the goodput of all that it competes with; `None`
    /// where none of them has any.
    pub fn share_pct(&self, flow: &FlowSummary) -> Option<f64> {
        let at = self.flows.iter().position(|f| f.name == flow.name)?;
        self.shares_pct()[at]
    }

    /// [`share_pct`](Self::share_pct) of each flow, in the order of the flows: each of them
    /// is visited a fixed number of times, however many there are.
    pub fn shares_pct(&self) -> Vec<Option<f64>> {
        let group = self.direction_indices();
        let mut sums = vec![0.0; self.directions.len()];
        let mut all = 0.0;
        for (flow, group) in self.flows.iter().zip(&group) {
            let goodput = flow.goodput_mbit.unwrap_or_default();
            all += goodput;
            if let Some(group) = group {
                sums[*group] += goodput;
            }
        }
        let share = |(flow, group): (&FlowSummary, &Option<usize>)| {
            let of = group.map_or(all, |group| sums[group]);
            let goodput = flow.goodput_mbit.filter(|_| of > 0.0)?;
            Some(100.0 * goodput / of)
        };
        self.flows.iter().zip(&group).map(share).collect()
    }

    /// For each flow the index of its group among [`directions`](Self::directions); `None` of
    /// a flow that is in none.
    pub fn direction_indices(&self) -> Vec<Option<usize>> {
        let groups = self.directions.iter().enumerate();
        let of: BTreeMap<&str, usize> = groups
            .flat_map(|(at, group)| group.flows.iter().map(move |name| (name.as_str(), at)))
            .collect();
        let flows = self.flows.iter();
        flows.map(|f| of.get(f.name.as_str()).copied()).collect()
    }

    /// Delay and jitter of datagrams, each with whose they are (`flow/call`, `probe/ping
    /// there`) and, of a flow, the share of its packets that were dropped, in percent.
    pub fn one_way(&self) -> Vec<(String, OneWaySummary, Option<f64>)> {
        let flows = self.flows.iter().filter_map(|f| {
            let lost = (f.packets > 0).then(|| 100.0 * f.drops as f64 / f.packets as f64);
            Some((f.name.clone(), f.one_way?, lost))
        });
        let probes = self.probes.iter().flat_map(|p| {
            let ways = [("there", p.there), ("back", p.back)];
            ways.map(|(way, of)| Some((format!("{} {way}", p.name), of?, None)))
        });
        flows.chain(probes.flatten()).collect()
    }

    /// CE marks and drops of all queues and elements in the window.
    pub fn signals(&self) -> (u64, u64) {
        let marks = self.queues.iter().map(|q| q.marks.total()).sum();
        let queues = self.queues.iter().map(|q| q.drops.total());
        let droppers = self.droppers.iter().map(|d| d.drops.total());
        (marks, queues.chain(droppers).sum())
    }

    /// The queue of that full name.
    pub fn queue(&self, name: &str) -> Option<&QueueSummary> {
        self.queues.iter().find(|q| q.name == name)
    }
}

impl DirectionSummary {
    /// For people: `client → server`; of more than three hosts their number.
    pub fn label(&self) -> String {
        let side = |hosts: &[String]| match hosts.len() {
            0..=3 => hosts.join(", "),
            n => format!("{n} hosts"),
        };
        format!("{} → {}", side(&self.from), side(&self.to))
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// `value` to six decimals: of milliseconds a nanosecond, of Mbit/s a bit per
/// second. More is noise of the division, and makes files long.
pub fn millionths(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
