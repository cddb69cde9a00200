//! `narrows mmb attach` between two network namespaces: connections through a box that rewrites
//! them, what it counts, and how it goes. Needs root.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");
/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes one connection, says how many bytes came and its largest segment.
const SERVER: &str = r#"
use IO::Socket::IP; use Socket qw(IPPROTO_TCP);
my $l = IO::Socket::IP->new(Listen => 1, LocalHost => '::', LocalPort => 5202, V6Only => 0, ReuseAddr => 1) or die "listen: $@";
print STDERR "listening\n";
my $c = $l->accept; my ($n, $b) = (0, '');
my $mss = unpack('i', getsockopt($c, IPPROTO_TCP, 2));
while (my $r = sysread($c, $b, 65536)) { $n += $r }
print "$n $mss\n";
"#;
/// Sends 3 MB to port 5201; bytes that differ, so that a wrong checksum is one.
const CLIENT: &str = r#"
use IO::Socket::IP;
my $c = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 5201, Timeout => 5) or die "connect: $@";
my $b = join('', map { chr($_ * 7 & 255) } 0..29999);
for (1..100) { syswrite($c, $b) == 30000 or die }
close $c;
"#;

/// Stateless translation of a port, there and back, an MSS clamp and marks.
const RULES: &str = "add in inside tcp-dport 5201 mod tcp-dport 5202; \
    add in outside tcp-sport 5202 mod tcp-sport 5201; \
    add tcp-opt-mss > 1300 mod tcp-opt-mss 1300; \
    add ip-proto tcp mod ip-dscp 10; \
    add ip6-proto tcp mod ip6-dscp 10 mod ip6-flow-label 5; \
    add ip-proto icmp drop";

