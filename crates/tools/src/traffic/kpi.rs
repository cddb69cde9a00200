//! What was measured of a mix, and the formats in which it is written: trafic's columns as CSV, its
//! points as InfluxDB's line protocol, a table.

use std::fmt::{self, Write};

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
    /// Of these, those that did not arrive.
    pub lost: u64,
    /// The mean one-way delay, in milliseconds; `None` if nothing arrived, or the clocks could not
    /// be compared.
    pub delay_ms: Option<f64>,
    /// The greatest.
    pub delay_max_ms: Option<f64>,
    /// By how much the delays may be wrong.
    pub delay_within_ms: Option<f64>,
}

/// A connection in an interval, as its sender has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamRow {
    /// When the interval began, in seconds of Unix time.
    pub at_s: f64,
    /// How long it was, in seconds.
    pub span_s: f64,
    /// Which flow.
    pub flow: String,
    /// The traffic class.
    pub tos: u8,
    /// Path MTU, in bytes.
    pub pmtu: u32,
    /// Bytes written.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u32,
    /// The congestion window, in bytes.
    pub cwnd: u64,
    /// The smoothed round trip, in milliseconds.
    pub rtt_ms: f64,
    /// Its mean deviation.
    pub rttvar_ms: f64,
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
    /// The protocol.
    pub protocol: &'static str,
    /// Transfers that were due.
    pub transfers: u64,
    /// Those of which all arrived.
    pub complete: u64,
    /// Those that broke off, or were not opened.
    pub failed: u64,
    /// Bytes of payload that were to be sent; `None` where the path decides.
    pub due_bytes: Option<u64>,
    /// Bytes that the server sent.
    pub sent_bytes: u64,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// Datagrams that the server sent.
    pub packets: u64,
    /// Datagrams that did not arrive.
    pub lost: u64,
    /// From when an object was due to its last byte, in milliseconds.
    pub completion_ms: Option<Measured>,
    /// One-way delay, in milliseconds.
    pub delay_ms: Option<Measured>,
    /// Jitter of the flows at their ends, in milliseconds.
    pub jitter_ms: Option<Measured>,
    /// The codepoint of its datagrams that was asked for (`ect0`, `ect1`), or `ect0` of connections that
    /// ask for ECN.
    pub ecn: Option<String>,
    /// Connections of which both ends agreed on ECN.
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
    /// How long it ran.
    pub seconds: f64,
    /// Whether it ran to its end.
    pub whole: bool,
    /// Why not.
    pub why: Option<String>,
    /// The server's clock less ours, in milliseconds; `None` if they could not be compared.
    pub clocks_apart_ms: Option<f64>,
    /// By how much that, and each one-way delay, may be wrong.
    pub clocks_within_ms: Option<f64>,
    /// How fast they drifted apart.
    pub clocks_drift_ppm: Option<f64>,
    /// The most by which a transfer was opened after it was due.
    pub opened_late_ms: f64,
    /// The most by which a datagram left after it was due.
    pub sent_late_ms: f64,
    /// Datagrams that left more than a millisecond late.
    pub sent_late: u64,
    /// Datagrams that the server sent.
    pub datagrams_sent: u64,
    /// Datagrams that the server's host did not take.
    pub refused_by_host: u64,
    /// Transfers that were not due any more when it ended, or not reached.
    pub not_begun: u64,
    /// What became of the flows.
    pub sets: Vec<SetFigures>,
    /// Intervals of datagrams.
    pub datagrams: Vec<DatagramRow>,
    /// Intervals of connections.
    pub streams: Vec<StreamRow>,
}

/// What the columns of datagrams are called: trafic's, then ours.
const UDP_COLUMNS: &str = "Timestamp,FlowID,FlowType,ToS,Bytes,BitsPerSecond,Jitterms,Packets,\
                           LostPackets,LostPercent,OneWayDelayms,OneWayDelayMaxms,\
                           OneWayDelayWithinms";

/// The same of connections.
const TCP_COLUMNS: &str = "Timestamp,FlowID,FlowType,ToS,PMTU,Bytes,BitsPerSecond,\
                           Retransmissions,SenderCWND,RTTms,RTTvar";

fn share(lost: u64, packets: u64) -> f64 {
    match packets {
        0 => 0.0,
        packets => 100.0 * lost as f64 / packets as f64,
    }
}

fn per_second(bytes: u64, span_s: f64) -> f64 {
    bytes as f64 * 8.0 / span_s.max(1e-9)
}

