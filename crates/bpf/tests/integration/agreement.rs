//! Connections of a real kernel, kept: what it reckoned of each ACK,
//! `narrows-tcp` reckons as well, call by call. Needs no privileges.
//!
//! `NAME.packets.gz` holds the packets of the sender's device
//! ([`crate::recorded::packets`]), `NAME.trace.gz` the calls of its congestion
//! control ([`crate::recorded::calls`]); addresses are of a network that existed
//! for the recording only. `tests/live_agreement.rs` makes them anew.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use crate::agree::{Held, hold};
use crate::recorded::calls::Trace;
use crate::recorded::packets::{self, Packet};
use narrows_bpf::Hook;
use narrows_tcp::testkit::{Mutant, Timer};

const KEPT: [&str; 9] = [
    "reno",
    "reno-without-sack",
    "reno-without-sack-stall",
    "cubic-losses",
    "cubic-tail",
    "cubic-classic-ecn",
    "prague-marks",
    "prague-reordering",
    "prague-timeouts",
];

fn open(name: &str, kind: &str) -> File {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agreement");
    File::open(folder.join(format!("{name}.{kind}.gz"))).expect("the recording is there")
}

fn kept(name: &str) -> (Trace, Vec<Packet>) {
    let trace = Trace::read(open(name, "trace")).expect("a trace");
    (
        trace,
        packets::read(open(name, "packets")).expect("packets"),
    )
}

fn held(name: &str, mutant: Option<Mutant>) -> Held {
    let (trace, packets) = kept(name);
    hold(name, &trace, &packets, mutant)
}

/// With `NARROWS_SHOW_AGREEMENT` set it prints the table of docs/hosts.md.
#[test]
fn every_fact_of_every_kept_connection_is_what_the_kernel_reckoned() {
    let mut all = Held::new("all");
    let (mut states, mut hooks) = (BTreeSet::new(), BTreeSet::new());
    for name in KEPT {
        let held = held(name, None);
        println!("{held}");
        assert!(held.differences.is_empty(), "{held}");
        assert!(held.calls > 500 && held.timers_in_time(), "{held}");
        let (trace, _) = kept(name);
        states.extend(trace.records.iter().map(|r| r.facts.ca_state));
        hooks.extend(trace.records.iter().map(|r| r.hook));
        all.join(&held);
    }
    assert_eq!(Vec::from_iter(states), [0, 1, 2, 3, 4], "every state");
    assert_eq!(Vec::from_iter(hooks), Hook::ALL[..10], "all but a timer");
    let timers: Vec<_> = all.timers.keys().copied().collect();
    assert!(timers.contains(&Timer::Retransmit) && timers.contains(&Timer::LossProbe));
    if std::env::var_os("NARROWS_SHOW_AGREEMENT").is_some() {
        println!("{}", all.table());
    }
}

#[test]
fn wrong_rules_of_reckoning_are_found() {
    for (name, mutant, fact) in [
        ("cubic-losses", Mutant::SackedNotCounted, "delivered"),
        ("prague-reordering", Mutant::SackedNotCounted, "delivered"),
        ("cubic-losses", Mutant::RetransmissionsTwice, "delivered"),
        ("cubic-losses", Mutant::RetransmissionsForgotten, "srtt_us"),
        ("prague-timeouts", Mutant::SilentRetransmissions, "call"),
        ("cubic-tail", Mutant::ProbesInFlight, "in_flight"),
    ] {
        let held = held(name, Some(mutant));
        let tally = held.facts[fact];
        assert!(tally.equal < tally.compared, "{mutant:?} in {name}");
    }
}

#[test]
fn an_ack_that_is_missing_is_found() {
    for name in KEPT {
        let (trace, mut packets) = kept(name);
        let came: Vec<_> = (0..packets.len()).filter(|i| !packets[*i].egress).collect();
        packets.remove(came[came.len() / 2]);
        let held = hold(name, &trace, &packets, None);
        assert!(!held.differences.is_empty(), "{name}");
    }
}
