//! Congestion controls of the legs of `narrows pep serve`.

#![cfg(target_os = "linux")]

mod pep_rig;

use std::process::Command;

use pep_rig::{Daemon, LOOPBACK, add, echo, echoes, serve};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

/// What `ss` says of the connections that `filter` takes; `None` without it.
fn listed(filter: &str) -> Option<String> {
    let output = Command::new("ss").args(["-Htni", filter]).output();
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}

#[test]
fn each_leg_has_a_congestion_control_of_its_own() {
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        add(file, "near = { cc = \"reno\" }\nfar = { cc = \"cubic\" }\n");
        serve(file)
    });
    let target = echo();
    let mut tunnel = daemon.tunnel(target);
    assert!(echoes(&mut tunnel, b"open"));
    let legs = [
        (format!("sport = :{}", daemon.at.port()), "reno"),
        (format!("dport = :{}", target.port()), "cubic"),
    ];
    for (leg, control) in legs {
        let Some(said) = listed(&leg) else {
            eprintln!("skipped: each_leg_has_a_congestion_control_of_its_own: there is no ss");
            return;
        };
        let mut words = said.split_whitespace();
        assert!(words.any(|word| word == control), "{leg}: {said}");
    }
}
