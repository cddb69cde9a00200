//! Stateful rules: what belongs to a connection, what its packets get, and what they have
//! back.

use crate::packets::{segment, tcp, udp};
use narrows_core::{DOWN, DropCause, Port, UP};
use narrows_mmb::{Direction, Middlebox, READY, Settings, commands};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{
    FlowKey, Icmp, Ip, IpFields, SackList, Tcp, TcpFields, TcpFlags, TcpOptions, ip,
};

const A: &str = "10.0.0.1:5000";
const B: &str = "10.0.0.2:5000";
const SERVER: &str = "192.0.2.9:80";
const OWN: &str = "203.0.113.1";
const SYN: u16 = TcpFlags::SYN;
const ACK: u16 = TcpFlags::ACK;

struct Bench {
    middlebox: Middlebox,
    now: Instant,
}

impl Bench {
    fn new(rules: &str) -> Self {
        Self::with(rules, Settings::default())
    }

    fn with(rules: &str, settings: Settings) -> Self {
        let own = [OWN.parse().unwrap(), "2001:db8:1::1".parse().unwrap()];
        let settings = Settings { own, ..settings };
        let mut middlebox = Middlebox::new(settings, Rng::for_name(1, "box"));
        middlebox.apply(&commands(rules).unwrap()).unwrap();
        Self {
            middlebox,
            now: Instant::ZERO,
        }
    }

    /// What becomes of the packet: its bytes, or why it is dropped.
    fn push(&mut self, port: Port, packet: &[u8]) -> Result<Vec<u8>, DropCause> {
        let mut bytes = packet.to_vec();
        let outcome = self.middlebox.process(self.now, port, &mut bytes, &mut 0);
        match outcome.dropped {
            None => {
                let h = crate::naive::headers(&bytes);
                let mut sealed = bytes.clone();
                if !h.fragment {
                    crate::naive::seal(&mut sealed, &h);
                }
                assert_eq!(sealed, bytes, "its checksums are right");
                Ok(bytes)
            }
            Some(cause) => Err(cause),
        }
    }

    fn wait(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
    }
}

fn of_tcp(bytes: &[u8]) -> Tcp {
    let ip = Ip::parse(bytes).unwrap();
    Tcp::parse(&bytes[ip.header_len..]).unwrap()
}

fn ready(name: &str) -> &'static str {
    READY.iter().find(|ready| ready.name == name).unwrap().rules
}

/// The three packets that open a connection.
fn open(bench: &mut Bench, from: &str) {
    bench
        .push(UP, &tcp(from, SERVER, segment(SYN, 1, 0), &[]))
        .unwrap();
    let answer = tcp(SERVER, from, segment(SYN | ACK, 7, 2), &[]);
    bench.push(DOWN, &answer).unwrap();
    bench
        .push(UP, &tcp(from, SERVER, segment(ACK, 2, 8), &[]))
        .unwrap();
}

#[test]
fn a_reflexive_firewall_lets_in_what_answers_and_nothing_else() {
    let rules = "mmb add-stateful ip-proto tcp ip-saddr 10.0.0.0/24 accept\n\
        mmb add ip-proto tcp drop";
    let mut bench = Bench::new(rules);
    let stray = tcp(SERVER, A, segment(SYN | ACK, 7, 2), &[]);
    assert_eq!(bench.push(DOWN, &stray), Err(DropCause::Policy));
    open(&mut bench, A);
    assert_eq!(bench.middlebox.last_direction(), Some(Direction::Forward));
    assert_eq!(bench.push(DOWN, &stray), Ok(stray.clone()));
    let other = tcp(SERVER, B, segment(ACK, 7, 2), &[]);
    assert_eq!(bench.push(DOWN, &other), Err(DropCause::Policy));
    let datagram = udp(SERVER, A, b"not TCP");
    assert_eq!(bench.push(DOWN, &datagram), Ok(datagram));
}

