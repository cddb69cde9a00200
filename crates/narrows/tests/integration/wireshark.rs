//! What Wireshark (its `tshark`) finds in the captures of a run: well-formed
//! packets, good checksums, and the same packets and bytes that we counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::support::{plan_of, run_to};
use narrows_results::{RunResult, RunSummary};
use narrows_sim::SimEngine;

/// IPv4 and IPv6, each kind of ECN, a Fast Open cookie asked for and used, a
/// queue that drops, and a probe. All flows end, so that nothing is under way
/// at the end; the window is the whole run, so that its counts are all.
const SCENARIO: &str = r#"
version  = 1
name     = "captured"
duration = "8s"
measure  = "0s..8s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 20Mbit queue dualpi2", "tap mid"]
down = ["netem delay 10ms", "bottleneck: rate 20Mbit queue pfifo limit 20", "tap mid"]

[[flow]]
name = "prague"
from = "client"
to = "server"
cc = "prague"
bytes = "2MB"

[[flow]]
name = "classic6"
from = "client"
to = "server"
ip = 6
cc = "cubic"
ecn = true
fast_open = true
bytes = "1MB"

[[flow]]
name = "warm6"
from = "client"
to = "server"
ip = 6
cc = "prague"
fast_open = true
start = "4s"
bytes = "500kB"

[[flow]]
name = "lossy"
from = "server"
to = "client"
opens = "client"
cc = "cubic"
bytes = "1MB"

[[probe]]
name = "ping"
from = "client"
to = "server"
interval = "50ms"
stop = "7s"

[[capture]]
name = "client"
at = "host/client"
snaplen = 65535

[[capture]]
name = "server"
at = "host/server"
snaplen = 65535

[[capture]]
name = "mid"
at = "tap/mid"
snaplen = 65535
"#;

/// The server's ports, in the order of the flows.
const PORTS: [&str; 4] = ["5001", "5002", "5003", "5004"];

fn run(dir: &Path) -> RunResult {
    run_to(&SimEngine, &plan_of(SCENARIO), 1, dir)
}

/// What `tshark` prints; `None` where it is not installed.
fn tshark(test: &str, arguments: &[&str]) -> Option<String> {
    let checked = ["ip", "tcp", "udp"].map(|p| format!("-o{p}.check_checksum:TRUE"));
    let output = Command::new("tshark")
        .args(&checked)
        .args(arguments)
        .output();
    match output {
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{why}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(_) => {
            // Past the test harness, which hides what passing tests print.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {test}: tshark is not installed"
            );
            None
        }
    }
}

const FIELDS: [&str; 24] = [
    "frame.interface_name",
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "_ws.malformed",
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "tcp.options.unknown",
    "ip.dsfield.ecn",
    "ipv6.tclass.ecn",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.flags.syn",
    "tcp.flags.ack",
    "tcp.flags.ae",
    "tcp.flags.cwr",
    "tcp.flags.ece",
    "tcp.options.tfo.request",
    "tcp.options.tfo.cookie",
    "tcp.options.acc_ecn.ee1b",
    "tcp.options.acc_ecn.eceb",
    "udp.srcport",
];

/// A packet as tshark reads it: its fields by name.
struct Seen(Vec<String>);

impl Seen {
    fn get(&self, field: &str) -> &str {
        &self.0[FIELDS.iter().position(|f| *f == field).unwrap()]
    }

    fn number(&self, field: &str) -> u64 {
        let text = self.get(field);
        let hex = text.strip_prefix("0x").map(|h| u64::from_str_radix(h, 16));
        hex.unwrap_or_else(|| text.parse())
            .unwrap_or_else(|_| panic!("{field} is {text:?}"))
    }

    /// The index of its flow; `None` for the probe.
    fn flow(&self) -> Option<usize> {
        let ports = ["tcp.srcport", "tcp.dstport"].map(|f| self.get(f));
        PORTS.iter().position(|p| ports.contains(p))
    }

    /// Whether the client sent it.
    fn up(&self) -> bool {
        match self.flow() {
            Some(flow) => self.get("tcp.dstport") == PORTS[flow],
            None => self.get("udp.srcport") == "60000",
        }
    }

    fn ecn(&self) -> usize {
        let v4 = self.get("ip.dsfield.ecn").is_empty();
        self.number(["ip.dsfield.ecn", "ipv6.tclass.ecn"][usize::from(v4)]) as usize
    }

    fn syn(&self, ack: bool) -> bool {
        let set = |flag: &str| matches!(self.get(flag), "1" | "True");
        set("tcp.flags.syn") && set("tcp.flags.ack") == ack
    }

    /// AE, CWR and ECE.
    fn ecn_flags(&self) -> [bool; 3] {
        ["tcp.flags.ae", "tcp.flags.cwr", "tcp.flags.ece"]
            .map(|f| matches!(self.get(f), "1" | "True"))
    }
}

