//! The tables of a box for a program that runs elsewhere.

use crate::full_tables::boxed;
use narrows_mmb::{
    Condition, Program, ProgramMapped, ProgramRule, ProgramTest, ProgramWhat, Unsupported, commands,
};
use narrows_units::Rng;

fn program(rules: &str) -> Result<Program, Unsupported> {
    boxed(rules, 77).program()
}

#[test]
fn a_program_knows_of_the_box_what_decides_about_packets() {
    let mut middlebox = boxed(
        "add-stateful in inside map ip-saddr self
        add eth-type arp drop
        add tcp-syn accept
        add tcp-fin accept
        add tcp-rst accept",
        77,
    );
    let plain = program("add all mod ip-ttl 3").unwrap();
    assert_eq!(plain.enabled, [true, true]);
    assert!(!plain.stateful && !plain.translates && !plain.frames && !plain.reads_options);
    middlebox
        .apply(&commands("disable outside").unwrap())
        .unwrap();
    let program = middlebox.program().unwrap();
    assert_eq!(program.enabled, [true, false]);
    assert!(program.stateful && program.translates && program.frames);
    assert_eq!(program.most_connections, 77);
    assert_eq!(program.draws, Rng::for_name(1, "box").state());
    let rules: Vec<_> = program
        .rules
        .iter()
        .map(|r| (r.stateful, r.frames))
        .collect();
    let plain = (false, false);
    assert_eq!(rules, [(true, false), (false, true), plain, plain, plain]);
    // Of a million rules no room is left.
    assert_eq!(program.rules.capacity(), 5);
    let firewall = self::program("add-stateful all accept").unwrap();
    assert!(firewall.stateful && !firewall.translates);
}

#[test]
fn a_program_reads_options_where_a_rule_tests_or_changes_them() {
    for (rules, reads) in [
        ("add tcp-dport != 80 drop", false),
        ("add tcp-payload drop", false),
        ("add tcp-opt-sackp drop", true),
        ("add tcp-opt-mss > 1400 drop\nadd tcp-syn drop", true),
        (
            "add tcp-opt 22 ip-ttl != 3 drop\nadd ip-ttl != 4 drop",
            true,
        ),
        ("add all strip all\nadd tcp-syn drop", true),
        ("add-stateful all shuffle tcp-seq-num", true),
    ] {
        assert_eq!(program(rules).unwrap().reads_options, reads, "{rules}");
    }
}

#[test]
fn a_test_is_of_bits_of_the_window_of_a_layer_of_a_payload_or_of_an_option() {
    let none = ProgramTest {
        what: ProgramWhat::Present,
        negated: false,
        layer: 0,
        condition: Condition::Equal,
        at: 0,
        width: 0,
        kind: None,
        mask: 0,
        value: 0,
    };
    for (rule, expected) in [
        (
            "ip-ttl != 3",
            ProgramTest {
                what: ProgramWhat::Number,
                layer: 1,
                condition: Condition::NotEqual,
                at: 64,
                width: 8,
                mask: 0xff,
                value: 3,
                ..none
            },
        ),
        (
            "! ip-saddr 10.0.0.0/8",
            ProgramTest {
                what: ProgramWhat::Number,
                negated: true,
                layer: 1,
                at: 96,
                width: 32,
                mask: 0xff00_0000,
                value: 0x0a00_0000,
                ..none
            },
        ),
        (
            "! tcp-dport",
            ProgramTest {
                negated: true,
                layer: 64,
                ..none
            },
        ),
        (
            "udp-payload",
            ProgramTest {
                what: ProgramWhat::Payload,
                layer: 16,
                ..none
            },
        ),
        (
            "tcp-opt 22",
            ProgramTest {
                what: ProgramWhat::Option,
                layer: 64,
                kind: Some(22),
                ..none
            },
        ),
        (
            "tcp-opt-mss > 1400",
            ProgramTest {
                what: ProgramWhat::OptionNumber,
                layer: 64,
                condition: Condition::Greater,
                width: 16,
                kind: Some(2),
                mask: 0xffff,
                value: 1_400,
                ..none
            },
        ),
    ] {
        let program = program(&format!("add {rule} drop")).unwrap();
        assert_eq!(program.tests, [expected], "{rule}");
        assert_eq!((program.rules[0].test, program.rules[0].tests), (0, 1));
    }
}

