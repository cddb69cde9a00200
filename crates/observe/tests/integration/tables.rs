//! What is written for people of many flows: a line for each, or for each network.

use narrows_observe::format::{Format, Names, PrefixLengths, Report, Rows};
use narrows_observe::{Observer, ObserverConfig};
use narrows_units::Instant;
use narrows_wire::TcpFlags;
use serde_json::Value;

use crate::flows::{MS, flow, segment};

const ESTIMATES: Rows = Rows {
    samples: false,
    estimates: true,
};

/// Three flows of one to five segments of 100 bytes, each acknowledged after 10 ms; an end
/// of one is in another network than all other ends.
fn three_flows(report: &mut Report<Vec<u8>>) {
    let mut observer = Observer::new(ObserverConfig::default());
    let mut passed = Vec::new();
    for (host, packets) in [(1, 1u64), (77, 5), (2, 3)] {
        for n in 0..packets {
            let at = (passed.len() as u64 / 2 + 1) * MS;
            let mut bytes = segment(true, n as u32 * 100, 1, TcpFlags::ACK, 100);
            bytes[15] = host;
            // Another network.
            bytes[14] = if host == 77 { 9 } else { 2 };
            passed.push((at, bytes));
            let mut bytes = segment(false, 1, (n as u32 + 1) * 100, TcpFlags::ACK, 0);
            bytes[19] = host;
            bytes[18] = if host == 77 { 9 } else { 2 };
            passed.push((at + 10 * MS, bytes));
        }
    }
    passed.sort_by_key(|(at, _)| *at);
    for (id, (at, bytes)) in passed.iter().enumerate() {
        observer.observe(bytes, Instant::from_nanos(*at), id as u64, report);
    }
    observer.finish(report);
    report.counters(observer.counters());
}

#[test]
fn brief_text_has_a_line_for_each_flow_by_bytes_and_a_summary() {
    let mut report = Report::new(Vec::new(), Format::Brief, ESTIMATES, Names::open(), "eth0");
    three_flows(&mut report);
    let text = String::from_utf8(report.finish().unwrap()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let of = |line: &str| {
        let words = words(line);
        (
            words[0].clone(),
            words[1].clone(),
            words.last().unwrap().clone(),
        )
    };
    let row = |bytes: &str, packets: &str, host: &str| {
        let name = format!("tcp/192.0.{host}:40000-192.0.2.2:443");
        (bytes.to_owned(), packets.to_owned(), name)
    };
    for (line, (bytes, packets, name)) in lines[1..4].iter().zip([
        row("900", "10", "9.77"),
        row("540", "6", "2.2"),
        row("180", "2", "2.1"),
    ]) {
        let found = of(line);
        assert_eq!((found.0, found.1), (bytes, packets), "{text}");
        assert!(found.2.starts_with(&name), "{text}");
    }
    // Minimum, median, 95th percentile and mean of what acknowledgements took.
    let busiest = words(lines[1]);
    assert_eq!(
        busiest[5..11],
        ["10.000", "10.000", "10.000", "10.000", "seq-ack", "right"].map(str::to_owned),
        "{text}"
    );
    assert_eq!(lines[4], "3 flows, 18 packets, 1620 bytes in 0.018 s");
    assert_eq!(lines[5], "eth0: packets 18, observed 18, flows 3");
}

#[test]
fn flows_are_taken_together_by_the_networks_of_their_ends() {
    for format in [Format::Brief, Format::Json] {
        let mut report = Report::new(Vec::new(), format, ESTIMATES, Names::open(), "eth0");
        report.take_together(PrefixLengths { v4: 24, v6: 48 });
        three_flows(&mut report);
        let text = String::from_utf8(report.finish().unwrap()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        if format == Format::Brief {
            // A title for the point, one for the columns, two networks, the counters.
            assert_eq!(lines.len(), 5, "{text}");
            assert!(lines[2].ends_with("  192.0.2.0/24") && lines[3].ends_with("  192.0.9.0/24"));
            continue;
        }
        let rows: Vec<Value> = lines
            .iter()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(rows.len(), 3, "{text}");
        // The first network has both ends of two flows and one end of the third.
        assert_eq!(rows[0]["prefix"], "192.0.2.0/24");
        assert_eq!(
            (&rows[0]["flows"], &rows[0]["bytes_from"]),
            (&5.into(), &920.into())
        );
        let other = &rows[1];
        assert_eq!(
            (&other["prefix"], &other["flows"]),
            (&"192.0.9.0/24".into(), &1.into())
        );
        assert_eq!(
            (&other["bytes_from"], &other["bytes_to"]),
            (&700.into(), &200.into())
        );
        assert_eq!(other["n"], 0, "its acknowledgements were not awaited here");
        assert_eq!(
            (&rows[0]["technique"], &rows[0]["n"]),
            (&"seq-ack".into(), &9.into())
        );
        assert_eq!(
            (&rows[0]["min_ms"], &rows[0]["rtt_ms"]),
            (&10.0.into(), &10.0.into())
        );
    }
}

#[test]
fn a_line_has_the_round_trips_and_the_loss_that_marks_show() {
    let mut observer = Observer::new(ObserverConfig::default());
    let mut report = Report::new(Vec::new(), Format::Brief, ESTIMATES, Names::open(), "");
    for (id, (at, bytes)) in flow().iter().enumerate() {
        observer.observe(bytes, Instant::from_nanos(*at), id as u64, &mut report);
    }
    observer.finish(&mut report);
    let text = String::from_utf8(report.finish().unwrap()).unwrap();
    let words: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
    // One packet in fifty is lost before it comes here; the delay bit passes each 40 ms.
    let loss: f64 = words[4].parse().unwrap();
    assert!((1.5..=2.5).contains(&loss), "{text}");
    assert_eq!(words[5..8], ["40.000"; 3], "{text}");
    assert_eq!(words[9..11], ["delay", "full"], "{text}");
    assert!(text.contains(" marked s+d+q\n"), "{text}");
}