fn packets(test: &str, dir: &Path, name: &str) -> Option<Vec<Seen>> {
    let path = dir.join(format!("captures/{name}.pcapng"));
    let mut arguments = vec!["-r", path.to_str().unwrap(), "-T", "fields"];
    for field in FIELDS {
        arguments.extend(["-e", field, "-E", "occurrence=f"]);
    }
    let text = tshark(test, &arguments)?;
    let rows = text
        .lines()
        .map(|l| Seen(l.split('\t').map(str::to_owned).collect()));
    Some(rows.collect())
}

/// The packets of each flow by codepoint, of one way.
fn by_codepoint<'a>(seen: impl Iterator<Item = &'a Seen>) -> [[u64; 4]; 4] {
    let mut counts = [[0; 4]; 4];
    for packet in seen {
        if let Some(flow) = packet.flow() {
            counts[flow][packet.ecn()] += 1;
        }
    }
    counts
}

fn sum(a: [[u64; 4]; 4], b: [[u64; 4]; 4]) -> Vec<[u64; 4]> {
    let add = |(a, b): (&[u64; 4], &[u64; 4])| std::array::from_fn(|i| a[i] + b[i]);
    a.iter().zip(&b).map(add).collect()
}

#[test]
fn tshark_counts_the_packets_and_bytes_that_we_count() {
    let test = "tshark_counts_the_packets_and_bytes_that_we_count";
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path()).summary;
    let Some(client) = packets(test, dir.path(), "client") else {
        return;
    };
    let server = packets(test, dir.path(), "server").unwrap();
    let mid = packets(test, dir.path(), "mid").unwrap();
    let whole = [
        ("host/client", &client),
        ("host/server", &server),
        ("tap/mid", &mid),
    ];
    for (name, packets) in whole {
        for (i, packet) in packets.iter().enumerate() {
            let at = format!("packet {} of {name}: {:?}", i + 1, packet.0);
            assert_eq!(packet.get("frame.interface_name"), name);
            assert_eq!(packet.get("_ws.malformed"), "", "{at}");
            assert_eq!(packet.get("tcp.options.unknown"), "", "{at}");
            assert_eq!(
                packet.number("frame.len"),
                packet.number("frame.cap_len"),
                "{at}"
            );
            // 1 is good; IPv6 has none of its own.
            let sums = ["tcp", "udp"].map(|p| {
                packet.get(["tcp.checksum.status", "udp.checksum.status"][usize::from(p == "udp")])
            });
            assert!(matches!(sums, ["1", ""] | ["", "1"]), "{at}");
            assert!(matches!(packet.get("ip.checksum.status"), "1" | ""), "{at}");
            let stamp = packet.get("frame.time_epoch");
            let fraction = stamp.split_once('.').unwrap().1;
            assert_eq!(fraction.len(), 9, "{at}");
        }
        let fine = |p: &Seen| !p.get("frame.time_epoch").ends_with("000");
        assert!(
            packets.iter().any(fine),
            "{name} has stamps below the microsecond"
        );
    }

    // Every codepoint of every flow, as sent and as received.
    let (client_up, client_down): (Vec<_>, Vec<_>) = client.iter().partition(|p| p.up());
    let (server_up, server_down): (Vec<_>, Vec<_>) = server.iter().partition(|p| p.up());
    let of = |packets: &[&Seen]| by_codepoint(packets.iter().copied());
    let ours = |pick: fn(&narrows_results::summary::FlowSummary) -> [u64; 4]| {
        summary.flows.iter().map(pick).collect::<Vec<_>>()
    };
    assert_eq!(
        sum(of(&client_up), of(&server_down)),
        ours(|f| f.codepoints.sent)
    );
    assert_eq!(
        sum(of(&server_up), of(&client_down)),
        ours(|f| f.codepoints.received)
    );
    assert!(
        summary
            .flows
            .iter()
            .take(3)
            .all(|f| f.codepoints.received[3] > 0)
    );

    // What the links carried: tshark counts IP packets, a link 14 bytes more.
    let carried = |up: bool| {
        let packets = mid.iter().filter(|p| p.up() == up);
        packets.fold((0, 0), |(n, bytes), p| {
            (n + 1, bytes + p.number("frame.len") + 14)
        })
    };
    for (up, name) in [
        (true, "link/access/up/bottleneck"),
        (false, "link/access/down/bottleneck"),
    ] {
        let queue = summary.queue(name).unwrap();
        assert_eq!(carried(up), (queue.packets, queue.wire_bytes), "{name}");
    }
    let lost = summary
        .queue("link/access/down/bottleneck")
        .unwrap()
        .drops
        .total();
    assert!(lost > 0, "the small queue drops");
    assert_eq!(server_down.len() - client_down.len(), lost as usize);

    // Payload: where nothing was sent again, what the application got.
    for (i, flow) in summary
        .flows
        .iter()
        .enumerate()
        .filter(|(_, f)| f.retransmissions == 0)
    {
        let (sent, at) = if flow.from == "client" {
            (true, &server)
        } else {
            (false, &client)
        };
        let packets = at.iter().filter(|p| p.flow() == Some(i) && p.up() == sent);
        let payload: u64 = packets.map(|p| p.number("tcp.len")).sum();
        assert_eq!(payload, flow.bytes_total, "{}", flow.name);
    }
    conversations(test, dir.path(), &summary, &mid);
}