#[test]
fn a_range_is_two_tests_and_rules_of_one_key_are_a_chain() {
    let program = program(
        "add tcp-dport >= 1000 tcp-dport < 2000 drop
        add tcp-dport > 60000 accept",
    )
    .unwrap();
    let tests: Vec<_> = program
        .tests
        .iter()
        .map(|test| (test.at, test.width, test.condition, test.value))
        .collect();
    // The port is the second word behind 40 bytes of IP.
    let (least, most) = (Condition::AtLeast, Condition::AtMost);
    assert_eq!(
        tests,
        [
            (336, 16, least, 1_000),
            (336, 16, most, 1_999),
            (336, 16, least, 60_001),
            (336, 16, most, 65_535)
        ]
    );
    let rules: Vec<_> = program
        .rules
        .iter()
        .map(|r| (r.next, r.test, r.tests))
        .collect();
    assert_eq!(rules, [(1, 0, 2), (ProgramRule::LAST, 2, 2)]);
    let keys: Vec<_> = program
        .keys
        .iter()
        .map(|(_, table, rule)| (*table, *rule))
        .collect();
    assert_eq!(keys, [(0, 0)]);
}

#[test]
fn steps_are_words_of_masks_masks_and_the_longest_chain_of_each() {
    for (rules, steps) in [
        // A word and its end, a mask, and a rule.
        ("add tcp-dport 80 drop", 2 + 1 + 1),
        ("add tcp-dport 80 drop\nadd tcp-dport 81 drop", 2 + 1 + 1),
        ("add tcp-dport 80 drop\nadd tcp-dport 80 accept", 2 + 1 + 2),
        (
            "add tcp-dport 80 drop\nadd tcp-dport 80 accept\nadd ip-ttl 3 drop",
            2 + (1 + 2) + (1 + 1),
        ),
    ] {
        assert_eq!(program(rules).unwrap().steps, steps, "{rules}");
    }
    // The masks of prefixes of 65 lengths are two words.
    let rules: Vec<String> = (1..=65)
        .map(|n| format!("add ip6-saddr ::/{n} drop"))
        .collect();
    let program = program(&rules.join("\n")).unwrap();
    assert_eq!((program.masks.len(), program.steps), (65, 3 + 65 * 2));
}

#[test]
fn a_program_has_room_for_4096_masks() {
    let mut rules = String::new();
    for further in ["", "ip-ttl 9", "ip-id 5", "ip-ttl 9 ip-id 5"] {
        for (source, destination) in (1..=32).flat_map(|a| (1..=32).map(move |b| (a, b))) {
            rules += &format!("add ip-saddr 0.0.0.0/{source} ip-daddr 0.0.0.0/{destination} ");
            rules += &format!("{further} drop\n");
        }
    }
    let most = program(&rules).unwrap();
    assert_eq!(most.masks.len(), 4_096);
    let refused = program(&(rules + "add all drop")).unwrap_err();
    assert_eq!(refused.rule, None);
    assert_eq!(
        refused.to_string(),
        "the rules have 4097 distinct masks; the program has room for 4096"
    );
}

#[test]
fn a_rule_has_room_for_eight_tests_four_verdicts_and_24_words() {
    let refused = |rule: &str| {
        let rules = format!("add tcp-syn drop\n{rule}");
        let refused = program(&rules).err()?;
        let line = refused.to_string();
        assert!(line.starts_with("rule 2, `add "), "{line}");
        Some(refused.what)
    };
    let tests = |count: usize| format!("add {} drop", "ip-ttl != 1 ".repeat(count));
    assert_eq!(refused(&tests(8)), None);
    let what = "it has more than 8 conditions other than equalities";
    assert_eq!(refused(&tests(9)).as_deref(), Some(what));
    let four = "add all drop 1 drop 2 drop 3.5 accept";
    assert_eq!(
        program(four).unwrap().actions[0].verdicts,
        [100, 200, 350, 0xffff]
    );
    assert_eq!(refused(four), None);
    let what = "it has more than 4 `drop` and `accept`";
    assert_eq!(refused(&format!("{four} drop")).as_deref(), Some(what));
    // An address of IPv6 is eight words.
    let two = "add icmp6-type 1 mod ip6-saddr ::1 mod ip6-daddr ::2";
    let three = format!("{two} mod ip6-saddr ::3");
    let hops = |count: usize| " mod ip6-hop-limit 9".repeat(count);
    let sum = " mod icmp6-checksum 1";
    let what = "it changes more than 48 bytes";
    for (rule, fits) in [
        (three.clone(), true),
        (three.clone() + &hops(1), false),
        (three + sum, false),
        (two.to_owned() + &hops(7) + sum, true),
        (two.to_owned() + &hops(8) + sum, false),
    ] {
        let expected = (!fits).then_some(what);
        assert_eq!(refused(&rule).as_deref(), expected, "{rule}");
    }
}

