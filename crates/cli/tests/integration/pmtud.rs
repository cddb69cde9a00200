//! `narrows pmtud` between network namespaces with a router of another MTU. Needs root.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::pair::{Pair, Router, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn server(pair: &Pair, words: &[&str]) -> Running {
    let mut command = pair.inside(false, NARROWS);
    command
        .args(["pmtud", "serve", "--format", "json"])
        .args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.says("answering at");
    running
}

fn probe(pair: &Pair, words: &[&str]) -> Output {
    let mut command = pair.inside(true, NARROWS);
    command
        .args(["pmtud", "probe", "--format", "json"])
        .args(words);
    command.output().expect("it starts")
}

fn found(pair: &Pair, words: &[&str]) -> Value {
    let output = probe(pair, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A router between the two, which also forwards IPv6: fdN:1::/64 near, fdN:2::/64 far.
fn routed(test: &str, net: u8) -> Option<(Pair, Router)> {
    let pair = Pair::new(test, net, &["nft"], None)?;
    let router = Router::between(&pair, net);
    shell(
        router.inside("sh"),
        "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
    );
    for (near, own, device, peer, side, other) in
        [(true, 1, "w0", "r0", 1, 2), (false, 2, "w1", "r1", 2, 1)]
    {
        let router_side = format!("ip addr add fd{net}:{side}::ff/64 dev {peer} nodad");
        shell(router.inside("sh"), &router_side);
        pair.ip(
            near,
            &format!("addr add fd{net}:{side}::{own}/64 dev {device} nodad"),
        );
        pair.ip(
            near,
            &format!("route add fd{net}:{other}::/64 via fd{net}:{side}::ff"),
        );
    }
    Some((pair, router))
}

fn shell(mut inside: Command, line: &str) {
    let ran = inside.args(["-c", line]).output().expect("it starts");
    assert!(ran.status.success(), "{line}: {}", said(&ran));
}

/// Sets what the router's link to the far end takes, at both of its ends.
fn set_mtu(pair: &Pair, router: &Router, mtu: u32) {
    shell(router.inside("sh"), &format!("ip link set r1 mtu {mtu}"));
    pair.ip(false, &format!("link set w1 mtu {mtu}"));
    // What was learnt of another MTU is forgotten.
    pair.ip(true, "route flush cache");
    pair.ip(true, "-6 route flush cache");
}

/// Whether a ping with "don't fragment" of a packet of `mtu` bytes is answered; `None` where there
/// is no ping(8).
fn pings(pair: &Pair, to: &str, mtu: u32, headers: u32) -> Option<bool> {
    let size = mtu - headers;
    let line = format!("ping -M do -c 2 -i 0.2 -W 1 -s {size} {to}");
    let there = Command::new("ping").arg("-V").output().is_ok();
    there.then(|| pair.run(true, &line).status.success())
}

/// The first link that a search reports, and who does.
fn reporter(found: &Value) -> Option<(String, u64)> {
    let searches = found["searches"].as_array().expect("searches");
    let mut steps = searches
        .iter()
        .flat_map(|s| s["steps"].as_array().expect("steps"));
    let step = steps.find(|step| step["fate"] == "too big")?;
    let by = step["reporter"].as_str()?.to_owned();
    Some((by, step["reported_mtu"].as_u64()?))
}

#[test]
fn what_is_found_is_what_ping_and_the_kernel_find_with_reports_and_without() {
    let Some((pair, router)) = routed("the path MTU behind a router", 71) else {
        return;
    };
    let serving = server(&pair, &[]);
    let no_icmp = "nft add table inet f; nft add chain inet f o '{ type filter hook output priority 0; }'; \
         nft add rule inet f o icmp type destination-unreachable drop; \
         nft add rule inet f o icmpv6 type packet-too-big drop";
    let mut compared = 0;
    for filtered in [false, true] {
        if filtered {
            shell(router.inside("sh"), no_icmp);
        }
        for mtu in [
            1_500, 1_492, 1_480, 1_450, 1_420, 1_400, 1_340, 1_281, 1_280, 900,
        ] {
            for (to, headers, by) in [
                ("10.71.2.2", 28, "10.71.1.2"),
                ("fd71:2::2", 48, "fd71:1::ff"),
            ] {
                // What IPv6 does not run over.
                if mtu < 1_280 && headers == 48 {
                    continue;
                }
                set_mtu(&pair, &router, mtu);
                let found = found(&pair, &[to]);
                let context = format!("MTU {mtu}, {to}, filtered {filtered}: {found:#}");
                assert_eq!(found["mtu"], mtu, "{context}");
                assert_eq!(found["mtu_back"], mtu, "{context}");
                assert_eq!(found["interface_mtu"], 1_500, "{context}");
                assert_ne!(pings(&pair, to, mtu, headers), Some(false), "{context}");
                if mtu < 1_500 {
                    assert_ne!(pings(&pair, to, mtu + 1, headers), Some(true), "{context}");
                }
                let reported = (mtu < 1_500 && !filtered).then(|| (by.to_owned(), mtu.into()));
                assert_eq!(reporter(&found), reported, "{context}");
                let route = pair.ip(true, &format!("route get {to}"));
                let known = route.contains(&format!("mtu {mtu}"));
                assert_eq!(known, reported.is_some(), "{route} of {context}");
                let findings = found["findings"].to_string();
                let hole = mtu < 1_500 && filtered;
                assert_eq!(findings.contains("vanish"), hole, "{context}");
                compared += 1;
            }
        }
        // What an MTU below 1280 took away.
        set_mtu(&pair, &router, 1_500);
        shell(
            router.inside("sh"),
            "ip addr add fd71:2::ff/64 dev r1 nodad",
        );
        pair.ip(false, "addr add fd71:2::2/64 dev w1 nodad");
        pair.ip(false, "route add fd71:1::/64 via fd71:2::ff");
    }
    assert_eq!(compared, 38);
    serving.signal("INT");
    let (status, counts) = serving.end();
    assert_eq!(status, Some(0));
    let counts: Value = serde_json::from_str(&counts).expect("counts");
    assert_eq!(counts["limited"], 0, "{counts}");
    assert_eq!(counts["unauthenticated"], 0, "{counts}");
}

#[test]
fn the_way_back_is_told_from_the_way_there_and_results_are_kept() {
    let Some((pair, router)) = routed("the way back", 72) else {
        return;
    };
    let _serving = server(&pair, &["10.72.2.2"]);
    // Only packets that leave the router towards the near end are limited.
    shell(
        router.inside("sh"),
        "nft add table inet f; nft add chain inet f p '{ type filter hook forward priority 0; }'; \
         nft add rule inet f p oifname r0 meta length gt 1400 drop",
    );
    let file = pair.path("results.jsonl");
    let name = file.to_str().expect("a name");
    for search in ["adaptive", "all"] {
        let found = found(&pair, &["10.72.2.2", "--search", search, "--out", name]);
        assert_eq!(found["mtu"], 1_500, "{found:#}");
        assert_eq!(found["mtu_back"], 1_400, "{found:#}");
        assert!(
            found["findings"].to_string().contains("narrower"),
            "{found:#}"
        );
    }
    // A file that cannot be had is refused before anything is sent.
    let nowhere = probe(&pair, &["10.72.2.2", "--out", "/nowhere/results.jsonl"]);
    assert_eq!(nowhere.status.code(), Some(1), "{}", said(&nowhere));
    assert!(!said(&nowhere).contains("looking"), "{}", said(&nowhere));
    let kept = std::fs::read_to_string(&file).expect("results");
    let kept: Vec<Value> = kept
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let searches: Vec<_> = kept
        .iter()
        .map(|k| k["searches"].as_array().unwrap().len())
        .collect();
    assert_eq!(searches, [3, 15]);
}

#[test]
fn without_a_server_it_says_so_and_tracepath_finds_what_icmp_tells() {
    let Some((pair, router)) = routed("no server", 73) else {
        return;
    };
    // A router that may not forward is named. First of all, as it sends few such errors in a second.
    shell(router.inside("sh"), "ip route add prohibit 198.51.100.7");
    pair.ip(true, "route add 198.51.100.7 via 10.73.1.2");
    let nobody = probe(&pair, &["198.51.100.7"]);
    assert_eq!(nobody.status.code(), Some(1), "{}", said(&nobody));
    let named = "10.73.1.2 reports by ICMP: a filter there forbids it";
    assert!(said(&nobody).contains(named), "{}", said(&nobody));
    set_mtu(&pair, &router, 1_400);
    let refused = probe(&pair, &["10.73.2.2"]);
    assert_eq!(refused.status.code(), Some(1));
    let why = said(&refused);
    assert!(
        why.contains("nobody has this port") && why.contains("--tracepath"),
        "{why}"
    );
    let found = found(&pair, &["10.73.2.2", "--tracepath"]);
    assert_eq!(
        (&found["mtu"], &found["mtu_back"]),
        (&1_400.into(), &Value::Null),
        "{found:#}"
    );
    assert!(
        found["findings"].to_string().contains("no server"),
        "{found:#}"
    );
    let nowhere = probe(&pair, &["203.0.113.1"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(
        said(&nowhere).contains("cannot be reached"),
        "{}",
        said(&nowhere)
    );
}

/// Begins a search that takes 300 steps of 5 ms and more, and waits until it is under way.
fn probing(pair: &Pair, to: &str) -> Child {
    let mut command = pair.inside(true, NARROWS);
    command.args([
        "pmtud", "probe", to, "--search", "step 1", "--format", "json",
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(700));
    child
}

#[test]
fn a_server_or_an_interface_that_changes_in_mid_search_is_not_taken_for_the_path() {
    let Some((pair, _router)) = routed("a change in mid-search", 76) else {
        return;
    };
    // Held up for as long as many searches take.
    let serving = server(&pair, &["10.76.2.2"]);
    let child = probing(&pair, "10.76.2.2");
    serving.signal("STOP");
    std::thread::sleep(Duration::from_millis(400));
    serving.signal("CONT");
    let output = child.wait_with_output().expect("it ends");
    let found: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(
        (&found["mtu"], &found["mtu_back"]),
        (&1_500.into(), &1_500.into()),
        "{found}"
    );
    // A second server at the same port is refused.
    let mut second = pair.inside(false, NARROWS);
    let second = second
        .args(["pmtud", "serve", "10.76.2.2"])
        .output()
        .expect("it starts");
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    // The interface becomes smaller.
    let child = probing(&pair, "10.76.2.2");
    pair.ip(true, "link set w0 mtu 1230");
    let output = child.wait_with_output().expect("it ends");
    let found: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(found["mtu"], 1_230, "{found}");
    pair.ip(true, "link set w0 mtu 1500");
    // The server is killed, and its host sends "port unreachable".
    let child = probing(&pair, "10.76.2.2");
    serving.signal("KILL");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let why = said(&output);
    assert!(
        why.contains("no longer answers") && why.contains("nobody has this port"),
        "{why}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn words_that_are_no_search_and_no_host_are_refused() {
    for (words, allowed) in [
        (&["127.0.0.1", "--search", "halves"][..], "or all"),
        (&["127.0.0.1:0"][..], "a host"),
        (&["127.0.0.1", "-6"][..], "this version of IP"),
        (&["[::1]", "-4"][..], "this version of IP"),
        (&["[::1"][..], "a host"),
        (&["fe80::1"][..], "its interface"),
        (&["224.0.0.1"][..], "no single host"),
        (&["0.0.0.0"][..], "no single host"),
    ] {
        let mut command = Command::new(NARROWS);
        let output = command
            .args(["pmtud", "probe"])
            .args(words)
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(allowed), "{}", said(&output));
    }
}