/// A message of this type to all nodes of the link, with so many hops left.
fn icmp6(kind: u8, ttl: u8) -> Vec<u8> {
    let [source, destination] = ["fe80::9", "ff02::1"].map(|a| a.parse().unwrap());
    let fields = IpFields {
        source,
        destination,
        traffic_class: 0,
        ttl,
        protocol: ip::ICMPV6,
        ident: 0,
    };
    let message = Icmp::Other {
        kind,
        code: 0,
        rest: 0,
    };
    let mut bytes = Vec::new();
    fields.write(&mut bytes, 24);
    message.write(&mut bytes, source, destination, &[0; 16], 0);
    bytes
}

#[test]
fn the_ready_firewall_lets_in_what_a_link_of_ipv6_needs_and_no_more() {
    let mut bench = Bench::new(ready("reflexive-firewall"));
    // Solicitations and advertisements of routers and neighbours; who receives which group.
    for (kinds, hops) in [(133..=136, 255), (130..=132, 1), (143..=143, 1)] {
        for kind in kinds {
            let message = icmp6(kind, hops);
            assert_eq!(bench.push(DOWN, &message), Ok(message), "{kind}");
            let forwarded = icmp6(kind, hops - 1);
            let dropped = bench.push(DOWN, &forwarded);
            assert_eq!(dropped, Err(DropCause::Policy), "{kind}");
        }
    }
    for kind in [128, 129, 137, 144] {
        let dropped = bench.push(DOWN, &icmp6(kind, 255));
        assert_eq!(dropped, Err(DropCause::Policy), "{kind}");
    }
}

#[test]
fn the_ready_firewall_lets_in_errors_about_what_went_out_and_no_others() {
    let mut bench = Bench::new(ready("reflexive-firewall"));
    for (from, to, router) in [
        (A, SERVER, "198.51.100.3"),
        ("[fd00::1]:5000", "[2001:db8::9]:80", "2001:db8::3"),
    ] {
        for message in [Icmp::TooBig { mtu: 1300 }, Icmp::PortUnreachable] {
            for sent in [
                tcp(from, to, segment(SYN, 1, 0), &[]),
                udp(from, to, b"question"),
            ] {
                let mut error = Vec::new();
                let router = router.parse().unwrap();
                message.report(&mut error, router, &sent, 0).unwrap();
                let mut stray = Bench::new(ready("reflexive-firewall"));
                assert_eq!(stray.push(DOWN, &error), Err(DropCause::Policy));
                bench.push(UP, &sent).unwrap();
                assert_eq!(bench.push(DOWN, &error), Ok(error));
            }
        }
    }
}

#[test]
fn a_connection_is_forgotten_after_the_time_out_of_its_state() {
    let mut bench = Bench::new("add-stateful ip-saddr 10.0.0.0/24 accept; add all drop");
    let answer = tcp(SERVER, A, segment(ACK, 8, 2), &[]);
    open(&mut bench, A);
    bench.wait(14_399);
    assert!(bench.push(DOWN, &answer).is_ok());
    let fin = tcp(SERVER, A, segment(ACK | TcpFlags::FIN, 8, 2), &[]);
    bench.push(DOWN, &fin).unwrap();
    bench.wait(119);
    assert!(bench.push(DOWN, &answer).is_ok());
    bench.wait(120);
    assert_eq!(bench.push(DOWN, &answer), Err(DropCause::Policy));
    bench.push(UP, &udp(A, SERVER, b"?")).unwrap();
    let reply = udp(SERVER, A, b"!");
    bench.wait(599);
    assert!(bench.push(DOWN, &reply).is_ok());
    bench.wait(600);
    assert_eq!(bench.push(DOWN, &reply), Err(DropCause::Policy));
    assert_eq!(bench.middlebox.connection_count(), 0);
}

#[test]
fn targets_of_a_stateful_rule_are_for_every_packet_of_the_connection() {
    let mut bench = Bench::new("add-stateful tcp-syn tcp-dport 80 mod ip-ttl 9");
    open(&mut bench, A);
    let data = tcp(SERVER, A, segment(ACK, 8, 2), b"data");
    assert_eq!(bench.push(DOWN, &data).unwrap()[8], 9);
    assert_eq!(bench.middlebox.last_matched().count(), 0);
    assert_eq!(bench.middlebox.last_applied().collect::<Vec<_>>(), [1]);
    let (_, counted) = bench.middlebox.rules().next().unwrap();
    assert_eq!(counted.packets, 4);
}

