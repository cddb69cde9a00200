//! Every format says the same, in the form that the guide's page on observing
//! promises.

use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Nothing, Observer, ObserverConfig, Pinned};
use narrows_units::{Duration, Instant};
use serde_json::Value;

use crate::flows::flow;

fn report(format: Format, rows: Rows, names: Names) -> String {
    let mut observer = Observer::new(ObserverConfig::default());
    let mut report = Report::new(Vec::new(), format, rows, names, "tap, \"mid\"");
    for (id, (at, bytes)) in flow().iter().enumerate() {
        observer.observe(bytes, Instant::from_nanos(*at), id as u64 + 1, &mut report);
    }
    observer.finish(&mut report);
    report.counters(observer.counters());
    String::from_utf8(report.finish().unwrap()).unwrap()
}

const ALL: Rows = Rows {
    samples: true,
    estimates: true,
};

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// The records of a kind in JSON lines.
fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|r| r["event"] == kind).collect()
}

fn json() -> Vec<Value> {
    let text = report(Format::Json, ALL, Names::open());
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn json_has_the_keys_of_the_guide() {
    let records = json();
    let common = ["event", "t_s", "tap", "flow"];
    for (kind, more) in [
        (
            "flow",
            &["protocol", "initiator", "responder", "role_known"][..],
        ),
        (
            "sample",
            &[
                "technique",
                "quantity",
                "value",
                "unit",
                "n",
                "first_packet",
                "last_packet",
            ],
        ),
        (
            "estimate",
            &[
                "technique",
                "quantity",
                "value",
                "unit",
                "low",
                "high",
                "n",
                "rejected",
                "sd_ms",
                "min_ms",
                "median_ms",
                "p95_ms",
                "basis",
            ],
        ),
        (
            "end",
            &[
                "protocol",
                "state",
                "profile",
                "spin",
                "initiator",
                "responder",
                "reason",
            ],
        ),
    ] {
        let found = of_kind(&records, kind);
        assert!(!found.is_empty(), "{kind}");
        for record in found {
            assert_eq!(keys(record), [&common[..], more].concat(), "{record}");
            assert_eq!(record["flow"], "tcp/192.0.2.1:40000-192.0.2.2:443/0");
            assert_eq!(record["tap"], "tap, \"mid\"");
        }
    }
    let end = of_kind(&records, "end")[0];
    assert_eq!(
        (&end["profile"], &end["spin"]),
        (&"s+d+q".into(), &"spinning".into())
    );
    assert_eq!(end["initiator"]["packets"], 982);
    assert_eq!(end["initiator"]["ect0"], 982);
    let counters = of_kind(&records, "counters");
    assert_eq!(
        (counters.len(), &counters[0]["observed"]),
        (1, &1_963.into())
    );
    let techniques: Vec<_> = of_kind(&records, "estimate")
        .iter()
        .map(|e| e["technique"].as_str().unwrap())
        .collect();
    for technique in [
        "handshake",
        "seq-ack",
        "spin",
        "spin-pn",
        "delay",
        "q",
        "ecn",
    ] {
        assert!(techniques.contains(&technique), "{technique}");
    }
}

/// A line of CSV, as RFC 4180 splits it.
fn fields(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                all.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all.last_mut().unwrap().push(c),
        }
    }
    all
}

#[test]
fn csv_has_the_rows_of_json_in_its_columns() {
    let text = report(Format::Csv, ALL, Names::open());
    let mut lines = text.lines();
    let columns = "t_s,tap,flow,technique,quantity,value,unit,low,high,n,rejected,truth,error";
    assert_eq!(lines.next(), Some(columns));
    let records = json();
    let rows = records
        .iter()
        .filter(|r| r["event"] == "sample" || r["event"] == "estimate");
    let mut compared = 0;
    for (record, line) in rows.zip(lines.by_ref()) {
        let row = fields(line);
        assert_eq!(row.len(), 13, "{line}");
        let quantity = match (record["event"].as_str(), record["unit"].as_str()) {
            (Some("sample"), _) => String::new(),
            (_, Some("ms")) => "mean_".to_owned(),
            _ => "rate_".to_owned(),
        } + record["quantity"].as_str().unwrap();
        assert_eq!(row[1], "tap, \"mid\"");
        assert_eq!(
            (&row[3], &row[4]),
            (&record["technique"].as_str().unwrap().into(), &quantity)
        );
        for (at, key) in [(0, "t_s"), (5, "value"), (7, "low"), (8, "high"), (9, "n")] {
            match record[key].as_f64() {
                Some(wanted) => {
                    let found: f64 = row[at].parse().unwrap();
                    assert!((found - wanted).abs() < 1e-6, "{key} of {line}");
                }
                None => assert_eq!(row[at], "", "{key} of {line}"),
            }
        }
        assert_eq!((row[11].as_str(), row[12].as_str()), ("", ""));
        compared += 1;
    }
    assert!(compared > 1_000, "{compared}");
    assert_eq!(lines.next(), None, "as many rows as records");
}

