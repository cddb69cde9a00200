//! What was measured of a mix, and a table of it.

mod rows;

use std::fmt;

use serde::Serialize;

use super::marks::ArrivedMarks;
use super::show::{mbit, table};

/// Datagrams of a flow in an interval, as its receiver has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatagramRow {
    /// When the interval began, in seconds of Unix time.
    pub at_s: f64,
    /// How long it was, in seconds.
    pub span_s: f64,
    /// Which flow.
    pub flow: String,
    /// The traffic class.
    pub tos: u8,
    /// Bytes of payload that arrived.
    pub bytes: u64,
    /// Jitter by RFC 3550 §6.4.1 at the end of the interval, in milliseconds.
    pub jitter_ms: f64,
    /// Datagrams that were sent, by their numbers.
    pub packets: u64,
    /// Of these, those that did not arrive; `None` where no number shows that any was sent.
    pub lost: Option<u64>,
    /// The mean one-way delay, in milliseconds; `None` if nothing arrived, or the clocks could not
    /// be compared.
    pub delay_ms: Option<f64>,
    /// The greatest.
    pub delay_max_ms: Option<f64>,
    /// By how much the delays may be wrong.
    pub delay_within_ms: Option<f64>,
}

/// A connection in an interval, as its sender has it. What a sender that is gone did not report has
/// the bytes that were received alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StreamRow {
    /// When the interval began, in seconds of Unix time.
    pub at_s: f64,
    /// How long it was, in seconds.
    pub span_s: f64,
    /// Which flow.
    pub flow: String,
    /// The protocol: `tcp` or `quic`.
    pub protocol: &'static str,
    /// The traffic class.
    pub tos: u8,
    /// Path MTU, in bytes.
    pub pmtu: Option<u32>,
    /// Bytes written.
    pub bytes: u64,
    /// Segments sent again; of QUIC, packets that were lost, whose content is sent again.
    pub retransmissions: Option<u32>,
    /// The congestion window, in bytes.
    pub cwnd: Option<u64>,
    /// The smoothed round trip, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Its mean deviation; `None` of QUIC.
    pub rttvar_ms: Option<f64>,
}

/// Figures of something that was measured many times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// How often.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The greatest.
    pub max: f64,
}

impl Measured {
    /// Of these values; `None` of none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let max = *values.last()?;
        let rank = |share: f64| {
            // The nearest rank.
            let rank = (share * values.len() as f64).ceil() as usize;
            values[rank.clamp(1, values.len()) - 1]
        };
        Some(Self {
            count: values.len(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: rank(0.5),
            p95: rank(0.95),
            max,
        })
    }
}

/// What became of the flows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SetFigures {
    /// What they are called.
    pub label: String,
    /// The kind.
    pub kind: String,
    /// The protocol: `udp`, `tcp` or `quic`.
    pub protocol: &'static str,
    /// Transfers that were due.
    pub transfers: u64,
    /// Those of which all arrived.
    pub complete: u64,
    /// Those that broke off, were not complete when the run ended, or were not opened.
    pub failed: u64,
    /// Why the first of these failed.
    pub failed_why: Option<String>,
    /// Bytes of payload that were to be sent; `None` where the path decides.
    pub due_bytes: Option<u64>,
    /// Bytes that the server sent; `None` if it did not say how many.
    pub sent_bytes: Option<u64>,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// Their time: from when the first transfer was due to when the last was over, which is when its
    /// last byte was received, or, of one that sends for a time, when that time was over.
    pub seconds: f64,
    /// Datagrams that the server sent; `None` if it did not say how many, as of those of QUIC.
    pub packets: Option<u64>,
    /// Datagrams that arrived, those of QUIC included.
    pub packets_received: u64,
    /// Datagrams that did not arrive; `None` if it is not known how many were sent.
    pub lost: Option<u64>,
    /// From when an object was due to its last byte, in milliseconds.
    pub completion_ms: Option<Measured>,
    /// One-way delay, in milliseconds.
    pub delay_ms: Option<Measured>,
    /// Jitter of the flows at their ends, in milliseconds.
    pub jitter_ms: Option<Measured>,
    /// The codepoint of its datagrams that was asked for (`ect0`, `ect1`), or `ect0` of connections that
    /// ask for ECN.
    pub ecn: Option<String>,
    /// Connections of which both ends agreed on ECN; of QUIC, on which packets arrived as capable of it.
    pub ecn_connections: u64,
    /// What datagrams bore when they arrived.
    pub marks: ArrivedMarks,
}

