//! `narrows mark` between two network namespaces: what is on the wire, what
//! an observer makes of it, and what is left behind. Needs root; captures need
//! tcpdump.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::pair::{Pair, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");
/// A connection that sends 600 kB from one end and takes its time at the other,
/// so that there are some round trips; perl is on every Debian.
const SERVER: &str = r#"
use IO::Socket::IP;
my $l = IO::Socket::IP->new(Listen => 1, LocalHost => '::', LocalPort => 5201, V6Only => 0, ReuseAddr => 1) or die "listen: $@";
print STDERR "listening\n"; $| = 1;
my $c = $l->accept; my ($n, $b) = (0, '');
while (my $r = sysread($c, $b, 65536)) { $n += $r; last if $n >= 600000 }
syswrite($c, "x"); while (sysread($c, $b, 1)) {} print "$n\n";
"#;
const CLIENT: &str = r#"
use IO::Socket::IP;
my $c = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 5201) or die "connect: $@";
for (1..60) { syswrite($c, 'y' x 10000) or die; select(undef, undef, undef, 0.01) }
sysread($c, my $b, 1); close $c;
"#;

/// The pair, where this machine can have it.
fn pair(test: &str) -> Option<Pair> {
    let live = narrows_linux::machine::survey().runs_live();
    let lacks = (!live).then_some("it needs TUN and network namespaces");
    Pair::new(test, 77, &["tcpdump"], lacks)
}

impl Pair {
    /// `gso_max_segs` of the device on this side.
    fn segments(&self, near: bool) -> String {
        let device = if near { "v0" } else { "v1" };
        let shown = self.ip(near, &format!("-d link show dev {device}"));
        let mut words = shown.split_whitespace();
        words.find(|w| *w == "gso_max_segs").expect("it is shown");
        words.next().expect("a number").to_owned()
    }

    /// `narrows mark` at the device on this side, once it has attached.
    fn mark(&self, near: bool, words: &str) -> Running {
        let device = if near { "v0" } else { "v1" };
        let mut command = self.inside(near, NARROWS);
        command.args(["mark", "--dev", device, "--format", "json"]);
        command.args(words.split(' '));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command);
        running.says("marking new connections");
        running
    }

    /// A connection from near to far; what passed v1, as a file.
    fn connection(&self, server: &str, name: &str) -> PathBuf {
        let file = self.path(name);
        let mut tcpdump = self.inside(false, "tcpdump");
        tcpdump.args(["-i", "v1", "-U", "--immediate-mode", "-Z", "root", "-w"]);
        tcpdump.arg(&file).stderr(Stdio::piped());
        let mut tcpdump = Running::start(&mut tcpdump);
        tcpdump.says("listening on");
        let mut answers = self.inside(false, "perl");
        answers.args(["-e", SERVER]);
        answers.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut answers = Running::start(&mut answers);
        // A connection that is refused before it listens would be counted too.
        answers.says("listening\n");
        let mut asks = self.inside(true, "perl");
        let asked = asks.args(["-e", CLIENT, server]).output().expect("perl");
        let why = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "{why}");
        let (_, received) = answers.end();
        assert!(received.ends_with("600000\n"), "{received}");
        // What has passed is in the file when tcpdump has ended.
        thread::sleep(Duration::from_millis(200));
        tcpdump.signal("INT");
        tcpdump.end();
        file
    }
}

/// Packets of a capture that a filter of tcpdump lets through.
fn count(file: &Path, filter: &str) -> usize {
    let mut command = Command::new("tcpdump");
    let ran = command.args(["-n", "-r"]).arg(file).arg(filter).output();
    let ran = ran.expect("tcpdump");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8_lossy(&ran.stdout).lines().count()
}

/// TCP of IPv4 with one of the three bits, SYNs left out.
const MARKED: &str = "tcp[12] & 0x0e != 0 and tcp[13] & 2 == 0";

/// What an observer of the capture says.
fn observe(file: &Path) -> String {
    let mut command = Command::new(NARROWS);
    command
        .args(["observe", "--format", "json", "-r"])
        .arg(file);
    let ran = command.output().expect("narrows runs");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8(ran.stdout).expect("text")
}

