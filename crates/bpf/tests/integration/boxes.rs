//! The programs of a box hold to the box and to the naive interpreter: random rules on random
//! packets, byte for byte, through the kernel's test runs. Needs root.
//!
//! `NARROWS_PACKETS=100000 cargo test -p narrows-bpf --test integration boxes` draws as many packets in each test of random rules.

use crate::kernel_box::{ETHERNET, boxed, frame, has_double_zero, loaded, other_frame, rounds};
use narrows_core::{DOWN, UP};
use narrows_mmb::{Command, Middlebox, READY, Rule, commands};
use narrows_units::{Instant, Rng};

/// How packets were dealt with.
#[derive(Default)]
struct Tally {
    dropped: u32,
    changed: u32,
    passed: u32,
}

/// Sends packets through the programs, the box and the interpreter.
fn agree(
    middlebox: &mut Middlebox,
    rules: &[Rule],
    packets: u32,
    rng: &mut Rng,
    tally: &mut Tally,
) {
    let Some(runs) = loaded(middlebox, "boxes in the kernel") else {
        return;
    };
    for _ in 0..packets {
        let packet = crate::packets::drawn(rng);
        if has_double_zero(&packet) {
            continue;
        }
        let (port, leaves) = [(UP, true), (DOWN, false)][rng.below(2) as usize];
        let (after, _) = runs.run(leaves, &frame(&packet), 1).unwrap();
        let after = after.map(|frame| frame[ETHERNET..].to_vec());
        let mut bytes = packet.clone();
        let outcome = middlebox.process(Instant::ZERO, port, &mut bytes, &mut 0);
        let expected = outcome.dropped.is_none().then_some(bytes);
        let lines = || {
            let all = rules.iter().map(ToString::to_string);
            all.collect::<Vec<_>>().join("\n")
        };
        assert!(
            after == expected,
            "{}\n{packet:02x?}\n is  {after:02x?}\n not {expected:02x?}",
            lines()
        );
        assert_eq!(
            crate::naive::apply(rules, &packet, port),
            expected,
            "{}",
            lines()
        );
        match &after {
            None => tally.dropped += 1,
            Some(after) if *after != packet => tally.changed += 1,
            Some(_) => tally.passed += 1,
        }
    }
    let counted: Vec<_> = middlebox.rules().map(|(_, counted)| counted).collect();
    assert_eq!(runs.rules().unwrap(), counted);
    let totals = runs.totals().unwrap();
    let own = middlebox.counters();
    assert_eq!(
        (totals.packets, totals.dropped, totals.options_unchanged),
        (own.packets, own.dropped, own.options_unchanged)
    );
    assert_eq!(
        (totals.malformed, totals.overmatched, totals.unwritten),
        (0, 0, 0)
    );
}

/// So many drawn rules that the program can do, as commands.
fn supported(rng: &mut Rng, count: u32) -> Vec<Rule> {
    let mut rules = Vec::new();
    while rules.len() < count as usize {
        let rule = crate::rules::drawn(rng);
        if boxed(&[Command::Add(rule.clone())]).program().is_ok() {
            rules.push(rule);
        }
    }
    rules
}

fn check(rng: &mut Rng, count: u32, packets: u32, tally: &mut Tally) {
    let rules = supported(rng, count);
    let commands: Vec<_> = rules.iter().cloned().map(Command::Add).collect();
    agree(&mut boxed(&commands), &rules, packets, rng, tally);
}

#[test]
fn few_rules_do_in_the_kernel_what_they_do_in_the_box() {
    let mut rng = Rng::for_name(1, "rules in the kernel");
    let mut tally = Tally::default();
    for _ in 0..rounds(2_500) {
        // Loading takes longer than thousands of packets.
        for count in [1, 2, 3, 4, 6, 8, 10, 12, 14, 16] {
            check(&mut rng, count, 250, &mut tally);
        }
    }
    let Tally {
        dropped,
        changed,
        passed,
    } = tally;
    let none = dropped + changed + passed == 0;
    assert!(
        none || dropped.min(changed).min(passed) > 100,
        "{dropped} {changed} {passed}"
    );
}

#[test]
fn many_masks_are_found_in_the_kernel_too() {
    let mut rng = Rng::for_name(1, "masks in the kernel");
    for _ in 0..rounds(1_000) {
        // As many as one packet may match.
        check(&mut rng, 64, 1_000, &mut Tally::default());
    }
}

#[test]
fn ready_boxes_do_in_the_kernel_what_they_do_on_a_path() {
    let mut rng = Rng::for_name(1, "ready boxes in the kernel");
    for ready in READY {
        let commands = commands(ready.rules).unwrap();
        let mut middlebox = boxed(&commands);
        // tests/connections.rs has those with state.
        if middlebox.program().expect(ready.name).stateful {
            continue;
        }
        let rules: Vec<Rule> = middlebox.rules().map(|(rule, _)| rule.clone()).collect();
        agree(&mut middlebox, &rules, 200, &mut rng, &mut Tally::default());
    }
}

