//! The metrics of each kind of entity.

use super::{MetricEntry, MetricKind};

/// What observers measure by: round trips, loss, congestion marks.
pub(crate) const TECHNIQUES: [&str; 19] = [
    "handshake",
    "seq-ack",
    "ts-single",
    "ts-all",
    "psn-pse",
    "spin",
    "spin-pn",
    "spin-heuristic",
    "vec",
    "vec-nonzero",
    "delay",
    "q",
    "l",
    "r",
    "t",
    "q+l",
    "q+r",
    "e",
    "ecn",
];

/// The meaning of the words in braces that metrics of observers share; see
/// [`MetricEntry::name`](super::MetricEntry).
pub(super) const WORDS: [(&str, &[&str]); 7] = [
    ("rtt_technique", TECHNIQUES.split_at(11).0),
    (
        "rtt",
        &[
            "full_rtt_initiator",
            "full_rtt_responder",
            "left_rtt",
            "right_rtt",
        ],
    ),
    ("loss_technique", TECHNIQUES.split_at(11).1.split_at(6).0),
    (
        "loss",
        &[
            "upstream_loss",
            "downstream_loss",
            "end_to_end_loss",
            "three_quarter_loss",
            "half_round_trip_loss",
            "round_trip_loss",
        ],
    ),
    ("ce_technique", TECHNIQUES.split_at(17).1),
    ("ce", &["upstream_ce", "end_to_end_ce", "downstream_ce"]),
    ("side", &["initiator", "responder"]),
];

/// A line for each metric: its name, its unit, what it says.
macro_rules! metrics {
    ($($name:literal, $unit:literal, $about:literal;)*) => {
        &[$(MetricEntry { name: $name, unit: $unit, about: $about }),*]
    };
}

/// The whole run.
pub(super) const RUN: MetricKind = MetricKind {
    entity: "run",
    about: "the run as a whole; flows are counted in the scenario's order",
    metrics: metrics! {
        "jain", "", "Jain's index of fairness of the bulk flows' goodputs, where all of them compete: 1 for equal shares";
        "rate{n}_mbit", "Mbit/s", "goodput of the n-th flow";
        "share{n}_pct", "%", "the n-th flow's part of the goodput of all";
        "ratio", "", "goodput of the first flow over the second's";
        "window_s", "s", "how long the steady window is";
    },
};

/// A flow.
pub(super) const FLOW: MetricKind = MetricKind {
    entity: "flow/NAME",
    about: "a flow, in the steady window unless it says otherwise",
    metrics: metrics! {
        "goodput_mbit", "Mbit/s", "payload that the receiving application got";
        "fct_s", "s", "from the flow's start to the delivery of its last byte";
        "first_byte_ms", "ms", "from the flow's start to the delivery of its first byte";
        "rtt_ms.{min,mean,p50,p95,p99,max}", "ms", "round trips as the sender measures them";
        "established", "", "1 if its connection was opened, 0 if not";
        "ecn", "", "1 if classic ECN was negotiated";
        "accecn", "", "1 if AccECN was negotiated";
        "bytes", "bytes", "payload delivered";
        "bytes_total", "bytes", "payload delivered in the whole run";
        "retransmissions", "segments", "sent again";
        "mean_window_packets", "packets", "mean congestion window";
        "packets", "packets", "put on the path by the sender";
        "ce_marks", "packets", "of the flow, marked CE by a queue";
        "drops", "packets", "of the flow, dropped by any element";
        "mark_pct", "%", "`ce_marks` of `packets`";
        "loss_pct", "%", "`drops` of `packets`";
        "fast_retransmits", "", "fast retransmits in the whole run";
        "timeouts", "", "retransmission time-outs in the whole run";
        "tail_loss_probes", "", "tail loss probes in the whole run";
        "ecn_reductions", "", "entries to CWR on ECN feedback in the whole run";
        "spurious_undos", "", "reductions taken back as spurious in the whole run";
        "slow_start_exits", "",
            "exits from slow start by the algorithm's own choice in the whole run";
        "one_way_ms.{min,mean,p50,p95,p99,max}", "ms", "of datagrams: from sending to arrival (RFC 7679)";
        "jitter_ms.{mean,max}", "ms", "of datagrams: the interarrival jitter (RFC 3550 §6.4.1), over all packets";
        "variation_ms.{p50,p95,p99}", "ms", "of datagrams: packet delay variation, by how much longer than the least delay (RFC 5481 §4.2)";
        "{telemetry}.{min,mean,max}", "its own",
            "what the sender's congestion control reports of itself";
    },
};