#[test]
fn source_translation_is_undone_on_the_way_back() {
    for (a, b, server, own) in [
        (A, B, SERVER, "203.0.113.1"),
        (
            "[fd00::1]:5000",
            "[fd00::2]:5000",
            "[2001:db8::9]:80",
            "2001:db8:1::1",
        ),
    ] {
        let mut bench = Bench::new(ready("snat"));
        let mut seen = Vec::new();
        for host in [a, b] {
            let out = bench
                .push(UP, &tcp(host, server, segment(SYN, 1, 0), &[]))
                .unwrap();
            let key = FlowKey::of(&out).unwrap();
            assert_eq!(key.source.to_string(), own);
            assert!((49_152..=65_534).contains(&key.source_port));
            seen.push(key.source_port);
            let outside = std::net::SocketAddr::new(key.source, key.source_port).to_string();
            let back = tcp(server, &outside, segment(SYN | ACK, 9, 2), &[]);
            let inside = tcp(server, host, segment(SYN | ACK, 9, 2), &[]);
            assert_eq!(bench.push(DOWN, &back).unwrap(), inside);
            // The next packet gets the same port.
            let again = bench
                .push(UP, &tcp(host, server, segment(ACK, 2, 10), &[]))
                .unwrap();
            assert_eq!(FlowKey::of(&again).unwrap(), key);
        }
        assert_ne!(seen[0], seen[1]);
    }
}

#[test]
fn an_error_about_a_translated_packet_reaches_its_sender_with_its_own_packet_in_it() {
    let rules = format!(
        "{}\nadd-stateful tcp-syn shuffle tcp-seq-num",
        ready("snat")
    );
    let mut bench = Bench::new(&rules);
    let sent = tcp(A, SERVER, segment(SYN, 1_000, 0), b"with data");
    let out = bench.push(UP, &sent).unwrap();
    assert_ne!(of_tcp(&out).seq, 1_000);
    let mut error = Vec::new();
    let router = "198.51.100.3".parse().unwrap();
    Icmp::TooBig { mtu: 1300 }
        .report(&mut error, router, &out, 0)
        .unwrap();
    let inside = bench.push(DOWN, &error).unwrap();
    let ip = Ip::parse(&inside).unwrap();
    assert_eq!(
        ip.destination,
        "10.0.0.1".parse::<std::net::IpAddr>().unwrap()
    );
    let (_, quoted) = Icmp::quoted(ip.protocol, &inside[ip.header_len..]).unwrap();
    assert_eq!(quoted, &sent[..quoted.len()]);
    assert_eq!(bench.middlebox.counters().related, 1);
    // One from inside, about what the host received.
    let key = FlowKey::of(&out).unwrap();
    let outside = format!("{}:{}", key.source, key.source_port);
    let answer = tcp(
        SERVER,
        &outside,
        segment(ACK, 5, of_tcp(&out).seq.wrapping_add(1)),
        b"x",
    );
    let received = bench.push(DOWN, &answer).unwrap();
    assert_eq!(of_tcp(&received).ack, 1_001);
    let mut error = Vec::new();
    let host = "10.0.0.1".parse().unwrap();
    Icmp::PortUnreachable
        .report(&mut error, host, &received, 0)
        .unwrap();
    let left = bench.push(UP, &error).unwrap();
    let ip = Ip::parse(&left).unwrap();
    assert_eq!(ip.source.to_string(), OWN);
    let (_, quoted) = Icmp::quoted(ip.protocol, &left[ip.header_len..]).unwrap();
    assert_eq!(quoted, answer);
}

