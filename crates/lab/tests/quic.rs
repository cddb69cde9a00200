//! Flows over QUIC in a whole run: figures, samples beside the truth, and what
//! an observer finds in the capture.

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
name     = "quic"
duration = "8s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "tap mid", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["tap mid", "netem delay 10ms"]

[[flow]]
name = "spinning"
from = "client"
to   = "server"
cc   = "quic:cubic"
spin = "on"

[[flow]]
name = "greased"
from = "client"
to   = "server"
cc   = "quic:cubic"
spin = "greased"

[[observe]]
name = "mid"
tap  = "tap/mid"

[[capture]]
name = "mid"
at   = "tap/mid"
"#;

fn run(dir: &Path) -> RunResult {
    let draft = Draft::read("quic.toml", SCENARIO.as_bytes());
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

/// The rows of `samples.csv.gz`, in columns.
fn samples(dir: &Path) -> Vec<Vec<String>> {
    let file = fs::File::open(dir.join("samples.csv.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let columns = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(columns).collect()
}

#[test]
fn spin_round_trips_are_the_paths_and_a_greased_bit_gives_none() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path());
    let figure = |name: &str| metric::lookup(&result.summary, name);
    for flow in ["spinning", "greased"] {
        let mbit = figure(&format!("flow/{flow}/goodput_mbit")).unwrap();
        assert!((7.0..11.0).contains(&mbit), "{flow}: {mbit}");
    }
    // 20 ms of delay, and what the queue and the receiver's acknowledgement
    // delay (25 ms at most) may add.
    let spin = |what: &str| figure(&format!("observe/mid/spinning/spin/{what}"));
    assert!(spin("full_rtt_initiator/n").unwrap() > 50.0);
    let mean = spin("full_rtt_initiator/mean").unwrap();
    assert!((20.0..60.0).contains(&mean), "{mean}");
    let truth = spin("full_rtt_initiator/truth").unwrap();
    assert!(truth >= 20.0 && truth <= mean, "{truth} of {mean}");
    assert_eq!(
        figure("observe/mid/greased/spin/full_rtt_initiator/n"),
        None
    );
    // Packet numbers are encrypted: nobody there can go by them.
    assert_eq!(
        figure("observe/mid/spinning/spin-pn/full_rtt_initiator/n"),
        None
    );
    let handshake = figure("observe/mid/spinning/handshake/full_rtt_initiator/mean").unwrap();
    assert!((20.0..30.0).contains(&handshake), "{handshake}");
    // Before the tap there is only the client's own delay, and no queue.
    let rows = samples(dir.path());
    let left = rows
        .iter()
        .filter(|r| r[3] == "spin" && r[4] == "left_rtt" && !r[11].is_empty());
    let left: Vec<f64> = left.map(|r| r[11].parse().unwrap()).collect();
    assert!(left.len() > 50);
    assert!(left.iter().all(|ms| (20.0..20.01).contains(ms)), "{left:?}");
}

#[test]
fn the_observer_in_the_run_and_the_one_that_reads_its_capture_agree_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
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
    // All columns but the truth's.
    let outside: Vec<String> = outside
        .lines()
        .map(|l| l.split(',').take(11).collect::<Vec<_>>().join(","))
        .collect();
    let inside = samples(dir.path());
    let inside: Vec<String> = inside.iter().map(|row| row[..11].join(",")).collect();
    assert!(inside.len() > 500, "{} rows", inside.len());
    assert_eq!(inside, outside);
}
