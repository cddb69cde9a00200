//! Runs with two-way boxes on the path: what the verdict says, what captures show, and
//! what observers are held against.

use crate::support::{plan_of, run, run_to};
use narrows_results::RunResult;
use narrows_sim::SimEngine;
use narrows_wire::FlowKey;
use narrows_wire::capture::CaptureReader;

/// Ten seconds over 50 Mbit/s, `up` and `down` beside the bottleneck.
fn scenario(up: &str, down: &str, more: &str) -> String {
    format!(
        r#"
version  = 1
name     = "boxes"
duration = "10s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", {up}, "bottleneck: rate 50Mbit queue pfifo limit 200"]
down = ["netem delay 10ms", {down}]
[[flow]]
name = "bulk"
from = "client"
to   = "server"
cc   = "cubic"
{more}"#
    )
}

fn with_mtu(words: &str) -> RunResult {
    let words = format!("\"{words}\"");
    run(&SimEngine, &plan_of(&scenario(&words, &words, "")))
}

#[test]
fn a_small_mtu_that_says_so_is_trusted_and_a_silent_one_is_named() {
    let found = with_mtu("mtu 1400");
    assert!(
        found.record.verdict.trusted(),
        "{}",
        found.record.verdict.line()
    );
    let silent = with_mtu("mtu 1400 silent").record.verdict;
    let checks: Vec<&str> = silent.reasons().map(|f| f.check.as_str()).collect();
    assert!(checks.contains(&"nothing-delivered"), "{checks:?}");
    let hole = silent.reasons().find(|f| f.check == "mtu-black-hole");
    let hole = hole.expect("the black hole");
    assert_eq!(hole.entity, "link/access/mtu");
    assert!(
        hole.line.contains("larger than its 1400 bytes"),
        "{}",
        hole.line
    );
}

#[test]
fn a_silent_mtu_is_no_black_hole_for_who_finds_the_size_by_probes() {
    let words = "\"mtu 1400 silent\"";
    let probing = "[flow.host_model]\nmtu_probing = \"always interval 3s\"\n";
    let plan = plan_of(&scenario(words, words, probing));
    let verdict = run(&SimEngine, &plan).record.verdict;
    assert!(verdict.trusted(), "{}", verdict.line());
    let lost = verdict.findings.iter().find(|f| f.check == "lost-packets");
    let line = &lost.expect("the probes").line;
    assert!(line.contains("got through in smaller packets"), "{line}");
    // One that does not find it makes a hole of it.
    let other = "[[flow]]\nname = \"other\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n";
    let plan = plan_of(&scenario(words, words, &format!("{probing}{other}")));
    let verdict = run(&SimEngine, &plan).record.verdict;
    assert!(verdict.reasons().any(|f| f.check == "mtu-black-hole"));
}

#[test]
fn a_silent_mtu_is_no_black_hole_for_who_has_nothing_to_deliver_in_the_window() {
    let words = "\"mtu 1400 silent\"";
    let probing = "[flow.host_model]\nmtu_probing = \"always interval 3s\"\n";
    let ended = "[[flow]]\nname = \"ended\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n\
                 bytes = 20000\nstart = \"0s\"\nhost_model = { mtu_probing = \"always\" }\n";
    let stopped = "[[request]]\nname = \"stopped\"\nfrom = \"client\"\nto = \"server\"\n\
                   arrivals = \"every 100ms\"\nstop = \"1s\"\n";
    let verdict = |more: &str| {
        let plan = plan_of(&scenario(words, words, &format!("{probing}{more}")));
        run(&SimEngine, &plan).record.verdict
    };
    for more in [ended, stopped] {
        let verdict = verdict(more);
        assert!(verdict.trusted(), "{more}: {}", verdict.line());
    }
    // Responses that are too long for the hop: none arrives.
    let waiting = stopped.replace("stop = \"1s\"", "response = \"100kb\"");
    let verdict = verdict(&waiting);
    assert!(verdict.reasons().any(|f| f.check == "mtu-black-hole"));
}

#[test]
fn an_ecn_bit_that_netem_flips_is_no_reason_for_doubt() {
    // One bit of 800 is that which makes ECT(1) of Not-ECT.
    let words = "\"netem corrupt 50%\"";
    let small = "[[flow]]\nname = \"small\"\nfrom = \"client\"\nto = \"server\"\n\
                 traffic = \"cbr rate 4Mbit size 100\"\n";
    let plan = plan_of(&scenario(words, words, small));
    let ran = run(&SimEngine, &plan);
    let found = &ran.record.verdict.findings;
    assert!(
        found.iter().all(|f| f.check != "codepoint-changed"),
        "{found:?}"
    );
    let received = ran.summary.flows[1].codepoints.received;
    assert!(received[1] > 0, "{received:?}");
}

const OBSERVED: &str = r#"
[[capture]]
name = "inside"
at   = "tap/inside"
[[capture]]
name = "outside"
at   = "tap/outside"
[[observe]]
name = "out"
tap  = "tap/outside"
"#;

#[test]
fn metrics_captures_and_truth_follow_a_flow_through_nat() {
    let taps = |nat: &str| {
        let up = format!("\"tap inside\", {nat}\"tap outside\"");
        let down = format!("\"tap outside\", {nat}\"tap inside\"");
        plan_of(&scenario(&up, &down, OBSERVED))
    };
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let plan = taps("\"nat\", ");
    let with = run_to(&SimEngine, &plan, 1, dirs[0].path());
    let without = run_to(&SimEngine, &taps(""), 1, dirs[1].path());
    assert_eq!(with.summary.flows, without.summary.flows);
    assert_eq!(with.summary.queues, without.summary.queues);
    // Samples of the flow, each held against the same truth.
    let observed = |r: &RunResult| r.summary.observations.clone();
    assert!(observed(&with).iter().any(|o| o.n > 100));
    assert_eq!(observed(&with), observed(&without));

    let sources = |name: &str| {
        let path = dirs[0].path().join(format!("captures/{name}.pcapng"));
        let mut reader = CaptureReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let mut sources = std::collections::BTreeSet::new();
        while let Some(packet) = reader.read().unwrap() {
            sources.extend(FlowKey::of(packet.bytes).map(|key| key.source));
        }
        sources
    };
    let host = |i: usize| plan.hosts[i].ipv4.into();
    let own = plan.boxes()[0].addresses[0];
    assert_eq!(sources("inside"), [host(0), host(1)].into());
    assert_eq!(sources("outside"), [own, host(1)].into());
}
