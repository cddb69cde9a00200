//! `narrows mmb detect` and `respond` between network namespaces: boxes in the kernel at a device,
//! and boxes of a live path. Needs root.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::pair::{PATIENCE, Pair, Router, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn mmb(pair: &Pair, near: bool, words: &[&str]) -> Command {
    let mut command = pair.inside(near, NARROWS);
    command.args(["mmb", "--format", "json"]).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A responder, once it answers.
fn responder(pair: &Pair, near: bool, words: &[&str]) -> Running {
    let mut running = Running::start(mmb(pair, near, &["respond"]).args(words));
    running.says("answering at");
    running
}

/// What is found on the path from near to `host`.
fn detect(pair: &Pair, host: &str) -> Value {
    let output = mmb(pair, true, &["detect", host])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    json(&String::from_utf8_lossy(&output.stdout))
}

/// The boxes that were found, with their directions.
fn found(report: &Value) -> Vec<(String, String)> {
    let boxes = report["boxes"].as_array().expect("boxes");
    let word = |each: &Value, key: &str| each[key].as_str().expect(key).to_owned();
    boxes
        .iter()
        .filter(|each| each["verdict"] == "found")
        .map(|each| (word(each, "name"), word(each, "direction")))
        .collect()
}

fn both_ways(name: &str) -> Vec<(String, String)> {
    let way = |way: &str| (name.to_owned(), way.to_owned());
    vec![way("there"), way("back")]
}

#[test]
fn boxes_at_a_device_are_found_in_both_directions() {
    let Some(pair) = Pair::new("boxes at a device", 82, &[], narrows_bpf::not_built()) else {
        return;
    };
    let clients = ["10.82.0.2", "to", "10.82.0.0/24"];
    let answering = responder(&pair, false, &clients);
    for name in [
        "ecn-bleach",
        "ect1-to-ect0",
        "ce-strip",
        "accecn-option-strip",
        "option-allow-list",
        "reserved-clear",
        "mss-clamp",
        "udp-block",
        "syn-data-drop",
        "spin-clear",
    ] {
        let mut attached = Running::start(&mut mmb(&pair, true, &["attach", "v0", name]));
        attached.says("the box is at v0");
        let report = detect(&pair, "10.82.0.2");
        assert_eq!(found(&report), both_ways(name), "{report:#}");
        attached.signal("INT");
        assert_eq!(attached.end().0, Some(0));
    }
    let report = detect(&pair, "10.82.0.2");
    assert_eq!(found(&report), [], "{report:#}");
    answering.signal("INT");
    let (status, counts) = answering.end();
    assert_eq!(status, Some(0));
    let counts = json(&counts);
    assert_eq!(counts["sessions"], 11, "{counts}");
    assert_eq!(counts["refused"], 0, "{counts}");
}

#[test]
fn over_ipv6_and_without_a_responder_no_box_is_found_where_none_is() {
    let Some(pair) = Pair::new("paths without boxes", 83, &[], None) else {
        return;
    };
    let answering = responder(&pair, false, &["fd83::2", "to", "fd83::/64"]);
    let report = detect(&pair, "fd83::2");
    assert_eq!(found(&report), [], "{report:#}");
    assert_eq!(report["responder"], true);
    assert_eq!(report["other_changes"], json("[]"));
    let boxes = report["boxes"].as_array().unwrap();
    assert!(
        boxes.iter().all(|each| each["verdict"] == "not found"),
        "{report:#}"
    );
    // Over IPv4 nobody answers but the kernel. It quotes datagrams, so that it is known how
    // they came; the rest is not.
    let report = detect(&pair, "10.83.0.2");
    assert_eq!(report["responder"], false);
    assert_eq!(found(&report), [], "{report:#}");
    let boxes = report["boxes"].as_array().unwrap();
    let absent: Vec<_> = boxes
        .iter()
        .filter(|each| each["verdict"] == "not found")
        .map(|each| each["name"].as_str().unwrap())
        .collect();
    let quoted = [
        "ecn-bleach",
        "ect1-to-ect0",
        "ce-strip",
        "snat",
        "spin-clear",
    ];
    assert!(
        absent.iter().all(|name| quoted.contains(name)),
        "{absent:?}"
    );
    assert!(absent.contains(&"ecn-bleach"), "{report:#}");
    answering.signal("INT");
    assert_eq!(answering.end().0, Some(0));
    // Whom it is not to answer it does not answer.
    let answering = responder(&pair, false, &["10.83.0.2", "to", "10.83.1.0/24"]);
    assert_eq!(detect(&pair, "10.83.0.2")["responder"], false);
    answering.signal("TERM");
    let counts = json(&answering.end().1);
    assert_eq!(counts["sent"], 0, "{counts}");
    assert!(counts["refused"].as_u64() > Some(0), "{counts}");
}

