//! Two-way boxes, ICMP, path MTU discovery, and identity through rewriting.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::rig::{Record, flow, plan, run};
use narrows_core::{
    App, DatagramError, DropCause, Event, EventSink, FlowId, NullSink, PacketId, RecoveryEvent,
    SocketError, SocketEvent, SocketId, Sockets, Undelivered,
};
use narrows_host::{Options, Part, Transport};
use narrows_sim::{RunHandle, Simulation};
use narrows_units::Instant;
use narrows_wire::FlowKey;

/// A path of 20 ms and 50 Mbit/s with `middle` in both directions.
fn path(middle: &str, flows: &str) -> String {
    format!(
        r#"
duration = "10s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", {middle} "bottleneck: rate 50Mbit queue pfifo limit 200"]
down = ["netem delay 10ms", {middle}]
{flows}
"#
    )
}

/// Payload share of 50 Mbit/s in packets of `mtu` bytes.
fn ideal_mbit(mtu: u32, headers: u32) -> f64 {
    50.0 * f64::from(mtu - headers) / f64::from(mtu + 14)
}

#[test]
fn a_smaller_mtu_in_the_middle_is_discovered_and_costs_no_speed() {
    for (ip, headers) in [(4, 52), (6, 72)] {
        for words in ["cc = \"cubic\"", "cc = \"reno\"\nopens = \"server\""] {
            let flows = flow("bulk", &format!("{words}\nip = {ip}"));
            let mut record = Record::default();
            let outcome = run(&plan(&path("\"mtu 1400\",", &flows)), 1, &mut record);
            let mbit = record.goodput_mbit(0, 3, 10);
            let ideal = ideal_mbit(1400, headers);
            assert!((0.99 * ideal..=1.001 * ideal).contains(&mbit), "{mbit}");
            // The first window was too big; nothing after it, and no timeout.
            let too_big = record.drops.iter().filter(|d| d.1 == DropCause::TooBig);
            let last = too_big.clone().map(|d| d.0).max().expect("it was found");
            assert!(last.as_nanos() < 100_000_000, "{last}");
            assert_eq!(too_big.count(), 10, "one window");
            let timeouts = record.recoveries.iter();
            let count = timeouts.filter(|r| r.2 == RecoveryEvent::RetransmissionTimeout);
            assert_eq!(count.count(), 0);
            assert!(outcome.flows[0].established);
        }
    }
}

/// A receiver drops what has a wrong checksum, and counts it: TCP sends again and again, QUIC comes to
/// nothing, and the one that a datagram need not have is none that is wrong.
#[test]
fn hosts_drop_and_count_what_a_box_gave_a_wrong_checksum() {
    let run = |rule: &str, transport: &str| {
        let words = format!("\"mmb add {rule}\",");
        let mut record = Record::default();
        run(&plan(&path(&words, &flow("f", transport))), 1, &mut record);
        let wrong = record.drops.iter().filter(|d| d.1 == DropCause::Malformed);
        (wrong.count(), record.goodput_mbit(0, 3, 10))
    };
    for (rule, transport) in [
        ("tcp-payload mod tcp-checksum 7", "cc = \"cubic\""),
        ("tcp-payload mod ip-checksum 7", "cc = \"cubic\""),
        ("udp-payload mod udp-checksum 7", "transport = \"quic\""),
    ] {
        let (wrong, mbit) = run(rule, transport);
        assert!(wrong > 3, "{rule}: {wrong}");
        assert!(mbit < 0.1, "{rule}: {mbit}");
    }
    for (rule, transport) in [
        ("tcp-payload mod ip-dscp 7", "cc = \"cubic\""),
        ("udp-payload mod udp-checksum 0", "transport = \"quic\""),
    ] {
        let (wrong, mbit) = run(rule, transport);
        assert_eq!(wrong, 0, "{rule}");
        assert!(mbit > 30.0, "{rule}: {mbit}");
    }
}