/// A process that is killed when the test is over.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("kill(1)").success());
    }

    /// Waits for its end; its status and what it wrote to standard output.
    fn end(&mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.0.try_wait().expect("a child").is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
        let status = self.0.wait().expect("a child");
        let mut text = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_string(&mut text).expect("text");
        }
        (status.code(), text)
    }

    /// Waits for a line with `words` on standard error.
    fn says(&mut self, words: &str) {
        let mut lines = BufReader::new(self.0.stderr.take().expect("a pipe"));
        let (mut line, mut all) = (String::new(), String::new());
        while lines.read_line(&mut line).expect("text") > 0 {
            if line.contains(words) {
                // What it says later is not to block it.
                thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
                return;
            }
            all.push_str(&std::mem::take(&mut line));
        }
        panic!("it ended without saying `{words}`: {all}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two network namespaces, 10.78.0.1 and .2 (fd78::1 and ::2), joined by the devices v0 and v1.
struct Pair {
    near: Running,
    far: Running,
}

impl Pair {
    /// `None`, with the reason, where this machine cannot have them.
    fn new(test: &str) -> Option<Self> {
        let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
        let lack = ["unshare", "nsenter", "ip", "perl"]
            .into_iter()
            .find(|tool| {
                let mut there = Command::new("sh");
                there.args(["-c", &format!("command -v {tool}")]);
                !there.output().is_ok_and(|o| o.status.success())
            });
        let why = match (root, lack, narrows_bpf::not_built()) {
            (false, ..) => "it needs root".to_owned(),
            (_, Some(tool), _) => format!("there is no {tool} here"),
            (.., Some(why)) => why.to_owned(),
            _ => String::new(),
        };
        if !why.is_empty() {
            eprintln!("skipped: {test}: {why}");
            return None;
        }
        let holder = || Running::start(Command::new("unshare").args(["--net", "sleep", "1000"]));
        let pair = Self {
            near: holder(),
            far: holder(),
        };
        // The holder may not be in its own namespace yet.
        thread::sleep(Duration::from_millis(200));
        let far = pair.far.0.id();
        pair.ip(
            true,
            &format!("link add v0 type veth peer name v1 netns {far}"),
        );
        for (near, device, host) in [(true, "v0", 1), (false, "v1", 2)] {
            pair.ip(near, &format!("addr add 10.78.0.{host}/24 dev {device}"));
            pair.ip(
                near,
                &format!("addr add fd78::{host}/64 dev {device} nodad"),
            );
            pair.ip(near, "link set lo up");
            pair.ip(near, &format!("link set {device} up"));
        }
        Some(pair)
    }

    fn inside(&self, near: bool, program: &str) -> Command {
        let holder = if near { &self.near } else { &self.far };
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", holder.0.id()))
            .arg(program)
            .stdin(Stdio::null());
        command
    }

    fn ip(&self, near: bool, words: &str) {
        let ran = self.inside(near, "ip").args(words.split(' ')).output();
        let ran = ran.expect("it starts");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "ip {words}: {said}");
    }

    fn mmb(&self, words: &[&str]) -> Output {
        let mut command = self.inside(true, NARROWS);
        command.args(["mmb", "--format", "json"]).args(words);
        command.output().expect("it starts")
    }

    /// The box at v0, once it is there.
    fn attach(&self, rules: &str) -> Running {
        let mut command = self.inside(true, NARROWS);
        command.args(["mmb", "--format", "json", "attach", "v0", rules]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command);
        running.says("the box is at v0");
        running
    }

    /// A connection from near to far: the bytes that came, and the far end's largest segment;
    /// `None` if it could not be opened.
    fn connect(&self, to: &str) -> Option<(u64, u64)> {
        let mut server = self.inside(false, "perl");
        server.args(["-e", SERVER]);
        server.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Running::start(&mut server);
        server.says("listening");
        let client = self.inside(true, "perl").args(["-e", CLIENT, to]).output();
        if !client.expect("it starts").status.success() {
            return None;
        }
        let (_, said) = server.end();
        let mut numbers = said
            .split_whitespace()
            .map(|n| n.parse().expect("a number"));
        Some((numbers.next()?, numbers.next()?))
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_box_at_a_device_rewrites_connections_counts_them_and_goes_without_a_trace() {
    let Some(pair) = Pair::new("a box at a device") else {
        return;
    };
    assert_eq!(
        pair.connect("10.78.0.2"),
        None,
        "nobody listens at the port"
    );
    let mut attached = pair.attach(RULES);
    for to in ["10.78.0.2", "fd78::2"] {
        let (bytes, largest) = pair.connect(to).expect("a connection through the box");
        assert_eq!(bytes, 3_000_000);
        // Timestamps take 12 bytes of it.
        assert_eq!(largest, 1_288);
    }
    let listed = pair.mmb(&["list", "v0"]);
    assert!(listed.status.success(), "{}", said(&listed));
    let counts = json(&String::from_utf8_lossy(&listed.stdout));
    let packets = |rule: usize| counts["rules"][rule]["packets"].as_u64().unwrap();
    assert!((0..5).all(|rule| packets(rule) > 0), "{counts}");
    // Both ends' SYN over both versions of IP.
    assert_eq!(packets(2), 4, "{counts}");
    let sent = counts["rules"][0]["bytes"].as_u64().unwrap();
    assert!((6_000_000..7_000_000).contains(&sent), "{counts}");
    let again = pair.mmb(&["attach", "v0", "ecn-bleach"]);
    assert!(
        said(&again).contains("has a box already"),
        "{}",
        said(&again)
    );
    attached.signal("INT");
    let (status, last) = attached.end();
    assert_eq!(status, Some(0));
    assert_eq!(json(&last)["rules"].as_array().unwrap().len(), 6);
    assert_eq!(pair.connect("10.78.0.2"), None, "the box is gone");
}

#[test]
fn a_box_goes_with_its_process_however_that_ends_and_when_it_is_asked_to() {
    let Some(pair) = Pair::new("a box that is killed") else {
        return;
    };
    let mut attached = pair.attach(RULES);
    assert!(pair.connect("10.78.0.2").is_some());
    attached.signal("KILL");
    attached.end();
    assert_eq!(pair.connect("10.78.0.2"), None);
    let listed = pair.mmb(&["list", "v0"]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(said(&listed).contains("v0 has no box"), "{}", said(&listed));
    let mut attached = pair.attach("ecn-bleach");
    let gone = pair.mmb(&["detach", "v0"]);
    assert!(gone.status.success(), "{}", said(&gone));
    assert_eq!(json(&String::from_utf8_lossy(&gone.stdout))["device"], "v0");
    assert_eq!(attached.end().0, Some(0));
    assert!(!pair.mmb(&["detach", "v0"]).status.success());
}

#[test]
fn what_cannot_run_in_the_kernel_is_refused_before_anything_is_attached() {
    for (words, what) in [
        (&["attach", "lo", "add ip-daddr self drop"][..], "--address"),
        (&["attach", "lo", "snat"], "`add-stateful`"),
        (&["attach", "lo", "reflexive-firewall"], "`add-stateful`"),
        (&["attach", "lo", "option-allow-list"], "headers shorter"),
        (&["attach", "lo", "add tcp-fin drop"], "--whole-bundles"),
        (&["attach", "lo", "add tcp-fni drop"], "tcp-fin"),
        (&["attach", "lo"], "without rules"),
        (&["attach"], "a device"),
    ] {
        let mut command = Command::new(NARROWS);
        let output = command.arg("mmb").args(words).output().expect("it starts");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            said(&output)
        );
        assert!(said(&output).contains(what), "{words:?}: {}", said(&output));
    }
}