/// What came of a mix.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrafficResult {
    /// Where the server is.
    pub server: String,
    /// When it began, in seconds of Unix time.
    pub began_s: f64,
    /// From its beginning to when the last flow was over.
    pub seconds: f64,
    /// Whether it ran to its end.
    pub whole: bool,
    /// Why not.
    pub why: Option<String>,
    /// The server's clock less ours, in milliseconds; `None` if they could not be compared. Each
    /// begins when its program does, so that only its change says something.
    pub clocks_apart_ms: Option<f64>,
    /// By how much that, and each one-way delay, may be wrong.
    pub clocks_within_ms: Option<f64>,
    /// How fast they drifted apart; `None` where that is within what the comparison may be wrong by.
    pub clocks_drift_ppm: Option<f64>,
    /// The most by which a transfer was opened after it was due.
    pub opened_late_ms: f64,
    /// The most by which a datagram left after it was due; `None`, as of the three that follow, if
    /// the server did not say.
    pub sent_late_ms: Option<f64>,
    /// Datagrams that left more than a millisecond late.
    pub sent_late: Option<u64>,
    /// Datagrams that the server sent.
    pub datagrams_sent: Option<u64>,
    /// Datagrams that the server's host did not take.
    pub refused_by_host: Option<u64>,
    /// Transfers that were not due any more when it ended, or not reached.
    pub not_begun: u64,
    /// What became of the flows.
    pub sets: Vec<SetFigures>,
    /// Intervals of datagrams.
    pub datagrams: Vec<DatagramRow>,
    /// Intervals of connections.
    pub streams: Vec<StreamRow>,
}

/// The share that is lost, in percent; `None` of none.
fn share(lost: u64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| 100.0 * lost as f64 / packets as f64)
}

fn per_second(bytes: u64, span_s: f64) -> f64 {
    bytes as f64 * 8.0 / span_s.max(1e-9)
}

