//! What becomes of packets, and what the box reports and counts of it.

use crate::full_tables::boxed;
use crate::packets::{pieces, segment, tcp, udp};
use narrows_core::{DOWN, DropCause, Port, UP};
use narrows_mmb::{Middlebox, Outcome, Refused, Settings, TableView, commands};
use narrows_units::{Instant, Rng};
use narrows_wire::{Icmp, TcpFlags};

const CLIENT: &str = "10.0.0.1:5000";
const SERVER: &str = "192.0.2.9:80";
const OWN: &str = "203.0.113.1";

fn push(middlebox: &mut Middlebox, port: Port, packet: &[u8]) -> Outcome {
    middlebox.process(Instant::ZERO, port, &mut packet.to_vec(), &mut 0)
}

/// Source and destination as they are reported.
fn ends(outcome: Outcome) -> Option<[String; 2]> {
    let (_, (from, to)) = outcome.translated?;
    Some([from, to].map(|end| end.to_string()))
}

fn syn(from: &str, to: &str) -> Vec<u8> {
    tcp(from, to, segment(TcpFlags::SYN, 1, 0), &[])
}

/// The segment with these bytes of options.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = syn(CLIENT, SERVER);
    bytes.extend(options);
    bytes[32] = ((5 + options.len() / 4) << 4) as u8;
    let len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    let h = crate::naive::headers(&bytes);
    crate::naive::seal(&mut bytes, &h);
    bytes
}

#[test]
fn packets_and_their_bytes_are_counted_by_the_box_and_by_the_rules_that_applied() {
    let rules = "add udp-dport 53 drop\nadd tcp-dport 80 mod ip-ttl 3\nadd all drop";
    let mut middlebox = boxed(rules, 10);
    let question = udp(CLIENT, "192.0.2.9:53", b"who?");
    for _ in 0..3 {
        assert_eq!(
            push(&mut middlebox, UP, &question).dropped,
            Some(DropCause::Policy)
        );
    }
    for _ in 0..2 {
        push(&mut middlebox, UP, &syn(CLIENT, SERVER));
    }
    push(&mut middlebox, UP, &[]);
    let counters = middlebox.counters();
    let counted = (counters.packets, counters.dropped, counters.malformed);
    assert_eq!(counted, (6, 5, 1));
    let counted: Vec<(u64, u64)> = middlebox
        .rules()
        .map(|(_, c)| (c.packets, c.bytes))
        .collect();
    assert_eq!(counted, [(3, 3 * 32), (2, 2 * 40), (5, 3 * 32 + 2 * 40)]);
    let hits: Vec<(u64, u64)> = middlebox.hits().map(|h| (h.packets, h.dropped)).collect();
    assert_eq!(hits, [(3, 3), (2, 0), (5, 2)]);
}

#[test]
fn the_last_rule_can_be_deleted_and_one_be_inserted_behind_it() {
    let mut middlebox = boxed("add all mod ip-ttl 3\nadd all accept", 10);
    let mut change = |text: &str| middlebox.apply(&commands(text).unwrap());
    assert_eq!(change("del 3"), Err(Refused::Number(3, 2)));
    assert_eq!(change("del 2"), Ok(()));
    assert_eq!(change("insert 3 add all drop"), Err(Refused::Number(3, 1)));
    assert_eq!(change("insert 2 add all drop"), Ok(()));
    let written: Vec<String> = middlebox
        .rules()
        .map(|(rule, _)| rule.to_string())
        .collect();
    assert_eq!(written, ["add all mod ip-ttl 3", "add all drop"]);
}

#[test]
fn a_rate_drops_where_the_draw_is_below_it() {
    for seed in 0..20 {
        let rng = || Rng::for_name(seed, "box");
        let draw = rng().below(10_000);
        for (rate, dropped) in [(draw, false), (draw + 1, true)] {
            let mut middlebox = Middlebox::new(Settings::default(), rng());
            let rule = format!("add all drop {}.{:02}", rate / 100, rate % 100);
            middlebox.apply(&commands(&rule).unwrap()).unwrap();
            let outcome = push(&mut middlebox, UP, &syn(CLIENT, SERVER));
            assert_eq!(outcome.dropped.is_some(), dropped, "{seed}: {rule}");
        }
    }
}

#[test]
fn what_is_certain_draws_nothing() {
    for (rule, draws) in [
        ("add all drop", false),
        ("add all accept", false),
        (
            "add-stateful all map ip-saddr 203.0.113.9 map tcp-sport 9",
            false,
        ),
        ("add all drop 50", true),
        ("add-stateful all shuffle tcp-sport", true),
    ] {
        let mut middlebox = boxed(rule, 10);
        let before = middlebox.program().unwrap().draws;
        push(&mut middlebox, UP, &syn(CLIENT, SERVER));
        let after = middlebox.program().unwrap().draws;
        assert_eq!(after != before, draws, "{rule}");
    }
}

#[test]
fn a_connection_is_reported_where_its_packets_get_other_ends() {
    for (rule, reported) in [
        ("add-stateful all accept", None),
        ("add-stateful all shuffle tcp-seq-num", None),
        (
            "add-stateful all map ip-saddr self",
            Some([format!("{OWN}:5000"), SERVER.to_owned()]),
        ),
        (
            "add-stateful all map tcp-dport 81",
            Some([CLIENT.to_owned(), "192.0.2.9:81".to_owned()]),
        ),
    ] {
        let mut middlebox = boxed(rule, 10);
        let first = push(&mut middlebox, UP, &syn(CLIENT, SERVER));
        assert_eq!(ends(first), reported, "{rule}");
        let second = push(&mut middlebox, UP, &syn(CLIENT, SERVER));
        assert_eq!(ends(second), None, "{rule}");
    }
}

