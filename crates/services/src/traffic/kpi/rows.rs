//! The formats in which intervals are written: trafic's columns as CSV, its points as InfluxDB's line
//! protocol.

use std::fmt::{Display, Write};

use super::{TrafficResult, per_second, share};

/// What the columns of datagrams are called: trafic's, then ours.
const UDP_COLUMNS: &str = "Timestamp,FlowID,FlowType,ToS,Bytes,BitsPerSecond,Jitterms,Packets,\
                           LostPackets,LostPercent,OneWayDelayms,OneWayDelayMaxms,\
                           OneWayDelayWithinms";

/// The same of connections.
const TCP_COLUMNS: &str = "Timestamp,FlowID,FlowType,ToS,PMTU,Bytes,BitsPerSecond,\
                           Retransmissions,SenderCWND,RTTms,RTTvar";

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

/// A column; empty where it is not known.
fn field(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

impl TrafficResult {
    /// The intervals of datagrams as CSV.
    pub fn udp_csv(&self) -> String {
        let mut text = format!("{UDP_COLUMNS}\n");
        for row in &self.datagrams {
            let _ = writeln!(
                text,
                "{:.6},{},udp,0x{:02x},{},{:.6},{:.6},{},{},{},{},{},{}",
                row.at_s,
                csv(&row.flow),
                row.tos,
                row.bytes,
                per_second(row.bytes, row.span_s),
                row.jitter_ms,
                row.packets,
                field(row.lost),
                maybe(row.lost.and_then(|lost| share(lost, row.packets))),
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
                "{:.6},{},{},0x{:02x},{},{},{:.6},{},{},{},{}",
                row.at_s,
                csv(&row.flow),
                row.protocol,
                row.tos,
                field(row.pmtu),
                row.bytes,
                per_second(row.bytes, row.span_s),
                field(row.retransmissions),
                field(row.cwnd),
                maybe(row.rtt_ms),
                maybe(row.rttvar_ms),
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
                 pkts={}",
                tag(&row.flow, true),
                row.tos,
                row.bytes,
                per_second(row.bytes, row.span_s),
                row.jitter_ms,
                row.packets,
            );
            if let Some(lost) = row.lost {
                let share = share(lost, row.packets).unwrap_or_default();
                let _ = write!(text, ",lost_pkts={lost},lost_percent={share:.6}");
            }
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
            let (flow, protocol, tos) = (tag(&row.flow, true), row.protocol, row.tos);
            let _ = write!(
                text,
                "{measurement},flowid={flow},type={protocol},tos=0x{tos:02x}"
            );
            if let Some(pmtu) = row.pmtu {
                let _ = write!(text, ",pmtu={pmtu}");
            }
            let bps = per_second(row.bytes, row.span_s);
            let _ = write!(text, " bytes={},bps={bps:.6}", row.bytes);
            for (name, value) in [
                ("rtx", field(row.retransmissions)),
                ("sndcwnd", field(row.cwnd)),
                ("rtt_ms", maybe(row.rtt_ms)),
                ("rtt_var", maybe(row.rttvar_ms)),
            ] {
                if !value.is_empty() {
                    let _ = write!(text, ",{name}={value}");
                }
            }
            let _ = writeln!(text, " {}", ns(row.at_s));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DatagramRow, StreamRow};
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
                lost: Some(3),
                delay_ms: Some(10.0),
                delay_max_ms: Some(12.5),
                delay_within_ms: Some(0.1),
            }],
            streams: vec![StreamRow {
                at_s: 1_500_000_000.0,
                span_s: 0.2,
                flow: "page_1_1".to_owned(),
                protocol: "tcp",
                tos: 0,
                pmtu: Some(1_500),
                bytes: 25_000,
                retransmissions: Some(2),
                cwnd: Some(14_480),
                rtt_ms: Some(20.0),
                rttvar_ms: Some(1.5),
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
    fn what_is_not_known_is_an_empty_column_and_no_field() {
        let mut result = result();
        result.datagrams[0].packets = 0;
        result.datagrams[0].lost = None;
        result.streams[0] = StreamRow {
            flow: "page".to_owned(),
            protocol: "quic",
            bytes: 25_000,
            span_s: 0.2,
            ..StreamRow::default()
        };
        let udp = result.udp_csv();
        assert!(udp.contains(",0.500000,0,,,10.000000,"), "{udp}");
        let tcp = result.tcp_csv();
        assert!(
            tcp.ends_with(",quic,0x00,,25000,1000000.000000,,,,\n"),
            "{tcp}"
        );
        let lines = result.influx("m");
        assert!(!lines.contains("lost") && !lines.contains("=,"), "{lines}");
        let page = "m,flowid=page,type=quic,tos=0x00 bytes=25000,bps=1000000.000000 0\n";
        assert!(lines.ends_with(page), "{lines}");
    }
}
