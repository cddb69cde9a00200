//! Observers inside a run.

use std::path::Path;

use crate::observed::{assert_capture_gives_the_same, at_mid, samples};
use crate::support::{plan_of, run_to};
use narrows_results::{RunResult, metric};
use narrows_sim::SimEngine;

const SCENARIO: &str = r#"
version  = 1
name     = "observed"
duration = "8s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms loss 1%", "tap mid", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["tap mid", "netem delay 10ms"]

[[flow]]
name = "cubic"
from = "client"
to   = "server"
cc   = "cubic"
mark = "s+d+q"
"#;

fn run(dir: &Path) -> RunResult {
    let plan = plan_of(&(SCENARIO.to_owned() + &at_mid(8)));
    run_to(&SimEngine, &plan, 1, dir)
}

#[test]
fn the_observer_in_the_run_and_the_one_that_reads_its_capture_agree_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let rows = assert_capture_gives_the_same(dir.path());
    assert!(rows > 1000, "{rows} rows");
}

#[test]
fn round_trips_are_the_networks_and_losses_are_those_that_happened() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path());
    let rows = samples(dir.path());
    let of = |technique: &str, quantity: &str| -> Vec<(f64, f64)> {
        let rows = rows.iter();
        rows.filter(|p| p[3] == technique && p[4] == quantity)
            .filter_map(|p| Some((p[5].parse().ok()?, p[11].parse().ok()?)))
            .collect()
    };
    // Between client and tap there are 10 ms each way and no queue.
    let left = of("delay", "left_rtt");
    assert!(left.len() > 50);
    assert!(left.iter().all(|l| (20.0..20.01).contains(&l.1)));
    // A mark that the client made anew before T_Max was learnt reads too long.
    let close = left.iter().filter(|l| (0.0..1.5).contains(&(l.0 - l.1)));
    assert!(close.count() * 100 >= left.len() * 95);
    let blocks = of("q", "upstream_loss_initiator");
    let lost: f64 = blocks.iter().map(|b| b.0).sum();
    let really: f64 = blocks.iter().map(|b| b.1).sum();
    assert!(blocks.len() > 50 && really > 0.0);
    assert!((lost / really - 1.0).abs() < 0.1, "{lost} {really}");
    let figure = |name: &str| metric::lookup(&result.summary, name).unwrap();
    let truth = figure("q.upstream_loss_initiator.truth of observe/mid/cubic");
    let drops = figure("drops of link/access/up/netem") / figure("seen.ip.n of observe/mid/cubic");
    assert!(
        truth > 0.005 && truth < 0.02 && drops > 0.0,
        "{truth} {drops}"
    );
    assert!(figure("q.upstream_loss_initiator.error of observe/mid/cubic").abs() < 0.1 * truth);
}

/// Rows of a table, by their columns.
fn table(dir: &Path, name: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(dir.join(name)).unwrap();
    reader.deserialize().map(|r| r.unwrap()).collect()
}

#[test]
fn the_tables_of_seconds_are_what_the_samples_come_to() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path());
    let rows = samples(dir.path());
    let trips: Vec<(f64, f64)> = rows
        .iter()
        .filter(|r| r[3] == "delay" && r[4].starts_with("full_rtt"))
        .map(|r| (r[0].parse().unwrap(), r[5].parse().unwrap()))
        .collect();
    let spread = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        (mean, (squares / n).sqrt())
    };
    let number = |row: &std::collections::BTreeMap<String, String>, column: &str| -> f64 {
        row[column].parse().unwrap()
    };
    let seconds = table(dir.path(), "seconds.csv");
    let delay = |rows: Vec<std::collections::BTreeMap<String, String>>| {
        let rows = rows.into_iter().filter(|r| r["technique"] == "delay");
        rows.collect::<Vec<_>>()
    };
    let seconds = delay(seconds);
    assert_eq!(seconds.len(), 8);
    for (second, row) in seconds.iter().enumerate() {
        let within = |t: f64| t.floor() as usize == second;
        let here: Vec<f64> = trips.iter().filter(|t| within(t.0)).map(|t| t.1).collect();
        assert_eq!(number(row, "n"), here.len() as f64, "{second}");
        let (mean, sd) = spread(&here);
        assert!((number(row, "rtt_ms") - mean).abs() < 1e-4, "{second}");
        assert!((number(row, "sd_ms") - sd).abs() < 1e-4, "{second}");
        assert!(number(row, "ss_ms") > 20.0, "{second}");
    }
    let totals = delay(table(dir.path(), "totals.csv"));
    let [total] = totals.as_slice() else {
        panic!("{totals:?}")
    };
    let (mean, sd) = spread(&trips.iter().map(|t| t.1).collect::<Vec<_>>());
    assert!((number(total, "rtt_ms") - mean).abs() < 1e-4);
    assert!((number(total, "sd_ms") - sd).abs() < 1e-4);
    // Mibit/s over eight seconds, against MiB.
    let mib: f64 = seconds
        .iter()
        .map(|r| number(r, "throughput_mibit") / 8.0)
        .sum();
    assert!((number(total, "mib") - mib).abs() < 1e-4);
    let figure = |name: &str| metric::lookup(&result.summary, name).unwrap();
    let seen = figure("seen.ip.total of observe/mid/cubic");
    assert!((number(total, "mib") - seen).abs() < 1e-5);
    assert_eq!(
        figure("retransmissions of flow/cubic"),
        number(total, "retransmissions")
    );
    let smoothed = figure("ss.smoothed_rtt.mean of observe/mid/cubic");
    assert!((number(total, "ss_ms") - smoothed).abs() < 1e-6);
}

