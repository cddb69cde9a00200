//! What makes room in a full table, and hosts behind one address.

use crate::packets::{segment, tcp, udp};
use narrows_core::{DOWN, DropCause, Port, UP};
use narrows_mmb::{Middlebox, Settings, commands};
use narrows_units::{Instant, Rng};
use narrows_wire::{Icmp, Ip, IpFields, TcpFlags, ip};

const SERVER: &str = "192.0.2.9:80";

/// A box with these rules, and addresses of its own.
pub fn boxed(rules: &str, most_connections: usize) -> Middlebox {
    let settings = Settings {
        own: ["203.0.113.1", "2001:db8:1::1"].map(|a| a.parse().unwrap()),
        most_connections,
        ..Settings::default()
    };
    let mut middlebox = Middlebox::new(settings, Rng::for_name(1, "box"));
    middlebox.apply(&commands(rules).unwrap()).unwrap();
    middlebox
}

fn push(middlebox: &mut Middlebox, port: Port, packet: &[u8]) -> Result<Vec<u8>, DropCause> {
    let mut bytes = packet.to_vec();
    let outcome = middlebox.process(Instant::ZERO, port, &mut bytes, &mut 0);
    match outcome.dropped {
        None => {
            let mut sealed = bytes.clone();
            let h = crate::naive::headers(&bytes);
            crate::naive::seal(&mut sealed, &h);
            assert_eq!(sealed, bytes, "its checksums are right");
            Ok(bytes)
        }
        Some(cause) => Err(cause),
    }
}

fn host(n: u32) -> String {
    format!("10.{}.{}.{}:5000", n >> 16, n >> 8 & 255, n & 255)
}

/// An established connection of that host.
fn establish(middlebox: &mut Middlebox, n: u32) {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (port, flags) in [(UP, syn), (DOWN, syn | ack), (UP, ack)] {
        let packet = match port {
            UP => tcp(&host(n), SERVER, segment(flags, 1, 1), &[]),
            _ => tcp(SERVER, &host(n), segment(flags, 1, 1), &[]),
        };
        push(middlebox, port, &packet).unwrap();
    }
}

#[test]
fn a_flood_of_openings_locks_nobody_out_and_cuts_no_connection_that_is_answered() {
    let mut middlebox = boxed("add-stateful in inside accept\nadd in outside drop", 100);
    for n in 0..20 {
        establish(&mut middlebox, n);
    }
    for n in 1_000..11_000 {
        let flood = match n % 2 {
            0 => tcp(&host(n), SERVER, segment(TcpFlags::SYN, 1, 0), &[]),
            _ => udp(&host(n), SERVER, b"?"),
        };
        push(&mut middlebox, UP, &flood).unwrap();
        // Somebody opens a connection in the middle of it, and is answered.
        if n % 100 == 0 && n < 8_000 {
            establish(&mut middlebox, n + 100_000);
        }
    }
    for n in (0..20).chain((1_000..8_000).step_by(100).map(|n| n + 100_000)) {
        let data = tcp(SERVER, &host(n), segment(TcpFlags::ACK, 1, 1), b"x");
        assert!(push(&mut middlebox, DOWN, &data).is_ok(), "{n}");
    }
    let counters = middlebox.counters();
    assert_eq!(counters.table_full, 0, "{counters:?}");
    assert!(counters.evicted > 9_000, "{counters:?}");
    // Of connections that are all answered none makes room.
    let mut middlebox = boxed("add-stateful in inside accept", 100);
    for n in 0..100 {
        establish(&mut middlebox, n);
    }
    let syn = tcp(&host(999), SERVER, segment(TcpFlags::SYN, 1, 0), &[]);
    assert_eq!(push(&mut middlebox, UP, &syn), Err(DropCause::Overflow));
    let counters = middlebox.counters();
    assert_eq!((counters.table_full, counters.evicted), (1, 0));
}

