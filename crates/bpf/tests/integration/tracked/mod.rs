//! Connections through a box and its programs, and packets and rules that make many of them.

use narrows_bpf::testkit::BoxRuns;
use narrows_core::{DOWN, UP};
use narrows_mmb::{Command, Middlebox, Rule, Target};
use narrows_units::{Draw, Duration, Instant, Rng};
use narrows_wire::{FlowKey, Icmp};

use super::kernel_box::{ETHERNET, boxed, frame, has_double_zero, loaded};
use super::{naive, packets, rules};

/// A box and its programs.
pub struct Both {
    pub middlebox: Middlebox,
    pub runs: BoxRuns,
    /// What was waited for, beside the time that passes.
    waited: Duration,
    begun: std::time::Instant,
}

impl Both {
    /// `None` where programs cannot be loaded.
    pub fn new(middlebox: Middlebox, test: &str) -> Option<Self> {
        let runs = loaded(&middlebox, test)?;
        Some(Self {
            middlebox,
            runs,
            waited: Duration::ZERO,
            begun: std::time::Instant::now(),
        })
    }

    /// The box's time: that of the kernel's programs passes by itself, on a busy machine by many
    /// seconds in a test, and what they remember expires by it.
    fn now(&self) -> Instant {
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::ZERO + self.waited + Duration::from_nanos(ns)
    }

    pub fn wait(&mut self, secs: u64) {
        self.waited += Duration::from_secs(secs);
        self.runs.age(secs).unwrap();
    }

    /// Both get other rules: by commands, or those that these make in the place of all.
    pub fn change(&mut self, afresh: bool, commands: &[Command]) {
        let changed = match afresh {
            true => self.middlebox.reload(commands.to_vec()),
            false => self.middlebox.change(commands.to_vec()),
        };
        let kept = changed.expect("rules of known names");
        let program = self
            .middlebox
            .program()
            .expect("rules that programs can do");
        self.runs
            .reload(&program, &kept)
            .expect("as the first ones");
    }

    /// What becomes of the packet, in both the same.
    pub fn push(&mut self, leaves: bool, packet: &[u8]) -> Option<Vec<u8>> {
        let (after, _) = self.runs.run(leaves, &frame(packet), 1).unwrap();
        let after = after.map(|frame| frame[ETHERNET..].to_vec());
        let mut bytes = packet.to_vec();
        let port = if leaves { UP } else { DOWN };
        let now = self.now();
        let outcome = self.middlebox.process(now, port, &mut bytes, &mut 0);
        let expected = outcome.dropped.is_none().then_some(bytes);
        let lines = || {
            let all = self.middlebox.rules().map(|(rule, _)| rule.to_string());
            all.collect::<Vec<_>>().join("\n")
        };
        assert!(
            after == expected,
            "{}\nleaves: {leaves}\n{packet:02x?}\n is  {after:02x?}\n not {expected:02x?}",
            lines()
        );
        expected
    }

    pub fn counts_agree(&self) {
        let (totals, own) = (self.runs.totals().unwrap(), self.middlebox.counters());
        assert_eq!(
            (totals.packets, totals.dropped, totals.options_unchanged),
            (own.packets, own.dropped, own.options_unchanged)
        );
        assert_eq!(
            (totals.ports_used_up, totals.table_full, totals.related),
            (own.ports_used_up, own.table_full, own.related)
        );
        assert_eq!(totals.evicted, own.evicted);
        assert_eq!(
            [
                totals.stray_fragments,
                totals.fragments_full,
                totals.tiny_fragments
            ],
            [own.stray_fragments, own.fragments_full, own.tiny_fragments]
        );
        assert_eq!(
            (totals.malformed, totals.overmatched, totals.unwritten),
            (0, 0, 0)
        );
        let counted: Vec<_> = self.middlebox.rules().map(|(_, counted)| counted).collect();
        assert_eq!(self.runs.rules().unwrap(), counted);
    }
}

/// The packet that its receiver may answer with: ends the other way round, which leaves all
/// checksums as they are.
pub fn turned(packet: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let h = naive::headers(&packet);
    let (addresses, len) = if h.v4 { (12, 4) } else { (8, 16) };
    let (source, destination) = packet[addresses..].split_at_mut(len);
    source.swap_with_slice(&mut destination[..len]);
    if matches!(h.transport, "tcp" | "udp") {
        packet[h.above..h.above + 4].rotate_left(2);
    }
    if h.transport == "tcp" {
        packet[h.above + 13] = rng.draw_u32() as u8;
        naive::seal(&mut packet, &h);
    }
    packet
}

/// A packet of a kind that begins connections or fragments, oftener than among those of other tests.
pub fn drawn(rng: &mut Rng) -> Vec<u8> {
    let mut packet = packets::drawn(rng);
    let h = naive::headers(&packet);
    if !h.v4 && !h.fragment && rng.below(6) == 0 {
        let next = std::mem::replace(&mut packet[6], 44);
        let offset = [[0, 1], [0, 8], [0, 16], [0, 24], [0, 0]][rng.below(5) as usize];
        let header = [next, 0, offset[0], offset[1], 0, 0, 0, rng.below(3) as u8];
        packet.splice(40..40, header);
        let len = packet.len() as u16 - 40;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        return packet;
    }
    if h.v4 && !h.fragment && rng.below(8) == 0 {
        // More fragments follow.
        packet[6] |= 0x20;
    }
    let echo = match h.transport {
        "icmp" => [8, 0],
        "icmp6" => [128, 129],
        _ => [0, 0],
    };
    if echo != [0, 0] && rng.below(3) > 0 {
        packet[h.above] = echo[rng.below(2) as usize];
        packet[h.above + 1] = 0;
    }
    let h = naive::headers(&packet);
    if !h.fragment {
        naive::seal(&mut packet, &h);
    }
    packet
}

