//! Observers inside of live runs: over TCP and QUIC, the capture of what they
//! saw gives the same samples to an observer that reads it afterwards, and
//! Wireshark's `tshark` finds nothing wrong with it. What the machine cannot run
//! is skipped, and says so.
#![cfg(target_os = "linux")]

mod observed;
mod support;

use std::process::Command;

use narrows_lab::LiveEngine;
use narrows_live::machine::{Need, survey};
use observed::{AT_MID, assert_capture_gives_the_same};
use support::{plan_of, run_to};

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

/// A live run of a flow with `control`, observed and captured whole at its
/// middle. `None`, and why `test` is skipped, where this machine runs nothing
/// live.
fn run(test: &str, control: &str) -> Option<tempfile::TempDir> {
    let machine = survey();
    if let Some(lack) = machine.lacks().find(|f| f.need == Need::Live) {
        eprintln!("skipped: {test}: {lack}");
        return None;
    }
    let flow = format!(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\ncc = \"{control}\"\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let plan = plan_of(&format!("{LINK}{flow}{AT_MID}snaplen = 65535\n"));
    run_to(&LiveEngine, &plan, 1, dir.path());
    Some(dir)
}

/// Round trips by the spin bit for QUIC, by sequence numbers for TCP: one in each
/// 10 ms at best, fewer where the machine is slow.
const FEW: usize = 20;

#[test]
fn a_live_run_over_tcp_and_its_capture_give_the_same_samples() {
    let test = "a_live_run_over_tcp_and_its_capture_give_the_same_samples";
    if let Some(dir) = run(test, "kernel:cubic") {
        assert_capture_gives_the_same(dir.path(), FEW);
    }
}

#[test]
fn a_live_run_over_quic_and_its_capture_give_the_same_samples() {
    let test = "a_live_run_over_quic_and_its_capture_give_the_same_samples";
    if let Some(dir) = run(test, "quic:cubic") {
        assert_capture_gives_the_same(dir.path(), FEW);
    }
}

#[test]
fn tshark_opens_the_capture_of_a_quic_run_without_complaint() {
    let test = "tshark_opens_the_capture_of_a_quic_run_without_complaint";
    let Ok(_) = Command::new("tshark").arg("--version").output() else {
        return eprintln!("skipped: {test}: tshark is not installed");
    };
    let Some(dir) = run(test, "quic:cubic") else {
        return;
    };
    let capture = dir.path().join("captures/mid.pcapng");
    // Which UDP is QUIC, tshark is told: the flow's port is none that it knows.
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
