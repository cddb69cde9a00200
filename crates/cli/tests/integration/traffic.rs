//! `narrows traffic`: what a mix is, and a mix between two network namespaces, which needs root.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::pair::{Pair, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

const MIX: &str = "total-bandwidth: 1.25MB\ntotal-time: 10s\nreport-interval: 200ms\nflows:
  - {kind: realtime-audio, percent-bandwidth: 5%, ports-range: 5000-5099, props: {label: voice}}
  - {kind: scavenger, percent-bandwidth: 10%, ports-range: 5200-5299, props: {label: background}}
  - {kind: web-page, percent-bandwidth: 25%, ports-range: 5500-5599, props: {label: page}}
";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server at the far end, with the token in `token` of the pair's folder.
fn server(pair: &Pair, net: u8) -> Running {
    server_of(pair, net, pair.inside(false, NARROWS))
}

/// The same, by a command that starts the program.
fn server_of(pair: &Pair, net: u8, mut command: Command) -> Running {
    let token = pair.path("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&token, mode).unwrap();
    command.args([
        "traffic",
        "serve",
        &format!("10.{net}.0.2"),
        "--format",
        "json",
    ]);
    command.arg("--token").arg(&token);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.says("serving mixes");
    running
}

fn client(pair: &Pair, net: u8, more: &[&str]) -> Command {
    fs::write(pair.path("mix.yaml"), MIX).unwrap();
    let mut command = pair.inside(true, NARROWS);
    command.args(["traffic", "run"]).arg(pair.path("mix.yaml"));
    command.arg("--token").arg(pair.path("token"));
    command.args(["--server", &format!("10.{net}.0.2"), "--format", "json"]);
    command.args(more);
    command
}

#[test]
fn a_mix_between_two_hosts_arrives_to_the_byte_with_delays_that_the_path_has() {
    let net = 91;
    let Some(pair) = Pair::new("a mix between two hosts", net, &["tc"], None) else {
        return;
    };
    let delayed = pair.run(
        false,
        "tc qdisc add dev v1 root netem delay 20ms limit 100000",
    );
    if !delayed.status.success() {
        eprintln!(
            "skipped: a mix between two hosts: no netem: {}",
            said(&delayed)
        );
        return;
    }
    let serving = server(&pair, net);
    let csv = pair.path("kpi");
    let output = client(&pair, net, &["--csv", csv.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let set = |i: usize| &result["sets"][i];
    // 7 calls of 10 s are 635 datagrams each.
    assert_eq!(set(0)["packets"], 7 * 635, "{result}");
    assert_eq!(set(0)["received_bytes"], 7 * 635 * 126, "{result}");
    assert_eq!(set(1)["received_bytes"], 1_250_000, "{result}");
    assert_eq!(set(2)["received_bytes"], 2 * 1_246_000, "{result}");
    // 20 ms one way alone: half of the round trip is all that is known of that.
    let (delay, within) = (
        set(0)["delay_ms"]["p50"].as_f64().unwrap(),
        result["clocks_within_ms"].as_f64().unwrap(),
    );
    assert!(within >= 10.0, "{within}");
    assert!(
        (delay - 20.0).abs() <= within + 5.0,
        "{delay} within {within}"
    );
    let udp = fs::read_to_string(csv.join("udp.csv")).unwrap();
    assert!(
        udp.starts_with("Timestamp,FlowID,FlowType,ToS,Bytes,BitsPerSecond,Jitterms,"),
        "{udp}"
    );
    let tcp = fs::read_to_string(csv.join("tcp.csv")).unwrap();
    assert!(tcp.lines().count() > 10, "{tcp}");
    serving.signal("INT");
    let (_, counts) = serving.end();
    let counts: Value = serde_json::from_str(&counts).unwrap();
    assert_eq!(
        (&counts["sessions"], &counts["unauthenticated"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn fetches_by_quic_arrive_to_the_byte_over_a_path_that_loses() {
    let net = 99;
    let Some(pair) = Pair::new("fetches by QUIC", net, &["tc"], None) else {
        return;
    };
    let netem = "tc qdisc add dev v1 root netem delay 10ms loss 2% limit 100000";
    let lossy = pair.run(false, netem);
    if !lossy.status.success() {
        eprintln!("skipped: fetches by QUIC: no netem: {}", said(&lossy));
        return;
    }
    let serving = server(&pair, net);
    let csv = pair.path("kpi");
    let more = ["--cc", "quic:cubic", "--csv", csv.to_str().unwrap()];
    let output = client(&pair, net, &more).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let set = |i: usize| &result["sets"][i];
    for (i, bytes) in [(1, 1_250_000), (2, 2 * 1_246_000)] {
        assert_eq!(set(i)["protocol"], "quic", "{result}");
        assert_eq!(set(i)["received_bytes"], bytes, "{result}");
        assert_eq!(set(i)["complete"], set(i)["transfers"], "{result}");
    }
    let rows = result["streams"].as_array().unwrap();
    let lost = rows
        .iter()
        .filter_map(|row| row["retransmissions"].as_u64());
    assert!(lost.sum::<u64>() > 0, "{result}");
    // One of the two ways delays.
    assert!(
        rows.iter().any(|row| row["rtt_ms"].as_f64() > Some(9.0)),
        "{result}"
    );
    let tcp = fs::read_to_string(csv.join("tcp.csv")).unwrap();
    assert_eq!(tcp.matches(",quic,").count(), rows.len(), "{tcp}");
    drop(serving);
}

#[test]
fn marks_are_on_the_wire_as_they_were_asked_for_and_what_the_path_marks_is_counted() {
    let net = 93;
    let Some(pair) = Pair::new("marks of a mix", net, &["nft"], None) else {
        return;
    };
    // Counted where they leave the server's host, and marked where they reach the client's.
    let leaving = "table ip wire { counter voice { } ; counter page { } ; \
                   chain leaving { type filter hook postrouting priority 0 ; \
                   ip protocol udp ip dscp ef ip ecn ect1 counter name voice ; \
                   ip protocol tcp ip dscp af11 ip ecn ect0 counter name page ; } ; }";
    let coming = "table ip wire { chain coming { type filter hook prerouting priority -300 ; \
                  ip protocol udp ip ecn ect1 ip ecn set ce ; } ; }";
    for (near, rules) in [(false, leaving), (true, coming)] {
        let output = pair.inside(near, "nft").arg(rules).output().unwrap();
        if !output.status.success() {
            eprintln!("skipped: marks of a mix: no nft: {}", said(&output));
            return;
        }
    }
    let serving = server(&pair, net);
    for (ecn, why) in [("page=ect1", "page=ect0"), ("page=ect0", "tcp_ecn=1")] {
        let output = client(&pair, net, &["--ecn", ecn]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    let mut asking = pair.inside(true, "sh");
    asking.args(["-c", "echo 1 > /proc/sys/net/ipv4/tcp_ecn"]);
    let set = asking.output().unwrap();
    assert!(set.status.success(), "{}", said(&set));
    let marks = "--dscp ef --dscp page=af11 --ecn voice=ect1 --ecn page=ect0";
    let marks: Vec<_> = marks.split(' ').collect();
    let output = client(&pair, net, &marks).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let set = |i: usize| &result["sets"][i];
    let received = set(0)["packets"].as_u64().unwrap() - set(0)["lost"].as_u64().unwrap();
    assert_eq!(set(0)["marks"]["ce"], received, "{result}");
    assert_eq!(set(0)["marks"]["ecn_changed"], 0, "{result}");
    assert_eq!(set(0)["marks"]["dscp_changed"], 0, "{result}");
    assert_eq!(set(2)["ecn_connections"], 2, "{result}");
    let counted = pair.run(false, "nft -j list counters");
    let counted: Value = serde_json::from_slice(&counted.stdout).unwrap();
    let counters = counted["nftables"].as_array().unwrap().iter();
    let packets = |name: &str| {
        let mut named = counters.clone().map(|entry| &entry["counter"]);
        let counter = named.find(|counter| counter["name"] == name).unwrap();
        counter["packets"].as_u64().unwrap()
    };
    assert_eq!(packets("voice"), 7 * 635, "{counted}");
    // Segments of 2 MB, many of which leave as one.
    assert!(packets("page") > 10, "{counted}");
    drop(serving);
}

#[test]
fn a_server_that_is_killed_ends_a_mix_with_what_there_is() {
    let net = 92;
    let Some(pair) = Pair::new("a mix whose server is killed", net, &[], None) else {
        return;
    };
    let serving = server(&pair, net);
    let mut command = client(&pair, net, &["--cc", "page=quic:cubic"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.says("transfers in");
    serving.signal("KILL");
    let (status, text) = running.end();
    assert_eq!(status, Some(1), "{text}");
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["whole"], false);
    assert!(
        result["why"].as_str().unwrap().contains("server"),
        "{result}"
    );
}

#[test]
fn what_a_mix_is_and_what_is_wrong_in_it_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mix.yaml");
    fs::write(&path, MIX).unwrap();
    let show = || {
        let mut command = Command::new(NARROWS);
        command
            .args(["traffic", "show", "--format", "json"])
            .arg(&path);
        command.output().unwrap()
    };
    let output = show();
    assert!(output.status.success(), "{}", said(&output));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let instances: Vec<_> = (0..3)
        .map(|i| shown["sets"][i]["instances"].as_u64().unwrap())
        .collect();
    assert_eq!(instances, [7, 1, 2]);
    fs::write(&path, MIX.replace("scavenger", "scavengr")).unwrap();
    let output = show();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("mix.yaml:6:12"), "{}", said(&output));
    assert!(said(&output).contains("scavenger"), "{}", said(&output));
}

#[test]
fn a_mix_that_is_no_text_of_some_length_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let show = |path: &std::path::Path, why: &str| {
        let output = Command::new(NARROWS)
            .args(["traffic", "show"])
            .arg(path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    };
    let path = folder.path().join("mix.yaml");
    fs::write(&path, [0xff, 0xfe]).unwrap();
    show(&path, "UTF-8");
    fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    show(&path, "more than the 1048576 bytes");
    let pipe = folder.path().join("pipe.yaml");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    show(&pipe, "no regular file");
}

/// A server that nothing is received of any more, as of a host without power.
#[test]
fn a_server_that_stands_still_ends_a_mix_that_is_not_whole() {
    let net = 96;
    let Some(pair) = Pair::new("a mix whose server stands still", net, &[], None) else {
        return;
    };
    let serving = server(&pair, net);
    let mut command = client(&pair, net, &["--grace", "1s", "--cc", "page=quic:cubic"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.says("transfers in");
    serving.signal("STOP");
    let (status, text) = running.end();
    serving.signal("CONT");
    assert_eq!(status, Some(1), "{text}");
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["whole"], false, "{text}");
    let why = result["why"].as_str().unwrap();
    assert!(why.contains("server"), "{why}");
    for unknown in ["lost", "packets", "sent_bytes"] {
        assert!(result["sets"][0][unknown].is_null(), "{unknown}: {text}");
    }
    assert!(result["datagrams_sent"].is_null(), "{text}");
}

#[test]
fn descriptors_that_are_not_enough_are_said_with_their_number() {
    let net = 97;
    let Some(pair) = Pair::new("a mix with few descriptors", net, &[], None) else {
        return;
    };
    let limited = |near: bool, limits: &str| {
        let mut command = pair.inside(near, "sh");
        let run = format!("{limits}; exec \"$0\" \"$@\"");
        command.args(["-c", &run, NARROWS]);
        command
    };
    let calls = "label: call\nclient:\n  at: [0s]\n  config: {server-address: h, target-bitrate: 100K, time-s: 2, parallel: 80}\n";
    let run = |limits: &str| {
        fs::write(pair.path("calls.yaml"), calls).unwrap();
        let mut command = limited(true, limits);
        command
            .args(["traffic", "run"])
            .arg(pair.path("calls.yaml"));
        command.arg("--token").arg(pair.path("token"));
        command.args(["--server", &format!("10.{net}.0.2"), "--format", "json"]);
        let output = command.output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), result)
    };
    let serving = server(&pair, net);
    // What the process may have is had.
    let (status, result) = run("ulimit -Sn 40");
    assert_eq!(status, Some(0), "{}", result["why"]);
    let (status, result) = run("ulimit -n 40");
    assert_eq!(status, Some(1));
    let why = result["why"].as_str().unwrap();
    assert!(why.contains("of 80 transfers failed"), "{why}");
    assert!(
        why.contains("of the 40 that this process may have"),
        "{why}"
    );
    drop(serving);
    let serving = server_of(&pair, net, limited(false, "ulimit -n 40"));
    let (status, result) = run("true");
    assert_eq!(status, Some(1));
    let why = result["why"].as_str().unwrap();
    assert!(why.contains("the server, which may have 40"), "{why}");
    drop(serving);
}
