//! Flows over QUIC in a whole run: figures, samples beside the truth, and what
//! an observer finds in the capture.

use std::path::Path;

use crate::observed::{assert_capture_gives_the_same, at_mid, samples};
use crate::support::{plan_of, run_to};
use narrows_results::{RunResult, metric};
use narrows_sim::SimEngine;

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
"#;

fn run(dir: &Path) -> RunResult {
    let plan = plan_of(&(SCENARIO.to_owned() + &at_mid(8)));
    run_to(&SimEngine, &plan, 1, dir)
}

#[test]
fn spin_round_trips_are_the_paths_and_a_greased_bit_gives_none() {
    let dir = tempfile::tempdir().unwrap();
    let result = run(dir.path());
    let figure = |name: &str| metric::lookup(&result.summary, name);
    for flow in ["spinning", "greased"] {
        let mbit = figure(&format!("goodput_mbit of flow/{flow}")).unwrap();
        assert!((7.0..11.0).contains(&mbit), "{flow}: {mbit}");
    }
    // 20 ms of delay, and what the queue and the receiver's acknowledgement
    // delay (25 ms at most) may add.
    let spin = |what: &str| figure(&format!("spin.{what} of observe/mid/spinning"));
    assert!(spin("full_rtt_initiator/n").unwrap() > 50.0);
    let mean = spin("full_rtt_initiator/mean").unwrap();
    assert!((20.0..60.0).contains(&mean), "{mean}");
    let truth = spin("full_rtt_initiator/truth").unwrap();
    assert!(truth >= 20.0 && truth <= mean, "{truth} of {mean}");
    assert_eq!(
        figure("spin.full_rtt_initiator.n of observe/mid/greased"),
        None
    );
    // Packet numbers are encrypted: nobody there can go by them.
    assert_eq!(
        figure("spin-pn.full_rtt_initiator.n of observe/mid/spinning"),
        None
    );
    let handshake = figure("handshake.full_rtt_initiator.mean of observe/mid/spinning").unwrap();
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
    let rows = assert_capture_gives_the_same(dir.path());
    assert!(rows > 500, "{rows} rows");
}