#[test]
fn options_that_come_and_go_make_headers_longer_and_shorter_in_the_kernel_too() {
    let mut rng = Rng::for_name(1, "options in the kernel");
    let mut tally = Tally::default();
    for text in [
        "add all strip all",
        "add all add tcp-opt 99 x0102030405060708090a0b0c0d0e0f101112",
        "add all strip tcp-opt-timestamp add tcp-opt-mss 1200\nadd all mod tcp-opt 22 x010203",
        "add all strip ! tcp-opt-mss add tcp-opt 77 x01\nadd all strip tcp-opt 77",
        "add all mod ip-ttl 9 mod ip6-hop-limit 9 add tcp-opt-wscale 3 mod tcp-opt 34 x00",
        "add all mod tcp-opt 34 x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d",
        "add all add tcp-opt-sackp add tcp-opt-sack x0102030405060708 mod tcp-opt-sack x0102",
    ] {
        let mut middlebox = boxed(&commands(text).unwrap());
        let rules: Vec<Rule> = middlebox.rules().map(|(rule, _)| rule.clone()).collect();
        agree(&mut middlebox, &rules, 400, &mut rng, &mut tally);
    }
    let none = tally.changed + tally.passed == 0;
    assert!(none || tally.changed > 500, "{}", tally.changed);
}

#[test]
fn frames_that_are_not_ip_pass_unless_a_rule_names_their_type() {
    const TYPES: [u16; 8] = [
        0x0806, 0x8100, 0x88a8, 0x8847, 0x8864, 0x88cc, 0x0601, 0x0046,
    ];
    let mut rng = Rng::for_name(1, "frames in the kernel");
    let (mut dropped, mut passed) = (0, 0);
    for text in [
        "add all drop\nadd ! tcp-dport 80 drop\nadd in inside drop",
        "add eth-type drop",
        "add eth-type arp accept\nadd all drop\nadd eth-type drop",
        "add eth-type != arp in inside drop\nadd ! eth-type mpls ! eth-type llc drop",
        "add eth-type >= x8847 eth-type < x88a8 drop\nadd eth-type vlan drop",
        "add eth-type llc drop\nadd eth-type x88cc out inside drop",
    ] {
        let mut middlebox = boxed(&commands(text).unwrap());
        let Some(runs) = loaded(&middlebox, "frames that are not IP") else {
            return;
        };
        for _ in 0..60 {
            let (port, leaves) = [(UP, true), (DOWN, false)][rng.below(2) as usize];
            if rng.below(4) == 0 {
                let mut packet = crate::packets::drawn(&mut rng);
                let (after, _) = runs.run(leaves, &frame(&packet), 1).unwrap();
                let outcome = middlebox.process(Instant::ZERO, port, &mut packet, &mut 0);
                assert_eq!(after.is_none(), outcome.dropped.is_some(), "{text}");
                continue;
            }
            let kind = TYPES[rng.below(8) as usize];
            let sent = other_frame(kind);
            let (after, _) = runs.run(leaves, &sent, 1).unwrap();
            // A length of IEEE 802.3 is shown as ETH_P_802_2.
            let kind = if kind < 0x600 { 4 } else { kind };
            let cause = middlebox.process_frame(port, kind, sent.len() - ETHERNET);
            let expected = cause.is_none().then_some(sent);
            assert_eq!(after, expected, "{text}: {kind:#06x} {leaves}");
            *(if after.is_some() {
                &mut passed
            } else {
                &mut dropped
            }) += 1;
        }
        let (totals, own) = (runs.totals().unwrap(), middlebox.counters());
        assert_eq!(
            (totals.other, totals.frames_dropped),
            (own.frames, own.frames_dropped)
        );
        let counted: Vec<_> = middlebox.rules().map(|(_, counted)| counted).collect();
        assert_eq!(runs.rules().unwrap(), counted, "{text}");
        assert_eq!((totals.packets, totals.dropped), (own.packets, own.dropped));
    }
    assert!(dropped > 50 && passed > 50, "{dropped} {passed}");
}

#[test]
fn packets_cut_at_every_byte_are_malformed_or_seen_as_far_as_they_are_there() {
    let rule = Rule::parse("add tcp-syn mod ip-ttl 3").unwrap();
    let mut middlebox = boxed(&[Command::Add(rule)]);
    let Some(runs) = loaded(&middlebox, "packets cut at every byte") else {
        return;
    };
    let mut rng = Rng::for_name(1, "cut packets");
    for _ in 0..6 {
        let packet = crate::packets::drawn(&mut rng);
        for len in 1..packet.len() {
            let cut = &packet[..len];
            let Ok((after, _)) = runs.run(true, &frame(cut), 1) else {
                // The kernel takes no frame that its headers do not fit in.
                continue;
            };
            let mut bytes = cut.to_vec();
            let outcome = middlebox.process(Instant::ZERO, UP, &mut bytes, &mut 0);
            let expected = outcome.dropped.is_none().then_some(frame(&bytes));
            assert_eq!(after, expected, "{cut:02x?}");
        }
    }
}

#[test]
fn a_chance_is_kept_in_the_kernel_too() {
    let rule = Rule::parse("add all drop 12.5").unwrap();
    let Some(runs) = loaded(&boxed(&[Command::Add(rule)]), "chances") else {
        return;
    };
    let packet = crate::packets::udp("10.0.0.1:5000", "10.0.0.2:5001", b"data");
    let frame = frame(&packet);
    runs.run(true, &frame, 20_000).unwrap();
    let totals = runs.totals().unwrap();
    assert_eq!(totals.packets, 20_000);
    // 2500 expected with a deviation of 47; by chance this fails once in 10^9.
    assert!(
        totals.dropped.abs_diff(2_500) < 6 * 47,
        "{}",
        totals.dropped
    );
}
