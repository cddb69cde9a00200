//! Rules that come and go in the kernel do what they do in the box: connections go on by the rules that stay,
//! byte for byte, and what was counted stays theirs. Needs root.
//!
//! `NARROWS_PACKETS=100000 cargo test -p narrows-bpf --test reload` draws as many packets in the test of random rules.

use std::collections::BTreeMap;

use crate::kernel_box::{boxed, rounds};
use crate::tracked::{Both, drawn_rules, step};
use narrows_mmb::{Command, Middlebox, Rule, commands};
use narrows_units::Rng;
use narrows_wire::FlowKey;

/// The rules of each connection, by its key.
fn rules_of(all: impl Iterator<Item = (FlowKey, Vec<usize>)>) -> BTreeMap<FlowKey, Vec<usize>> {
    all.map(|(key, mut rules)| {
        rules.sort_unstable();
        (key, rules)
    })
    .collect()
}

fn connections_agree(both: &Both) -> usize {
    let own = both.middlebox.connections().map(|c| (c.forward, c.rules));
    let kernel = both.runs.connections().unwrap();
    let kernel = kernel.into_iter().map(|c| (c.forward, c.rules));
    let own = rules_of(own);
    assert_eq!(rules_of(kernel), own);
    own.len()
}

fn written(middlebox: &Middlebox) -> Vec<Command> {
    let rules = middlebox.rules().map(|(rule, _)| rule.clone());
    rules.map(Command::Add).collect()
}

/// A change of the rules of `both`, which leaves one that programs can do.
fn change(both: &mut Both, rng: &mut Rng) -> bool {
    let count = both.middlebox.rules().len() as u32;
    let new = |rng: &mut Rng| drawn_rules(rng, 1).remove(0);
    let place = |rng: &mut Rng, count: u32| 1 + rng.below(count) as usize;
    let (afresh, commands) = match rng.below(5) {
        0 if count > 1 => (false, vec![Command::Delete(place(rng, count))]),
        0 | 1 => (
            false,
            vec![Command::Insert(place(rng, count + 1), new(rng))],
        ),
        2 => (false, vec![Command::Flush, Command::Add(new(rng))]),
        3 => {
            // The same in another order, with one more.
            let mut all = written(&both.middlebox);
            let at = rng.below(count) as usize;
            all.rotate_left(at);
            all.push(Command::Add(new(rng)));
            (true, all)
        }
        _ => {
            // None has state.
            let rule = Rule::parse("add ip-proto 253 drop").unwrap();
            let mut all = written(&both.middlebox);
            all.retain(|command| !matches!(command, Command::Add(rule) if rule.is_stateful()));
            all.push(Command::Add(rule));
            (true, all)
        }
    };
    let mut after = boxed(&written(&both.middlebox));
    let done = match afresh {
        true => after.reload(commands.clone()),
        false => after.change(commands.clone()),
    };
    done.unwrap();
    if after.program().is_err() {
        return false;
    }
    both.change(afresh, &commands);
    true
}

#[test]
fn rules_that_come_and_go_do_in_the_kernel_what_they_do_in_the_box() {
    let mut rng = Rng::for_name(1, "reloads in the kernel");
    let (mut changes, mut changed, mut went_on) = (0, 0, 0);
    for round in 0..4 * rounds(4 * 8 * 150) {
        let rules = drawn_rules(&mut rng, 2 + round % 4);
        let commands: Vec<_> = rules.into_iter().map(Command::Add).collect();
        let Some(mut both) = Both::new(boxed(&commands), "reloads in the kernel") else {
            return;
        };
        let mut last: Vec<(bool, Vec<u8>)> = Vec::new();
        for _ in 0..8 {
            for _ in 0..150 {
                changed += u32::from(step(&mut both, &mut rng, &mut last));
            }
            changes += u32::from(change(&mut both, &mut rng));
            went_on += connections_agree(&both);
            both.counts_agree();
        }
    }
    assert!(
        changes > 20 && changed > 500 && went_on > 200,
        "{changes} {changed} {went_on}"
    );
}

#[test]
fn a_rule_keeps_its_connections_and_counters_whatever_number_it_gets() {
    let nat = "add-stateful in inside map ip-saddr 192.0.2.1 shuffle udp-sport";
    let text = format!("add ip-dscp 9 drop\n{nat}\nadd in outside drop");
    let mut rng = Rng::for_name(1, "a rule that stays");
    let Some(mut both) = Both::new(boxed(&commands(&text).unwrap()), "a rule that stays") else {
        return;
    };
    let asked = crate::packets::udp("10.0.0.1:5000", "10.0.1.1:53", b"question");
    let left = both.push(true, &asked).expect("it goes on");
    let answer = crate::tracked::turned(&left, &mut rng);
    // What is drawn later does not begin anew.
    let other = crate::packets::udp("10.0.0.2:5000", "10.0.1.1:53", b"question");
    for text in [
        format!("add-stateful in inside accept\n{nat}\nadd udp-sport 99 drop"),
        format!("{nat}\nadd-stateful in inside accept\nadd-stateful udp-dport 53 mod ip-dscp 3"),
        format!("add-stateful udp-dport 53 mod ip-dscp 3\nadd all mod ip-ttl 9\n{nat}"),
    ] {
        both.change(true, &commands(&text).unwrap());
        connections_agree(&both);
        let back = both.push(false, &answer).expect("it is of the connection");
        assert_eq!(FlowKey::of(&back).unwrap().destination_port, 5000, "{text}");
        assert_eq!(
            both.push(true, &asked).map(|p| p[12..16].to_vec()),
            Some(left[12..16].to_vec())
        );
        both.push(true, &other).expect("it goes on");
        both.counts_agree();
    }
    let nat_counted = both.middlebox.rules().nth(2).expect("it is the third").1;
    assert_eq!(nat_counted.packets, 10);
    // Without it the connection goes, and the next begins anew.
    both.change(
        false,
        &commands("del 3; del 1; add in outside drop").unwrap(),
    );
    assert_eq!(connections_agree(&both), 0);
    assert_eq!(both.push(false, &answer), None);
    both.counts_agree();
}
