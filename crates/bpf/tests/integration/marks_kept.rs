//! Packets at devices of a real kernel, kept: what its marking programs decided
//! about each, the native state machines decide as well. Needs no privileges;
//! `tests/marks_live.rs` makes them anew.

use std::collections::BTreeSet;

use crate::kept_files::Kind;
use crate::recorded::marks::{SignalRecord, SignalTrace};
use narrows_efm::{SignalSpec, Write};

const KEPT: Kind<SignalTrace> = Kind {
    folder: "tests/marks",
    read: |input| SignalTrace::read(input),
    write: |trace, out| trace.write(out),
};

#[test]
fn kernel_and_native_state_machines_mark_alike_in_every_kept_trace() {
    let mut signals = 0;
    let mut families = BTreeSet::new();
    for path in KEPT.files() {
        let trace = KEPT.open(&path);
        let name = path.display();
        let done = trace.replay().unwrap_or_else(|d| panic!("{name}: {d}"));
        assert_eq!(done.flows, 1, "{name}");
        assert!(done.left > 50 && done.arrived > 50, "{name}: {done:?}");
        assert!(done.set > 0, "{name}");
        signals |= trace.spec.profile().bits();
        families.extend(trace.records.iter().map(|r| r.flow.source.is_ipv4()));
        println!("{name}: {}: {done:?}, Linux {}", trace.spec, trace.kernel);
    }
    assert_eq!(signals, 0xff, "every signal");
    assert_eq!(families.len(), 2, "IPv4 and IPv6");
}

#[test]
fn one_altered_decision_or_packet_is_found() {
    for path in KEPT.files() {
        let trace = KEPT.open(&path);
        let name = path.display();
        let left = |r: &SignalRecord| !r.arrived && !r.packet.is_syn();
        let all: Vec<usize> = (0..trace.records.len())
            .filter(|i| left(&trace.records[*i]))
            .collect();
        let i = all[all.len() / 2];
        let mut decision = trace.clone();
        let before = decision.records[i].write.expect("it was marked");
        decision.records[i].write = Some(Write {
            bits: before.bits ^ before.mask & before.mask.wrapping_neg(),
            ..before
        });
        let found = decision.replay().expect_err("a wrong mark");
        assert_eq!(found.index, i, "{name}");

        let mut headless = trace.clone();
        headless.records.retain(|r| !r.packet.is_syn());
        assert!(headless.replay().is_err(), "{name}");
    }
}

/// What one set of rules decided is no proof for another.
#[test]
fn other_rules_do_not_decide_alike() {
    for path in KEPT.files() {
        let trace = KEPT.open(&path);
        let other = match trace.spec.profile().to_string().as_str() {
            "d+q" => "d+q n 128",
            "s" => "s+d",
            _ => "d+q",
        };
        let other = SignalTrace {
            spec: SignalSpec::parse(other).expect("words"),
            ..trace
        };
        assert!(
            other.replay().is_err(),
            "{} as {}",
            path.display(),
            other.spec
        );
    }
}

#[test]
fn a_trace_is_read_as_it_was_written_and_refused_when_damaged() {
    KEPT.survives_a_file(&KEPT.open(&KEPT.files()[0]));
}