/// A flow in a window.
pub(super) const WINDOW: MetricKind = MetricKind {
    entity: "window/WINDOW/FLOW",
    about: "a flow in one of the scenario's further windows",
    metrics: metrics! {
        "goodput_mbit", "Mbit/s", "payload that the receiving application got, over all of the window";
        "peak_mbit", "Mbit/s", "most of it in one of the window's whole seconds";
        "rtt_ms.{min,mean,p50,p95,p99,max}", "ms", "round trips as the sender measured them in the window";
        "{telemetry}.{min,mean,max}", "its own",
            "what the sender's congestion control reports of itself";
    },
};

/// An element with a rate, and so with a queue.
pub(super) const QUEUE: MetricKind = MetricKind {
    entity: "link/LINK/up/ELEMENT, link/LINK/down/ELEMENT",
    about: "an element with a rate, and so with a queue, in the steady window",
    metrics: metrics! {
        "sojourn_ms.{min,mean,p50,p95,p99,max}", "ms", "time in the queue, of every packet";
        "{band}.sojourn_ms.{min,mean,p50,p95,p99,max}", "ms",
            "the same by band, where several bands carried packets";
        "{band}.packets", "packets", "let go by this band";
        "rate_mbit", "Mbit/s", "mean rate of the link";
        "utilisation", "", "share of the link's rate that was used, 0 to 1";
        "packets", "packets", "let go";
        "wire_bytes", "bytes", "let go, as the link counts them";
        "marks", "packets", "marked CE, by whatever cause";
        "marks.{step,coupled,probability,overflow}", "packets", "marked CE by this cause";
        "drops", "packets", "dropped, by whatever cause";
        "drops.{overflow,probability,overload,loss,unreachable,policy,malformed,too_big,replay,no_socket}", "packets",
            "dropped by this cause";
        "peak_backlog_packets", "packets", "largest backlog of the whole run";
        "peak_backlog_bytes", "bytes", "largest backlog of the whole run";
        "probability", "", "mean of the AQM's probability, 0 to 1 (DualPI2, PIE, RED)";
        "airtime_ms.{total,per_s}", "ms",
            "how long PPDUs for a station of an access point were on the air, and the same per second";
        "aggregate_bytes.{min,mean,p50,p95,p99,max}", "bytes",
            "bytes of IP in an A-MPDU for a station of an access point";
        "blocks.{total,per_s}", "", "resource blocks that a terminal of a cell got, and the same per second";
    },
};

/// An element without a rate.
pub(super) const ELEMENT: MetricKind = MetricKind {
    entity: "link/LINK/up/ELEMENT, link/LINK/down/ELEMENT",
    about: "an element without a rate (netem, police, …), in the steady window",
    metrics: metrics! {
        "drops", "packets", "dropped, by whatever cause";
        "drops.{overflow,probability,overload,loss,unreachable,policy,malformed,too_big,replay,no_socket}", "packets",
            "dropped by this cause";
    },
};

/// A host.
pub(super) const HOST: MetricKind = MetricKind {
    entity: "host/NAME",
    about: "a host, in the steady window",
    metrics: metrics! {
        "drops", "packets", "dropped, by whatever cause";
        "drops.{overflow,probability,overload,loss,unreachable,policy,malformed,too_big,replay,no_socket}", "packets",
            "dropped by this cause";
        "no_port.{total,per_s}", "",
            "connections that were not opened, as the host had no local port left, and the same per second";
    },
};

/// An application.
pub(super) const APP: MetricKind = MetricKind {
    entity: "app/NAME, window/WINDOW/app/NAME",
    about: "an application, in the steady window or one of the scenario's further windows",
    metrics: metrics! {
        "{app_sample}.{min,mean,p50,p95,p99,max}", "its own",
            "what it reports as measurements: their distribution";
        "{app_counter}.{total,per_s}", "its own", "what it counts, and the same per second";
        "{app_gauge}.{min,mean,max}", "its own", "what it reports as a state";
    },
};

