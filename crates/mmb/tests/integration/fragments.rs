//! Fragments: what they belong to, and what becomes of those of which nobody can tell.

use crate::packets::{pieces, tcp, udp};
use narrows_core::{DOWN, DropCause, Port, UP};
use narrows_mmb::{Middlebox, Settings, commands};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::FlowKey;

const A: &str = "10.0.0.1:5000";
const SERVER: &str = "192.0.2.9:80";
const OWN: &str = "203.0.113.1";
const NAT: &str = "add-stateful in inside map ip-saddr self shuffle udp-sport";

fn boxed(rules: &str) -> Middlebox {
    let settings = Settings {
        own: [OWN.parse().unwrap(), "2001:db8:1::1".parse().unwrap()],
        ..Settings::default()
    };
    let mut middlebox = Middlebox::new(settings, Rng::for_name(1, "box"));
    middlebox.apply(&commands(rules).unwrap()).unwrap();
    middlebox
}

fn push(
    middlebox: &mut Middlebox,
    secs: u64,
    port: Port,
    packet: &[u8],
) -> Result<Vec<u8>, DropCause> {
    let mut bytes = packet.to_vec();
    let now = Instant::ZERO + Duration::from_secs(secs);
    match middlebox.process(now, port, &mut bytes, &mut 0).dropped {
        None => Ok(bytes),
        Some(cause) => Err(cause),
    }
}

fn source(packet: &[u8]) -> String {
    FlowKey::of(packet).unwrap().source.to_string()
}

/// A datagram of 72 bytes in fragments of 24, each with the identification.
fn datagram(ident: u16) -> Vec<Vec<u8>> {
    pieces(&udp(A, SERVER, &[7; 64]), ident, 24)
}

#[test]
fn later_fragments_leave_with_the_address_of_the_first() {
    let mut middlebox = boxed(NAT);
    let fragments = datagram(1);
    assert_eq!(fragments.len(), 3);
    for fragment in &fragments {
        let out = push(&mut middlebox, 0, UP, fragment).unwrap();
        assert_eq!(source(&out), OWN);
        assert_eq!(out[20 + 8..], fragment[20 + 8..]);
    }
    assert_eq!(middlebox.counters().stray_fragments, 0);
}

#[test]
fn a_later_fragment_that_comes_first_does_not_leave_with_the_inside_address() {
    let mut middlebox = boxed(NAT);
    let fragments = datagram(1);
    let later = push(&mut middlebox, 0, UP, &fragments[1]);
    assert_eq!(later, Err(DropCause::Policy));
    assert_eq!(middlebox.counters().stray_fragments, 1);
    // Behind the first one it is known, for as long as fragments are waited for.
    push(&mut middlebox, 0, UP, &fragments[0]).unwrap();
    let out = push(&mut middlebox, 29, UP, &fragments[1]).unwrap();
    assert_eq!(source(&out), OWN);
    let late = push(&mut middlebox, 30, UP, &fragments[2]);
    assert_eq!(late, Err(DropCause::Policy));
    // Where nothing is translated, no address leaks, and rules alone decide.
    let mut firewall = boxed("add-stateful in inside accept\nadd in outside drop");
    assert!(push(&mut firewall, 0, UP, &fragments[1]).is_ok());
    assert!(push(&mut firewall, 0, DOWN, &fragments[1]).is_err());
}

#[test]
fn fragments_whose_first_one_was_dropped_are_dropped() {
    let mut middlebox = boxed(NAT);
    // All ports towards the server are taken.
    for host in 0..16_383u32 {
        let from = format!("10.{}.{}.2:5000", host >> 8, host & 255);
        push(&mut middlebox, 0, UP, &udp(&from, SERVER, b"?")).unwrap();
    }
    for fragment in datagram(1) {
        assert!(push(&mut middlebox, 0, UP, &fragment).is_err());
    }
    let counters = middlebox.counters();
    assert_eq!((counters.ports_used_up, counters.stray_fragments), (1, 2));
}

#[test]
fn a_full_table_of_fragments_lets_neither_the_first_nor_later_ones_pass() {
    let mut middlebox = boxed(NAT);
    for ident in 0..16_384u32 {
        let first = &datagram(ident as u16)[0];
        push(&mut middlebox, 0, UP, first).unwrap();
    }
    let fragments = datagram(20_000);
    let first = push(&mut middlebox, 0, UP, &fragments[0]);
    assert_eq!(first, Err(DropCause::Overflow));
    assert!(push(&mut middlebox, 0, UP, &fragments[1]).is_err());
    let counters = middlebox.counters();
    assert_eq!((counters.fragments_full, counters.stray_fragments), (1, 1));
    // One that is followed comes a second time; old ones make room.
    push(&mut middlebox, 0, UP, &datagram(5)[0]).unwrap();
    push(&mut middlebox, 36, UP, &fragments[0]).unwrap();
    push(&mut middlebox, 36, UP, &fragments[1]).unwrap();
}

#[test]
fn fragments_that_hide_ports_or_flags_are_dropped_and_counted() {
    let segment = tcp(A, SERVER, crate::packets::segment(2, 1, 0), &[7; 64]);
    for rules in ["add tcp-dport 80 drop", "add-stateful all accept", NAT] {
        let mut middlebox = boxed(rules);
        // Eight bytes have the ports and no flags; the second would write over the flags.
        let fragments = pieces(&segment, 1, 8);
        for fragment in &fragments[..2] {
            let hidden = push(&mut middlebox, 0, UP, fragment);
            assert_eq!(hidden, Err(DropCause::Malformed), "{rules}");
        }
        assert_eq!(middlebox.counters().tiny_fragments, 2);
        let whole = &pieces(&segment, 1, 24)[0];
        let seen = push(&mut middlebox, 0, UP, whole);
        assert_eq!(seen.is_err(), rules.ends_with("drop"), "{rules}");
    }
    // A box without rules passes what comes.
    let mut none = boxed("");
    assert!(push(&mut none, 0, UP, &pieces(&segment, 1, 8)[0]).is_ok());
}

#[test]
fn fragmented_packets_make_room_five_seconds_after_the_first_one_and_every_five_from_then_on() {
    // Packets from inside begin no connection.
    let mut middlebox = boxed("add-stateful in outside map ip-daddr 10.0.0.1");
    let first = |ident: u32| datagram(ident as u16).swap_remove(0);
    push(&mut middlebox, 10, UP, &first(0)).unwrap();
    for ident in 1..16_384 {
        push(&mut middlebox, 11, UP, &first(ident)).unwrap();
    }
    for secs in 12..40 {
        let refused = push(&mut middlebox, secs, UP, &first(20_000));
        assert_eq!(refused, Err(DropCause::Overflow), "{secs}");
    }
    push(&mut middlebox, 40, UP, &first(20_000)).unwrap();
    let refused = push(&mut middlebox, 44, UP, &first(20_001));
    assert_eq!(
        refused,
        Err(DropCause::Overflow),
        "the others stay up to 45"
    );
    push(&mut middlebox, 45, UP, &first(20_001)).unwrap();
    assert_eq!(middlebox.connection_count(), 0);
}