#[test]
fn a_box_at_a_router_is_located_at_the_side_where_it_stands() {
    let Some(pair) = Pair::new("a box at a router", 85, &[], narrows_bpf::not_built()) else {
        return;
    };
    let router = Router::between(&pair, 86);
    let answering = responder(&pair, false, &["10.86.2.2", "to", "10.86.1.0/24"]);
    for (device, there, back) in [("r0", [0, 1], [1, 2]), ("r1", [1, 2], [0, 1])] {
        let mut attach = router.inside(NARROWS);
        attach.args(["mmb", "attach", device, "mss-clamp"]);
        attach.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut attached = Running::start(&mut attach);
        attached.says("the box is at");
        let report = detect(&pair, "10.86.2.2");
        assert_eq!(found(&report), both_ways("mss-clamp"), "{report:#}");
        for (direction, hops) in [("there", there), ("back", back)] {
            let boxes = report["boxes"].as_array().expect("boxes");
            let is = |each: &&Value| each["verdict"] == "found" && each["direction"] == direction;
            let finding = boxes.iter().find(is).expect(direction);
            let number = |key: &str| finding[key]["number"].as_u64();
            let place = [number("after"), number("before")];
            assert_eq!(place, hops.map(Some), "{device}, {direction}: {report:#}");
        }
        attached.signal("INT");
        assert_eq!(attached.end().0, Some(0));
    }
    drop(answering);
}

#[test]
fn a_responder_behind_a_firewall_is_reached_when_it_calls() {
    let Some(pair) = Pair::new("a responder that calls", 87, &[], narrows_bpf::not_built()) else {
        return;
    };
    let attach = ["attach", "v1", "reflexive-firewall"];
    let mut attached = Running::start(&mut mmb(&pair, false, &attach));
    attached.says("the box is at v1");
    let clients = ["10.87.0.2", "to", "10.87.0.0/24"];
    let answering = responder(&pair, false, &clients);
    assert_eq!(detect(&pair, "10.87.0.2")["responder"], false);
    drop(answering);
    let calling = [&clients[..], &["call", "10.87.0.1"]].concat();
    let answering = responder(&pair, false, &calling);
    let report = detect(&pair, "10.87.0.2");
    assert_eq!(report["responder"], true);
    let wanted = [("reflexive-firewall".to_owned(), "there".to_owned())];
    assert_eq!(found(&report), wanted, "{report:#}");
    drop(answering);
    attached.signal("INT");
    assert_eq!(attached.end().0, Some(0));
}

