//! Observers inside of live runs: over TCP and QUIC, the capture of what they
//! saw gives the same samples to an observer that reads it afterwards, and
//! Wireshark's `tshark` finds nothing wrong with it. What the machine cannot run
//! is skipped, and says so.

use std::process::Command;

use crate::observed::{assert_capture_gives_the_same, at_mid};
use crate::support::{plan_of, run_to};
use narrows_linux::machine::{Need, survey};
use narrows_live::LiveEngine;
use narrows_results::{Engine, metric};
use narrows_sim::SimEngine;

const LINK: &str = r#"
version  = 1
name     = "live and observed"
duration = "2s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "tap mid", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["tap mid", "netem delay 5ms"]
"#;

/// Whether this machine runs nothing live, and so `test` is skipped, which is said
/// with the reason.
fn skipped(test: &str) -> bool {
    let machine = survey();
    let lack = machine.lacks().find(|f| f.need == Need::Live);
    if let Some(lack) = lack {
        eprintln!("skipped: {test}: {lack}");
    }
    lack.is_some()
}

/// A flow by `name` with the keys in `more`.
fn flow(name: &str, more: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n{more}\n")
}

/// A live run of a flow with the keys in `more`, observed and captured whole at
/// its middle. `None` where this machine runs nothing live.
fn run(test: &str, more: &str) -> Option<tempfile::TempDir> {
    if skipped(test) {
        return None;
    }
    let flow = flow("one", more);
    let dir = tempfile::tempdir().unwrap();
    let plan = plan_of(&format!("{LINK}{flow}{}snaplen = 65535\n", at_mid(2)));
    run_to(&LiveEngine, &plan, 1, dir.path());
    Some(dir)
}

/// QUIC of which both ends spin.
const SPINNING: &str = "cc = \"quic:cubic\"\nspin = \"on\"";

/// Round trips by the spin bit for QUIC, by sequence numbers for TCP: one in each
/// 10 ms at best, fewer where the machine is slow.
const FEW: usize = 20;

#[test]
fn a_live_run_over_tcp_and_its_capture_give_the_same_samples() {
    let test = "a_live_run_over_tcp_and_its_capture_give_the_same_samples";
    if let Some(dir) = run(test, "cc = \"kernel:cubic\"") {
        let rows = assert_capture_gives_the_same(dir.path());
        assert!(rows > FEW, "{rows} rows");
    }
}

#[test]
fn a_live_run_over_quic_and_its_capture_give_the_same_samples() {
    let test = "a_live_run_over_quic_and_its_capture_give_the_same_samples";
    if let Some(dir) = run(test, SPINNING) {
        let rows = assert_capture_gives_the_same(dir.path());
        assert!(rows > FEW, "{rows} rows");
    }
}

/// Flows of one run, of which about three in four spin.
const FLOWS: usize = 10;

#[test]
fn of_the_flows_of_a_seed_the_same_ones_spin_in_both_engines() {
    let test = "of_the_flows_of_a_seed_the_same_ones_spin_in_both_engines";
    if skipped(test) {
        return;
    }
    let flows = (0..FLOWS).map(|i| flow(&format!("q{i}"), "cc = \"quic:cubic\""));
    let link = LINK
        .replace("20Mbit", "100Mbit")
        .replace("\"2s\"", "\"3s\"");
    let plan = plan_of(&format!("{link}{}{}", flows.collect::<String>(), at_mid(3)));
    let spinning = |engine: &dyn Engine| -> Vec<bool> {
        let dir = tempfile::tempdir().unwrap();
        let result = run_to(engine, &plan, 1, dir.path());
        let samples = |i| format!("spin.full_rtt_initiator.n of observe/mid/q{i}");
        let counted = (0..FLOWS).map(|i| metric::lookup(&result.summary, &samples(i)).is_some());
        counted.collect()
    };
    let simulated = spinning(&SimEngine);
    assert_eq!(spinning(&LiveEngine), simulated);
    assert!(
        simulated.contains(&true) && simulated.contains(&false),
        "{simulated:?}"
    );
}

#[test]
fn tshark_opens_the_capture_of_a_quic_run_without_complaint() {
    let test = "tshark_opens_the_capture_of_a_quic_run_without_complaint";
    let Ok(_) = Command::new("tshark").arg("--version").output() else {
        return eprintln!("skipped: {test}: tshark is not installed");
    };
    let Some(dir) = run(test, SPINNING) else {
        return;
    };
    let capture = dir.path().join("captures/mid.pcapng");
    // Which UDP is QUIC, tshark is configured with: the flow's port is none that it knows.
    let output = Command::new("tshark")
        .args(["-d", "udp.port==5001,quic", "-o", "udp.check_checksum:TRUE"])
        .args([
            "-T",
            "fields",
            "-e",
            "_ws.malformed",
            "-e",
            "udp.checksum.status",
        ])
        .args(["-e", "quic.long.packet_type", "-e", "quic.fixed_bit"])
        .args(["-E", "occurrence=f", "-E", "separator=,", "-r"])
        .arg(&capture)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    for (i, row) in rows.iter().enumerate() {
        let [malformed, checksum, _, fixed] = row[..] else {
            panic!("packet {}: {row:?}", i + 1);
        };
        assert_eq!(malformed, "", "packet {}", i + 1);
        // 1 is good (packet-udp.c).
        assert_eq!(checksum, "1", "packet {}", i + 1);
        assert!(!fixed.is_empty(), "packet {} is QUIC", i + 1);
    }
    // RFC 9000 §17.2: an Initial packet is of type 0; most packets have short
    // headers.
    let initial = rows.iter().filter(|r| r[2] == "0").count();
    let short = rows.iter().filter(|r| r[2].is_empty()).count();
    assert!(initial >= 2 && short > 100, "{initial} and {short}");
}