/// What options a box adds ends at the MTU of its link, in either direction.
#[test]
fn no_packet_grows_beyond_the_mtu_of_its_link() {
    let rule = "mmb add ip-proto tcp ! tcp-syn add tcp-opt 253 x010203040506070809";
    let words = format!("\"{rule}\",");
    let toml = path(&words, &flow("f", "cc = \"cubic\""));
    let mut longest = Longest::default();
    let outcome = run(&plan(&toml), 1, &mut longest);
    assert!(outcome.flows[0].established);
    assert_eq!(longest.bytes, 1500);
    assert!(longest.grown > 100, "{}", longest.grown);
}

/// The longest packet that was received, and how many had the option.
#[derive(Default)]
struct Longest {
    bytes: u32,
    grown: u32,
}

impl EventSink for Longest {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::Received { packet, .. } = event {
            self.bytes = self.bytes.max(packet.len());
            let has = |pair: &[u8]| pair == [253, 11];
            self.grown += u32::from(packet.bytes.windows(2).any(has));
        }
    }
}

#[test]
fn a_router_between_links_reports_the_mtu_of_the_next() {
    let toml = format!(
        r#"
duration = "10s"
[[router]]
name = "r"
[[link]]
name = "near"
ends = ["client", "r"]
up   = ["netem delay 5ms"]
down = ["netem delay 5ms"]
[[link]]
name = "far"
ends = ["r", "server"]
mtu  = 1300
up   = ["rate 50Mbit queue pfifo limit 200"]
down = ["netem delay 5ms"]
{}"#,
        flow("up", "cc = \"cubic\"")
    );
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    // The server's MSS says 1260, which is what its own link takes.
    assert!(record.drops.iter().all(|d| d.1 != DropCause::TooBig));
    let mbit = record.goodput_mbit(0, 3, 10);
    assert!(mbit > 0.99 * ideal_mbit(1300, 52), "{mbit}");

    // Between two routers, neither end's MSS does.
    let toml = toml.replace("ends = [\"r\", \"server\"]", "ends = [\"r\", \"s\"]");
    let toml = toml.replace("[[router]]\n", "[[router]]\nname = \"s\"\n[[router]]\n");
    let third = "[[link]]\nname = \"last\"\nends = [\"s\", \"server\"]\n[[flow]]";
    let toml = toml.replace("[[flow]]", third);
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    let mbit = record.goodput_mbit(0, 3, 10);
    assert!(mbit > 0.99 * ideal_mbit(1300, 52), "{mbit}");
    let too_big = record.drops.iter().filter(|d| d.1 == DropCause::TooBig);
    assert_eq!(too_big.count(), 10);
}

#[test]
fn where_icmp_is_not_sent_the_path_is_a_black_hole() {
    let mut record = Record::default();
    let toml = path("\"mtu 1400 silent\",", &flow("bulk", "cc = \"cubic\""));
    let outcome = run(&plan(&toml), 1, &mut record);
    assert!(outcome.flows[0].established, "a SYN is small");
    assert_eq!(record.delivered, []);
    let timeouts = record.recoveries.iter();
    let count = timeouts.filter(|r| r.2 == RecoveryEvent::RetransmissionTimeout);
    assert!(count.count() > 3);
}

#[test]
fn a_box_is_one_instance_with_one_report_whatever_the_direction() {
    let toml = path("\"mtu 1400\",", &flow("bulk", "cc = \"cubic\""));
    let outcome = run(&plan(&toml), 1, &mut NullSink);
    let boxes = outcome.elements.iter().filter(|e| {
        let name = &outcome.names[e.element.0 as usize];
        name == "link/access/mtu"
    });
    let [only] = &boxes.collect::<Vec<_>>()[..] else {
        panic!("one box");
    };
    let data = outcome.flows[0].delivered / 1348;
    assert!(only.counters.packets_in > data + data / 3, "ACKs, too");
}

/// Each packet's addresses at either tap, and whose it was.
#[derive(Default)]
struct Taps {
    record: Record,
    seen: BTreeMap<(PacketId, u32), (FlowKey, Option<FlowId>)>,
    translated: Vec<(SocketAddr, SocketAddr)>,
}

impl EventSink for Taps {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Tapped { tap, packet, .. } => {
                let key = FlowKey::of(&packet.bytes).unwrap();
                self.seen.insert((packet.id, tap.0), (key, packet.flow));
            }
            Event::Translated { addresses, .. } => self.translated.push(addresses),
            _ => {}
        }
        self.record.record(now, event);
    }
}