/// The path of `narrows shell` has boxes that are no programs of the kernel.
#[test]
fn boxes_of_a_live_path_are_found() {
    let Some(pair) = Pair::new("boxes of a live path", 84, &[], None) else {
        return;
    };
    let one = |name: &str, way: &str| vec![(name.to_owned(), way.to_owned())];
    // The ready box has an address of the path, to which there is no way from outside.
    let snat =
        "add-stateful in inside map ip-saddr 198.51.100.1 shuffle tcp-sport shuffle udp-sport";
    for (name, wanted) in [
        (snat, one("snat", "there")),
        ("accecn-option-strip", both_ways("accecn-option-strip")),
        ("option-allow-list", both_ways("option-allow-list")),
        ("sequence-shuffle", both_ways("sequence-shuffle")),
        ("reflexive-firewall", one("reflexive-firewall", "back")),
    ] {
        let (outside, ready) = (pair.path("outside"), pair.path("ready"));
        // The responder is to be at the path's far end, which is there with the path.
        let script = format!(
            "echo $NARROWS_OUTSIDE > o; mv o outside; \
             while [ ! -e ready ]; do sleep 0.05; done; \
             exec {NARROWS} mmb --format json detect $NARROWS_OUTSIDE"
        );
        let link = format!("mmb {name}");
        let mut shell = pair.inside(true, NARROWS);
        shell.args(["shell", "--link", "netem delay 5ms", "--link", &link, "--"]);
        shell.args(["sh", "-c", &script]).env_remove("SUDO_UID");
        shell.stdout(Stdio::piped()).stderr(Stdio::null());
        let shell = Running::start(&mut shell);
        let begun = Instant::now();
        let address = loop {
            if let Ok(address) = fs::read_to_string(&outside) {
                break address.trim().to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "no path");
            sleep(Duration::from_millis(20));
        };
        let devices = pair.ip(true, "-o -4 addr show");
        let device = devices.lines().find(|line| line.contains(&address));
        let device = device.and_then(|line| line.split_whitespace().nth(1));
        let device = device.expect("the path's device");
        pair.ip(true, &format!("route add 198.51.100.1 dev {device}"));
        let answering = responder(&pair, true, &[&address, "to", "0.0.0.0/0"]);
        fs::write(&ready, "").expect("a file");
        let (status, report) = shell.end();
        assert_eq!(status, Some(0));
        let report = json(&report);
        assert_eq!(found(&report), wanted, "{report:#}");
        drop(answering);
        fs::remove_file(outside).expect("it is there");
        fs::remove_file(ready).expect("it is there");
    }
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_sent() {
    for (words, what, status) in [
        (&["detect"][..], "HOST", 2),
        (&["detect", "10.0.0.1", "from", "65500"], "65471", 2),
        (&["detect", "10.0.0.1:0"], "a host", 2),
        (&["respond"], "an address of this machine", 2),
        (&["respond", "10.0.0.1"], "nobody to answer", 2),
        (
            &["respond", "10.0.0.1", "to", "10.0.0.1/8"],
            "10.0.0.1/8",
            2,
        ),
    ] {
        let mut command = Command::new(NARROWS);
        let output = command.arg("mmb").args(words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert!(said(&output).contains(what), "{words:?}: {}", said(&output));
    }
    // A user namespace without the rights over this network namespace.
    let mut command = Command::new("unshare");
    command.args(["--user", NARROWS, "mmb", "detect", "127.0.0.1"]);
    let output = command.output();
    match output {
        Ok(output) if !said(&output).contains("unshare:") => {
            assert_eq!(output.status.code(), Some(77));
            assert!(said(&output).contains("CAP_NET_RAW"), "{}", said(&output));
        }
        _ => eprintln!("skipped: the rights that are needed: no user namespace here"),
    }
}

/// The fields that were changed on the way there.
fn other_changes(report: &Value) -> Vec<&str> {
    let changes = report["other_changes"].as_array().expect("changes");
    let there = changes
        .iter()
        .filter(|change| change["direction"] == "there");
    there
        .filter_map(|change| change["field"].as_str())
        .collect()
}

#[test]
fn hops_that_are_set_marks_on_all_and_options_in_another_order_are_reported_on_small_paths_too() {
    let name = "changes that no ready box makes";
    let Some(pair) = Pair::new(name, 86, &[], narrows_bpf::not_built()) else {
        return;
    };
    for (near, device) in [(true, "v0"), (false, "v1")] {
        pair.ip(near, &format!("link set {device} mtu 600"));
    }
    let answering = responder(&pair, false, &["10.86.0.2", "to", "10.86.0.0/24"]);
    for (rules, field) in [
        ("add in inside mod ip-ttl 33", "ip-ttl"),
        ("add in inside mod ip-ce", "ip-ce"),
        (
            "add in inside tcp-opt-mss strip tcp-opt-mss add tcp-opt-mss 8960",
            "tcp-opt",
        ),
        ("add ip-ttl 3 drop", ""),
    ] {
        let mut attached = Running::start(&mut mmb(&pair, true, &["attach", "v0", rules]));
        attached.says("the box is at v0");
        let report = detect(&pair, "10.86.0.2");
        assert_eq!(report["cut_short"], Value::Null, "{report:#}");
        assert_eq!(found(&report), [], "{rules}: {report:#}");
        let fields = other_changes(&report);
        let as_expected = match field {
            "" => fields.is_empty(),
            field => fields.contains(&field),
        };
        assert!(as_expected, "{rules}: {report:#}");
        let routers = &report["directions"][0]["routers"];
        match field {
            "ip-ttl" => assert!(routers.is_null(), "{report:#}"),
            _ => assert_eq!(*routers, 0, "{report:#}"),
        }
        attached.signal("INT");
        assert_eq!(attached.end().0, Some(0));
    }
    answering.signal("INT");
    answering.end();
}
