//! `narrows mmb reload`, `insert` and `del` at a device between two network namespaces, under traffic. Needs
//! root.

use std::fs;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::pair::{PATIENCE, Pair, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

/// Changes of the rules under traffic, each of which loads programs for about a second: `NARROWS_CHANGES`, or
/// as many as show it.
fn changes() -> u32 {
    const FEW: u32 = 24;
    let said = std::env::var("NARROWS_CHANGES");
    said.ok().and_then(|said| said.parse().ok()).unwrap_or(FEW)
}

/// Counts datagrams to two ports until it is ended.
const RECEIVER: &str = r#"
use IO::Socket::IP; use IO::Select; use Socket qw(SOL_SOCKET);
my ($end, @n) = (0, 0, 0);
$SIG{TERM} = sub { $end = 1 };
my @s = map { IO::Socket::IP->new(LocalHost => '10.81.0.2', LocalPort => $_, Proto => 'udp') or die "bind: $@" } 5301, 5302;
# SO_RCVBUFFORCE: none is lost for want of a turn.
setsockopt($_, SOL_SOCKET, 33, 1 << 26) or die "setsockopt: $!" for @s;
my $all = IO::Select->new(@s);
print STDERR "receiving\n";
while (1) {
    my @ready = $all->can_read(0.5);
    last if $end && !@ready;
    for my $s (@ready) { my $b; $s->recv($b, 100); $n[$s == $s[1]]++ }
}
print "@n\n";
"#;

/// Sends datagrams to two ports in turn until it is ended.
const SENDER: &str = r#"
use IO::Socket::IP; use Time::HiRes qw(sleep);
my ($end, $n) = (0, 0);
$SIG{TERM} = sub { $end = 1 };
my @s = map { IO::Socket::IP->new(PeerHost => '10.81.0.2', PeerPort => $_, Proto => 'udp') or die "socket: $@" } 5301, 5302;
print STDERR "sending\n";
until ($end) {
    for my $s (@s) { $s->send($n) or die "send: $!" }
    $n++;
    sleep 0.002;
}
print "$n\n";
"#;

/// Takes one connection and sends back what comes.
const ECHO: &str = r#"
use IO::Socket::IP;
my $l = IO::Socket::IP->new(Listen => 1, LocalHost => '10.81.0.2', LocalPort => 5202) or die "listen: $@";
print STDERR "listening\n";
my $c = $l->accept; my $b;
while (sysread($c, $b, 65536)) { syswrite($c, $b) }
"#;

/// Sends a number and waits for it to come back, again and again until it is ended; says how often.
const ASKER: &str = r#"
use IO::Socket::IP; use Time::HiRes qw(sleep);
my ($end, $n) = (0, 0);
$SIG{TERM} = sub { $end = 1 };
$SIG{ALRM} = sub { die "no answer to $n" };
my $c = IO::Socket::IP->new(PeerHost => '10.81.0.2', PeerPort => 5201, Timeout => 5) or die "connect: $@";
print STDERR "connected\n";
until ($end) {
    alarm 20;
    my $m = sprintf('%08d', $n++); my $b;
    syswrite($c, $m) == 8 or die "write: $!";
    my $r;
    # The signal that ends it may come while it waits.
    do { $r = sysread($c, $b, 8) } until defined $r || !$!{EINTR};
    $r == 8 && $b eq $m or die "read: $!";
    sleep 0.01;
}
print "$n\n";
"#;

/// A connection that breaks if what was drawn for it is forgotten, a port that is let in, and one that is not.
const NAT: &str = "add-stateful in inside tcp-dport 5201 map tcp-dport 5202 shuffle tcp-seq-num shuffle tcp-ack-num";
const LET_IN: &str = "add udp-dport 5301 accept";
const SHUT: &str = "add udp-dport 5302 drop";

fn pair(test: &str) -> Option<Pair> {
    Pair::new(test, 81, &[], narrows_bpf::not_built())
}

fn mmb(pair: &Pair, words: &[&str]) -> Output {
    let mut command = pair.inside(true, NARROWS);
    command.args(["mmb", "--format", "json"]).args(words);
    command.output().expect("it starts")
}

fn attach(pair: &Pair, options: &[&str], rules: &str) -> Running {
    let mut command = pair.inside(true, NARROWS);
    command
        .arg("mmb")
        .args(options)
        .args(["attach", "v0", rules]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.says("the box is at v0");
    running
}

fn perl(pair: &Pair, near: bool, script: &str, says: &str) -> Running {
    let mut command = pair.inside(near, "perl");
    command.args(["-e", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.says(says);
    running
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The rules in what was printed, as they are written.
fn rules(counts: &Value) -> Vec<&str> {
    let rules = counts["rules"].as_array().expect("rules");
    rules.iter().filter_map(|r| r["rule"].as_str()).collect()
}

/// Packets that a rule counted.
fn packets(counts: &Value, rule: &str) -> u64 {
    let rules = counts["rules"].as_array().expect("rules");
    let found = rules.iter().find(|r| r["rule"] == rule).expect(rule);
    found["packets"].as_u64().expect("a number")
}

fn end(running: Running) -> Vec<u64> {
    running.signal("TERM");
    let (status, text) = running.end();
    assert_eq!(status, Some(0), "{text}");
    let numbers = text
        .split_whitespace()
        .map(|n| n.parse().expect("a number"));
    numbers.collect()
}

#[test]
fn changes_under_traffic_let_nothing_forbidden_pass_cut_no_connection_and_lose_no_count() {
    let Some(pair) = pair("changes of rules under traffic") else {
        return;
    };
    // In another order, with rules between them.
    fs::write(
        pair.path("other.mmb"),
        format!("{SHUT}\nadd ip-ttl 3 drop\nadd udp-sport 9 drop\n{NAT}\n{LET_IN}\n"),
    )
    .expect("a file");
    let first = format!("{NAT}; {LET_IN}; {SHUT}");
    let attached = attach(&pair, &[], &first);
    let receiver = perl(&pair, false, RECEIVER, "receiving");
    let echo = perl(&pair, false, ECHO, "listening");
    let asker = perl(&pair, true, ASKER, "connected");
    let sender = perl(&pair, true, SENDER, "sending");
    for change in 0..changes() {
        let changed = match change % 4 {
            0 => mmb(&pair, &["insert", "v0", "1", "add icmp-type 99 drop"]),
            1 => mmb(&pair, &["reload", "v0", "other.mmb"]),
            2 => mmb(&pair, &["del", "v0", "2"]),
            _ => mmb(&pair, &["reload", "v0", &first]),
        };
        let counts = json(&changed);
        let expected: &[&str] = match change % 4 {
            0 => &["add icmp-type 99 drop", NAT, LET_IN, SHUT],
            1 => &[
                SHUT,
                "add ip-ttl 3 drop",
                "add udp-sport 9 drop",
                NAT,
                LET_IN,
            ],
            2 => &[SHUT, "add udp-sport 9 drop", NAT, LET_IN],
            _ => &[NAT, LET_IN, SHUT],
        };
        assert_eq!(rules(&counts), expected);
    }
    let [sent] = end(sender)[..] else {
        panic!("a number is sent");
    };
    let [asked] = end(asker)[..] else {
        panic!("a number is asked");
    };
    let received = end(receiver);
    drop(echo);
    let counts = json(&mmb(&pair, &["list", "v0"]));
    assert_eq!(received, [sent, 0], "{counts}");
    assert_eq!(packets(&counts, LET_IN), sent, "{counts}");
    assert_eq!(packets(&counts, SHUT), sent, "{counts}");
    // A question and its answer each.
    assert!(packets(&counts, NAT) >= 2 * asked, "{asked} {counts}");
    assert!(
        sent > u64::from(changes()) && asked > u64::from(changes()),
        "{sent} {asked}"
    );
    attached.signal("INT");
    assert_eq!(attached.end().0, Some(0));
}

#[test]
fn rules_that_are_refused_leave_the_old_ones_as_they_are() {
    let Some(pair) = pair("rules that are refused") else {
        return;
    };
    let attached = attach(&pair, &[], &format!("{LET_IN}; {SHUT}"));
    fs::write(pair.path("wrong.mmb"), "add all drop\nadd tcp-fni drop\n").expect("a file");
    for (words, what) in [
        (
            &["reload", "v0", "wrong.mmb"][..],
            "`wrong.mmb`, line 2, column 5",
        ),
        (
            &["reload", "v0", "nothing.mmb"],
            "`nothing.mmb` cannot be read",
        ),
        (
            &["reload", "v0", "add udp-payload x00 drop"],
            "into payloads",
        ),
        (&["reload", "v0", "add tcp-fin drop"], "--whole-bundles"),
        (&["reload", "v0", "snat"], "--address"),
        (&["reload", "v0", "flush"], "without rules"),
        (&["reload", "v0"], "no rules behind"),
        (
            &["insert", "v0", "4", "add all drop"],
            "there is no rule 4: the rules are 1 to 2",
        ),
        (&["insert", "v0", "1", "all drop"], "`add`"),
        (
            &["insert", "v0", "1", "add ip-ttl > 255 drop"],
            "can match no packet",
        ),
        (&["del", "v0", "3"], "there is no rule 3"),
        (&["del", "v0", "all"], "a rule's number"),
    ] {
        let output = mmb(&pair, words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            said(&output)
        );
        assert!(said(&output).contains(what), "{words:?}: {}", said(&output));
        let counts = json(&mmb(&pair, &["list", "v0"]));
        assert_eq!(rules(&counts), [LET_IN, SHUT], "{words:?}");
    }
    let output = mmb(&pair, &["del", "v9", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("v9 has no box"), "{}", said(&output));
    attached.signal("INT");
    attached.end();
}

#[test]
fn rules_that_change_while_the_device_is_gone_are_those_of_the_one_that_returns() {
    let Some(pair) = pair("rules that change without a device") else {
        return;
    };
    let attached = attach(&pair, &["--wait"], LET_IN);
    pair.ip(true, "link del v0");
    let list = || json(&mmb(&pair, &["list", "v0"]));
    let until = |is: &dyn Fn(&Value) -> bool| {
        let begun = Instant::now();
        while !is(&list()) {
            assert!(begun.elapsed() < PATIENCE, "{}", list());
            thread::sleep(Duration::from_millis(50));
        }
    };
    until(&|counts| counts["stands_at"].is_null());
    let counts = json(&mmb(&pair, &["reload", "v0", "add ip-proto icmp drop"]));
    assert!(counts["stands_at"].is_null(), "{counts}");
    pair.join();
    until(&|counts| counts["stands_at"] == "v0");
    assert_eq!(rules(&list()), ["add ip-proto icmp drop"]);
    // It is there: the next rules get its packets, too.
    let counts = json(&mmb(&pair, &["insert", "v0", "1", LET_IN]));
    assert_eq!(counts["stands_at"], "v0", "{counts}");
    let script = "use IO::Socket::IP; IO::Socket::IP->new(PeerHost => '10.81.0.2', \
                  PeerPort => 5301, Proto => 'udp')->send('x') or die";
    let sent = pair.inside(true, "perl").args(["-e", script]).status();
    assert!(sent.expect("it starts").success());
    assert_eq!(packets(&list(), LET_IN), 1, "{}", list());
    attached.signal("INT");
    attached.end();
}