#[test]
fn qlog_is_a_json_text_sequence_with_the_events_of_json() {
    let text = report(Format::Qlog, ALL, Names::open());
    assert!(text.starts_with('\u{1e}'));
    let records: Vec<Value> = text
        .split('\u{1e}')
        .skip(1)
        .map(|r| {
            serde_json::from_str(r.strip_suffix('\n').expect("a record ends its line")).unwrap()
        })
        .collect();
    assert!(
        records[0].to_string().contains("network"),
        "the vantage point"
    );
    let events = json();
    for (kind, name) in [
        ("flow", "observe:flow_began"),
        ("sample", "observe:sample"),
        ("estimate", "observe:estimate"),
        ("end", "observe:flow_ended"),
        ("counters", "observe:counters"),
    ] {
        let found: Vec<_> = records.iter().filter(|r| r["name"] == name).collect();
        let wanted = of_kind(&events, kind);
        assert_eq!(found.len(), wanted.len(), "{name}");
        if kind == "sample" {
            for (a, b) in found.iter().zip(wanted) {
                assert_eq!(a["data"]["value"], b["value"]);
                assert_eq!(a["data"]["last_packet"], b["last_packet"]);
            }
        }
    }
}

#[test]
fn spindump_has_a_new_record_measurements_and_a_delete_record() {
    let text = report(Format::Spindump, ALL, Names::open());
    let records: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let common = ["Event", "Type", "Addrs", "Session", "Ts", "State"];
    let rtts = [
        "Left_rtt",
        "Right_rtt",
        "Full_rtt_initiator",
        "Full_rtt_responder",
    ];
    let counts = [
        "Packets1", "Bytes1", "Packets2", "Bytes2", "Ect0", "Ect1", "Ce",
    ];
    for record in &records {
        assert_eq!(keys(record)[..6], common);
        assert_eq!(
            record["Addrs"],
            serde_json::json!(["192.0.2.1", "192.0.2.2"])
        );
        assert_eq!(record["Session"], "40000:443");
        assert_eq!(record["Type"], "TCP");
        if record["Event"] == "measurement" {
            assert!(rtts.contains(&keys(record)[6]), "{record}");
            assert_eq!(keys(record)[7..], counts);
        }
    }
    let events: Vec<_> = records
        .iter()
        .map(|r| r["Event"].as_str().unwrap())
        .collect();
    assert_eq!((events[0], events[events.len() - 1]), ("new", "delete"));
    let last = records.last().unwrap();
    assert_eq!(
        (&last["Packets1"], &last["Packets2"]),
        (&982.into(), &981.into())
    );
    // The handshake's, then those of the delay bit, each 40 ms.
    let full: Vec<_> = records
        .iter()
        .filter_map(|r| r["Full_rtt_initiator"].as_u64())
        .collect();
    assert!(
        full.len() > 15 && full.iter().all(|us| *us % 40_000 == 0),
        "{full:?}"
    );
}

#[test]
fn long_text_has_the_flow_its_counts_and_a_line_for_each_estimate() {
    let rows = Rows {
        samples: false,
        estimates: true,
    };
    let text = report(Format::Text, rows, Names::open());
    let lines: Vec<_> = text.lines().collect();
    let title = "TCP 192.0.2.1:40000 > 192.0.2.2:443 Up, marked s+d+q (spinning), 1.038 s";
    assert_eq!(lines[0], title);
    let initiator = "  initiator        982 packets       137280 bytes      0 again  ECT(0) 982";
    assert_eq!(lines[1], initiator);
    let handshake = "  handshake       full_rtt_initiator                  20.000 ms";
    assert!(lines.iter().any(|l| l.starts_with(handshake)), "{text}");
    let estimates = of_kind(&json(), "estimate").len();
    assert_eq!(lines.len(), 4 + estimates + 2, "{text}");
    assert_eq!(
        lines[lines.len() - 1],
        "tap, \"mid\": packets 1963, observed 1963, flows 1"
    );
    assert!(
        lines[4..]
            .iter()
            .all(|l| l.trim_end() == *l || l.ends_with("assumed"))
    );
}