/// An ICMP error about a packet that left, often one that does not quote all of it.
pub fn error(packet: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let key = FlowKey::of(packet)?;
    let router = match (rng.below(2), key.source.is_ipv4()) {
        (0, _) => key.destination,
        (_, true) => "198.51.100.3".parse().unwrap(),
        (_, false) => "2001:db8:9::3".parse().unwrap(),
    };
    let len = match rng.below(3) {
        0 => (naive::headers(packet).above + 8).min(packet.len()),
        1 => naive::headers(packet).above + rng.below(24) as usize,
        _ => packet.len(),
    };
    let what = [
        Icmp::TooBig { mtu: 1280 },
        Icmp::PortUnreachable,
        Icmp::TimeExceeded,
    ][rng.below(3) as usize];
    let mut bytes = Vec::new();
    what.report(&mut bytes, router, &packet[..len.min(packet.len())], 0)?;
    Some(bytes)
}

/// A rule with state that often applies, and what a connection's packets get.
pub fn stateful(rng: &mut Rng) -> Rule {
    let what = [
        "all",
        "in inside",
        "in outside",
        "ip-proto tcp",
        "net-proto ip6",
        "tcp-syn",
        "tcp-dport 443",
        "udp-sport 5000",
        "ip-saddr 10.0.0.0/31",
        "ip6-saddr 2001:db8::1",
    ];
    let targets = [
        "accept",
        "drop 20",
        "mod ip-dscp 3",
        "mod tcp-dport 443",
        "mod ip-daddr 10.0.1.1",
        "mod tcp-opt-mss 1000",
        "map ip-saddr 10.0.0.2",
        "map ip-saddr 192.0.2.1",
        "map ip-daddr 10.0.1.2",
        "map ip6-saddr 2001:db8::99",
        "map ip6-daddr 2001:db8::98",
        "map tcp-sport 1234",
        "map udp-dport 53",
        "map ip-id 77",
        "map ip6-flow-label 5",
        "shuffle tcp-sport",
        "shuffle udp-sport",
        "shuffle tcp-dport",
        "shuffle udp-dport",
        "shuffle icmp-ident",
        "map icmp-ident 5",
        "shuffle icmp6-ident",
        "shuffle ip-id",
        "shuffle ip6-flow-label",
        "shuffle tcp-seq-num",
        "shuffle tcp-ack-num",
    ];
    let one = |rng: &mut Rng, of: &[&str]| of[rng.below(of.len() as u32) as usize].to_owned();
    loop {
        let mut line = format!("add-stateful {}", one(rng, &what));
        for _ in 0..=rng.below(4) {
            line += " ";
            line += &one(rng, &targets);
        }
        // Some are about packets that do not exist.
        if let Ok(rule) = Rule::parse(&line) {
            return rule;
        }
    }
}

/// So many rules that programs can do, one of them with state at least.
pub fn drawn_rules(rng: &mut Rng, count: u32) -> Vec<Rule> {
    let mut rules = vec![stateful(rng)];
    while rules.len() < count as usize {
        let mut rule = match rng.below(3) {
            0 => stateful(rng),
            _ => rules::drawn(rng),
        };
        // Most that they hold in common they would drop.
        if rng.below(2) == 0 {
            let drops = |target: &&Target| matches!(target, Target::Drop(_));
            let kept = rule
                .targets()
                .iter()
                .filter(|t| !drops(t))
                .cloned()
                .collect();
            rule = Rule::new(rule.is_stateful(), rule.constraints().collect(), kept);
        }
        let both = [rules[0].clone(), rule.clone()].map(Command::Add);
        if !rule.targets().is_empty() && boxed(&both).program().is_ok() {
            rules.push(rule);
        }
    }
    rules
}

/// Sends a packet that was drawn, one that answers one of the `last` that left, or an error about one; whether
/// it left and was changed.
pub fn step(both: &mut Both, rng: &mut Rng, last: &mut Vec<(bool, Vec<u8>)>) -> bool {
    let (leaves, packet) = match rng.below(3) {
        0 if !last.is_empty() => {
            let (left, packet) = &last[rng.below(last.len() as u32) as usize];
            let about = match rng.below(3) {
                0 => error(packet, rng),
                _ => None,
            };
            (!left, about.unwrap_or_else(|| turned(packet, rng)))
        }
        _ => (rng.below(2) == 0, drawn(rng)),
    };
    if has_double_zero(&packet) {
        return false;
    }
    let Some(after) = both.push(leaves, &packet) else {
        return false;
    };
    let changed = after != packet;
    if last.len() == 16 {
        last.remove(0);
    }
    last.push((leaves, after));
    changed
}
