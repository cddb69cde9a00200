//! What a live run hands back.

use narrows_efm::HostMarks;
use narrows_units::Duration;

/// What a run counted, and what is known of the rig that it ran on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Events handed to the sink.
    pub events: u64,
    /// Packets that entered a path or were made in one.
    pub packets: u64,
    /// Time of the run that was reached.
    pub virtual_time: Duration,
    /// Whether the run was cancelled before its end.
    pub interrupted: bool,
    /// What the plan's marks did at each of their hosts.
    pub marks: Vec<HostMarks>,
    /// The rig.
    pub rig: Rig,
}

/// The machine's part in a run: by it the run is judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rig {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// How late packets left the path.
    pub lateness: Lateness,
    /// Records that the congestion controls' ring buffers had no room for.
    pub ring_drops: u64,
    /// Packets that the path had carried and the receiving device refused.
    pub refused: u64,
    /// Seconds from the call to the epoch of the run.
    pub set_up_s: f64,
    /// Seconds from the end of the run until nothing of it was left.
    pub tear_down_s: f64,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
    /// What the kernel made of each flow, in the plan's order.
    pub flows: Vec<FlowFacts>,
    /// What the kernel's queueing disciplines counted, where they stood for
    /// elements.
    pub disciplines: Vec<DisciplineFacts>,
    /// How the programs of `[[command]]` ended, in the plan's order.
    pub commands: Vec<CommandFacts>,
}

/// How late packets were handed to the receiving stack: the time at which a
/// packet was written less the time at which an element let it go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Packets that an element had held back and that were then written.
    pub count: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, in microseconds.
    pub p999_us: f64,
    /// The latest, in microseconds.
    pub max_us: f64,
}

/// What the kernel made of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFacts {
    /// The flow's name in the plan.
    pub name: String,
    /// The congestion control that the sending socket had in the end, as the
    /// kernel names it.
    pub congestion_control: String,
    /// Whether classic ECN was negotiated.
    pub ecn: bool,
    /// Whether AccECN was negotiated.
    pub accecn: bool,
    /// Segments with a CE mark that the receiver counted, where the kernel says.
    pub received_ce: Option<u64>,
    /// Segments that the sender learned were marked, where the kernel says.
    pub delivered_ce: Option<u64>,
    /// Segments in the longest burst that its sender's TCP handed to a device at
    /// once; 0 where that was not counted (no BPF, or Linux before 6.6).
    pub gso_max_segs: u32,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
}

/// What the queueing disciplines of an element counted over the steady window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisciplineFacts {
    /// The element's full name.
    pub element: String,
    /// What stood for it, as tc calls it: `tbf, pfifo`.
    pub disciplines: String,
    /// Packets that left.
    pub packets: u64,
    /// Their bytes, the Ethernet header included.
    pub bytes: u64,
    /// Packets that were dropped.
    pub drops: u64,
    /// Packets that were marked CE, where the discipline counts them.
    pub marks: Option<u64>,
}

/// How a program that ran in a host ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFacts {
    /// Its name in the plan.
    pub name: String,
    /// The command as a person would type it.
    pub line: String,
    /// Its exit status, if it ended by itself and not by a signal.
    pub status: Option<i32>,
    /// How it ended in words: `exited with 1`, `ended by signal 9`,
    /// `stopped with the run`, `could not be started: No such file or directory`.
    pub ended: String,
}
