//! `narrows mmb attach` between two network namespaces: connections through a box that rewrites
//! them, what it counts, and how it goes. Needs root.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::pair::{Pair, Running};

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

/// Takes one connection, says how many bytes came, its largest segment, and from where.
const SERVER: &str = r#"
use IO::Socket::IP; use Socket qw(IPPROTO_TCP);
my $l = IO::Socket::IP->new(Listen => 1, LocalHost => '::', LocalPort => 5202, V6Only => 0, ReuseAddr => 1) or die "listen: $@";
print STDERR "listening\n";
my $c = $l->accept; my ($n, $b) = (0, '');
my $mss = unpack('i', getsockopt($c, IPPROTO_TCP, 2));
while (my $r = sysread($c, $b, 65536)) { $n += $r }
print "$n $mss ", $c->peerhost, "\n";
"#;
/// Sends 3 MB to a port; bytes that differ, so that a wrong checksum is one.
const CLIENT: &str = r#"
use IO::Socket::IP;
my $c = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1], Timeout => 5) or die "connect: $@";
my $b = join('', map { chr($_ * 7 & 255) } 0..29999);
for (1..100) { syswrite($c, $b) == 30000 or die }
close $c;
"#;

/// Sends a datagram that answers nothing.
const STRAY: &str = r#"
use IO::Socket::IP;
IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 9, Proto => 'udp')->send('x') or die "send: $!";
"#;

/// Sends datagrams to where nobody listens, until an error says so.
const REFUSED: &str = r#"
use IO::Socket::IP; use Errno qw(ECONNREFUSED);
my $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => 9, Proto => 'udp') or die "socket: $@";
for (1..50) { select(undef, undef, undef, 0.1); defined $s->send('x') or exit($! == ECONNREFUSED ? 0 : 2) }
exit 1;
"#;

/// Listens as another user where the box at v0 would be asked, and answers.
const IN_ITS_PLACE: &str = r#"
use POSIX; use IO::Socket::UNIX; $SIG{PIPE} = 'IGNORE';
POSIX::setuid(65534) or die "setuid: $!";
my $l = IO::Socket::UNIX->new(Local => "\0narrows-mmb/v0", Listen => 5) or die "listen: $@";
print STDERR "listening\n";
while (my $c = $l->accept) { print $c '{"device":"v0","packets":1,"dropped":1,"rules":[]}'; close $c }
"#;

/// Stateless translation of a port, there and back, an MSS clamp and marks.
const RULES: &str = "add in inside tcp-dport 5201 mod tcp-dport 5202; \
    add in outside tcp-sport 5202 mod tcp-sport 5201; \
    add tcp-opt-mss > 1300 mod tcp-opt-mss 1300; \
    add ip-proto tcp mod ip-dscp 10; \
    add ip6-proto tcp mod ip6-dscp 10 mod ip6-flow-label 5; \
    add ip-proto icmp drop";

/// What the far end saw of a connection.
#[derive(Debug)]
struct Came {
    bytes: u64,
    /// Bytes of its largest segment.
    largest: u64,
    from: String,
}

/// The pair, where this machine can have it.
fn pair(test: &str) -> Option<Pair> {
    Pair::new(test, 78, &[], narrows_bpf::not_built())
}

impl Pair {
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

    /// A connection from near to far, to a port that a box makes the server's; `None` if it
    /// could not be opened.
    fn connect(&self, to: &str) -> Option<Came> {
        self.connect_to(true, to, "5201")
    }