impl TrafficResult {
    /// What became of marks: of flows for which ECN was asked, and of datagrams whose marks the path
    /// changed.
    pub fn marks(&self) -> Option<String> {
        let mut parts = Vec::new();
        for set in &self.sets {
            let (label, marks) = (&set.label, set.marks);
            let arrived = set.packets_received;
            match (&set.ecn, set.protocol) {
                (Some(ecn), "udp") => parts.push(format!(
                    "{label} with {ecn}, {} of {arrived} datagrams arrived with CE",
                    marks.ce
                )),
                (Some(_), protocol) => {
                    let (with, all) = (set.ecn_connections, set.transfers);
                    let mut part = format!("{label} with ECN on {with} of {all} connections");
                    if protocol == "quic" {
                        part += &format!(", {} of {arrived} packets arrived with CE", marks.ce);
                    }
                    parts.push(part);
                }
                (None, _) if marks.ce > 0 => {
                    parts.push(format!("{label}: {} datagrams arrived with CE", marks.ce));
                }
                (None, _) => {}
            }
            for (n, what) in [
                (marks.ecn_changed, "ECN field"),
                (marks.dscp_changed, "DSCP"),
            ] {
                if n > 0 {
                    parts.push(format!(
                        "of {label} {n} of {arrived} datagrams arrived with another {what}"
                    ));
                }
            }
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Whether the two hosts fell behind what the mix says, and by how much.
    pub fn behind(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.opened_late_ms > 1.0 {
            parts.push(format!(
                "transfers were opened up to {:.1} ms late",
                self.opened_late_ms
            ));
        }
        if let Some(late) = self.sent_late.filter(|late| *late > 0) {
            parts.push(format!(
                "{late} of {} datagrams left more than 1 ms late, up to {:.1} ms",
                self.datagrams_sent.unwrap_or_default(),
                self.sent_late_ms.unwrap_or_default()
            ));
        }
        if let Some(refused) = self.refused_by_host.filter(|refused| *refused > 0) {
            parts.push(format!(
                "the server's host did not take {refused} datagrams"
            ));
        }
        if self.not_begun > 0 {
            parts.push(format!("{} transfers were not begun", self.not_begun));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl fmt::Display for TrafficResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "label",
            "transfers",
            "complete",
            "failed",
            "due bytes",
            "received",
            "Mbit/s",
            "lost",
            "completion ms p50/p95/max",
            "delay ms p50/p95/max",
            "jitter ms",
        ];
        let three = |m: Option<Measured>| {
            m.map_or_else(
                || "-".to_owned(),
                |m| format!("{:.2} / {:.2} / {:.2}", m.p50, m.p95, m.max),
            )
        };
        let rows = self.sets.iter().map(|set| {
            let lost = match set.protocol {
                "udp" => match set.lost.zip(set.packets) {
                    Some((lost, packets)) => {
                        format!("{lost} ({:.3} %)", share(lost, packets).unwrap_or(0.0))
                    }
                    None => "unknown".to_owned(),
                },
                _ => "-".to_owned(),
            };
            [
                set.label.clone(),
                set.transfers.to_string(),
                set.complete.to_string(),
                set.failed.to_string(),
                set.due_bytes
                    .map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
                set.received_bytes.to_string(),
                mbit(per_second(set.received_bytes, set.seconds)),
                lost,
                three(set.completion_ms),
                three(set.delay_ms),
                set.jitter_ms
                    .map_or_else(|| "-".to_owned(), |m| format!("{:.3}", m.mean)),
            ]
        });
        let rows: Vec<_> = std::iter::once(head.map(str::to_owned))
            .chain(rows)
            .collect();
        table(f, &rows)?;
        let received: u64 = self.sets.iter().map(|set| set.received_bytes).sum();
        writeln!(
            f,
            "\n{received} bytes in {:.1} s from {}: {} Mbit/s",
            self.seconds,
            self.server,
            mbit(per_second(received, self.seconds))
        )?;
        match (self.clocks_within_ms, self.clocks_drift_ppm) {
            (Some(within), Some(drift)) => writeln!(
                f,
                "one-way delays are right within ±{within:.3} ms; the clocks drifted by {drift:.1} ppm"
            )?,
            (Some(within), None) => writeln!(f, "one-way delays are right within ±{within:.3} ms")?,
            (None, _) => writeln!(
                f,
                "the clocks could not be compared: there are no one-way delays"
            )?,
        }
        for set in &self.sets {
            if let Some(why) = &set.failed_why {
                writeln!(
                    f,
                    "failed: {} of {}, the first: {why}",
                    set.failed, set.label
                )?;
            }
        }
        if let Some(marks) = self.marks() {
            writeln!(f, "marks: {marks}")?;
        }
        if let Some(behind) = self.behind() {
            writeln!(f, "behind: {behind}")?;
        }
        match &self.why {
            Some(why) => writeln!(f, "not whole: {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_by_the_nearest_rank() {
        let of = Measured::of((1..=100).map(f64::from).collect()).unwrap();
        assert_eq!((of.p50, of.p95, of.max, of.mean), (50.0, 95.0, 100.0, 50.5));
        assert_eq!(Measured::of(Vec::new()), None);
        assert_eq!(Measured::of(vec![3.0]).unwrap().p95, 3.0);
    }

    #[test]
    fn who_fell_behind_says_by_how_much() {
        let mut result = TrafficResult::default();
        assert_eq!(result.behind(), None);
        result.sent_late = Some(7);
        result.sent_late_ms = Some(12.0);
        result.datagrams_sent = Some(100);
        assert!(result.behind().unwrap().contains("7 of 100"));
    }
    #[test]
    fn what_was_sent_is_unknown_where_the_server_did_not_say() {
        let set = SetFigures {
            protocol: "udp",
            received_bytes: 190_008,
            packets_received: 1_508,
            seconds: 3.0,
            failed: 2,
            failed_why: Some("Connection refused".to_owned()),
            ..SetFigures::default()
        };
        let result = TrafficResult {
            sets: vec![set],
            seconds: 13.0,
            ..TrafficResult::default()
        };
        let said = result.to_string();
        assert!(said.contains("unknown") && !said.contains('%'), "{said}");
        // By their own time, not that of the run.
        assert!(said.contains("  0.507  "), "{said}");
        assert!(
            said.contains("failed: 2 of , the first: Connection refused"),
            "{said}"
        );
    }
}
