//! What observers find in modelled QUIC and PLUS.

use std::fs;
use std::path::Path;

use crate::observed::{assert_capture_gives_the_same, at_mid};
use crate::support::{plan_of, run_to};
use narrows_results::{RunResult, metric};
use narrows_sim::SimEngine;

/// 10 ms from the client to the observer, 20 ms from there to the server, each
/// way; some of the data is lost before the observer and some behind it.
fn run(dir: &Path, transport: &str, loss: &str, seed: u64) -> RunResult {
    let text = format!(
        r#"
version  = 1
name     = "modelled"
duration = "20s"
measure  = "0s..20s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "tap mid", "netem delay 20ms"]
down = ["netem delay 20ms {loss}", "tap mid", "netem delay 10ms {loss}"]

[[flow]]
name  = "data"
from  = "server"
to    = "client"
opens = "client"
transport = "{transport}"
{at_mid}"#,
        at_mid = at_mid(20)
    );
    run_to(&SimEngine, &plan_of(&text), seed, dir)
}

/// A figure of observer `mid`.
fn figure(result: &RunResult, name: &str) -> Option<f64> {
    metric::lookup(&result.summary, &format!("{name} of observe/mid/data"))
}

fn needed(result: &RunResult, name: &str) -> f64 {
    figure(result, name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_way_of_reading_the_spin_bit_finds_the_round_trip() {
    for (transport, techniques) in [
        (
            "quic-model rate 10Mbit",
            &["spin", "spin-pn", "spin-heuristic", "vec", "vec-nonzero"][..],
        ),
        ("plus rate 10Mbit", &["spin", "spin-pn", "vec", "psn-pse"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let result = run(dir.path(), transport, "", 1);
        for technique in techniques {
            for side in ["initiator", "responder"] {
                let of =
                    |part: &str| needed(&result, &format!("{technique}/full_rtt_{side}/{part}"));
                // 60 ms, and up to two gaps of 0.96 ms at the ends.
                assert!(
                    (60.0..62.5).contains(&of("p50")),
                    "{technique} {}",
                    of("p50")
                );
                assert!(
                    (60.0..60.1).contains(&of("truth")),
                    "{technique} {}",
                    of("truth")
                );
                assert!(of("n") > 300.0, "{technique} {}", of("n"));
                assert_eq!(of("short"), 0.0);
            }
            if !["spin-heuristic", "vec-nonzero"].contains(technique) {
                let part = |name: &str| needed(&result, &format!("{technique}/{name}/p50"));
                assert!((20.0..21.5).contains(&part("left_rtt")), "{technique}");
                assert!((40.0..41.5).contains(&part("right_rtt")), "{technique}");
            }
        }
    }
}

#[test]
fn the_spin_bit_is_held_against_serial_numbers_packet_by_packet() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path(), "plus rate 10Mbit", "", 1);
    for side in ["initiator", "responder"] {
        let of = |part: &str| needed(&result, &format!("vec-to-psn-pse/full_rtt_{side}/{part}"));
        assert!(of("n") > 300.0);
        assert!(of("error_p50").abs() < 2.0, "{}", of("error_p50"));
    }
}

#[test]
fn a_bit_that_is_greased_or_fixed_gives_no_figure_and_one_that_is_not_used_no_loss() {
    for words in ["spin greased", "spin fixed", "signals none"] {
        let dir = tempfile::tempdir().unwrap();
        let transport = format!("quic-model rate 10Mbit {words}");
        let result = run(dir.path(), &transport, "", 1);
        for name in [
            "spin-pn/full_rtt_responder/mean",
            "vec/full_rtt_responder/mean",
            "l/end_to_end_loss_responder/rate",
            "q/upstream_loss_responder/rate",
        ] {
            assert_eq!(figure(&result, name), None, "{words}");
        }
        assert!(needed(&result, "seen/ip/n") > 10_000.0);
    }
}

#[test]
fn q_and_l_say_what_was_lost_before_the_observer_and_in_all() {
    let dir = tempfile::tempdir().unwrap();
    let words = "quic-model signals s+vec+q+l rate 20Mbit";
    let result = run(dir.path(), words, "loss 1%", 1);
    for (name, within) in [
        ("q/upstream_loss_responder", 0.05),
        ("l/end_to_end_loss_responder", 0.05),
        ("q+l/downstream_loss_responder", 0.2),
    ] {
        let (rate, truth) = (
            needed(&result, &format!("{name}/rate")),
            needed(&result, &format!("{name}/truth")),
        );
        assert!(truth > 0.008, "{name}: {truth}");
        assert!(
            (rate / truth - 1.0).abs() < within,
            "{name}: {rate} of {truth}"
        );
    }
}

#[test]
fn the_observer_in_the_run_and_the_one_that_reads_its_capture_agree_row_by_row() {
    for transport in ["quic-model signals s+vec+q+l window 90", "plus window 90"] {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), transport, "loss 0.5%", 3);
        let rows = assert_capture_gives_the_same(dir.path());
        assert!(rows > 500, "{rows} rows");
    }
}

#[test]
fn the_same_seed_gives_the_same_data_files() {
    let digest = |seed| {
        let dir = tempfile::tempdir().unwrap();
        let words = "quic-model signals s+vec+q+l window 90";
        let result = run(dir.path(), words, "loss 0.5%", seed);
        let samples = fs::read(dir.path().join("samples.csv.gz")).unwrap();
        (samples, format!("{:?}", result.summary.flows))
    };
    assert!(digest(1) == digest(1));
    assert!(digest(1) != digest(2));
}
