//! Random rules on random packets: the box agrees byte for byte with an interpreter that
//! reads the rules one after the other.

#[allow(dead_code)]
mod naive;
#[allow(dead_code)]
mod packets;

use narrows_mmb::{Command, Fate, Field, Middlebox, Rule, Settings};
use narrows_packet::{DOWN, UP};
use narrows_units::{Instant, Rng};

/// A value of `field` as a rule may write it; often one that packets have.
fn value(rng: &mut Rng, field: Field) -> String {
    let values = field.values();
    let number = |rng: &mut Rng| {
        let raw = rng.draw_u64();
        match rng.below(3) {
            0 => ["80", "443", "0", "5000", "1460", "7", "64"][rng.below(7) as usize].to_owned(),
            1 => format!("{}", raw >> 56),
            _ => format!("x{:x}", raw >> rng.below(64)),
        }
    };
    match () {
        () if values.contains("0 or 1") => rng.below(2).to_string(),
        () if values.contains("no value") => String::new(),
        () if values.contains("IPv4") => {
            let length = ["", "/24", "/31", "/0"][rng.below(4) as usize];
            format!("10.0.{}.{}{length}", rng.below(2), rng.below(3))
        }
        () if values.contains("IPv6") => {
            let length = ["", "/127", "/64"][rng.below(3) as usize];
            format!("2001:db8::{}{length}", rng.below(3))
        }
        () if values.contains("protocol") => {
            ["tcp", "udp", "icmp", "47"][rng.below(4) as usize].to_owned()
        }
        () if values.contains("ip4 or ip6") => ["ip4", "ip6"][rng.below(2) as usize].to_owned(),
        () if values.contains("interface") => {
            ["inside", "outside"][rng.below(2) as usize].to_owned()
        }
        () if values.contains("hexadecimal") => {
            ["x0102", "x00", "x09090909", "x05b4aa"][rng.below(4) as usize].to_owned()
        }
        () => number(rng),
    }
}

/// A field, with a kind where one may follow.
fn field(rng: &mut Rng, fits: impl Fn(Field) -> bool) -> (Field, String) {
    loop {
        let all = naive::fields();
        let field = all[rng.below(all.len() as u32) as usize];
        if !fits(field) {
            continue;
        }
        let kind = match field.name() {
            "tcp-opt" => format!(" {}", [2, 22, 34, 8][rng.below(4) as usize]),
            "ip6-eh" => format!(" {}", [0, 60, 44][rng.below(3) as usize]),
            _ => String::new(),
        };
        return (field, format!("{}{kind}", field.name()));
    }
}

fn constraint(rng: &mut Rng) -> String {
    let (of, name) = field(rng, |_| true);
    let bang = ["", "", "", "! "][rng.below(4) as usize];
    let condition = ["", "==", "!=", "<", ">", "<=", ">="][rng.below(7) as usize];
    match rng.below(3) {
        0 => format!("{bang}{name}"),
        _ => format!("{bang}{name} {condition} {}", value(rng, of)),
    }
}

fn target(rng: &mut Rng) -> String {
    // Checksums that rules set, and payloads that hold them, are tests of their own.
    let settable = |f: Field| {
        let odd =
            f.name().ends_with("checksum") || ["ip-payload", "ip6-payload"].contains(&f.name());
        f.can_be_set() && !odd
    };
    match rng.below(12) {
        0 => "drop".to_owned(),
        1 => "accept".to_owned(),
        2 => "strip all".to_owned(),
        3 => format!("strip {}", field(rng, Field::is_option).1),
        4 => format!("strip ! {}", field(rng, Field::is_option).1),
        5 | 6 => {
            let (of, name) = field(rng, Field::is_option);
            format!("add {name} {}", value(rng, of))
        }
        _ => {
            let (of, name) = field(rng, settable);
            format!("mod {name} {}", value(rng, of))
        }
    }
}

/// A rule that is one; what is drawn often is not.
fn rule(rng: &mut Rng) -> Rule {
    loop {
        let mut line = "add".to_owned();
        match rng.below(8) {
            0 => line += " all",
            _ => {
                for _ in 0..=rng.below(3) {
                    line += " ";
                    line += &constraint(rng);
                }
            }
        }
        for _ in 0..=rng.below(2) {
            line += " ";
            line += &target(rng);
        }
        if let Ok(rule) = Rule::parse(&line) {
            let written = rule.to_string();
            assert_eq!(Rule::parse(&written).as_ref(), Ok(&rule), "{line}");
            return rule;
        }
    }
}

fn boxed(rules: &[Rule]) -> Middlebox {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let commands: Vec<_> = rules.iter().cloned().map(Command::Add).collect();
    middlebox
        .carry_out(&commands)
        .expect("rules of known names");
    middlebox
}

fn check(rules: &[Rule], packets: u32, rng: &mut Rng) -> (u32, u32) {
    let mut middlebox = boxed(rules);
    let (mut matched, mut changed) = (0, 0);
    for _ in 0..packets {
        let packet = packets::drawn(rng);
        let port = if rng.below(2) == 0 { UP } else { DOWN };
        let expected = naive::apply(rules, &packet, port);
        // Zeros at the end may be counted and not stored.
        let mut bytes = packet.clone();
        let h = naive::headers(&packet);
        let keep = (h.above + 60).min(packet.len());
        let zeros = packet[keep..].iter().rev().take_while(|b| **b == 0).count();
        bytes.truncate(packet.len() - zeros);
        let mut tail = zeros as u32;
        let outcome = middlebox.process(Instant::ZERO, port, &mut bytes, &mut tail);
        bytes.resize(bytes.len() + tail as usize, 0);
        let hits: Vec<usize> = (1..)
            .zip(rules)
            .filter(|(_, rule)| naive::matches(rule, &packet, port))
            .map(|(number, _)| number)
            .collect();
        let show = || {
            let lines: Vec<_> = hits.iter().map(|n| rules[n - 1].to_string()).collect();
            format!("{lines:#?} on {packet:02x?}")
        };
        assert_eq!(
            middlebox.last_matched().collect::<Vec<_>>(),
            hits,
            "{}",
            show()
        );
        matched += hits.len() as u32;
        match expected {
            None => assert!(matches!(outcome.fate, Fate::Dropped(_)), "{}", show()),
            Some(expected) => {
                assert_eq!(outcome.fate, Fate::Passed, "{}", show());
                changed += u32::from(expected != packet);
                assert!(
                    bytes == expected,
                    "{}\n is  {bytes:02x?}\n not {expected:02x?}",
                    show()
                );
            }
        }
    }
    (matched, changed)
}

#[test]
fn few_rules_do_what_the_interpreter_does() {
    let mut rng = Rng::for_name(1, "few rules");
    let (mut matched, mut changed) = (0, 0);
    for _ in 0..3_000 {
        let rules: Vec<_> = (0..=rng.below(5)).map(|_| rule(&mut rng)).collect();
        let (hits, changes) = check(&rules, 12, &mut rng);
        matched += hits;
        changed += changes;
    }
    assert!(matched > 10_000, "rules that matched: {matched}");
    assert!(changed > 3_000, "packets that were changed: {changed}");
}

#[test]
fn many_rules_are_found_as_if_each_were_tried() {
    let mut rng = Rng::for_name(1, "many rules");
    for count in [70, 300, 1_500] {
        let rules: Vec<_> = (0..count).map(|_| rule(&mut rng)).collect();
        let (matched, _) = check(&rules, 60, &mut rng);
        assert!(matched > 1_000, "rules that matched: {matched}");
    }
}