#[test]
fn shuffled_sequence_numbers_are_those_of_the_other_end_with_their_sack_blocks() {
    let mut bench = Bench::new(ready("sequence-shuffle"));
    let out = bench
        .push(UP, &tcp(A, SERVER, segment(SYN, 1_000, 0), &[]))
        .unwrap();
    let seq = of_tcp(&out).seq.wrapping_sub(1_000);
    assert_ne!(seq, 0);
    // What the server sends keeps its place relative to what it acknowledges.
    let mut sack = SackList::default();
    sack.push(2_000u32.wrapping_add(seq), 3_000u32.wrapping_add(seq));
    let answer = TcpFields {
        options: TcpOptions {
            sack,
            ..TcpOptions::default()
        },
        ..segment(ACK, 70, 1_001u32.wrapping_add(seq))
    };
    let received = of_tcp(&bench.push(DOWN, &tcp(SERVER, A, answer, &[])).unwrap());
    assert_eq!(received.ack, 1_001);
    assert_eq!(received.options.sack.as_slice(), [(2_000, 3_000)]);
    let ack = received.seq.wrapping_sub(70);
    assert_ne!(ack, 0);
    let next = segment(ACK, 1_001, 80u32.wrapping_add(ack));
    let sent = of_tcp(&bench.push(UP, &tcp(A, SERVER, next, &[])).unwrap());
    assert_eq!((sent.seq.wrapping_sub(seq), sent.ack), (1_001, 80));
}

#[test]
fn identification_and_flow_label_are_mapped_there_and_back() {
    let mut bench = Bench::new("add-stateful in inside udp-dport 80 shuffle ip-id");
    let sent = udp(A, SERVER, b"?");
    let out = bench.push(UP, &sent).unwrap();
    assert_ne!(out[4..6], sent[4..6]);
    let mut answer = udp(SERVER, A, b"!");
    answer[4..6].copy_from_slice(&out[4..6]);
    crate::naive::seal(&mut answer.clone(), &crate::naive::headers(&answer));
    let h = crate::naive::headers(&answer);
    crate::naive::seal(&mut answer, &h);
    assert_eq!(bench.push(DOWN, &answer).unwrap()[4..6], sent[4..6]);
    let mut bench = Bench::new("add-stateful in inside udp-dport 80 map ip6-flow-label 5");
    let sent = udp("[fd00::1]:5000", "[fd00::9]:80", b"?");
    assert_eq!(bench.push(UP, &sent).unwrap()[1..4], [0, 0, 5]);
}

#[test]
fn a_full_table_and_ports_that_are_used_up_are_counted_and_drop_what_comes_new() {
    let settings = Settings {
        most_connections: 1,
        ..Settings::default()
    };
    let mut bench = Bench::with("add-stateful udp-dport 80 accept", settings);
    let (a, b) = (udp(A, SERVER, b"a"), udp(B, SERVER, b"b"));
    assert!(bench.push(UP, &a).is_ok());
    // With an answer it makes no room for others.
    assert!(bench.push(DOWN, &udp(SERVER, A, b"a")).is_ok());
    assert_eq!(bench.push(UP, &b), Err(DropCause::Overflow));
    assert!(bench.push(UP, &a).is_ok());
    assert_eq!(bench.middlebox.counters().table_full, 1);
    // Two hosts with the same port behind one address cannot be distinguished.
    let mut bench = Bench::new("add-stateful in inside map ip-saddr self");
    assert!(bench.push(UP, &a).is_ok());
    assert_eq!(bench.push(UP, &b), Err(DropCause::Overflow));
    // With drawn ports there are 16383.
    let mut bench = Bench::new("add-stateful in inside map ip-saddr self shuffle udp-sport");
    for host in 0..16_383u32 {
        let from = format!("10.{}.{}.1:5000", host >> 8, host & 255);
        assert!(bench.push(UP, &udp(&from, SERVER, b"?")).is_ok());
    }
    assert_eq!(
        bench.push(UP, &udp("10.99.0.1:1", SERVER, b"?")),
        Err(DropCause::Overflow)
    );
    assert_eq!(bench.middlebox.counters().ports_used_up, 1);
}