#[test]
fn marks_are_on_the_wire_are_observed_and_end_with_the_command() {
    let test = "marks_are_on_the_wire_are_observed_and_end_with_the_command";
    let Some(pair) = pair(test) else {
        return;
    };
    let before = pair.segments(true);
    assert_ne!(before, "1");
    for (signal, server) in [("INT", "10.77.0.2"), ("TERM", "fd77::2")] {
        let marks = [true, false].map(|near| pair.mark(near, "--profile s+d+q"));
        assert_eq!(
            (pair.segments(true), pair.segments(false)),
            ("1".into(), "1".into())
        );
        let seen = pair.connection(server, &format!("{signal}.pcap"));
        for (mark, near) in marks.into_iter().zip([true, false]) {
            mark.signal(signal);
            let (status, said) = mark.end();
            assert_eq!(status, Some(0), "{said}");
            let told: Value = serde_json::from_str(&said).expect("JSON");
            assert_eq!(told["connections"], 1, "{said}");
            assert_eq!(told["announced"], 1, "{said}");
            assert_eq!(told["unmarked"]["segments"], 0, "{said}");
            let port = if near { "dst" } else { "src" };
            let sent = count(&seen, &format!("tcp {port} port 5201"));
            // Its SYN or SYN-ACK is announced, all others are marked.
            assert_eq!(told["marked"].as_u64(), Some(sent as u64 - 1), "{said}");
            assert!(told["set"]["q"].as_u64() > Some(0), "{said}");
        }
        assert_eq!(
            (pair.segments(true), pair.segments(false)),
            (before.clone(), before.clone())
        );
        if server.starts_with("10") {
            assert!(count(&seen, MARKED) > 100);
        }
        let observed = observe(&seen);
        for technique in ["\"spin\"", "\"delay\"", "\"q\""] {
            assert!(observed.contains(technique), "{technique}: {observed}");
        }
        let after = pair.connection("10.77.0.2", "after.pcap");
        assert_eq!(count(&after, "tcp[12] & 0x0e != 0"), 0, "after SIG{signal}");
    }
}

#[test]
fn what_a_killed_command_leaves_is_cleaned_up() {
    let test = "what_a_killed_command_leaves_is_cleaned_up";
    let Some(pair) = pair(test) else {
        return;
    };
    let before = pair.segments(true);
    let mark = pair.mark(true, "--profile d+q");
    assert_eq!(pair.segments(true), "1");
    mark.signal("KILL");
    mark.end();
    assert_eq!(pair.segments(true), "1", "nobody could set it back");
    let cleaned = pair.run(true, &format!("{NARROWS} doctor --clean"));
    let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
    assert!(cleaned.status.success(), "{said}");
    assert!(said.contains("gso_max_segs of v0"), "{said}");
    assert_eq!(pair.segments(true), before);
    let after = pair.connection("10.77.0.2", "after.pcap");
    assert_eq!(count(&after, "tcp[12] & 0x0e != 0"), 0);
}

#[test]
fn larger_packets_stay_unmarked_and_are_counted() {
    let test = "larger_packets_stay_unmarked_and_are_counted";
    let Some(pair) = pair(test) else {
        return;
    };
    let mark = pair.mark(true, "--profile d+q");
    // Somebody sets it back under its feet.
    pair.ip(true, "link set v0 gso_max_segs 64");
    let seen = pair.connection("10.77.0.2", "large.pcap");
    mark.signal("INT");
    let (_, said) = mark.end();
    let told: Value = serde_json::from_str(&said).expect("JSON");
    let (segments, segmented) = (
        &told["unmarked"]["segments"],
        &told["unmarked"]["segmented"],
    );
    assert!(segmented.as_u64() > Some(0), "{said}");
    assert!(segments.as_u64() > segmented.as_u64(), "{said}");
    let large = count(&seen, "tcp dst port 5201 and greater 1515");
    assert!(large > 0);
    assert_eq!(count(&seen, &format!("greater 1515 and {MARKED}")), 0);
}

