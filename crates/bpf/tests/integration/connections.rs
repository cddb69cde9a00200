//! Connections in the kernel: rules with state do in the programs of a box what they do in the box,
//! byte for byte, with the same draws. Needs root.
//!
//! `NARROWS_PACKETS=100000 cargo test -p narrows-bpf --test integration connections` draws as many packets in the test of random rules
//! and in that of a full table.

use crate::kernel_box::{boxed, frame, has_double_zero, loaded, rounds};
use crate::packets::{segment, tcp, udp};
use crate::tracked::{Both, drawn_rules, step, turned};
use narrows_mmb::{Command, Middlebox, READY, Rule, Settings, commands};
use narrows_units::{Draw, Rng};
use narrows_wire::TcpFlags;

/// fd00::1.
const INSIDE_6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

#[test]
fn connections_are_in_the_kernel_what_they_are_in_the_box() {
    let mut rng = Rng::for_name(1, "connections in the kernel");
    let (mut begun, mut changed, mut related) = (0, 0, 0);
    for round in 0..24 * rounds(24 * 500) {
        let rules = drawn_rules(&mut rng, 1 + round % 8);
        let commands: Vec<_> = rules.into_iter().map(Command::Add).collect();
        let Some(mut both) = Both::new(boxed(&commands), "connections in the kernel") else {
            return;
        };
        let mut last: Vec<(bool, Vec<u8>)> = Vec::new();
        for _ in 0..500 {
            changed += u32::from(step(&mut both, &mut rng, &mut last));
            if rng.below(50) == 0 {
                both.wait([1, 20, 31, 119, 200, 601, 14_400][rng.below(7) as usize]);
            }
        }
        both.counts_agree();
        let totals = both.runs.totals().unwrap();
        begun += totals.connections;
        related += totals.related;
    }
    assert!(
        begun > 200 && changed > 1_000 && related > 100,
        "{begun} {changed} {related}"
    );
}

/// 100,000 fragments: trains in any order, with some missing and some twice, under rules that translate: the
/// kernel's programs and the box do the same, and no inside address leaves.
#[test]
fn fragments_are_in_the_kernel_what_they_are_in_the_box_and_no_inside_address_leaves() {
    let mut rng = Rng::for_name(1, "fragments in the kernel");
    let mut left = 0;
    for round in 0..10 {
        let nat = "add-stateful in inside map ip-saddr 192.0.2.1 map ip6-saddr 2001:db8::99 \
                   shuffle tcp-sport shuffle udp-sport";
        let mut rules = vec![Rule::parse(nat).unwrap()];
        rules.extend((0..round % 3).map(|_| crate::rules::drawn(&mut rng)));
        let moves = |rule: &Rule| {
            let text = rule.to_string();
            text.contains("addr") || text.contains("ip-ver") || text.contains("ip6-ver")
        };
        rules.retain(|rule| rule.is_stateful() || !moves(rule));
        let commands: Vec<_> = rules.into_iter().map(Command::Add).collect();
        if boxed(&commands).program().is_err() {
            continue;
        }
        let Some(mut both) = Both::new(boxed(&commands), "fragments in the kernel") else {
            return;
        };
        let mut waiting: Vec<Vec<u8>> = Vec::new();
        for _ in 0..10_000 {
            if waiting.len() < 8 {
                let v4 = rng.below(2) == 0;
                let (a, b) = match v4 {
                    true => ("10.0.0.1:5000", "10.0.1.1:80"),
                    false => ("[fd00::1]:5000", "[2001:db8::9]:80"),
                };
                let len = rng.below(120) as usize;
                let payload = vec![rng.draw_u32() as u8; len];
                let packet = match rng.below(2) {
                    0 => udp(a, b, &payload),
                    _ => tcp(a, b, segment(rng.draw_u32() as u16 & 0x3f, 1, 1), &payload),
                };
                let size = [8, 16, 24, 32, 64][rng.below(5) as usize];
                waiting.extend(crate::packets::pieces(&packet, rng.below(6) as u16, size));
            }
            let packet = waiting[rng.below(waiting.len() as u32) as usize].clone();
            match rng.below(4) {
                0 => {}
                _ => waiting.retain(|other| *other != packet),
            }
            if has_double_zero(&packet) {
                continue;
            }
            if let Some(after) = both.push(true, &packet) {
                let h = crate::naive::headers(&after);
                let source = if h.v4 { &after[12..16] } else { &after[8..24] };
                let inside = [&[10, 0, 0, 1][..], &INSIDE_6[..]];
                assert!(!inside.contains(&source), "{packet:02x?}");
                left += 1;
            }
            if rng.below(100) == 0 {
                both.wait([1, 29, 31, 130][rng.below(4) as usize]);
            }
        }
        both.counts_agree();
        assert!(both.runs.totals().unwrap().stray_fragments > 50);
    }
    assert!(left > 1_000, "{left}");
}