/// A latency probe.
pub(super) const PROBE: MetricKind = MetricKind {
    entity: "probe/NAME",
    about: "a latency probe, in the steady window",
    metrics: metrics! {
        "rtt_ms.{min,mean,p50,p95,p99,max}", "ms", "round trips of its packets";
        "lost", "packets", "without an answer, of those sent in the window";
        "loss_pct", "%", "`lost` of those that had time to be answered";
        "{there,back}.one_way_ms.{min,mean,p50,p95,p99,max}", "ms", "from sending to arrival (RFC 7679) of its questions, and of the answers";
        "{there,back}.jitter_ms.{mean,max}", "ms", "their interarrival jitter (RFC 3550 §6.4.1), over all packets";
        "{there,back}.variation_ms.{p50,p95,p99}", "ms", "their packet delay variation: by how much longer than the least delay (RFC 5481 §4.2)";
    },
};

/// A host's marks.
pub(super) const MARK: MetricKind = MetricKind {
    entity: "mark/NAME/HOST",
    about: "measurement signals at one of their hosts, in the whole run",
    metrics: metrics! {
        "connections", "", "connections that began";
        "evicted", "", "connections forgotten for want of room";
        "announced", "packets", "SYNs and SYN-ACKs with a code in them";
        "marked", "packets", "that signals were written into";
        "set.{d,s,q,l,r,t,e,vec}", "packets", "with the bit of this signal set";
        "unmarked.{segments,segmented,without_socket,refused,passed_over,other}", "packets",
            "left without marks, for this reason";
    },
};

/// What an observer says of a flow.
pub(super) const OBSERVER: MetricKind = MetricKind {
    entity: "observe/OBSERVER/FLOW",
    about: "what an observer finds of a flow, in its window: TECHNIQUE.QUANTITY.PART",
    metrics: metrics! {
        "{rtt_technique}.{rtt}.{mean,low,high,sd,min,p50,p95}", "ms",
            "round trips: their mean with the ends of its 95 % interval, standard deviation, \
             least, median, 95th percentile";
        "{rtt_technique}.{rtt}.{truth,truth_sd,error,error_p025,error_p50,error_p975,error_max,dwell_ms}", "ms",
            "what the network really took for the packets of the samples, mean and standard \
             deviation; errors, mean and percentiles; how long the ends held the answers";
        "{rtt_technique}.{rtt}.{truth_all,error_all}", "ms",
            "what the network took for all packets, those too of which no sample was taken; the \
             mean less that";
        "{rtt_technique}.{rtt}.short", "",
            "share of samples shorter than a tenth of the truth, 0 to 1";
        "{rtt_technique}.{rtt}.{n,rejected}", "samples", "taken and rejected";
        "{loss_technique}.{loss}_{side}.{rate,low,high,truth,error}", "",
            "a rate of loss, 0 to 1: the estimate with the ends of its 95 % interval, what was \
             really lost, the difference";
        "{loss_technique}.{loss}_{side}.{n,rejected}", "packets",
            "that the estimate rests on, and that were rejected";
        "{ce_technique}.{ce}_{side}.{rate,low,high,truth,error}", "",
            "a rate of CE marks, 0 to 1, as for loss";
        "{ce_technique}.{ce}_{side}.{n,rejected}", "packets",
            "that the estimate rests on, and that were rejected";
        "{spin,vec}-to-{ts-single,ts-all,psn-pse}.full_rtt_{side}.{mean,error_p025,error_p50,error_p975,error_max}", "%",
            "by how much the second technique's round trips are longer than the first one's";
        "{spin,vec}-to-{ts-single,ts-all,psn-pse}.full_rtt_{side}.{n,rejected}", "samples",
            "compared and rejected";
        "{delay,vec}.inflated.total", "samples", "more than 2 ms longer than what the network took";
        "{delay,vec}.inflated.{n,rejected}", "samples", "held against the truth, and rejected";
        "ss.smoothed_rtt.{mean,sd}", "ms", "the sender's smoothed round trip";
        "ss.smoothed_rtt.{n,rejected}", "samples", "of it, taken once a second, and rejected";
        "seen.ip.total", "MiB", "IP bytes of both directions that passed";
        "seen.again_or_late.total", "packets",
            "of both directions that were sent again or came late";
        "seen.growth.slope", "Mbit/s per s", "growth of the flow's rate after slow start";
        "seen.{ip,again_or_late,growth}.{n,rejected}", "packets",
            "of both directions that passed, and rejected";
    },
};