#[test]
fn signals_of_the_socket_and_devices_that_are_not_there_are_refused_in_a_line() {
    let test = "signals_of_the_socket_and_devices_that_are_not_there_are_refused_in_a_line";
    let Some(pair) = pair(test) else {
        return;
    };
    let mut forwards = pair.inside(true, "sh");
    forwards.args(["-c", "echo 1 > /proc/sys/net/ipv4/conf/v0/forwarding"]);
    assert!(forwards.status().expect("sh").success());
    for (words, reason) in [
        ("--dev v0 --profile d+q+l", "forwards"),
        ("--dev v0 --profile d+q+e", "forwards"),
        ("--dev nothere --profile s", "no device nothere"),
        ("--dev v0 --profile s+l+q+d", "--profile"),
    ] {
        let ran = pair.run(true, &format!("{NARROWS} mark {words}"));
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(matches!(ran.status.code(), Some(1 | 2)), "{words}: {said}");
        assert!(said.contains(reason), "{words}: {said}");
    }
    assert_ne!(pair.segments(true), "1");
}

/// Two flows, of which one is marked.
const SCENARIO: &str = r#"
version  = 1
name     = "marks"
duration = "3s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "tap mid", "bottleneck: rate 10Mbit queue pfifo"]
down = ["netem delay 5ms", "tap mid"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "reno"

[[flow]]
name = "second"
from = "client"
to   = "server"
cc   = "reno"

[[mark]]
name    = "efm"
signals = "d+q hold off"
flows   = ["first"]

[[observe]]
name = "mid"
tap  = "tap/mid"
"#;

#[test]
fn a_run_says_in_either_engine_what_its_marks_did() {
    let machine = narrows_linux::machine::survey();
    let at = tempfile::tempdir().expect("a folder");
    fs::write(at.path().join("marks.toml"), SCENARIO).expect("a file");
    for engine in ["sim", "live"] {
        let live = engine == "live";
        if live && !(machine.runs_live() && cfg!(feature = "bpf")) {
            eprintln!("skipped: a_run_says_what_its_marks_did: live: this machine cannot");
            continue;
        }
        let mut command = Command::new(NARROWS);
        command.current_dir(at.path());
        command.args(["run", "marks.toml", "--engine", engine, "--out", engine]);
        let ran = command.output().expect("narrows runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        if live && said.contains("BPF") && matches!(ran.status.code(), Some(1 | 77)) {
            eprintln!("skipped: a_run_says_what_its_marks_did: live: {said}");
            continue;
        }
        assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}");
        let summary = fs::read(at.path().join(engine).join("summary.json")).expect("a summary");
        let summary: Value = serde_json::from_slice(&summary).expect("JSON");
        let marks = summary["marks"].as_array().expect("marks");
        assert_eq!(marks.len(), 2, "{engine}: {marks:?}");
        for (mark, host) in marks.iter().zip(["client", "server"]) {
            assert_eq!(
                (&mark["name"], &mark["host"]),
                (&"mark/efm".into(), &host.into())
            );
            assert_eq!(mark["connections"], 1, "{engine}: {mark}");
            assert_eq!(mark["announced"], 1, "{engine}: {mark}");
            assert!(mark["marked"].as_u64() > Some(200), "{engine}: {mark}");
            assert!(mark["set"]["q"].as_u64() > Some(60), "{engine}: {mark}");
            assert!(mark["set"]["d"].as_u64() > Some(0), "{engine}: {mark}");
            let unmarked = &mark["unmarked"];
            assert_eq!(
                (&unmarked["segments"], &unmarked["refused"]),
                (&0.into(), &0.into())
            );
            // The second flow is no part of it.
            assert!(
                unmarked["passed_over"].as_u64() > Some(100),
                "{engine}: {mark}"
            );
        }
        let told = summary["observations"].to_string();
        assert!(told.contains("upstream_loss"), "{engine}: {told}");
        let csv = fs::read_to_string(at.path().join(engine).join("summary.csv")).expect("a table");
        assert!(csv.contains("mark/efm/client"), "{csv}");
    }
}
