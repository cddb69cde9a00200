//! Observers inside a run.

mod support;

use std::fs;
use std::io::Read;
use std::path::Path;

use narrows_lab::{Output, RunOptions, RunResult, SimEngine, metric, run_scenario};
use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Config, Observer};
use narrows_scenario::Draft;
use narrows_wire::capture::CaptureReader;
use support::unwatched;

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

[[observe]]
name = "mid"
tap  = "tap/mid"

[[capture]]
name = "mid"
at   = "tap/mid"
"#;

fn run(dir: &Path) -> RunResult {
    let draft = Draft::read("observed.toml", SCENARIO.as_bytes());
    let plan = draft
        .and_then(|d| d.check())
        .unwrap_or_else(|e| panic!("{e}"));
    let options = RunOptions {
        seed: Some(1),
        output: Output::Folder(dir.to_path_buf()),
        ..RunOptions::default()
    };
    unwatched(|watch| run_scenario(&SimEngine, &plan, &options, watch)).unwrap()
}

fn samples(dir: &Path) -> Vec<String> {
    let file = fs::File::open(dir.join("samples.csv.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text.lines().map(str::to_owned).collect()
}

/// All columns but the truth's.
fn seen(line: &str) -> String {
    line.split(',').take(11).collect::<Vec<_>>().join(",")
}

#[test]
fn the_observer_in_the_run_and_the_one_that_reads_its_capture_agree_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let inside = samples(dir.path());
    let capture = fs::File::open(dir.path().join("captures/mid.pcapng")).unwrap();
    let mut capture = CaptureReader::new(capture).unwrap();
    let rows = Rows {
        samples: true,
        estimates: true,
    };
    let mut report = Report::new(Vec::new(), Format::Csv, rows, Names::open(), "tap/mid");
    let mut observer = Observer::new(Config::default());
    while let Some(record) = capture.read().unwrap() {
        let (packet, at) = (record.ip_packet().unwrap(), record.at.unwrap());
        observer.observe(packet, at, record.id.unwrap(), &mut report);
    }
    observer.finish(&mut report);
    let outside = String::from_utf8(report.finish().unwrap()).unwrap();
    let outside: Vec<String> = outside.lines().map(seen).collect();
    let inside: Vec<String> = inside.iter().map(|l| seen(l)).collect();
    assert!(inside.len() > 1000, "{} rows", inside.len());
    assert_eq!(inside, outside);
}

#[test]
fn round_trips_are_the_networks_and_losses_are_those_that_happened() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path());
    let rows = samples(dir.path());
    let parts = |line: &String| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let of = |technique: &str, quantity: &str| -> Vec<(f64, f64)> {
        let rows = rows.iter().map(parts);
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
    let truth = figure("observe/mid/cubic/q/upstream_loss_initiator/truth");
    let drops = figure("link/access/up/netem/drops") / figure("observe/mid/cubic/seen/ip/n");
    assert!(
        truth > 0.005 && truth < 0.02 && drops > 0.0,
        "{truth} {drops}"
    );
    assert!(figure("observe/mid/cubic/q/upstream_loss_initiator/error").abs() < 0.1 * truth);
}

#[test]
fn a_run_without_observers_has_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = SCENARIO.split("[[observe]]").next().unwrap().to_owned();
    let draft = Draft::read("plain.toml", text.as_bytes());
    let plan = draft.and_then(|d| d.check()).unwrap();
    let options = RunOptions {
        output: Output::Folder(dir.path().to_path_buf()),
        ..RunOptions::default()
    };
    let result = unwatched(|w| run_scenario(&SimEngine, &plan, &options, w)).unwrap();
    assert!(result.summary.observations.is_empty());
    assert!(!dir.path().join("samples.csv.gz").exists());
}
