//! What is attached to a device that is deleted and made anew: it says so, ends, or goes on when the
//! device returns. Needs root.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::pair::{PATIENCE, Pair, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

/// Sends a datagram to port 9.
const SEND: &str = r#"
use IO::Socket::IP;
IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 9, Proto => 'udp')->send('x') or die "send: $!";
"#;

/// `narrows` near, with what it says in a file.
struct Said {
    running: Running,
    file: PathBuf,
}

impl Said {
    fn start(pair: &Pair, words: &[&str]) -> Self {
        let file = pair.path(&format!("{}.said", words[0]));
        let mut command = pair.inside(true, NARROWS);
        command.args(words).stdout(Stdio::piped());
        command.stderr(File::create(&file).expect("a file"));
        Self {
            running: Running::start(&mut command),
            file,
        }
    }

    /// Waits until it printed `words` so often.
    fn says(&self, words: &str, times: usize) {
        let begun = Instant::now();
        loop {
            let all = fs::read_to_string(&self.file).expect("text");
            if all.matches(words).count() >= times {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not `{words}`: {all}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end; its status, what it printed, and what it said.
    fn end(self) -> (Option<i32>, String, String) {
        let (status, printed) = self.running.end();
        (
            status,
            printed,
            fs::read_to_string(&self.file).expect("text"),
        )
    }
}

/// The pair, where this machine can have it.
fn pair(test: &str) -> Option<Pair> {
    Pair::new(test, 79, &[], narrows_bpf::not_built())
}

impl Pair {
    fn narrows(&self, words: &[&str]) -> Output {
        let mut command = self.inside(true, NARROWS);
        command.args(words).output().expect("it starts")
    }

    fn send(&self) {
        let mut perl = self.inside(true, "perl");
        let sent = perl.args(["-e", SEND, "10.79.0.2"]).output();
        let sent = sent.expect("it starts");
        assert!(sent.status.success(), "{sent:?}");
    }

    /// What a datagram sent near is to the box: packets that it dropped by now.
    fn dropped(&self) -> u64 {
        self.send();
        let listed = self.narrows(&["mmb", "--format", "json", "list", "v0"]);
        let counts: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        assert_eq!(counts["stands_at"], "v0", "{counts}");
        counts["dropped"].as_u64().expect("a number")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ATTACH: [&str; 5] = ["mmb", "--format", "json", "attach", "v0"];

#[test]
fn a_box_whose_device_is_made_anew_ends_and_says_that_nothing_is_filtered() {
    let Some(pair) = pair("a box whose device goes") else {
        return;
    };
    let attached = Said::start(&pair, &[&ATTACH[..], &["udp-block"]].concat());
    attached.says("the box is at v0", 1);
    assert_eq!(pair.dropped(), 1);
    pair.ip(true, "link del v0");
    pair.join();
    let (status, printed, said_of_it) = attached.end();
    assert_eq!(status, Some(1), "{said_of_it}");
    assert!(said_of_it.contains("nothing is filtered"), "{said_of_it}");
    let counts: Value = serde_json::from_str(&printed).expect("its last counts");
    assert_eq!(counts["dropped"], 1, "{counts}");
    assert_eq!(counts["stands_at"], Value::Null, "{counts}");
    let listed = pair.narrows(&["mmb", "list", "v0"]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(said(&listed).contains("v0 has no box"), "{}", said(&listed));
    // The device is free for another one.
    let again = Said::start(&pair, &[&ATTACH[..], &["udp-block"]].concat());
    again.says("the box is at v0", 1);
    assert_eq!(pair.dropped(), 1);
}

#[test]
fn a_box_that_waits_is_at_its_device_again_with_its_counters_when_the_device_returns() {
    let Some(pair) = pair("a box that waits") else {
        return;
    };
    pair.ip(true, "link del v0");
    let words = ["mmb", "--wait", "--format", "json", "attach", "v0"];
    let attached = Said::start(&pair, &[&words[..], &["udp-block"]].concat());
    // It waits for one that was never there, too.
    pair.join();
    attached.says("the box is at v0", 1);
    assert_eq!(pair.dropped(), 1);
    for round in 2..4 {
        pair.ip(true, "link del v0");
        attached.says(
            "v0 is gone: nothing is filtered until it returns",
            round - 1,
        );
        let listed = pair.narrows(&["mmb", "list", "v0"]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("nothing is filtered"), "{listed}");
        pair.join();
        attached.says("the box is at v0", round);
        assert_eq!(pair.dropped(), round as u64);
    }
    // Another type of device has other headers.
    pair.ip(true, "link del v0");
    attached.says("v0 is gone", 3);
    pair.ip(true, "tuntap add v0 mode tun");
    let (status, _, said_of_it) = attached.end();
    assert_eq!(status, Some(1), "{said_of_it}");
    assert!(said_of_it.contains("of another type"), "{said_of_it}");
}

#[test]
fn a_box_at_a_tun_device_ends_with_it_and_one_at_a_renamed_device_says_its_name() {
    let Some(pair) = pair("a box at a tun device") else {
        return;
    };
    pair.ip(true, "tuntap add t0 mode tun");
    let attached = Said::start(&pair, &["mmb", "attach", "t0", "udp-block"]);
    attached.says("the box is at t0", 1);
    pair.ip(true, "link set t0 name t1");
    let listed = pair.narrows(&["mmb", "list", "t0"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("now called t1"), "{text}");
    pair.ip(true, "tuntap del t1 mode tun");
    let (status, _, said_of_it) = attached.end();
    assert_eq!(status, Some(1), "{said_of_it}");
}

#[test]
fn what_marks_a_device_ends_with_it_or_goes_on_when_it_returns() {
    let Some(pair) = pair("marks whose device goes") else {
        return;
    };
    let words = ["mark", "--dev", "v0", "--profile", "s", "--format", "json"];
    let marks = Said::start(&pair, &words);
    marks.says("marking new connections", 1);
    pair.ip(true, "link del v0");
    pair.join();
    let (status, printed, said_of_it) = marks.end();
    assert_eq!(status, Some(1), "{said_of_it}");
    assert!(said_of_it.contains("nothing is marked"), "{said_of_it}");
    let counts: Value = serde_json::from_str(&printed).expect("its counts");
    assert_eq!(counts["device"], "v0");
    let marks = Said::start(&pair, &[&words[..], &["--wait"]].concat());
    marks.says("marking new connections", 1);
    pair.ip(true, "link del v0");
    marks.says("nothing is marked until it returns", 1);
    pair.join();
    marks.says("marking new connections", 2);
    marks.running.signal("INT");
    let (status, ..) = marks.end();
    assert_eq!(status, Some(0));
}

#[test]
fn what_observes_a_device_ends_with_it_and_goes_on_when_it_only_was_down() {
    let Some(pair) = pair("an observer whose device goes") else {
        return;
    };
    let words = ["observe", "-i", "v0", "--format", "json", "--rows", "none"];
    let file = pair.path("seen.pcapng");
    let file = file.to_str().expect("a plain name");
    let observer = Said::start(&pair, &[&words[..], &["-w", file, "udp port 9"]].concat());
    observer.says("observing v0", 1);
    pair.send();
    pair.ip(true, "link set v0 down");
    thread::sleep(Duration::from_millis(300));
    pair.ip(true, "link set v0 up");
    pair.ip(true, "addr replace 10.79.0.1/24 dev v0");
    pair.send();
    thread::sleep(Duration::from_millis(300));
    pair.ip(true, "link del v0");
    let (status, printed, said_of_it) = observer.end();
    assert_eq!(status, Some(1), "{said_of_it}");
    assert!(said_of_it.contains("v0 was deleted"), "{said_of_it}");
    let last = printed.lines().last().expect("counters");
    let counts: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(counts["observed"], 2, "{counts}");
    // What was captured until then is whole.
    let again = pair.narrows(&["observe", "--format", "json", "--rows", "none", "-r", file]);
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    let last = again.lines().last().expect("counters");
    let counts: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(counts["observed"], 2, "{counts}");
}
