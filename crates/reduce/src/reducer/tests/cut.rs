//! What a run under way comes to.

use narrows_scenario::load;

use super::*;

/// Of one link of 8 Mbit/s, which carries nothing from 2 s on.
fn stopping() -> Plan {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text);
    write("rates.csv", "time_s,rate_mbit\n0,8\n2,0\n").expect("a file");
    let text = "version = 1\nname = \"n\"\nduration = \"10s\"\n[[link]]\nname = \"access\"\n\
                ends = [\"client\", \"server\"]\n\
                up = [\"netem delay 5ms\", \"bottleneck: rate trace rates.csv\"]\n\
                [[flow]]\nname = \"cubic\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n";
    write("n.toml", text).expect("a file");
    let loaded = load(&dir.path().join("n.toml").to_string_lossy()).expect("a file");
    loaded
        .draft()
        .and_then(|draft| draft.check())
        .expect("a plan")
}

fn cut(plan: &Plan) -> (Cut, NameTable) {
    let names = NameTable::of(plan);
    (Cut::new(plan, names.as_slice().to_vec()), names)
}

const UP: &str = "link/access/up/bottleneck";

/// A packet of so many bytes leaves the bottleneck.
fn leaves(cut: &mut Cut, names: &NameTable, ms: u64, wire_bytes: u32) {
    let event = Event::Dequeued {
        queue: names.id(UP).expect("a queue"),
        packet: &Packet::default(),
        sojourn: Duration::ZERO,
        wire_bytes,
        band: Band::new(&["all"], 0),
    };
    cut.record(at(ms), event);
}

fn value(found: &[EntityValues], entity: &str, metric: &str) -> Option<f64> {
    let of = found.iter().find(|of| of.entity == entity)?;
    let (_, value) = of.values.iter().find(|(name, _)| name == metric)?;
    Some(*value)
}

#[test]
fn a_load_is_of_what_the_link_could_have_carried_over_the_stretch() {
    let plan = stopping();
    let (mut cut, names) = cut(&plan);
    assert_eq!((cut.since(), cut.at(at(0))), (at(0), Vec::new()));
    // 1 Mbit in two seconds of 8 Mbit/s.
    leaves(&mut cut, &names, 1_000, 125_000);
    let found = cut.at(at(2_000));
    assert_eq!(cut.since(), at(2_000));
    assert_eq!(value(&found, UP, "throughput_mbit"), Some(0.5));
    assert_eq!(value(&found, UP, "load"), Some(0.0625));
    // A flow that is not established has no values, and is not listed.
    let entities: Vec<_> = found.iter().map(|of| of.entity.as_str()).collect();
    assert_eq!(entities, [UP]);
    // There is no part of nothing.
    let found = cut.at(at(3_000));
    assert_eq!(value(&found, UP, "throughput_mbit"), Some(0.0));
    assert_eq!(value(&found, UP, "load"), None);
}

#[test]
fn a_load_follows_changes_that_are_added_in_mid_run() {
    let (before, mut after) = (plan(&[]), plan(&[]));
    let (mut cut, names) = cut(&before);
    leaves(&mut cut, &names, 500, 125_000);
    assert_eq!(value(&cut.at(at(1_000)), UP, "load"), Some(0.1));
    after.changes.push(narrows_scenario::TimedChange {
        name: None,
        at: at(1_500),
        target: UP.to_owned(),
        words: "rate 2Mbit".to_owned(),
    });
    cut.amend(&after);
    leaves(&mut cut, &names, 1_600, 125_000);
    // Half a second of 10 Mbit/s, and one of 2.
    let found = cut.at(at(2_500));
    assert_eq!(value(&found, UP, "load"), Some(shortest(1.0 / 7.0)));
}

/// Single precision, as series have it.
fn shortest(value: f32) -> f64 {
    crate::decimal::shortest(value)
}

#[test]
fn rules_have_what_they_did_until_the_last_sample_of_the_stretch() {
    let plan = plan(&[]);
    let (mut cut, names) = cut(&plan);
    let netem = "link/access/up/netem";
    let [queue, other] = [UP, netem].map(|name| names.id(name).expect(name));
    leaves(&mut cut, &names, 100, 1_000);
    for (element, rule, packets, dropped) in [
        (queue, 1, 5, 1),
        (other, 1, 3, 3),
        (other, 2, 1, 0),
        (queue, 1, 7, 2),
    ] {
        let event = Event::RuleSampled {
            element,
            rule,
            packets,
            dropped,
        };
        cut.record(at(200), event);
    }
    let found = cut.at(at(1_000));
    assert_eq!(found.len(), 2, "{found:?}");
    for (entity, metric, expected) in [
        (UP, "rule_1_packets", 7.0),
        (UP, "rule_1_dropped", 2.0),
        (netem, "rule_1_packets", 3.0),
        (netem, "rule_1_dropped", 3.0),
        (netem, "rule_2_packets", 1.0),
        (netem, "rule_2_dropped", 0.0),
    ] {
        assert_eq!(
            value(&found, entity, metric),
            Some(expected),
            "{entity} {metric}"
        );
    }
    let next = cut.at(at(2_000));
    assert_eq!(value(&next, UP, "rule_1_packets"), None);
}

/// What was not recorded in between would be a difference of two delays that are not neighbours.
#[test]
fn delay_and_jitter_of_datagrams_begin_anew_with_the_stretch() {
    let text = "version = 1\nname = \"n\"\nduration = \"4s\"\n[[link]]\nname = \"access\"\n\
                ends = [\"client\", \"server\"]\nup = [\"rate 10Mbit\"]\n[[flow]]\n\
                name = \"calls\"\nfrom = \"client\"\nto = \"server\"\nstart = \"0s\"\n\
                traffic = \"cbr rate 1Mbit size 200\"\n";
    let draft = Draft::read("calls.toml", text.as_bytes());
    let plan = draft.and_then(|draft| draft.check()).expect("a plan");
    let (mut cut, names) = cut(&plan);
    let host = names.id("host/server").expect("a host");
    let arrives = |cut: &mut Cut, ms, took| {
        let packet = &Packet {
            flow: Some(FlowId(0)),
            born: at(ms - took),
            ..Packet::default()
        };
        cut.record(at(ms), Event::Received { host, packet });
    };
    arrives(&mut cut, 500, 90);
    cut.restart(at(1_000));
    arrives(&mut cut, 1_500, 10);
    arrives(&mut cut, 1_600, 26);
    let found = cut.at(at(2_000));
    assert_eq!(value(&found, "flow/calls", "one_way_ms"), Some(18.0));
    assert_eq!(value(&found, "flow/calls", "jitter_ms"), Some(1.0));
}