#[test]
fn a_flow_that_a_rule_without_state_moves_is_reported_beside_rules_with_state() {
    // The packet begins no connection.
    let rules = "add-stateful in outside accept\nadd in inside mod tcp-dport 81";
    let mut middlebox = boxed(rules, 10);
    let moved = Some([CLIENT.to_owned(), "192.0.2.9:81".to_owned()]);
    let outcome = push(&mut middlebox, UP, &syn(CLIENT, SERVER));
    assert_eq!(ends(outcome), moved);
    // Packets of a connection are not, whatever rules without state do to them.
    let mut middlebox = boxed(
        "add-stateful in inside accept\nadd in outside mod tcp-sport 81",
        10,
    );
    assert_eq!(ends(push(&mut middlebox, UP, &syn(CLIENT, SERVER))), None);
    let outcome = push(&mut middlebox, DOWN, &syn(SERVER, CLIENT));
    assert_eq!((outcome.dropped, ends(outcome)), (None, None));
    assert_eq!(middlebox.last_applied().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn flows_in_turn_are_each_reported_once() {
    let mut middlebox = boxed("add all mod tcp-dport 81", 10);
    let mut reported = |client: &str| push(&mut middlebox, UP, &syn(client, SERVER)).translated;
    let [first, second] = [CLIENT, "10.0.0.2:5000"];
    assert!(reported(first).is_some());
    assert!(reported(second).is_some());
    assert!(reported(first).is_none());
    assert!(reported(second).is_none());
}

#[test]
fn a_later_fragment_begins_no_connection() {
    // The first fragment, which has the ports, matches no rule.
    let mut middlebox = boxed("add-stateful ip-frag-offset != 0 accept", 10);
    for fragment in pieces(&udp(CLIENT, SERVER, &[7; 64]), 1, 24) {
        assert_eq!(push(&mut middlebox, UP, &fragment).dropped, None);
        assert_eq!(middlebox.connection_count(), 0);
    }
    assert_eq!(middlebox.last_matched().count(), 1);
}

#[test]
fn an_error_about_a_connection_is_dropped_and_counted_by_a_rule_before_that_of_the_connection() {
    let mut middlebox = boxed("add icmp-type 11 drop\nadd-stateful in inside accept", 10);
    let sent = syn(CLIENT, SERVER);
    push(&mut middlebox, UP, &sent);
    let mut error = Vec::new();
    let router = [198, 51, 100, 3].into();
    Icmp::TimeExceeded
        .report(&mut error, router, &sent, 0)
        .unwrap();
    for _ in 0..2 {
        let outcome = push(&mut middlebox, DOWN, &error);
        assert_eq!(outcome.dropped, Some(DropCause::Policy));
    }
    let counters = middlebox.counters();
    assert_eq!((counters.related, counters.dropped), (2, 2));
}

#[test]
fn a_packet_counts_as_unchanged_where_a_change_of_its_options_was_not_made() {
    let full = with_options(&[[254, 40].as_slice(), &[7; 38]].concat());
    let broken = with_options(&[254, 9, 7, 7]);
    let add = "add all add tcp-opt 253 x0102";
    for (packet, rules, unchanged) in [
        (&syn(CLIENT, SERVER), add, 0),
        (&full, add, 1),
        // The second rule finds room that the first one did not.
        (&full, "add all add tcp-opt 253 x0102\nadd all strip all", 1),
        (&full, "add all strip all\nadd all add tcp-opt 253 x0102", 0),
        (&broken, "add all strip all", 1),
        (&broken, "add all mod ip-ttl 3 mod tcp-dport 9", 0),
        // A datagram has none.
        (&udp(CLIENT, SERVER, b"?"), "add all strip all", 0),
    ] {
        let mut middlebox = boxed(rules, 10);
        for count in 1..3 {
            push(&mut middlebox, UP, packet);
            let counters = middlebox.counters();
            assert_eq!(counters.options_unchanged, count * unchanged, "{rules}");
        }
    }
}

#[test]
fn a_payload_begins_with_bytes_that_it_has() {
    for (payload, rule, matches) in [
        (&[1, 2][..], "udp-payload x0102", true),
        (&[1, 2, 3], "udp-payload x0102", true),
        (&[1], "udp-payload x0102", false),
        (&[0], "udp-payload x0000", false),
        (&[0, 0], "udp-payload x0000", true),
        (&[0], "udp-payload != x0000", true),
        (&[], "udp-payload != x0000", false),
    ] {
        let mut middlebox = boxed(&format!("add {rule} drop"), 10);
        let outcome = push(&mut middlebox, UP, &udp(CLIENT, SERVER, payload));
        assert_eq!(outcome.dropped.is_some(), matches, "{rule}: {payload:?}");
    }
}

#[test]
fn a_table_shows_its_mask_its_keys_and_its_rules() {
    let rules = "add tcp-dport 80 drop\nadd tcp-dport 80 accept\nadd tcp-dport 81 drop
        add ip-ttl > 9 drop";
    let middlebox = boxed(rules, 10);
    let tables: Vec<TableView> = middlebox.tables().collect();
    let shown: Vec<_> = tables
        .iter()
        .map(|t| (t.keys.len(), t.rules, t.ordered))
        .collect();
    assert_eq!(shown, [(2, 3, false), (1, 1, true)]);
    // Behind 40 bytes of IP, and the layers that have to be there at 60.
    assert_eq!(tables[0].mask[42..44], [0xff, 0xff]);
    let ports: Vec<u8> = tables[0].keys.iter().map(|key| key[43]).collect();
    assert_eq!(ports, [80, 81]);
    assert_eq!((tables[1].mask[60], tables[1].keys[0][60]), (1, 1));
    assert_eq!(tables[1].mask.iter().filter(|byte| **byte != 0).count(), 1);
}