/// An echo with an identifier, or its answer.
fn echo(from: &str, to: &str, ident: u16, answers: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let v4 = !from.contains(':');
    let kind = match (v4, answers) {
        (true, false) => 8,
        (true, true) => 0,
        (false, answers) => 128 + u8::from(answers),
    };
    IpFields {
        source: from.parse().unwrap(),
        destination: to.parse().unwrap(),
        traffic_class: 0,
        ttl: 64,
        protocol: if v4 { ip::ICMP } else { ip::ICMPV6 },
        ident: 7,
    }
    .write(&mut bytes, 16);
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend(ident.to_be_bytes());
    bytes.extend([0, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
    let h = crate::naive::headers(&bytes);
    crate::naive::seal(&mut bytes, &h);
    bytes
}

fn ident(packet: &[u8]) -> u16 {
    let at = crate::naive::headers(packet).above + 4;
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// The requirement of RFC 5508 §3.1: identifiers of queries are translated, so that hosts with the same one
/// are distinguished.
#[test]
fn five_hosts_that_ping_one_server_all_get_their_answers_and_errors_about_their_pings() {
    let snat = narrows_mmb::ReadyBox::named("snat").unwrap().rules;
    for (net, server, own) in [
        ("10.0.0.", "192.0.2.9", "203.0.113.1"),
        ("fd00::", "2001:db8::9", "2001:db8:1::1"),
    ] {
        let mut middlebox = boxed(snat, 100);
        let mut seen = Vec::new();
        for n in 1..=5 {
            let asks = format!("{net}{n}");
            let out = push(&mut middlebox, UP, &echo(&asks, server, 77, false)).unwrap();
            assert_eq!(Ip::parse(&out).unwrap().source.to_string(), own);
            assert!(!seen.contains(&ident(&out)), "one identifier for each");
            seen.push(ident(&out));
        }
        for (n, new) in (1..=5).zip(&seen) {
            let asks = format!("{net}{n}");
            let back = push(&mut middlebox, DOWN, &echo(server, own, *new, true)).unwrap();
            assert_eq!(back, echo(server, &asks, 77, true));
            // A router on the way drops one.
            let sent = echo(own, server, *new, false);
            let mut error = Vec::new();
            let router = if n == 9 { own } else { server };
            Icmp::TimeExceeded
                .report(&mut error, router.parse().unwrap(), &sent, 0)
                .unwrap();
            let came = push(&mut middlebox, DOWN, &error).unwrap();
            let h = crate::naive::headers(&came);
            let quoted = &came[h.above + 8..];
            assert_eq!(quoted, echo(&asks, server, 77, false), "what it sent");
        }
        assert_eq!(middlebox.counters().ports_used_up, 0);
    }
}

#[test]
fn an_error_quotes_the_identification_and_the_label_that_the_sender_gave() {
    for (rules, from, to) in [
        (
            "add-stateful in inside shuffle ip-id",
            "10.0.0.1:5000",
            SERVER,
        ),
        (
            "add-stateful in inside map ip-id 99",
            "10.0.0.1:5000",
            SERVER,
        ),
        (
            "add-stateful in inside shuffle ip6-flow-label",
            "[fd00::1]:5000",
            "[2001:db8::9]:80",
        ),
    ] {
        let mut middlebox = boxed(rules, 100);
        let sent = udp(from, to, b"question");
        let out = push(&mut middlebox, UP, &sent).unwrap();
        assert_ne!(out, sent, "{rules}");
        let mut error = Vec::new();
        let router = match from.starts_with('[') {
            false => "198.51.100.3",
            true => "2001:db8:9::3",
        };
        Icmp::TimeExceeded
            .report(&mut error, router.parse().unwrap(), &out, 0)
            .unwrap();
        let came = push(&mut middlebox, DOWN, &error).unwrap();
        let at = crate::naive::headers(&came).above + 8;
        assert_eq!(came[at..], sent[..], "{rules}");
    }
}

#[test]
fn only_whole_numbers_of_a_sack_option_are_shifted_and_nothing_behind_it() {
    let mut middlebox = boxed("add-stateful in inside shuffle tcp-seq-num", 100);
    let from = "10.0.0.1:5000";
    let syn = tcp(from, SERVER, segment(TcpFlags::SYN, 1_000, 0), &[]);
    push(&mut middlebox, UP, &syn).unwrap();
    let mut answer = tcp(SERVER, from, segment(TcpFlags::ACK, 1, 1), &[]);
    // Six bytes: one number and a half, and an option behind them.
    answer.extend([5, 8, 0, 0, 0, 1, 9, 9, 254, 4, 7, 7]);
    answer[32] = 8 << 4;
    answer[2..4].copy_from_slice(&52u16.to_be_bytes());
    let h = crate::naive::headers(&answer);
    crate::naive::seal(&mut answer, &h);
    let came = push(&mut middlebox, DOWN, &answer).unwrap();
    assert_ne!(came[42..46], answer[42..46], "the number is shifted");
    assert_eq!(came[46..], answer[46..], "what follows it is not");
}

#[test]
fn options_are_added_to_packets_of_either_way_only_as_far_as_the_mtu_has_room() {
    for (rules, port) in [
        ("add in inside ip-proto tcp add tcp-opt 253 x0102", UP),
        ("add in outside ip-proto tcp add tcp-opt 253 x0102", DOWN),
    ] {
        let mut middlebox = Middlebox::new(
            Settings {
                mtu: 1500,
                ..Settings::default()
            },
            Rng::for_name(1, "box"),
        );
        middlebox.apply(&commands(rules).unwrap()).unwrap();
        for (payload, longer) in [(1_456, true), (1_457, false), (1_460, false)] {
            let data = vec![7; payload];
            let whole = tcp(SERVER, "10.0.0.1:5000", segment(TcpFlags::ACK, 1, 1), &data);
            let after = push(&mut middlebox, port, &whole).unwrap();
            assert_eq!(after.len() > whole.len(), longer, "{payload}");
            assert!(after.len() <= 1_500);
        }
        assert_eq!(middlebox.counters().options_unchanged, 2);
    }
}

#[test]
fn where_options_have_no_room_sack_blocks_are_shifted_where_the_packet_has_them() {
    let rules = "add-stateful in inside shuffle tcp-ack-num add tcp-opt 253 x0102";
    for (mtu, longer) in [(1_500, true), (100, false)] {
        let mut middlebox = Middlebox::new(
            Settings {
                mtu,
                ..Settings::default()
            },
            Rng::for_name(1, "box"),
        );
        middlebox.apply(&commands(rules).unwrap()).unwrap();
        let mut sent = tcp(&host(1), SERVER, segment(TcpFlags::ACK, 1, 1_000), &[]);
        sent.extend([1, 1, 5, 10, 0, 0, 7, 208, 0, 0, 11, 184]);
        sent.extend([7; 48]);
        sent[32] = 8 << 4;
        sent[2..4].copy_from_slice(&100u16.to_be_bytes());
        let h = crate::naive::headers(&sent);
        crate::naive::seal(&mut sent, &h);
        let left = push(&mut middlebox, UP, &sent).unwrap();
        assert_eq!(left.len() > sent.len(), longer);
        let number = |at: usize| u32::from_be_bytes(left[at..at + 4].try_into().unwrap());
        let shift = number(28).wrapping_sub(1_000);
        assert_ne!(shift, 0);
        let at = if longer { 42 } else { 44 };
        let blocks = [2_000u32, 3_000].map(|end| end.wrapping_add(shift));
        assert_eq!([number(at), number(at + 4)], blocks, "{mtu}");
    }
}

#[test]
fn an_icmp_header_that_is_cut_before_its_identifier_passes() {
    let rules = "add-stateful in inside map ip-saddr 192.0.2.1 shuffle icmp-ident";
    let mut middlebox = boxed(rules, 100);
    let mut cut = vec![
        0x45, 0, 0, 24, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9,
    ];
    cut.extend([8, 0, 0, 0]);
    let h = crate::naive::headers(&cut);
    crate::naive::seal(&mut cut, &h);
    let left = push(&mut middlebox, UP, &cut).unwrap();
    assert_eq!(left[12..16], [192, 0, 2, 1]);
    assert_eq!(left[20..22], [8, 0]);
}

#[test]
fn a_reset_with_another_number_than_the_other_end_waits_for_cuts_no_time() {
    for rules in [
        "add-stateful in inside accept",
        "add-stateful in inside shuffle tcp-seq-num shuffle tcp-ack-num",
    ] {
        let mut middlebox = boxed(rules, 100);
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        let client = host(1);
        let out = |m: &mut Middlebox, flags, seq, ack| {
            let sent = tcp(&client, SERVER, segment(flags, seq, ack), &[]);
            let left = push(m, UP, &sent).unwrap();
            let number = |at: usize| u32::from_be_bytes(left[at..at + 4].try_into().unwrap());
            (number(24), number(28))
        };
        let (seq, _) = out(&mut middlebox, syn, 100, 0);
        let answer = segment(syn | ack, 700, seq.wrapping_add(1));
        let answer = push(&mut middlebox, DOWN, &tcp(SERVER, &client, answer, &[])).unwrap();
        let theirs = u32::from_be_bytes(answer[24..28].try_into().unwrap());
        out(&mut middlebox, ack, 101, theirs.wrapping_add(1));
        let established = |m: &Middlebox| m.connections().next().unwrap().established;
        assert!(established(&middlebox));
        // The server's next number is 701.
        for wrong in [0, 700, 702, 70_000] {
            let reset = tcp(SERVER, &client, segment(TcpFlags::RST, wrong, 0), &[]);
            push(&mut middlebox, DOWN, &reset).unwrap();
            assert!(established(&middlebox), "{wrong}");
        }
        out(&mut middlebox, TcpFlags::RST, 5_000, 0);
        assert!(established(&middlebox));
        let reset = tcp(SERVER, &client, segment(TcpFlags::RST, 701, 0), &[]);
        push(&mut middlebox, DOWN, &reset).unwrap();
        assert!(!established(&middlebox));
    }
}