#[test]
fn a_flow_through_nat_is_the_same_flow_with_another_address() {
    for ip in [4, 6] {
        let words = format!("cc = \"cubic\"\ntraffic = \"bytes 20Mb\"\nip = {ip}");
        let flows = flow("bulk", &words) + &flow("calls", "traffic = \"cbr rate 1Mbit\"");
        let up = "\"tap inside\", \"nat\", \"tap outside\",";
        let toml = path(up, &flows).replacen(
            &format!("down = [\"netem delay 10ms\", {up}"),
            "down = [\"netem delay 10ms\", \"tap outside\", \"nat\", \"tap inside\"",
            1,
        );
        let with = plan(&toml);
        let without = plan(&toml.replace("\"nat\", ", ""));
        let (mut there, mut none) = (Taps::default(), Taps::default());
        run(&with, 1, &mut there);
        run(&without, 1, &mut none);
        assert_eq!(there.record.delivered, none.record.delivered);
        assert_eq!(there.record.recoveries, none.record.recoveries);
        assert_eq!(there.record.finished, none.record.finished);
        assert_eq!(there.translated.len(), 2);

        let taps: Vec<u32> = there.seen.keys().map(|k| k.1).collect();
        let (inside, outside) = (*taps.iter().min().unwrap(), *taps.iter().max().unwrap());
        let own = with.boxes()[0].addresses;
        let client = [with.hosts[0].ipv4.into(), with.hosts[0].ipv6.into()];
        let mut both = 0;
        for ((id, tap), (key, flow)) in &there.seen {
            assert!(flow.is_some(), "{key:?}");
            let end = [key.source, key.destination];
            if *tap == inside {
                assert!(end.iter().any(|a| client.contains(a)), "{key:?}");
                both += u32::from(there.seen.contains_key(&(*id, outside)));
            } else {
                assert!(end.iter().any(|a| own.contains(a)), "{key:?}");
                assert!(!end.iter().any(|a| client.contains(a)), "{key:?}");
            }
        }
        assert!(both > 10_000, "packets keep their identity: {both}");
    }
}

#[test]
fn nat_lets_nobody_in_whom_nobody_asked_for() {
    let words = "cc = \"cubic\"\nopens = \"server\"";
    let mut record = Record::default();
    let outcome = run(&plan(&path("\"nat\",", &flow("in", words))), 1, &mut record);
    assert!(!outcome.flows[0].established);
    assert!(!record.drops.is_empty());
    assert!(record.drops.iter().all(|d| d.1 == DropCause::Policy));
}

#[test]
fn path_mtu_discovery_works_through_nat_and_a_reflexive_firewall() {
    for (ip, headers) in [(4, 52), (6, 72)] {
        for filter in ["nat", "mmb reflexive-firewall"] {
            let middle = format!("\"{filter}\", \"mtu 1400\",");
            let flows = flow("bulk", &format!("cc = \"cubic\"\nip = {ip}"));
            let toml = path(&middle, &flows).replacen(
                &format!("down = [\"netem delay 10ms\", {middle}"),
                &format!("down = [\"netem delay 10ms\", \"mtu 1400\", \"{filter}\""),
                1,
            );
            let mut record = Record::default();
            run(&plan(&toml), 1, &mut record);
            let mbit = record.goodput_mbit(0, 3, 10);
            let least = 0.99 * ideal_mbit(1400, headers);
            assert!(mbit > least, "{filter}, IPv{ip}: {mbit}");
        }
    }
}

/// What came back: why, and the datagram.
type Errors = Arc<Mutex<Vec<(DatagramError, Vec<u8>)>>>;

/// Sends datagrams to where nobody listens and through where they do not fit.
struct Client {
    remote: SocketAddr,
    local: SocketAddr,
    profile: narrows_core::Profile,
    errors: Errors,
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let socket = host.bind(self.profile, self.local)?;
        host.send_to(socket, self.remote, b"small", 100)?;
        host.send_to(socket, self.remote, b"large", 1400)?;
        let refused = host.send_to(socket, self.remote, b"huge", 1473);
        assert_eq!(refused, Err(SocketError::TooLong { most: 1472 }));
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        assert_eq!(event, SocketEvent::Error);
        let mut quote = Vec::new();
        while let Some(error) = host.receive_error(socket, &mut quote) {
            self.errors.lock().unwrap().push((error, quote.clone()));
        }
    }
}