/// The ready boxes with state, where they stand between hosts.
#[test]
fn ready_boxes_with_state_do_in_the_kernel_what_they_do_on_a_path() {
    let mut rng = Rng::for_name(1, "ready boxes with state in the kernel");
    let own = ["203.0.113.1", "2001:db8:1::1"].map(|a| a.parse().unwrap());
    for name in ["snat", "sequence-shuffle", "reflexive-firewall"] {
        let ready = READY.iter().find(|ready| ready.name == name).unwrap();
        let settings = Settings {
            own,
            ..Settings::default()
        };
        let mut middlebox = Middlebox::new(settings, Rng::for_name(7, "box"));
        middlebox.apply(&commands(ready.rules).unwrap()).unwrap();
        let Some(mut both) = Both::new(middlebox, name) else {
            return;
        };
        for (a, b) in [
            ("10.0.0.1:5000", "192.0.2.9:80"),
            ("[fd00::1]:5000", "[2001:db8::9]:80"),
        ] {
            let syn = tcp(a, b, segment(TcpFlags::SYN, 1_000, 0), &[]);
            let stray = tcp(b, a, segment(TcpFlags::ACK, 7, 7), &[]);
            both.push(false, &stray);
            let out = both.push(true, &syn).expect("it leaves");
            for _ in 0..20 {
                let back = both.push(false, &turned(&out, &mut rng));
                both.push(true, &turned(&back.expect("it is an answer"), &mut rng));
            }
            let out = both.push(true, &udp(a, b, b"question")).expect("it leaves");
            let back = both.push(false, &turned(&out, &mut rng)).expect("it comes");
            assert_eq!(turned(&back, &mut rng), udp(a, b, b"question"));
            both.wait(600);
            both.push(false, &turned(&out, &mut rng));
        }
        both.counts_agree();
    }
}

/// Sweeps walk over the connections only where one can have expired, by what the last walk found.
#[test]
fn a_sweep_forgets_all_that_expired_and_nothing_else() {
    let mut rng = Rng::for_name(1, "sweeps in the kernel");
    let commands = commands("add-stateful all accept").unwrap();
    let Some(runs) = loaded(&boxed(&commands), "sweeps") else {
        return;
    };
    let (mut most, mut forgotten) = (0, 0);
    for _ in 0..400 {
        for _ in 0..4 {
            let number = rng.below(40);
            let mut ends = [format!("10.0.0.1:{}", 5_000 + number), "10.0.0.2:80".into()];
            ends.rotate_left(rng.below(2) as usize);
            let [from, to] = &ends;
            let flags = [
                TcpFlags::SYN,
                TcpFlags::SYN | TcpFlags::ACK,
                TcpFlags::SYN | TcpFlags::ACK,
                TcpFlags::ACK,
                TcpFlags::RST,
            ][rng.below(5) as usize];
            let packet = match number % 3 {
                0 => udp(from, to, b"?"),
                _ => tcp(from, to, segment(flags, 1, 1), b""),
            };
            runs.run(true, &frame(&packet), 1).unwrap();
        }
        runs.age([1, 5, 5, 30, 119, 120, 121, 600][rng.below(8) as usize])
            .unwrap();
        let before = runs.totals().unwrap().connections;
        runs.sweep().unwrap();
        let (kept, after) = (
            runs.connections().unwrap(),
            runs.totals().unwrap().connections,
        );
        assert_eq!(after, kept.len() as u64);
        most = most.max(after);
        forgotten += before - after;
    }
    assert!(most > 10 && forgotten > 100, "{most} {forgotten}");
}