/// tshark's own table of conversations has the frames that its fields have,
/// and no conversation that is not ours.
fn conversations(test: &str, dir: &Path, summary: &RunSummary, mid: &[Seen]) {
    let path = dir.join("captures/mid.pcapng");
    let path = path.to_str().unwrap();
    let table = tshark(test, &["-r", path, "-q", "-z", "conv,tcp"]).unwrap();
    let mut found = BTreeMap::new();
    for line in table.lines().filter(|l| l.contains(" <-> ")) {
        // `A <-> B`, then frames and bytes (in newer versions with a unit) of
        // each way and of both.
        let port = PORTS.iter().position(|p| line.contains(&format!(":{p} ")));
        let numbers: Vec<f64> = line
            .split_whitespace()
            .skip(3)
            .filter_map(|w| w.parse().ok())
            .collect();
        found.insert(
            port.unwrap_or_else(|| panic!("{line}")),
            numbers[4] as usize,
        );
    }
    let expected: BTreeMap<usize, usize> = (0..summary.flows.len())
        .map(|i| (i, mid.iter().filter(|p| p.flow() == Some(i)).count()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn tshark_reads_the_handshakes_and_options() {
    let test = "tshark_reads_the_handshakes_and_options";
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path()).summary;
    let Some(client) = packets(test, dir.path(), "client") else {
        return;
    };
    let [prague, classic6, warm6, lossy] = [0, 1, 2, 3].map(|i| {
        client
            .iter()
            .filter(|p| p.flow() == Some(i))
            .collect::<Vec<_>>()
    });
    let syn = |flow: &[&Seen], ack: bool| {
        let index = flow.iter().position(|p| p.syn(ack));
        index.expect("a SYN")
    };
    // RFC 9768 §3.1.1: AE, CWR and ECE together ask for AccECN; RFC 3168
    // §6.1.1: CWR and ECE for classic ECN, which a SYN-ACK with ECE grants.
    assert_eq!(prague[syn(&prague, false)].ecn_flags(), [true; 3]);
    assert_eq!(
        classic6[syn(&classic6, false)].ecn_flags(),
        [false, true, true]
    );
    assert_eq!(
        classic6[syn(&classic6, true)].ecn_flags(),
        [false, false, true]
    );
    assert_eq!(lossy[syn(&lossy, false)].ecn_flags(), [false; 3]);
    assert!(summary.flows[0].accecn && summary.flows[1].ecn && !summary.flows[3].ecn);

    // Classic feedback: ECE until CWR.
    let has = |flag: usize| {
        let data = classic6.iter().filter(|p| !p.syn(false) && !p.syn(true));
        data.filter(|p| p.ecn_flags()[flag]).count()
    };
    assert!(has(1) > 0 && has(2) > 0);
    assert_eq!(has(1) as u64, summary.flows[1].recovery.ecn_reductions);

    // The AccECN option counts what was marked CE (from 0) and ECT(1) (from
    // 1), RFC 9768 §3.2.3; its last one covers nearly all.
    let last = |field: &str| {
        let counters = prague
            .iter()
            .filter(|p| !p.up() && !p.get(field).is_empty());
        counters
            .map(|p| p.number(field))
            .next_back()
            .expect("an AccECN option")
    };
    let payload: u64 = prague
        .iter()
        .filter(|p| p.up())
        .map(|p| p.number("tcp.len"))
        .sum();
    let received = last("tcp.options.acc_ecn.ee1b") - 1 + last("tcp.options.acc_ecn.eceb");
    assert!(
        received <= payload && received + 20 * 1460 > payload,
        "{received} of {payload}"
    );

    // RFC 7413 §2: an empty option asks for a cookie, a later SYN has it, and
    // data.
    let field = "tcp.options.tfo.cookie";
    let cookie = classic6[syn(&classic6, true)].get(field);
    assert_eq!(classic6[syn(&classic6, false)].get(field), "");
    assert_ne!(
        classic6[syn(&classic6, false)].get("tcp.options.tfo.request"),
        ""
    );
    let warm = warm6[syn(&warm6, false)];
    assert!(!cookie.is_empty());
    assert_eq!(warm.get(field), cookie);
    assert!(warm.number("tcp.len") > 0);
}
