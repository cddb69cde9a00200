//! Frames that are not IP: rules are about them that name their type, and of these those match that say
//! nothing else of a packet than where it came and leaves.

use crate::full_tables::boxed;
use narrows_core::{DOWN, DropCause, Port, UP};
use narrows_mmb::RuleHits;

const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const MPLS: u16 = 0x8847;

#[test]
fn a_frame_is_dropped_by_rules_that_its_type_and_its_interfaces_match() {
    let (both, arp) = ([UP, DOWN], [(UP, ARP), (DOWN, ARP)]);
    let of = |types: &[u16]| -> Vec<(Port, u16)> {
        let ways = both.iter();
        ways.flat_map(|port| types.iter().map(|t| (*port, *t)))
            .collect()
    };
    for (constraints, dropped) in [
        ("eth-type arp", of(&[ARP])),
        ("eth-type != arp", of(&[VLAN, MPLS])),
        ("eth-type > vlan", of(&[MPLS])),
        ("eth-type >= vlan eth-type <= vlan", of(&[VLAN])),
        ("! eth-type arp", of(&[VLAN, MPLS])),
        ("eth-type", of(&[ARP, VLAN, MPLS])),
        ("! eth-type", vec![]),
        ("in inside eth-type arp", vec![(UP, ARP)]),
        ("in outside eth-type arp", vec![(DOWN, ARP)]),
        ("out outside eth-type arp", vec![(UP, ARP)]),
        ("out inside eth-type arp", vec![(DOWN, ARP)]),
        ("in != inside eth-type arp", vec![(DOWN, ARP)]),
        ("! in inside eth-type arp", vec![(DOWN, ARP)]),
        // No frame has a field of IP.
        ("eth-type arp ! ip-ttl 3", arp.to_vec()),
        ("eth-type arp ! tcp-syn", arp.to_vec()),
        // These are about packets of IP.
        ("all", vec![]),
        ("in inside", vec![]),
        ("! ip-ttl 3", vec![]),
    ] {
        let mut middlebox = boxed(&format!("add {constraints} drop"), 10);
        let mut found = Vec::new();
        for (port, kind) in of(&[ARP, VLAN, MPLS]) {
            let matched = match middlebox.process_frame(port, kind, 60) {
                Some(DropCause::Policy) => {
                    found.push((port, kind));
                    1
                }
                Some(cause) => panic!("{cause:?}"),
                None => 0,
            };
            assert_eq!(middlebox.last_matched().count(), matched);
            assert_eq!(middlebox.last_applied().count(), matched);
            assert_eq!(middlebox.last_direction(), None);
        }
        assert_eq!(found, dropped, "{constraints}");
    }
}

#[test]
fn frames_and_their_bytes_are_counted_by_the_box_and_by_their_rules() {
    let rules = "add eth-type arp in inside accept
        add eth-type arp drop
        add eth-type drop
        add all drop";
    let mut middlebox = boxed(rules, 10);
    for (port, kind, bytes) in [
        (UP, ARP, 60),
        (UP, ARP, 64),
        (DOWN, ARP, 100),
        (DOWN, ARP, 70),
        (UP, MPLS, 1_000),
    ] {
        middlebox.process_frame(port, kind, bytes);
    }
    let counters = middlebox.counters();
    assert_eq!((counters.frames, counters.frames_dropped), (5, 3));
    assert_eq!((counters.packets, counters.dropped), (0, 0));
    let counted: Vec<(u64, u64)> = middlebox
        .rules()
        .map(|(_, c)| (c.packets, c.bytes))
        .collect();
    assert_eq!(counted, [(2, 124), (4, 294), (5, 1_294), (0, 0)]);
    let hits: Vec<RuleHits> = middlebox.hits().collect();
    let dropped: Vec<u64> = hits.iter().map(|hits| hits.dropped).collect();
    // What a rule before them accepts or drops, others do not drop.
    assert_eq!(dropped, [0, 2, 1, 0]);
}

#[test]
fn frames_of_an_interface_that_is_disabled_pass_and_are_counted_by_the_box_alone() {
    let mut middlebox = boxed("add eth-type drop; disable inside", 10);
    assert_eq!(middlebox.process_frame(UP, ARP, 60), None);
    let dropped = middlebox.process_frame(DOWN, ARP, 60);
    assert_eq!(dropped, Some(DropCause::Policy));
    let counters = middlebox.counters();
    assert_eq!((counters.frames, counters.frames_dropped), (2, 1));
    assert_eq!(middlebox.hits().next().unwrap().packets, 1);
}
