//! The data file for Flent: its structure, its numbers, and that Flent opens
//! it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output as Said};

use crate::support::{ModelEngine, SCENARIO, equal_shares, plan_of, run_to};
use flate2::read::GzDecoder;
use narrows_results::folder::open;
use narrows_results::{Engine, Results, RunResult, flent};
use narrows_scenario::{Draft, Plan};
use narrows_sim::SimEngine;
use serde_json::{Map, Value};

fn read(path: &Path) -> Value {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Flows both ways, one of them of datagrams, and two probes.
fn both_ways() -> Plan {
    let more = r#"
[[flow]]
name  = "third"
from  = "server"
to    = "client"
opens = "client"
bytes = "1MB"
cc    = "cubic"
ip    = 6

[[flow]]
name  = "calls"
from  = "client"
to    = "server"
dscp  = "ef"
traffic = "cbr rate 100kbit"

[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "20ms"

[[probe]]
name = "far"
from = "client"
to   = "server"
interval = "100ms"
"#;
    plan_of(&format!("{SCENARIO}{more}"))
}

/// The file without its numbers: of each series how many values it has, and
/// how many of those are there; of raw values the keys of a row.
fn structure(file: &Value) -> String {
    let object = |key: &str| file[key].as_object().unwrap();
    let mut metadata = object("metadata").clone();
    let version = env!("CARGO_PKG_VERSION");
    for key in ["FLENT_VERSION", "NOTE"] {
        let text = metadata[key].as_str().unwrap().replace(version, "VERSION");
        metadata[key] = Value::String(text);
    }
    // What of it is measured.
    for meta in metadata["SERIES_META"]
        .as_object_mut()
        .unwrap()
        .values_mut()
    {
        for key in [
            "MEAN_VALUE",
            "BYTES_RECVD",
            "ELAPSED_TIME",
            "TCP_RETRANSMIT",
        ] {
            if let Some(value) = meta.get_mut(key).filter(|v| v.is_number()) {
                *value = Value::String("a number".into());
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&metadata).unwrap();
    text += &format!("\nversion {}\n", file["version"]);
    text += &format!("x_values {}\n", file["x_values"].as_array().unwrap().len());
    for (name, values) in object("results") {
        let values = values.as_array().unwrap();
        let there = values.iter().filter(|v| v.is_number()).count();
        text += &format!("{name}: {there} of {}\n", values.len());
    }
    for (name, rows) in object("raw_values") {
        let keys = |row: &Map<String, Value>| row.keys().cloned().collect::<Vec<_>>().join(" ");
        let rows = rows.as_array().unwrap();
        let last = rows.last().and_then(Value::as_object).map(keys);
        text += &format!("raw {name}: {} of {}\n", rows.len(), last.unwrap());
    }
    text
}

#[test]
fn flows_of_one_way_look_like_tcp_nup() {
    let dir = tempfile::tempdir().unwrap();
    run_to(
        &ModelEngine::new(equal_shares),
        &plan_of(SCENARIO),
        1,
        dir.path(),
    );
    let file = read(&dir.path().join(flent::FILE));
    insta::assert_snapshot!(structure(&file));
    // The model's law comes out.
    let at = |name: &str, i: usize| file["results"][name][i].as_f64().unwrap();
    let (one, two) = (at("TCP upload::1", 60), at("TCP upload::2", 60));
    assert!((one - 23.85).abs() < 1.0, "{one}");
    assert!((at("TCP upload sum", 60) - (one + two)).abs() < 1e-5);
    assert!((at("TCP upload avg", 60) - (one + two) / 2.0).abs() < 1e-5);
    assert!(at("TCP upload fairness", 60) > 0.99);
    assert_eq!(file["x_values"][60], 3.05);
    let row = &file["raw_values"]["TCP upload::1"][60];
    assert_eq!(
        (row["t"].as_f64(), row["val"].as_f64()),
        (Some(3.05), Some(one))
    );
}

#[test]
fn flows_both_ways_look_like_rrul_var() {
    let dir = tempfile::tempdir().unwrap();
    let made = run_to(&SimEngine, &both_ways(), 1, dir.path());
    let file = read(&dir.path().join(flent::FILE));
    let results = file["results"].as_object().unwrap();
    for name in [
        "Ping (ms)::ICMP",
        "Ping (ms) ICMP far (extra)",
        "TCP upload::first",
        "TCP upload::second::tcp_rtt",
        "TCP download::third",
        "TCP download sum",
        "TCP totals",
        "UDP upload::calls",
        "qdisc_stats_link/access/up/bottleneck::ecn_mark",
    ] {
        let values = results.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(values.as_array().unwrap().len(), 120, "{name}");
    }
    assert_eq!(file["metadata"]["NAME"], "rrul_var");
    assert_eq!(file["metadata"]["IP_VERSION"], Value::Null);
    let calls = &file["metadata"]["SERIES_META"]["UDP upload::calls"];
    assert_eq!(calls["DATA_TOS"], 46 << 2);
    // A counter has a value in each interval, and they come to the total.
    let marks = &results["qdisc_stats_link/access/up/bottleneck::ecn_mark"];
    let counted: f64 = marks
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .sum();
    let track = made.series.track("link/access/up/bottleneck", "marks");
    assert_eq!(counted, track.unwrap().value.iter().sum::<f64>());
    assert!(counted > 0.0);
}

#[test]
fn the_file_can_be_written_again_from_the_folder_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    run_to(&SimEngine, &both_ways(), 1, dir.path());
    let results = open(dir.path()).unwrap();
    let out = dir.path().join("elsewhere");
    let files = flent::write(&results, Some(&out)).unwrap();
    assert_eq!(files, [out.join(flent::FILE)]);
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    assert!(bytes(&files[0]) == bytes(&dir.path().join(flent::FILE)));
}

#[test]
fn a_run_without_samples_has_no_file() {
    assert_eq!(flent::to_gz(&RunResult::default()).unwrap(), None);
    let nothing = Results::Run(Box::default());
    let refused = flent::write(&nothing, None).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}

/// What Flent says to `arguments`; `None` where it is not installed.
fn ask_flent(test: &str, arguments: &[&str]) -> Option<Said> {
    match Command::new("flent").args(arguments).output() {
        Ok(said) => Some(said),
        Err(_) => {
            // Past the test harness, which hides what passing tests print.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {test}: flent is not installed (`pip install flent`)"
            );
            None
        }
    }
}

#[test]
fn flent_opens_it_and_finds_the_same_numbers() {
    let test = "flent_opens_it_and_finds_the_same_numbers";
    for (plan, engine) in [
        (
            plan_of(SCENARIO),
            &ModelEngine::new(equal_shares) as &dyn Engine,
        ),
        (both_ways(), &SimEngine),
    ] {
        let dir = tempfile::tempdir().unwrap();
        run_to(engine, &plan, 1, dir.path());
        let path = dir.path().join(flent::FILE);
        let file = path.to_str().unwrap();
        let table = dir.path().join("flent.csv");
        let to_table = ["-i", file, "-f", "csv", "-o", table.to_str().unwrap()];
        let Some(said) = ask_flent(test, &to_table) else {
            return;
        };
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{errors}");
        for word in ["ERROR", "WARNING", "Traceback"] {
            assert!(!errors.contains(word), "{errors}");
        }
        // Its table has our series in columns of its own order.
        let ours = read(&path);
        let mut csv = csv::Reader::from_path(&table).unwrap();
        let heads = csv.headers().unwrap().clone();
        let mut rows = 0;
        for (i, row) in csv.records().enumerate() {
            let row = row.unwrap();
            assert_eq!(row[0].parse::<f64>().ok(), ours["x_values"][i].as_f64());
            for (name, cell) in heads.iter().zip(&row).skip(1) {
                let value = ours["results"][name][i].as_f64();
                assert_eq!(cell.parse::<f64>().ok(), value, "{name} in row {i}");
            }
            rows += 1;
        }
        assert_eq!(rows, 120);
        let summary = ask_flent(test, &["-i", file, "-f", "summary"]).unwrap();
        assert!(summary.status.success());
        assert!(String::from_utf8_lossy(&summary.stdout).contains("two flows, seed 1"));
    }
}

/// One of Flent's tests over a slow link, for six seconds.
fn of_flent(test: &str) -> Plan {
    let links = ["netem delay 5ms", "rate 10Mbit queue fq_codel"].map(str::to_owned);
    let mut draft = Draft::with_apps(&links, &[], &[], Some(test)).unwrap();
    draft.set("duration=6s").unwrap();
    draft.set("test/delay=1s").unwrap();
    draft.check().unwrap()
}

#[test]
fn a_test_of_flent_s_has_flent_s_names_of_itself_and_of_its_series() {
    for (test, series) in [
        (
            "rrul",
            &[
                "TCP upload BE",
                "TCP upload CS5",
                "TCP upload EF::tcp_rtt",
                "TCP upload sum",
                "TCP download BK",
                "TCP download avg",
                "TCP totals",
                "Ping (ms) UDP EF",
                "Ping (ms) UDP BK",
                "Ping (ms) UDP BE",
                "Ping (ms) ICMP",
                "Ping (ms) avg",
            ][..],
        ),
        (
            "rrul_be",
            &["TCP upload BE4", "TCP download BE2", "Ping (ms) UDP BE3"],
        ),
        (
            "tcp_ndown streams 3",
            &["TCP download::3", "TCP download fairness", "Ping (ms) ICMP"],
        ),
        ("tcp_nup", &["TCP upload::4", "TCP upload sum"]),
        ("tcp_4up", &["TCP upload::4", "TCP upload sum"]),
        ("tcp_8up", &["TCP upload::8", "TCP upload sum"]),
        ("tcp_1up", &["TCP upload", "Ping (ms) ICMP"]),
        ("tcp_download", &["TCP download", "Ping (ms) ICMP"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        run_to(&SimEngine, &of_flent(test), 1, dir.path());
        let path = dir.path().join(flent::FILE);
        let file = read(&path);
        let meta = &file["metadata"];
        assert_eq!(meta["NAME"].as_str(), test.split(' ').next());
        assert_eq!(
            (&meta["DELAY"], &meta["LENGTH"]),
            (&1.0.into(), &4.0.into())
        );
        assert_eq!(
            (&meta["HOST"], &meta["LOCAL_HOST"]),
            (&"server".into(), &"client".into())
        );
        let results = file["results"].as_object().unwrap();
        for name in series {
            let values = results
                .get(*name)
                .unwrap_or_else(|| panic!("{test}: no {name}"));
            let there = values.as_array().unwrap().iter().filter(|v| v.is_number());
            assert!(there.count() > 10, "{test}: {name}");
        }
        assert!(
            results.keys().all(|name| !name.contains("(extra)")),
            "{test}"
        );
        if test != "rrul" {
            continue;
        }
        let tos = |name: &str| meta["SERIES_META"][name]["DATA_TOS"].as_u64();
        assert_eq!(tos("TCP upload BE"), Some(0));
        assert_eq!(tos("TCP download BK"), Some(8 << 2));
        assert_eq!(tos("TCP upload CS5"), Some(40 << 2));
        assert_eq!(tos("TCP download EF"), Some(46 << 2));
        let at = |name: &str| results[name][60].as_f64().unwrap();
        let classes = ["BE", "BK", "CS5", "EF"].map(|class| at(&format!("TCP upload {class}")));
        assert!((at("TCP upload sum") - classes.iter().sum::<f64>()).abs() < 1e-5);
        let both = at("TCP upload sum") + at("TCP download sum");
        assert!((at("TCP totals") - both).abs() < 1e-5);
        let picture = dir.path().join("all.png");
        let (file, png) = (path.to_str().unwrap(), picture.to_str().unwrap());
        let draw = ["-i", file, "-p", "all_scaled", "-o", png];
        let name = "a_test_of_flent_s_has_flent_s_names_of_itself_and_of_its_series";
        if let Some(said) = ask_flent(name, &draw) {
            let errors = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.success() && picture.is_file(), "{errors}");
            assert!(
                !errors.contains("ERROR") && !errors.contains("Traceback"),
                "{errors}"
            );
        }
    }
}

#[test]
fn the_page_of_a_test_of_flent_s_begins_with_flent_s_panels() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_to(&SimEngine, &of_flent("rrul"), 1, dir.path());
    let charts = narrows_report::plot::figures::of_run(&run);
    let ids: Vec<&str> = charts.iter().map(|chart| &*chart.id).collect();
    let panels = [
        "flent-totals",
        "flent-download",
        "flent-upload",
        "flent-ping",
    ];
    assert_eq!(ids[..4], panels);
    assert!(
        !ids.contains(&"throughput") && !ids.contains(&"probe-rtt"),
        "{ids:?}"
    );
    let names = |at: usize| {
        charts[at]
            .legend()
            .iter()
            .map(|(name, _)| name.to_string())
            .collect()
    };
    let found: [Vec<String>; 4] = [0, 1, 2, 3].map(names);
    assert_eq!(found[0], ["download", "upload"]);
    assert_eq!(found[1], ["BE", "BK", "CS5", "EF", "mean"]);
    assert_eq!(found[2], found[1]);
    assert_eq!(found[3], ["UDP EF", "UDP BK", "UDP BE", "ping"]);
    // The mean is that of the four, and the total is their sum.
    let at = |chart: usize, curve: usize| {
        let narrows_report::plot::chart::Body::Curves { curves, .. } = &charts[chart].body else {
            panic!("curves");
        };
        let near = |point: &&[f64; 2]| (point[0] - 3.0).abs() < 1e-6;
        curves[curve]
            .points
            .iter()
            .find(near)
            .expect("a value at 3 s")[1]
    };
    let sum: f64 = (0..4).map(|curve| at(1, curve)).sum();
    assert!((at(1, 4) - sum / 4.0).abs() < 1e-6);
    assert!((at(0, 0) - sum).abs() < 1e-6);
    // A run of other flows has its own figures.
    let other = run_to(&SimEngine, &both_ways(), 1, &dir.path().join("other"));
    let charts = narrows_report::plot::figures::of_run(&other);
    assert_eq!(charts[0].id, "throughput");
}
