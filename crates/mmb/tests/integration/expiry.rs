//! When connections are forgotten: a box that walks over them only when one can have expired has at each
//! time those of one that walks over all of them every five seconds.

use std::collections::BTreeMap;

use crate::packets::{segment, tcp, udp};
use narrows_core::UP;
use narrows_mmb::{Middlebox, Settings, commands, kept_for};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{TcpFlags, ip};

const SWEEP: Duration = Duration::from_secs(5);

/// A connection of the other box.
struct Tracked {
    protocol: u8,
    /// Which of its two ends sent its first packet.
    begun_by: usize,
    last: Instant,
    /// Seen forward and in reverse.
    flags: [u8; 2],
}

impl Tracked {
    fn has_expired(&self, now: Instant) -> bool {
        now >= self.last + kept_for(self.protocol, self.flags)
    }
}

/// The box that walks over all connections every five seconds.
#[derive(Default)]
struct LooksAtAll {
    tracked: BTreeMap<u32, Tracked>,
    next_sweep: Option<Instant>,
}

impl LooksAtAll {
    /// A packet of connection `number` from one of its two ends.
    fn push(&mut self, now: Instant, number: u32, protocol: u8, end: usize, flags: u8) {
        if self.next_sweep.is_some_and(|at| now >= at) {
            self.tracked.retain(|_, tracked| !tracked.has_expired(now));
            self.next_sweep = (!self.tracked.is_empty()).then_some(now + SWEEP);
        }
        let syn = u16::from(flags) & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        let is_over = |tracked: &Tracked| {
            let seen = u16::from(tracked.flags[0] | tracked.flags[1]);
            let closing = seen & (TcpFlags::FIN | TcpFlags::RST) != 0;
            tracked.has_expired(now) || closing && syn && tracked.begun_by == end
        };
        if self.tracked.get(&number).is_some_and(is_over) {
            self.tracked.remove(&number);
        }
        self.next_sweep.get_or_insert(now + SWEEP);
        let tracked = self.tracked.entry(number).or_insert(Tracked {
            protocol,
            begun_by: end,
            last: now,
            flags: [0; 2],
        });
        tracked.last = now;
        tracked.flags[usize::from(tracked.begun_by != end)] |= flags;
    }
}

#[test]
fn connections_are_forgotten_when_a_box_that_looks_at_all_of_them_forgets_them() {
    const SYN: u16 = TcpFlags::SYN;
    const ACK: u16 = TcpFlags::ACK;
    let mut rng = Rng::for_name(1, "expiry");
    let (mut grown, mut shrunk) = (0, 0);
    for round in 0..20 {
        let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(round, "box"));
        let rules = commands("add-stateful all accept").unwrap();
        middlebox.apply(&rules).unwrap();
        let (mut all, mut now, mut before) = (LooksAtAll::default(), Instant::ZERO, 0);
        for _ in 0..2_000 {
            let number = rng.below(40);
            let ends = [format!("10.0.0.1:{}", 5_000 + number), "10.0.0.2:80".into()];
            let end = rng.below(2) as usize;
            let (from, to) = (&ends[end], &ends[1 - end]);
            let flags = [SYN, SYN | ACK, SYN | ACK, ACK, ACK, TcpFlags::RST][rng.below(6) as usize];
            let (protocol, flags, mut packet) = match number % 3 {
                0 => (ip::UDP, 0, udp(from, to, b"?")),
                _ => (ip::TCP, flags, tcp(from, to, segment(flags, 1, 1), b"")),
            };
            middlebox.process(now, UP, &mut packet, &mut 0);
            all.push(now, number, protocol, end, flags as u8);
            let count = middlebox.connection_count();
            assert_eq!(count, all.tracked.len(), "round {round}, at {now}");
            grown += usize::from(count > before);
            shrunk += usize::from(count < before);
            before = count;
            // Mostly short, now and then as long as a time-out and a little less or more.
            let secs = match rng.below(200) {
                0 => [14_399, 14_400, 14_401][rng.below(3) as usize],
                1..8 => [119, 120, 121, 599, 600, 601][rng.below(6) as usize],
                _ => u64::from(rng.below(4)),
            };
            now += Duration::from_secs(secs);
        }
    }
    assert!(grown > 1_000 && shrunk > 300, "{grown} {shrunk}");
}

#[test]
fn old_connections_are_searched_for_every_five_seconds_from_the_first_one_on() {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let rules = commands("add-stateful all accept").unwrap();
    middlebox.apply(&rules).unwrap();
    let idle = kept_for(ip::UDP, [0; 2]);
    assert_eq!(idle, Duration::from_secs(600));
    // The second one begins three seconds after the first one was forgotten.
    for begins in [10, 613] {
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let mut packet = udp("10.0.0.1:5000", "10.0.0.2:80", b"?");
        middlebox.process(at(begins), UP, &mut packet, &mut 0);
        for secs in begins + 1..begins + 603 {
            // What begins no connection.
            middlebox.process(at(secs), UP, &mut Vec::new(), &mut 0);
            let there = usize::from(secs < begins + 600);
            assert_eq!(middlebox.connection_count(), there, "{secs}");
        }
    }
}