    /// A connection from near to far, or the other way round. The server listens at port 5202.
    fn connect_to(&self, from_near: bool, to: &str, port: &str) -> Option<Came> {
        let mut server = self.inside(!from_near, "perl");
        server.args(["-e", SERVER]);
        server.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Running::start(&mut server);
        server.says("listening");
        let mut client = self.inside(from_near, "perl");
        let client = client.args(["-e", CLIENT, to, port]).output();
        if !client.expect("it starts").status.success() {
            return None;
        }
        let (_, said) = server.end();
        let mut words = said.split_whitespace();
        let mut number = || words.next()?.parse().ok();
        Some(Came {
            bytes: number()?,
            largest: number()?,
            from: words.next()?.to_owned(),
        })
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
    let Some(pair) = pair("a box at a device") else {
        return;
    };
    let refused = pair.connect("10.78.0.2");
    assert!(refused.is_none(), "nobody listens at the port");
    let attached = pair.attach(RULES);
    for to in ["10.78.0.2", "fd78::2"] {
        let came = pair.connect(to).expect("a connection through the box");
        // Timestamps take 12 bytes of the largest segment.
        assert_eq!((came.bytes, came.largest), (3_000_000, 1_288));
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
    assert!(pair.connect("10.78.0.2").is_none(), "the box is gone");
}

#[test]
fn a_box_goes_with_its_process_however_that_ends_and_when_it_is_asked_to() {
    let Some(pair) = pair("a box that is killed") else {
        return;
    };
    let attached = pair.attach(RULES);
    assert!(pair.connect("10.78.0.2").is_some());
    attached.signal("KILL");
    attached.end();
    assert!(pair.connect("10.78.0.2").is_none());
    let listed = pair.mmb(&["list", "v0"]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(said(&listed).contains("v0 has no box"), "{}", said(&listed));
    let attached = pair.attach("ecn-bleach");
    let gone = pair.mmb(&["detach", "v0"]);
    assert!(gone.status.success(), "{}", said(&gone));
    assert_eq!(json(&String::from_utf8_lossy(&gone.stdout))["device"], "v0");
    assert_eq!(attached.end().0, Some(0));
    assert!(!pair.mmb(&["detach", "v0"]).status.success());
}

#[test]
fn a_reflexive_firewall_at_a_device_lets_in_what_answers_and_nothing_else() {
    let Some(pair) = pair("a firewall at a device") else {
        return;
    };
    let attached = pair.attach("reflexive-firewall");
    // Neither end knows the other's address on the link: it asks through the box (RFC 4861).
    for (near, device) in [(true, "v0"), (false, "v1")] {
        pair.ip(near, &format!("neigh flush dev {device}"));
    }
    for to in ["10.78.0.1", "fd78::1"] {
        let sent = pair.inside(false, "perl").args(["-e", STRAY, to]).status();
        assert!(sent.expect("it starts").success());
    }
    for to in ["10.78.0.2", "fd78::2"] {
        let came = pair
            .connect_to(true, to, "5202")
            .expect("a connection from inside");
        assert_eq!(came.bytes, 3_000_000);
        // An error about what went out comes in.
        let refused = pair.inside(true, "perl").args(["-e", REFUSED, to]).status();
        assert_eq!(refused.expect("it starts").code(), Some(0), "{to}");
    }
    let listed = pair.mmb(&["list", "v0"]);
    let counts = json(&String::from_utf8_lossy(&listed.stdout));
    // Of each version a connection and datagrams to a port.
    assert!(counts["connections"].as_u64().unwrap() >= 4, "{counts}");
    assert!(counts["related"].as_u64().unwrap() >= 2, "{counts}");
    assert!(counts["dropped"].as_u64().unwrap() >= 2, "{counts}");
    assert!(counts["rules"][0]["packets"].as_u64() > Some(0), "{counts}");
    attached.signal("INT");
    attached.end();
}

#[test]
fn connections_leave_with_another_address_and_shifted_numbers_and_come_back() {
    let Some(pair) = pair("translation at a device") else {
        return;
    };
    pair.ip(true, "addr add 10.78.0.77/24 dev v0");
    pair.ip(true, "addr add fd78::77/64 dev v0 nodad preferred_lft 0");
    let attached = pair.attach(
        "add-stateful in inside map ip-saddr 10.78.0.77 map ip6-saddr fd78::77 \
         map tcp-dport 5202 shuffle tcp-sport shuffle udp-sport; \
         add-stateful in inside shuffle tcp-seq-num shuffle tcp-ack-num",
    );
    for (to, own) in [("10.78.0.2", "::ffff:10.78.0.77"), ("fd78::2", "fd78::77")] {
        let came = pair.connect(to).expect("a connection through the box");
        assert_eq!((came.bytes, &*came.from), (3_000_000, own));
    }
    let listed = pair.mmb(&["list", "v0"]);
    let counts = json(&String::from_utf8_lossy(&listed.stdout));
    let connections = counts["connections"].as_u64().unwrap();
    assert!(connections >= 2, "{counts}");
    let packets = |rule: usize| counts["rules"][rule]["packets"].as_u64().unwrap();
    assert!(packets(0) > 100 && packets(1) > 100, "{counts}");
    let shown = pair.mmb(&["show", "connections", "v0", "verbose"]);
    assert!(shown.status.success(), "{}", said(&shown));
    let shown = json(&String::from_utf8_lossy(&shown.stdout));
    let shown = shown["connections"].as_array().expect("a list");
    assert_eq!(shown.len() as u64, connections, "{shown:?}");
    for (to, own) in [
        ("10.78.0.2:5201", "10.78.0.77:"),
        ("[fd78::2]:5201", "[fd78::77]:"),
    ] {
        let is = |c: &&Value| c["forward"][1] == to;
        let connection = shown.iter().find(is).expect(to);
        assert_eq!(connection["reverse"][0], to.replace("5201", "5202"));
        let mapped = connection["reverse"][1].as_str().expect("an end");
        assert!(mapped.starts_with(own), "{connection}");
        assert_eq!(
            connection["rules"],
            serde_json::json!([1, 2]),
            "{connection}"
        );
        // The server closed it, too.
        assert_eq!(connection["state"], "transient", "{connection}");
        let number = |name: &str| connection[name].as_f64().expect(name);
        // 3 MB in segments of 1448 bytes, and no more than all that the first rule counted.
        let sent = number("packets");
        assert!(
            (2_000.0..=packets(0) as f64).contains(&sent),
            "{connection}"
        );
        assert!(number("age_s") >= number("idle_s"), "{connection}");
        let left = number("left_s") + number("idle_s");
        assert!((left - 120.0).abs() < 1e-6, "{connection}");
    }
    let shown = pair.mmb(&["show", "tables", "v0"]);
    let tables = json(&String::from_utf8_lossy(&shown.stdout));
    assert_eq!(tables["tables"][0]["rules"], 2, "{tables}");
    let text = pair.run(true, &format!("{NARROWS} mmb show connections v0"));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("forgotten in"), "{text}");
    attached.signal("INT");
    attached.end();
}

#[test]
fn options_come_and_go_in_real_connections_whose_segments_are_bundles() {
    let Some(pair) = pair("options at a device") else {
        return;
    };
    // Who gets a segment checks its checksum, which the device was to compute before.
    for rules in [
        "add ! tcp-syn tcp-opt-timestamp strip tcp-opt-timestamp",
        "add ! tcp-syn tcp-opt-timestamp add tcp-opt 253 x0102",
        "add tcp-syn strip tcp-opt-sackp",
        "option-allow-list",
        "accecn-option-strip",
    ] {
        let attached = pair.attach(rules);
        for (from_near, to) in [
            (true, "10.78.0.2"),
            (true, "fd78::2"),
            (false, "10.78.0.1"),
            (false, "fd78::1"),
        ] {
            let came = pair.connect_to(from_near, to, "5202");
            assert_eq!(came.expect(rules).bytes, 3_000_000, "{rules} {to}");
        }
        let listed = pair.mmb(&["list", "v0"]);
        let counts = json(&String::from_utf8_lossy(&listed.stdout));
        let last = counts["rules"].as_array().expect("rules").len() - 1;
        let packets = counts["rules"][last]["packets"].as_u64().unwrap();
        assert!(packets >= 8, "{counts}");
        assert_eq!(counts["unwritten"], 0, "{counts}");
        assert!(counts["bundles"].as_u64() > Some(0), "{counts}");
        attached.signal("INT");
        attached.end();
    }
}

/// Sends a frame of a type that is for experiments, and one of MPLS.
const FRAMES: &str = r#"
use Socket;
for my $type (0x88b5, 0x8847) {
    socket(my $s, 17, SOCK_RAW, 0) or die "socket: $!";
    my $to = pack('SnlSCCa8', 17, $type, $ARGV[0], 0, 0, 6, "\xff" x 6);
    send($s, "\xff" x 6 . "\x02" x 6 . pack('n', $type) . "\0" x 46, 0, $to) or die "send: $!";
}
"#;

#[test]
fn frames_that_are_not_ip_pass_all_rules_but_those_about_their_type() {
    let Some(pair) = pair("frames that are not IP") else {
        return;
    };
    let index = pair.ip(false, "-o link show v1");
    let index = index.split(':').next().expect("a number").to_owned();
    let attached = pair.attach("add all drop; add eth-type mpls drop; add eth-type arp accept");
    let sent = pair
        .inside(false, "perl")
        .args(["-e", FRAMES, &index])
        .status();
    assert!(sent.expect("it starts").success());
    // Asks by ARP, which comes and goes; the echo itself is dropped.
    let ping = "use IO::Socket::IP; IO::Socket::IP->new(PeerHost => '10.78.0.1', PeerPort => 9, \
                Proto => 'udp')->send('x')";
    assert!(
        pair.inside(false, "perl")
            .args(["-e", ping])
            .status()
            .is_ok()
    );
    let listed = pair.mmb(&["list", "v0"]);
    let counts = json(&String::from_utf8_lossy(&listed.stdout));
    assert_eq!(counts["other_dropped"], 1, "{counts}");
    assert!(counts["other"].as_u64() >= Some(2), "{counts}");
    assert_eq!(counts["rules"][1]["packets"], 1, "{counts}");
    attached.signal("INT");
    attached.end();
}

#[test]
fn what_cannot_run_in_the_kernel_is_refused_before_anything_is_attached() {
    for (words, what) in [
        (&["attach", "lo", "add ip-daddr self drop"][..], "--address"),
        (&["attach", "lo", "snat"], "--address"),
        (
            &["attach", "lo", "add udp-payload x00 drop"],
            "into payloads",
        ),
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

#[test]
fn nobody_else_s_process_is_taken_for_the_box() {
    let Some(pair) = pair("another user in the place of a box") else {
        return;
    };
    let mut perl = pair.inside(true, "perl");
    perl.args(["-e", IN_ITS_PLACE]).stderr(Stdio::piped());
    let mut other = Running::start(&mut perl);
    other.says("listening");
    for words in [
        &["list", "v0"][..],
        &["attach", "v0", "udp-block"],
        &["reload", "v0", "udp-block"],
        &["detach", "v0"],
    ] {
        let output = pair.mmb(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("the user 65534"), "{words:?}: {said}");
    }
    drop(other);
    pair.attach("udp-block");
}