/// A field of CSV (RFC 4180).
fn csv(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

/// A tag's value or a measurement of InfluxDB's line protocol, which has no place for line ends.
fn tag(text: &str, equals: bool) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push('_'),
            ',' | ' ' => escaped.extend(['\\', c]),
            '=' if equals => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    // A backslash at the end would take the character after it.
    match escaped.ends_with('\\') {
        true => escaped + "_",
        false => escaped,
    }
}

fn maybe(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.6}"))
}

impl TrafficResult {
    /// The intervals of datagrams as CSV.
    pub fn udp_csv(&self) -> String {
        let mut text = format!("{UDP_COLUMNS}\n");
        for row in &self.datagrams {
            let _ = writeln!(
                text,
                "{:.6},{},udp,0x{:02x},{},{:.6},{:.6},{},{},{:.6},{},{},{}",
                row.at_s,
                csv(&row.flow),
                row.tos,
                row.bytes,
                per_second(row.bytes, row.span_s),
                row.jitter_ms,
                row.packets,
                row.lost,
                share(row.lost, row.packets),
                maybe(row.delay_ms),
                maybe(row.delay_max_ms),
                maybe(row.delay_within_ms),
            );
        }
        text
    }

    /// The intervals of connections as CSV.
    pub fn tcp_csv(&self) -> String {
        let mut text = format!("{TCP_COLUMNS}\n");
        for row in &self.streams {
            let _ = writeln!(
                text,
                "{:.6},{},tcp,0x{:02x},{},{},{:.6},{},{},{:.6},{:.6}",
                row.at_s,
                csv(&row.flow),
                row.tos,
                row.pmtu,
                row.bytes,
                per_second(row.bytes, row.span_s),
                row.retransmissions,
                row.cwnd,
                row.rtt_ms,
                row.rttvar_ms,
            );
        }
        text
    }

    /// All intervals as InfluxDB's line protocol, with the names that trafic gives them.
    pub fn influx(&self, measurement: &str) -> String {
        let mut text = String::new();
        let measurement = tag(measurement, false);
        // In whole microseconds, which a time since 1970 still has as a `f64`.
        let ns = |at_s: f64| (at_s * 1e6).round() as i64 * 1_000;
        for row in &self.datagrams {
            let _ = write!(
                text,
                "{measurement},flowid={},type=udp,tos=0x{:02x} bytes={},bps={:.6},jitter={:.6},\
                 pkts={},lost_pkts={},lost_percent={:.6}",
                tag(&row.flow, true),
                row.tos,
                row.bytes,
                per_second(row.bytes, row.span_s),
                row.jitter_ms,
                row.packets,
                row.lost,
                share(row.lost, row.packets),
            );
            for (name, value) in [
                ("owd_ms", row.delay_ms),
                ("owd_max_ms", row.delay_max_ms),
                ("owd_within_ms", row.delay_within_ms),
            ] {
                if let Some(value) = value {
                    let _ = write!(text, ",{name}={value:.6}");
                }
            }
            let _ = writeln!(text, " {}", ns(row.at_s));
        }
        for row in &self.streams {
            let _ = writeln!(
                text,
                "{measurement},flowid={},type=tcp,tos=0x{:02x},pmtu={} bytes={},bps={:.6},rtx={},\
                 sndcwnd={},rtt_ms={:.6},rtt_var={:.6} {}",
                tag(&row.flow, true),
                row.tos,
                row.pmtu,
                row.bytes,
                per_second(row.bytes, row.span_s),
                row.retransmissions,
                row.cwnd,
                row.rtt_ms,
                row.rttvar_ms,
                ns(row.at_s),
            );
        }
        text
    }