#[test]
fn a_load_that_fails_changes_nothing_and_one_that_succeeds_keeps_what_stays() {
    let mut bench = Bench::new("add ip-ttl 1 drop; add-stateful in inside accept; add all drop");
    open(&mut bench, A);
    let before: Vec<_> = bench
        .middlebox
        .rules()
        .map(|(rule, c)| (rule.clone(), c))
        .collect();
    for (wrong, says) in [
        (
            "flush; add all drop; del 2",
            "there is no rule 2: the rules are 1 to 1",
        ),
        (
            "del 1; add in eth0 drop",
            "no interface `eth0`: its interfaces are `inside` and",
        ),
        ("disable eth1", "no interface `eth1`"),
    ] {
        let error = bench
            .middlebox
            .apply(&commands(wrong).unwrap())
            .unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let after: Vec<_> = bench
        .middlebox
        .rules()
        .map(|(rule, c)| (rule.clone(), c))
        .collect();
    assert_eq!(before, after);
    let answer = tcp(SERVER, A, segment(ACK, 8, 2), &[]);
    bench.middlebox.apply(&commands("del 1").unwrap()).unwrap();
    assert_eq!(
        bench.push(DOWN, &answer),
        Ok(answer.clone()),
        "the connection has its rule still"
    );
    bench.middlebox.apply(&commands("del 1").unwrap()).unwrap();
    assert_eq!(bench.push(DOWN, &answer), Err(DropCause::Policy));
    bench
        .middlebox
        .apply(&commands("disable outside").unwrap())
        .unwrap();
    assert_eq!(bench.push(DOWN, &answer), Ok(answer.clone()));
    bench
        .middlebox
        .apply(&commands("flush; enable outside").unwrap())
        .unwrap();
    assert_eq!(bench.push(DOWN, &answer), Ok(answer));
}

#[test]
fn an_inserted_rule_gets_its_number_and_a_reload_keeps_what_says_the_same() {
    let nat = format!("add-stateful in inside map ip-saddr {OWN} shuffle udp-sport");
    let mut bench = Bench::new(&format!("add ip-dscp 9 drop\n{nat}\nadd in outside drop"));
    let asked = udp(A, SERVER, b"question");
    let left = bench.push(UP, &asked).expect("it goes on");
    let answer = {
        let key = FlowKey::of(&left).unwrap();
        let end = |address: std::net::IpAddr, port: u16| format!("{address}:{port}");
        let from = end(key.destination, key.destination_port);
        udp(&from, &end(key.source, key.source_port), b"answer")
    };
    let written = |bench: &Bench| -> Vec<String> {
        let rules = bench.middlebox.rules();
        rules.map(|(rule, _)| rule.to_string()).collect()
    };
    let change = commands("insert 1 add tcp-fin drop; insert 5 add tcp-rst drop").unwrap();
    let before = bench.middlebox.change(change).unwrap();
    assert_eq!(before, [None, Some(0), Some(1), Some(2), None]);
    assert_eq!(written(&bench)[0], "add tcp-fin drop");
    assert_eq!(written(&bench)[4], "add tcp-rst drop");
    let refused = bench
        .middlebox
        .change(commands("insert 7 add all drop").unwrap());
    assert!(refused.is_err());
    assert_eq!(written(&bench).len(), 5);
    // Of two that say the same the first is the old one.
    let text = format!("add in outside drop\nadd tcp-ack drop\n{nat}\n{nat}");
    let before = bench.middlebox.reload(commands(&text).unwrap()).unwrap();
    assert_eq!(before, [Some(3), None, Some(2), None]);
    let counted: Vec<u64> = bench.middlebox.rules().map(|(_, c)| c.packets).collect();
    assert_eq!(counted, [0, 0, 1, 0]);
    let connection = bench.middlebox.connections().next().expect("it stays");
    assert_eq!(connection.rules, [3]);
    let dropped = bench.push(DOWN, &answer);
    assert_eq!(
        dropped,
        Err(DropCause::Policy),
        "a rule before it drops all that comes"
    );
    bench.middlebox.reload(commands(&nat).unwrap()).unwrap();
    let back = bench.push(DOWN, &answer).expect("it is known");
    assert_eq!(FlowKey::of(&back).unwrap().destination_port, 5000);
    bench
        .middlebox
        .reload(commands("add all accept").unwrap())
        .unwrap();
    assert_eq!(bench.middlebox.connection_count(), 0, "its rule is gone");
}

#[test]
fn of_two_hosts_that_speak_gre_to_one_end_behind_one_address_the_second_is_dropped_and_counted() {
    let mut bench = Bench::new(&format!("add-stateful in inside map ip-saddr {OWN}"));
    let gre = |from: [u8; 4], to: [u8; 4]| {
        let mut bytes = Vec::new();
        IpFields {
            source: from.into(),
            destination: to.into(),
            traffic_class: 0,
            ttl: 64,
            protocol: 47,
            ident: 0,
        }
        .write(&mut bytes, 8);
        // RFC 2784 §2.1: no checksum, IPv4 within.
        bytes.extend([0, 0, 8, 0, 1, 2, 3, 4]);
        bytes
    };
    let (far, other) = ([192, 0, 2, 9], [192, 0, 2, 10]);
    let left = bench
        .push(UP, &gre([10, 0, 0, 1], far))
        .expect("it goes on");
    assert_eq!(left[12..16], [203, 0, 113, 1]);
    let second = bench.push(UP, &gre([10, 0, 0, 2], far));
    assert_eq!(
        second,
        Err(DropCause::Overflow),
        "its answers look like the first one's"
    );
    assert_eq!(bench.middlebox.counters().ports_used_up, 1);
    // To another end it can speak, and answers go to the first.
    assert!(bench.push(UP, &gre([10, 0, 0, 2], other)).is_ok());
    let back = bench
        .push(DOWN, &gre(far, [203, 0, 113, 1]))
        .expect("it is known");
    assert_eq!(back[16..20], [10, 0, 0, 1]);
}

#[test]
fn a_rate_of_drops_is_met_and_the_same_seed_drops_the_same() {
    let run = |seed: u64| {
        let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(seed, "box"));
        middlebox
            .apply(&commands("add all drop 10").unwrap())
            .unwrap();
        let packet = udp(A, SERVER, b"?");
        (0..20_000)
            .map(|_| {
                let outcome = middlebox.process(Instant::ZERO, UP, &mut packet.clone(), &mut 0);
                outcome.dropped.is_some()
            })
            .collect::<Vec<_>>()
    };
    let drops = run(1);
    assert_eq!(drops, run(1));
    assert_ne!(drops, run(2));
    // Three standard deviations of 20 000 draws at 0.1 are 127.
    let dropped = drops.iter().filter(|d| **d).count();
    assert!(dropped.abs_diff(2_000) <= 127, "{dropped}");
}