#[test]
fn a_run_without_observers_has_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let result = run_to(&SimEngine, &plan_of(SCENARIO), 1, dir.path());
    assert!(result.summary.observations.is_empty());
    for name in ["samples.csv.gz", "seconds.csv", "totals.csv"] {
        assert!(!dir.path().join(name).exists(), "{name}");
    }
}

/// 800 segments under way and as many in the queue.
const LONG: &str = r#"
version  = 1
name     = "long"
duration = "12s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["tap mid", "netem delay 50ms limit 10000", "bottleneck: rate 100Mbit queue pfifo limit 800"]
down = ["netem delay 50ms limit 10000", "tap mid"]

[[flow]]
name = "cubic"
from = "client"
to   = "server"
cc   = "cubic"
"#;

#[test]
fn on_a_long_path_round_trips_are_those_of_all_packets_and_not_only_of_the_sampled() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan_of(&(LONG.to_owned() + &at_mid(12)));
    let result = run_to(&SimEngine, &plan, 1, dir.path());
    let figure = |name: &str| metric::lookup(&result.summary, name).unwrap();
    let of = |part: &str| figure(&format!("seq-ack.right_rtt.{part} of observe/mid/cubic"));
    assert!(of("mean") > 120.0, "a queue builds up: {}", of("mean"));
    assert!(
        of("error_all").abs() < 0.01 * of("truth_all"),
        "{} of {}",
        of("error_all"),
        of("truth_all")
    );
    // Every second segment is acknowledged.
    let packets = figure("seen.ip.n of observe/mid/cubic");
    assert!(of("n") > 0.9 * packets / 3.0, "{} of {packets}", of("n"));
}

/// Half of the run without loss and with one base round trip, half with others.
const CHANGING: &str = r#"
version  = 1
name     = "changing"
duration = "16s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["delay: netem delay 10ms", "tap mid", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["tap mid", "netem delay 10ms"]

[[flow]]
name = "cubic"
from = "client"
to   = "server"
cc   = "cubic"
mark = "s+d+q"

[[change]]
at     = "8s"
target = "link/access/up/delay"
to     = "netem delay 20ms loss 2%"
"#;

/// The observers of one run, each with a window of its own.
fn through_windows(windows: &[(&str, &str)]) -> RunResult {
    let observers = windows.iter().map(|(name, measure)| {
        format!("[[observe]]\nname = \"{name}\"\ntap = \"tap/mid\"\nmeasure = \"{measure}\"\n")
    });
    let plan = plan_of(&format!("{CHANGING}{}", observers.collect::<String>()));
    let dir = tempfile::tempdir().unwrap();
    run_to(&SimEngine, &plan, 1, dir.path())
}

#[test]
fn an_observer_s_figures_are_of_its_window() {
    let windows = [
        ("all", "0s..16s"),
        ("early", "0s..8s"),
        ("late", "8s..16s"),
        ("end", "12s..14s"),
    ];
    let result = through_windows(&windows);
    let figure = |window: &str, name: &str| {
        let name = format!("{name} of observe/{window}/cubic");
        metric::lookup(&result.summary, &name).unwrap_or_else(|| panic!("{name}"))
    };
    let close = |name: &str, a: f64, b: f64, by: f64| {
        assert!(
            (a - b).abs() <= by,
            "{name}: {a} and {b}, apart by more than {by}"
        );
    };
    // What is counted in both halves is what is counted in the whole.
    for name in [
        "seen/ip/total",
        "seen/ip/n",
        "seen/again_or_late/total",
        "delay/left_rtt/n",
        "delay/left_rtt/rejected",
        "spin/full_rtt_initiator/n",
        "ss/smoothed_rtt/n",
        "q/upstream_loss_initiator/n",
    ] {
        let halves = figure("early", name) + figure("late", name);
        // The totals are in MiB, of six decimals.
        close(name, halves, figure("all", name), 2e-6);
    }
    // Rates and round trips are those of each half, and so are their truths.
    let loss = |window, part| figure(window, &format!("q/upstream_loss_initiator/{part}"));
    assert_eq!((loss("early", "rate"), loss("early", "truth")), (0.0, 0.0));
    for window in ["late", "end"] {
        close(window, loss(window, "truth"), 0.02, 0.008);
        close(window, loss(window, "rate"), loss(window, "truth"), 0.004);
        let (low, high) = (loss(window, "low"), loss(window, "high"));
        assert!(low < 0.02 && 0.02 < high, "{window}: {low} to {high}");
    }
    assert!(loss("all", "rate") < 0.8 * loss("late", "rate"));
    // Between client and tap there are 20 ms and then 30 ms, and no queue.
    let left = |window, part| figure(window, &format!("delay/left_rtt/{part}"));
    for (window, base) in [("early", 20.0), ("late", 30.0), ("end", 30.0)] {
        for part in ["truth", "truth_all", "p50"] {
            close(&format!("{window} {part}"), left(window, part), base, 0.5);
        }
        // The mean lies in its interval.
        let mean = left(window, "mean");
        assert!(
            left(window, "low") <= mean && mean <= left(window, "high"),
            "{window}"
        );
        assert!(left(window, "sd") < 0.5 * mean, "{window}");
    }
    let (n, m) = (left("early", "n"), left("late", "n"));
    let whole = (left("early", "mean") * n + left("late", "mean") * m) / (n + m);
    close("the mean of both halves", left("all", "mean"), whole, 1e-4);
    // There is one handshake, and it is early.
    assert!(figure("early", "handshake/full_rtt_initiator/mean") >= 20.0);
    let late = "handshake.full_rtt_initiator.mean of observe/late/cubic";
    assert_eq!(metric::lookup(&result.summary, late), None);
}