#[test]
fn estimates_of_round_trips_have_minimum_median_and_95th_percentile() {
    let records = json();
    let estimates = of_kind(&records, "estimate");
    let value = |e: &Value, key: &str| e[key].as_f64();
    let mut of_ms = 0;
    for e in &estimates {
        let all = ["min_ms", "median_ms", "p95_ms"].map(|key| value(e, key));
        let [Some(min), Some(median), Some(p95)] = all else {
            assert_eq!((all, &e["unit"]), ([None; 3], &"ratio".into()), "{e}");
            continue;
        };
        of_ms += 1;
        assert!(min <= median && median <= p95, "{e}");
        // The same as by all samples.
        let same = |r: &&&Value| r["technique"] == e["technique"] && r["quantity"] == e["quantity"];
        let samples = of_kind(&records, "sample");
        let mut samples: Vec<f64> = samples
            .iter()
            .filter(same)
            .map(|r| value(r, "value").unwrap())
            .collect();
        samples.sort_by(f64::total_cmp);
        if samples.len() as u64 == e["n"].as_u64().unwrap() {
            let at = |share: f64| samples[(share * samples.len() as f64).ceil() as usize - 1];
            assert!((median / at(0.5) - 1.0).abs() < 0.016, "{e} {}", at(0.5));
            assert!((p95 / at(0.95) - 1.0).abs() < 0.016, "{e} {}", at(0.95));
        }
    }
    assert!(of_ms > 8, "{of_ms}");
    let rows = Rows {
        samples: false,
        estimates: true,
    };
    let text = report(Format::Text, rows, Names::open());
    assert!(
        text.contains("rejected        min     median        p95"),
        "{text}"
    );
}

#[test]
fn without_rows_only_the_beginning_the_end_and_the_totals_are_written() {
    let rows = Rows {
        samples: false,
        estimates: false,
    };
    assert_eq!(report(Format::Csv, rows, Names::open()).lines().count(), 1);
    let text = report(Format::Json, rows, Names::open());
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn no_address_is_left_where_pseudonyms_are_asked_for() {
    for format in [
        Format::Brief,
        Format::Text,
        Format::Json,
        Format::Csv,
        Format::Qlog,
        Format::Spindump,
    ] {
        let of = |key: &str| report(format, ALL, Names::anonymous(key.as_bytes()));
        let text = of("key");
        assert!(!text.contains("192.0.2."), "{format:?}");
        assert!(text.contains("host-"), "{format:?}");
        assert_eq!(text, of("key"), "{format:?}");
        if format != Format::Csv {
            assert!(text.contains("443"), "ports stay: {format:?}");
        }
        assert_ne!(text, of("another key"), "{format:?}");
    }
}

#[test]
fn what_is_pinned_is_taken_and_called_so() {
    let basis = |pinned: Pinned, technique: &str| {
        let config = ObserverConfig {
            profile: "s+d+q".parse().ok(),
            pinned,
            ..ObserverConfig::default()
        };
        let mut observer = Observer::new(config);
        for (id, (at, bytes)) in flow().iter().enumerate() {
            observer.observe(bytes, Instant::from_nanos(*at), id as u64, &mut Nothing);
        }
        let flow = observer.flows().next().unwrap();
        let estimates = Observer::estimates(flow);
        let found = estimates.iter().find(|e| e.technique.name() == technique);
        found.map(|e| (e.basis.name(), e.n))
    };
    let none = Pinned::default();
    let t_max = |ms| Pinned {
        t_max: Some(Duration::from_millis(ms)),
        ..none
    };
    let block = |n| Pinned {
        block: Some(n),
        ..none
    };
    assert_eq!(basis(none, "delay").map(|b| b.0), Some("assumed"));
    assert_eq!(basis(t_max(225), "delay").map(|b| b.0), Some("pinned"));
    assert_eq!(basis(t_max(5), "delay"), None, "no gap is below 4.5 ms");
    assert_eq!(basis(none, "q").map(|b| b.0), Some("learnt"));
    assert_eq!(basis(block(64), "q").map(|b| b.0), Some("pinned"));
}