#[test]
fn a_full_table_and_ports_that_are_used_up_are_counted_and_old_connections_make_room() {
    let rules = "add-stateful ip-proto udp map ip-saddr 192.0.2.1 map udp-sport 7";
    let settings = Settings {
        most_connections: 3,
        ..Settings::default()
    };
    let mut middlebox = Middlebox::new(settings, Rng::for_name(1, "box"));
    middlebox.apply(&commands(rules).unwrap()).unwrap();
    let Some(mut both) = Both::new(middlebox, "a full table") else {
        return;
    };
    let to = |n: u32| udp("10.0.0.1:5000", &format!("198.51.100.{n}:53"), b"?");
    for n in 1..=3 {
        assert!(both.push(true, &to(n)).is_some());
        // With an answer it makes no room for others.
        let answer = udp(&format!("198.51.100.{n}:53"), "192.0.2.1:7", b"!");
        assert!(both.push(false, &answer).is_some());
    }
    assert!(both.push(true, &to(4)).is_none());
    // Another host's packets would look the same.
    let same = udp("10.0.0.2:5000", "198.51.100.2:53", b"?");
    assert!(both.push(true, &same).is_none());
    let totals = both.runs.totals().unwrap();
    let counted = (totals.connections, totals.table_full, totals.ports_used_up);
    assert_eq!(counted, (3, 1, 1));
    both.wait(600);
    both.runs.sweep().unwrap();
    assert_eq!(both.runs.totals().unwrap().connections, 0);
    assert!(both.push(true, &to(4)).is_some());
    both.counts_agree();
}

/// A table with room for a dozen, under openings, answers and ends in any order: the same connections make
/// room in the kernel as in the box.
#[test]
fn the_same_connections_make_room_in_the_kernel_as_in_the_box() {
    let mut rng = Rng::for_name(1, "room in the kernel");
    let settings = Settings {
        most_connections: 12,
        ..Settings::default()
    };
    let mut middlebox = Middlebox::new(settings, Rng::for_name(1, "box"));
    let rules = "add-stateful in inside map ip-saddr 192.0.2.1 shuffle tcp-sport shuffle udp-sport";
    middlebox.apply(&commands(rules).unwrap()).unwrap();
    let Some(mut both) = Both::new(middlebox, "room in the kernel") else {
        return;
    };
    let mut left: Vec<Vec<u8>> = Vec::new();
    for _ in 0..4_000 * rounds(4_000) {
        let from = format!("10.0.0.{}:{}", rng.below(4), 5_000 + rng.below(8));
        let flags = [TcpFlags::SYN, TcpFlags::ACK, TcpFlags::FIN][rng.below(3) as usize];
        let packet = match rng.below(2) {
            0 => udp(&from, "198.51.100.1:53", b"?"),
            _ => tcp(&from, "198.51.100.1:80", segment(flags, 1, 1), b""),
        };
        left.extend(both.push(true, &packet));
        if rng.below(3) == 0 && !left.is_empty() {
            let about = left.swap_remove(rng.below(left.len() as u32) as usize);
            both.push(false, &turned(&about, &mut rng));
        }
        if left.len() > 20 {
            left.remove(0);
        }
        if rng.below(200) == 0 {
            both.wait(30);
        }
    }
    both.counts_agree();
    let totals = both.runs.totals().unwrap();
    assert!(totals.evicted > 200 && totals.table_full > 20, "{totals:?}");
}