#[test]
fn each_field_of_a_mapping_has_its_number_and_its_value() {
    use ProgramMapped as Mapped;
    let v4 = |address: [u8; 4]| {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&address);
        bytes
    };
    let v6 = std::net::Ipv6Addr::LOCALHOST.octets();
    for (target, what, drawn, number, address) in [
        (
            "map ip-saddr 10.0.0.1",
            Mapped::Source4,
            0,
            0,
            v4([10, 0, 0, 1]),
        ),
        (
            "map ip-daddr 10.0.0.2",
            Mapped::Destination4,
            0,
            0,
            v4([10, 0, 0, 2]),
        ),
        ("map ip6-saddr ::1", Mapped::Source6, 0, 0, v6),
        ("map ip6-daddr ::1", Mapped::Destination6, 0, 0, v6),
        ("map tcp-sport 1", Mapped::TcpSource, 0, 1, [0; 16]),
        ("map tcp-dport 2", Mapped::TcpDestination, 0, 2, [0; 16]),
        ("map udp-sport 3", Mapped::UdpSource, 0, 3, [0; 16]),
        ("map udp-dport 4", Mapped::UdpDestination, 0, 4, [0; 16]),
        ("map ip-id 5", Mapped::Ident, 0, 5, [0; 16]),
        ("map ip6-flow-label 6", Mapped::Label, 0, 6, [0; 16]),
        ("map icmp-ident 7", Mapped::IcmpIdent, 0, 7, [0; 16]),
        ("map icmp6-ident 8", Mapped::Icmp6Ident, 0, 8, [0; 16]),
        ("shuffle tcp-seq-num", Mapped::Seq, 1, 0, [0; 16]),
        ("shuffle tcp-ack-num", Mapped::Ack, 1, 0, [0; 16]),
        ("shuffle udp-dport", Mapped::UdpDestination, 1, 0, [0; 16]),
    ] {
        let program = program(&format!("add-stateful all {target}")).unwrap();
        let [mapping] = program.actions[0].mappings[..] else {
            panic!("{target}");
        };
        assert_eq!(
            (mapping.what, mapping.drawn),
            (what as u8, drawn),
            "{target}"
        );
        assert_eq!(
            (mapping.number, mapping.address),
            (number, address),
            "{target}"
        );
    }
}

#[test]
fn whether_there_is_a_payload_or_an_option_a_program_can_test() {
    for rule in [
        "add tcp-payload drop",
        "add ip6-payload drop",
        "add tcp-opt-sackp drop",
        "add tcp-opt-sack drop",
        "add tcp-opt drop",
        "add tcp-opt-mss > 1400 drop",
        "add tcp-opt-timestamp 5 drop",
    ] {
        assert!(program(rule).is_ok(), "{rule}");
    }
}

#[test]
fn an_identification_that_connections_get_differs_between_segments_and_a_shift_does_not() {
    for (target, expected) in [
        ("map ip-id 3", &["ip-id"][..]),
        ("shuffle ip-id", &["ip-id"]),
        ("shuffle tcp-seq-num", &[]),
        ("map tcp-sport 9", &[]),
        ("accept", &[]),
    ] {
        let program = program(&format!("add-stateful all {target}")).unwrap();
        let named: Vec<_> = program
            .of_one_segment
            .iter()
            .map(|(_, what)| *what)
            .collect();
        assert_eq!(named, expected, "{target}");
    }
}
