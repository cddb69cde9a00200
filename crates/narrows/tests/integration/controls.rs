//! Controls of tests in both engines: one with a state that fits no `icsk_ca_priv`, an
//! option, telemetry and a timer (`roomy`), and a wrapper (`capped`). No source of the
//! product names them. What the machine cannot run live is skipped, and says so.

use crate::support::{plan_of, run};
use narrows_results::folder::RunResult;
use narrows_results::{Engine, metric};
use narrows_sim::SimEngine;

const SCENARIO: &str = r#"
version  = 1
name     = "controls of tests"
duration = "3s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 20Mbit queue pfifo limit 100"]
down = ["netem delay 10ms"]

[[flow]]
name = "roomy"
from = "client"
to   = "server"
cc   = "roomy ceiling 12 period 50ms"

[[flow]]
name = "capped"
from = "client"
to   = "server"
cc   = "capped cap 16"
"#;

fn ran(engine: &dyn Engine) -> RunResult {
    run(engine, &plan_of(SCENARIO))
}

/// What was declared has arrived, without that anybody in between knows it.
fn judge(result: &RunResult) {
    let most = |entity: &str, metric: &str| {
        let track = result.series.track(entity, metric).expect(metric);
        track.value.iter().copied().fold(0.0, f64::max)
    };
    // Options: the ceilings of the windows.
    assert!(most("flow/roomy", "cwnd_packets") <= 12.0);
    assert!(most("flow/capped", "cwnd_packets") <= 16.0);
    // The timer: every 50 ms of 3 s; live, at the next ACK.
    let periods = most("flow/roomy", "periods");
    assert!((10.0..=60.0).contains(&periods), "{periods} periods");
    // What the timer noted is the goodput, in the unit that was declared.
    let of = |name: &str| metric::lookup(&result.summary, name).expect(name);
    let (noted, goodput) = (
        of("noted_mbit.max of flow/roomy"),
        of("goodput_mbit of flow/roomy"),
    );
    assert!(
        (0.5..2.0).contains(&(noted / goodput)),
        "{noted} Mbit/s noted, {goodput} Mbit/s delivered"
    );
    let units: Vec<_> = result.summary.flows[0]
        .telemetry
        .iter()
        .map(|t| (t.name.as_str(), t.unit.as_str()))
        .collect();
    assert_eq!(units, [("periods", ""), ("noted_mbit", "mbit")]);
    let wrapped = &result.summary.flows[1].telemetry;
    assert_eq!(wrapped[0].name, "plateau_packets");
}

#[test]
fn what_a_control_declares_arrives_in_simulated_runs() {
    let result = ran(&SimEngine);
    judge(&result);
    assert_eq!(result.series.tracks, ran(&SimEngine).series.tracks);
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_control_declares_arrives_in_live_runs() {
    let machine = narrows_linux::machine::survey();
    for need in [
        narrows_linux::machine::Need::Live,
        narrows_linux::machine::Need::Bpf,
    ] {
        if let Some(lack) = machine.lacks().find(|f| f.need == need) {
            eprintln!("skipped: what_a_control_declares_arrives_in_live_runs: {lack}");
            return;
        }
    }
    judge(&ran(&narrows_live::LiveEngine));
}
