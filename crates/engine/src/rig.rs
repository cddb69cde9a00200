//! The machine's part in a live run: what it was, how it kept up, and what its
//! kernel made of each flow. `rig` of `run.json`.

use serde::{Deserialize, Serialize};

/// The rig of a live run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rig {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// How late packets left the path.
    pub lateness: Lateness,
    /// Records of congestion controls for which there was no room.
    pub ring_drops: u64,
    /// Packets that the path had carried and the receiving device refused.
    pub refused: u64,
    /// Share of the processors' time that the machine's own host took away
    /// during the run, in percent; `None` where the kernel does not say.
    pub stolen_pct: Option<f64>,
    /// Seconds from the start of building until the run began.
    pub set_up_s: f64,
    /// Seconds from the end of the run until nothing of it was left.
    pub tear_down_s: f64,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
    /// What the kernel made of each flow, in the scenario's order.
    pub flows: Vec<FlowFacts>,
    /// What the kernel's queueing disciplines counted over the steady window,
    /// on links with `datapath = "kernel"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disciplines: Vec<DisciplineFacts>,
    /// How programs ended, in the scenario's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandFacts>,
}

/// How late packets left the path: the time at which a packet was written to
/// the receiving stack less the time at which its last element let it go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets that an element had held back.
    pub count: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 were at most so late, in microseconds.
    pub p99_us: f64,
    /// 999 of 1000 were at most so late, in microseconds.
    pub p999_us: f64,
    /// The latest, in microseconds.
    pub max_us: f64,
}

/// What the kernel made of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowFacts {
    /// Full name, `flow/prague`.
    pub name: String,
    /// The congestion control that the sending socket had in the end, as the
    /// kernel names it.
    pub congestion_control: String,
    /// Whether classic ECN was negotiated.
    pub ecn: bool,
    /// Whether AccECN was negotiated.
    pub accecn: bool,
    /// Segments with a CE mark that the receiver counted, where the kernel
    /// says.
    pub received_ce: Option<u64>,
    /// Segments that the sender learned were marked, where the kernel says.
    pub delivered_ce: Option<u64>,
    /// Segments in the longest burst that its sender's TCP handed to a device at
    /// once; 0 where that was not counted (no BPF, or Linux before 6.6).
    pub gso_max_segs: u32,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
}

/// What stood for an element in the kernel, and what it counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisciplineFacts {
    /// The element's full name, `link/access/up/bottleneck`.
    pub element: String,
    /// What stood for it, as tc calls it: `tbf, pfifo`.
    pub disciplines: String,
    /// Packets that left in the steady window.
    pub packets: u64,
    /// Their mean rate, the Ethernet header included.
    pub rate_mbit: f64,
    /// Packets that were dropped.
    pub drops: u64,
    /// Packets that were marked CE, where the discipline counts them.
    pub marks: Option<u64>,
}

/// How a program that ran in a host ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFacts {
    /// Full name, `command/iperf`.
    pub name: String,
    /// The command as a person would type it.
    pub line: String,
    /// Its exit status, if it ended by itself and not by a signal.
    pub status: Option<i32>,
    /// How it ended in words: `exited with 1`, `stopped with the run`.
    pub ended: String,
}

impl FlowFacts {
    /// What was negotiated, and what came of it, in words.
    pub fn negotiated(&self) -> String {
        let form = match (self.accecn, self.ecn) {
            (true, _) => "AccECN",
            (false, true) => "classic ECN",
            (false, false) => "no ECN",
        };
        let classic = self.ecn && !self.accecn;
        match (self.received_ce, self.delivered_ce) {
            // One mark has ECE set in all ACKs until CWR comes: these count different things.
            (Some(received), Some(delivered)) if classic => format!(
                "{form}, {received} marks received; {delivered} segments acknowledged with ECE"
            ),
            (None, Some(delivered)) if classic => {
                format!("{form}, {delivered} segments acknowledged with ECE")
            }
            (Some(received), Some(delivered)) => {
                format!("{form}, {received} marks received and {delivered} fed back")
            }
            (Some(received), None) => format!("{form}, {received} marks received"),
            (None, Some(delivered)) => format!("{form}, {delivered} marks fed back"),
            (None, None) => form.to_owned(),
        }
    }
}

impl Rig {
    /// All notes, those on a flow with its name.
    pub fn all_notes(&self) -> Vec<String> {
        let of_flows = self.flows.iter().flat_map(|flow| {
            let name = &flow.name;
            flow.notes.iter().map(move |note| format!("{name}: {note}"))
        });
        self.notes.iter().cloned().chain(of_flows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_segments_with_ece_are_not_set_side_by_side_as_one_thing() {
        let mut flow = FlowFacts {
            ecn: true,
            received_ce: Some(51),
            delivered_ce: Some(2788),
            ..FlowFacts::default()
        };
        assert_eq!(
            flow.negotiated(),
            "classic ECN, 51 marks received; 2788 segments acknowledged with ECE"
        );
        flow.accecn = true;
        assert_eq!(
            flow.negotiated(),
            "AccECN, 51 marks received and 2788 fed back"
        );
    }
}