#[test]
fn a_datagram_socket_receives_what_the_network_says_with_its_own_payload() {
    let toml = path(
        "\"mtu 1400\",",
        &flow("aside", "cc = \"cubic\"\nstart = \"9s\""),
    );
    let plan = plan(&toml);
    let own = plan.boxes()[0].addresses[0];
    let mut simulation = Simulation::new(&plan, 1).unwrap();
    let profile = simulation.add_profile(Options {
        transport: Transport::Datagrams,
        traffic_class: 0,
        flow: None,
        part: Part::Receives,
        name: "client".to_owned(),
        rng: None,
    });
    let errors = Arc::default();
    let at = |host: usize, port| SocketAddr::from((plan.hosts[host].ipv4, port));
    let client = Client {
        local: at(0, 7000),
        remote: at(1, 8000),
        profile,
        errors: Arc::clone(&errors),
    };
    assert!(simulation.add_app("host/client", "client", Box::new(client)));
    simulation
        .run(&mut NullSink, &RunHandle::default())
        .unwrap();
    let errors = errors.lock().unwrap();
    let [(big, quoted), (nobody, other)] = &errors[..] else {
        panic!("{errors:?}");
    };
    let to = at(1, 8000);
    let too_big = DatagramError {
        to,
        reporter: own,
        why: Undelivered::TooBig { mtu: 1400 },
    };
    assert_eq!(*big, too_big);
    assert!(quoted.starts_with(b"large"));
    let refused = DatagramError {
        to,
        reporter: to.ip(),
        why: Undelivered::PortUnreachable,
    };
    assert_eq!(*nobody, refused);
    assert!(other.starts_with(b"small"));
}

/// A path with the box of `rules` between the taps.
fn with_box(rules: &str, flows: &str) -> String {
    let up = format!("\"tap inside\", \"mmb {rules}\", \"tap outside\",");
    path(&up, flows).replacen(
        &format!("down = [\"netem delay 10ms\", {up}"),
        &format!("down = [\"netem delay 10ms\", \"tap outside\", \"mmb {rules}\", \"tap inside\""),
        1,
    )
}

#[test]
fn a_connection_survives_other_addresses_ports_and_sequence_numbers() {
    for ip in [4, 6] {
        let words = format!("cc = \"cubic\"\ntraffic = \"bytes 20Mb\"\nip = {ip}");
        let flows = flow("bulk", &words);
        let run_with = |rules: &str| {
            let mut taps = Taps::default();
            run(&plan(&with_box(rules, &flows)), 1, &mut taps);
            taps
        };
        let none = run_with("add ip-ttl 0 drop");
        assert!(none.translated.is_empty());
        assert!(!none.record.finished.is_empty());
        for rules in ["snat", "sequence-shuffle", "reflexive-firewall"] {
            let there = run_with(rules);
            assert_eq!(there.record.delivered, none.record.delivered, "{rules}");
            assert_eq!(there.record.recoveries, none.record.recoveries, "{rules}");
            assert_eq!(there.record.finished, none.record.finished, "{rules}");
            assert_eq!(there.translated.len(), usize::from(rules == "snat"));
            // Whose a packet is stays known on both sides.
            assert!(there.seen.values().all(|(_, flow)| flow.is_some()));
            assert_eq!(there.seen.len(), none.seen.len());
        }
    }
}

#[test]
fn what_boxes_do_to_ecn_is_what_the_endpoints_negotiate_with() {
    for (rules, ecn, accecn) in [
        ("add ip-ttl 0 drop", false, true),
        ("accecn-option-strip", false, true),
        // Without AE the handshake reads as one for classic ECN, and Prague does without.
        ("reserved-clear", false, false),
        ("option-allow-list", false, true),
    ] {
        let flows = flow("prague", "cc = \"prague\"");
        let mut record = Record::default();
        run(&plan(&with_box(rules, &flows)), 1, &mut record);
        let (_, _, got_ecn, got_accecn) = record.established[0];
        assert_eq!((got_ecn, got_accecn), (ecn, accecn), "{rules}");
    }
}
