//! Random rules on random packets: the box agrees byte for byte with an interpreter that
//! reads the rules one after the other.

use narrows_core::{DOWN, UP};
use narrows_mmb::{Command, Middlebox, Rule, Settings, commands};
use narrows_units::{Instant, Rng};

fn boxed(rules: &[Rule]) -> Middlebox {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let commands: Vec<_> = rules.iter().cloned().map(Command::Add).collect();
    middlebox.apply(&commands).expect("rules of known names");
    middlebox
}

fn check(rules: &[Rule], packets: u32, rng: &mut Rng) -> (u32, u32) {
    let mut middlebox = boxed(rules);
    let (mut matched, mut changed) = (0, 0);
    for _ in 0..packets {
        let packet = crate::packets::drawn(rng);
        let port = if rng.below(2) == 0 { UP } else { DOWN };
        let expected = crate::naive::apply(rules, &packet, port);
        // Zeros at the end may be counted and not stored.
        let mut bytes = packet.clone();
        let h = crate::naive::headers(&packet);
        let keep = (h.above + 60).min(packet.len());
        let zeros = packet[keep..].iter().rev().take_while(|b| **b == 0).count();
        bytes.truncate(packet.len() - zeros);
        let mut tail = zeros as u32;
        let outcome = middlebox.process(Instant::ZERO, port, &mut bytes, &mut tail);
        bytes.resize(bytes.len() + tail as usize, 0);
        let hits: Vec<usize> = (1..)
            .zip(rules)
            .filter(|(_, rule)| crate::naive::matches(rule, &packet, port))
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
            None => assert!(outcome.dropped.is_some(), "{}", show()),
            Some(expected) => {
                assert_eq!(outcome.dropped, None, "{}", show());
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
        let rules: Vec<_> = (0..=rng.below(5))
            .map(|_| crate::rules::drawn(&mut rng))
            .collect();
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
        let rules: Vec<_> = (0..count).map(|_| crate::rules::drawn(&mut rng)).collect();
        let (matched, _) = check(&rules, 60, &mut rng);
        assert!(matched > 1_000, "rules that matched: {matched}");
    }
}

/// A drawn rule that also sets checksums, or changes what they are over.
fn with_checksums(rng: &mut Rng) -> Rule {
    let further = [
        "mod tcp-checksum x1234",
        "mod udp-checksum 0",
        "mod udp-checksum 7",
        "mod ip-checksum x55aa",
        "mod icmp-checksum 9",
        "mod icmp6-checksum 9",
        "mod ip-payload x0102",
        "mod ip6-payload x0102",
        "strip all",
        "mod tcp-sport 9",
    ];
    loop {
        let mut line = crate::rules::drawn(rng).to_string();
        for _ in 0..=rng.below(2) {
            line = format!("{line} {}", further[rng.below(10) as usize]);
        }
        if let Ok(rule) = Rule::parse(&line) {
            return rule;
        }
    }
}

#[test]
fn a_checksum_that_a_rule_sets_stands_whatever_else_rules_change() {
    let mut rng = Rng::for_name(1, "set checksums");
    let (mut matched, mut changed) = (0, 0);
    for _ in 0..1_500 {
        let rules: Vec<_> = (0..=rng.below(4))
            .map(|_| with_checksums(&mut rng))
            .collect();
        let (hits, changes) = check(&rules, 12, &mut rng);
        matched += hits;
        changed += changes;
    }
    assert!(matched > 4_000 && changed > 3_000, "{matched} {changed}");
}

/// The line with other numbers in it; now and then, if `wrong`, with what is none.
fn renumbered(rng: &mut Rng, line: &str, wrong: bool) -> String {
    const WRONG: [&str; 7] = [
        "300000",
        "10.0.0.1/33",
        "80x",
        "1\u{a0}2",
        "drop",
        "12.5",
        "99999999999999999999999999999999999999999",
    ];
    let pick = |rng: &mut Rng, of: &[&str]| of[rng.below(of.len() as u32) as usize].to_owned();
    let other = |word: &str, rng: &mut Rng| {
        let begins = word.starts_with(|c: char| c.is_ascii_digit());
        match rng.below(40) {
            0 if wrong => pick(rng, &WRONG),
            _ if !begins => word.to_owned(),
            1 if wrong => word.to_owned() + &pick(rng, &WRONG),
            _ if word.contains(':') => {
                let length = word.split_once('/').map(|(_, length)| format!("/{length}"));
                format!("2001:db8::{}{}", rng.below(3), length.unwrap_or_default())
            }
            _ if word.contains('.') => {
                let length = pick(rng, &["", "", "/24", "/31"]);
                format!("10.0.{}.{}{length}", rng.below(2), rng.below(3))
            }
            _ => pick(
                rng,
                &["0", "1", "4", "6", "7", "80", "443", "64", "5000", "x50"],
            ),
        }
    };
    let words: Vec<_> = line.split(' ').map(|word| other(word, rng)).collect();
    words.join(" ")
}

#[test]
fn lines_that_repeat_others_are_read_as_if_they_were_alone() {
    let mut rng = Rng::for_name(1, "lines that repeat");
    let (mut read, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let lines = [crate::rules::drawn(&mut rng), crate::rules::drawn(&mut rng)]
            .map(|rule| rule.to_string());
        let line = &lines[rng.below(2) as usize];
        let other = renumbered(&mut rng, line, true);
        let text = format!("{}\n{}\n{other}\nlist", lines[0], lines[1]);
        match (Command::parse(&other), commands(&text)) {
            (Ok(alone), Ok(commands)) => {
                assert_eq!(commands[2], alone, "{text}");
                read += 1;
            }
            (Err(alone), Err(error)) => {
                assert_eq!((error.line, &error.error), (3, &alone), "{text}");
                refused += 1;
            }
            (alone, together) => panic!("{text}\n{alone:?}\n{together:?}"),
        }
    }
    assert!(read > 2_000 && refused > 200, "{read} and {refused}");
}

#[test]
fn rules_of_few_shapes_do_what_the_interpreter_does() {
    let mut rng = Rng::for_name(1, "few shapes");
    let (mut matched, mut changed) = (0, 0);
    for _ in 0..300 {
        let shapes: Vec<_> = (0..=rng.below(4))
            .map(|_| crate::rules::drawn(&mut rng).to_string())
            .collect();
        let mut text = String::new();
        for _ in 0..40 {
            let shape = &shapes[rng.below(shapes.len() as u32) as usize];
            let line = renumbered(&mut rng, shape, false);
            if Rule::parse(&line).is_ok() {
                text += &format!("{line}\n");
            }
        }
        let read = commands(&text).expect("lines that are rules");
        let rules: Vec<Rule> = read
            .into_iter()
            .filter_map(|command| match command {
                Command::Add(rule) => Some(rule),
                _ => None,
            })
            .collect();
        let (hits, changes) = check(&rules, 20, &mut rng);
        matched += hits;
        changed += changes;
    }
    assert!(matched > 10_000, "rules that matched: {matched}");
    assert!(changed > 500, "packets that were changed: {changed}");
}