    /// What became of marks: of flows for which ECN was asked, and of datagrams whose marks the path
    /// changed.
    pub fn marks(&self) -> Option<String> {
        let mut parts = Vec::new();
        for set in &self.sets {
            let (label, marks) = (&set.label, set.marks);
            let arrived = set.packets.saturating_sub(set.lost);
            match (&set.ecn, set.protocol) {
                (Some(ecn), "udp") => parts.push(format!(
                    "{label} with {ecn}, {} of {arrived} datagrams arrived with CE",
                    marks.ce
                )),
                (Some(_), _) => parts.push(format!(
                    "{label} with ECN on {} of {} connections",
                    set.ecn_connections, set.transfers
                )),
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
        if self.sent_late > 0 {
            parts.push(format!(
                "{} of {} datagrams left more than 1 ms late, up to {:.1} ms",
                self.sent_late, self.datagrams_sent, self.sent_late_ms
            ));
        }
        if self.refused_by_host > 0 {
            parts.push(format!(
                "the server's host did not take {} datagrams",
                self.refused_by_host
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
                "udp" => format!("{} ({:.3} %)", set.lost, share(set.lost, set.packets)),
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
                mbit(per_second(set.received_bytes, self.seconds)),
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
        match (self.clocks_apart_ms, self.clocks_within_ms) {
            (Some(apart), Some(within)) => writeln!(
                f,
                "clocks are {apart:.3} ms apart and drift by {:.1} ppm; one-way delays are right within ±{within:.3} ms",
                self.clocks_drift_ppm.unwrap_or(0.0)
            )?,
            _ => writeln!(
                f,
                "the clocks could not be compared: there are no one-way delays"
            )?,
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

    fn result() -> TrafficResult {
        TrafficResult {
            datagrams: vec![DatagramRow {
                at_s: 1_500_000_000.25,
                span_s: 0.2,
                flow: "voice_1_0".to_owned(),
                tos: 0xb8,
                bytes: 1_260,
                jitter_ms: 0.5,
                packets: 12,
                lost: 3,
                delay_ms: Some(10.0),
                delay_max_ms: Some(12.5),
                delay_within_ms: Some(0.1),
            }],
            streams: vec![StreamRow {
                at_s: 1_500_000_000.0,
                span_s: 0.2,
                flow: "page_1_1".to_owned(),
                tos: 0,
                pmtu: 1_500,
                bytes: 25_000,
                retransmissions: 2,
                cwnd: 14_480,
                rtt_ms: 20.0,
                rttvar_ms: 1.5,
            }],
            ..TrafficResult::default()
        }
    }

    #[test]
    fn rows_begin_with_the_columns_of_trafic() {
        let udp = result().udp_csv();
        let columns = "Timestamp,FlowID,FlowType,ToS,Bytes,BitsPerSecond,Jitterms,Packets,LostPackets,LostPercent,";
        assert!(udp.starts_with(columns), "{udp}");
        let row = "1500000000.250000,voice_1_0,udp,0xb8,1260,50400.000000,0.500000,12,3,25.000000,\
                   10.000000,12.500000,0.100000";
        assert_eq!(udp.lines().nth(1), Some(row));
        let tcp = result().tcp_csv();
        let columns = "Timestamp,FlowID,FlowType,ToS,PMTU,Bytes,BitsPerSecond,Retransmissions,SenderCWND,RTTms,RTTvar\n";
        assert!(tcp.starts_with(columns), "{tcp}");
        let row = "1500000000.000000,page_1_1,tcp,0x00,1500,25000,1000000.000000,2,14480,20.000000,1.500000";
        assert_eq!(tcp.lines().nth(1), Some(row));
        for text in [udp, tcp] {
            let counts: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
            assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        }
    }

    #[test]
    fn points_escape_what_would_end_a_tag() {
        let mut result = result();
        result.datagrams[0].flow = "a b,c=d\\".to_owned();
        let lines = result.influx("my flows,x=1");
        let first = lines.lines().next().unwrap();
        let begin = r"my\ flows\,x=1,flowid=a\ b\,c\=d\_,type=udp,tos=0xb8 bytes=1260,";
        assert!(first.starts_with(begin), "{first}");
        assert!(first.ends_with(" 1500000000250000000"), "{first}");
        // Measurement and tags, fields, time: no other space is without a backslash.
        let parts = first.replace("\\ ", "");
        assert_eq!(parts.split(' ').count(), 3, "{first}");
        assert_eq!(lines.lines().count(), 2);
        assert_eq!(csv("a,\"b"), "\"a,\"\"b\"");
    }

    #[test]
    fn figures_are_by_the_nearest_rank() {
        let of = Measured::of((1..=100).map(f64::from).collect()).unwrap();
        assert_eq!((of.p50, of.p95, of.max, of.mean), (50.0, 95.0, 100.0, 50.5));
        assert_eq!(Measured::of(Vec::new()), None);
        assert_eq!(Measured::of(vec![3.0]).unwrap().p95, 3.0);
    }

    #[test]
    fn who_fell_behind_says_by_how_much() {
        let mut result = result();
        assert_eq!(result.behind(), None);
        result.sent_late = 7;
        result.sent_late_ms = 12.0;
        result.datagrams_sent = 100;
        assert!(result.behind().unwrap().contains("7 of 100"));
    }
}
