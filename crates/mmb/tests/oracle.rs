//! Random rules on random packets: the box agrees byte for byte with an interpreter that
//! reads the rules one after the other.

#[allow(dead_code)]
mod naive;
#[allow(dead_code)]
mod packets;
mod rules;

use narrows_mmb::{Command, Fate, Middlebox, Rule, Settings};
use narrows_packet::{DOWN, UP};
use narrows_units::{Instant, Rng};

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
        let rules: Vec<_> = (0..=rng.below(5)).map(|_| rules::drawn(&mut rng)).collect();
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
        let rules: Vec<_> = (0..count).map(|_| rules::drawn(&mut rng)).collect();
        let (matched, _) = check(&rules, 60, &mut rng);
        assert!(matched > 1_000, "rules that matched: {matched}");
    }
}