#[test]
fn a_checksum_that_a_rule_sets_stands_and_an_absent_one_stays_absent() {
    let mut middlebox =
        Bench::new("add all mod ip-ttl 3 mod udp-dport 9 mod udp-checksum x1234").middlebox;
    let mut bytes = udp(A, SERVER, b"?");
    middlebox.process(Instant::ZERO, UP, &mut bytes, &mut 0);
    assert_eq!(bytes[26..28], [0x12, 0x34]);
    let mut bench = Bench::new("add all mod udp-dport 9");
    let mut bytes = udp(A, SERVER, b"?");
    bytes[26..28].fill(0);
    assert_eq!(bench.push(UP, &bytes).unwrap()[26..28], [0, 0]);
}

#[test]
fn ready_boxes_are_rules_that_load() {
    for ready in READY {
        Bench::new(ready.rules);
        assert!(!ready.about.is_empty());
    }
}

#[test]
fn a_rule_without_state_reports_each_flow_that_it_moves_once() {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let rules = commands("add tcp-dport 80 mod tcp-dport 8080\nadd udp-dport 5 mod ip-ttl 3");
    middlebox.apply(&rules.unwrap()).unwrap();
    let mut reported = |from: &str, to: &str| {
        let mut bytes = tcp(from, to, segment(ACK, 1, 1), b"data");
        let outcome = middlebox.process(Instant::ZERO, UP, &mut bytes, &mut 0);
        outcome.translated.map(|(protocol, (source, destination))| {
            (protocol, source.to_string(), destination.to_string())
        })
    };
    let moved = Some((6, "10.0.0.1:5000".to_owned(), "10.0.0.2:8080".to_owned()));
    assert_eq!(reported("10.0.0.1:5000", "10.0.0.2:80"), moved);
    assert_eq!(
        reported("10.0.0.1:5000", "10.0.0.2:80"),
        None,
        "it was reported before"
    );
    assert!(reported("10.0.0.1:5001", "10.0.0.2:80").is_some());
    assert_eq!(
        reported("10.0.0.1:5001", "10.0.0.2:81"),
        None,
        "nothing changed"
    );
}
