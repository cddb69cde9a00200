//! Measurement signals in whole runs: what the wire shows, and that nothing
//! else changes.

use crate::rig::{Record, plan, run};
use narrows_core::{Event, EventSink};
use narrows_scenario::Plan;
use narrows_units::Instant;
use narrows_wire::checksum::Sum;
use narrows_wire::{Ip, Profile, Signal, Tcp, TcpFlags, ip};

/// A packet at the tap.
#[derive(Clone, Copy, Debug)]
struct Seen {
    us: f64,
    /// Towards the receiver of the data.
    forward: bool,
    tcp: Tcp,
}

/// Keeps every TCP packet that passes the tap, and checks its checksum.
#[derive(Default)]
struct Tap(Vec<Seen>);

/// What really happened to packets with payload.
#[derive(Default)]
struct Truth {
    tap: Tap,
    dropped: usize,
    received_ce: usize,
}

impl EventSink for Truth {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Dropped { packet, .. } if packet.len() > 1000 => self.dropped += 1,
            Event::Received { packet, .. } if ip::ecn(&packet.bytes) == ip::Ecn::Ce => {
                self.received_ce += 1;
            }
            _ => {}
        }
        self.tap.record(now, event);
    }
}

impl EventSink for Tap {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        let Event::Tapped {
            packet, forward, ..
        } = event
        else {
            return;
        };
        let header = Ip::parse(&packet.bytes).unwrap();
        if header.protocol != ip::TCP {
            return;
        }
        let segment = &packet.bytes[header.header_len..];
        let mut sum = Sum::default();
        let len = header.total_len - header.header_len;
        sum.add_pseudo_header(header.source, header.destination, ip::TCP, len as u32);
        sum.add(segment);
        assert_eq!(sum.finish(), 0, "a checksum at {now}");
        self.0.push(Seen {
            us: now.as_nanos() as f64 / 1000.0,
            forward,
            tcp: Tcp::parse(segment).unwrap(),
        });
    }
}

/// Two samples further apart show nothing: the second was made because the first
/// was lost. Below the T_Max of every sender here.
const CUT_OFF_MS: f64 = 95.0;

impl Tap {
    fn of(plan: &Plan) -> Self {
        let mut tap = Self::default();
        run(plan, plan.seed, &mut tap);
        tap
    }

    /// Packets that carry signals, and whether they carry `signal`.
    fn signal(&self, profile: &str, signal: Signal) -> impl Iterator<Item = (Seen, bool)> {
        let mask = profile.parse::<Profile>().unwrap().mask(signal);
        let after = |s: &&Seen| !s.tcp.flags.has(TcpFlags::SYN);
        let packets: Vec<_> = self.0.iter().filter(after).copied().collect();
        packets
            .into_iter()
            .map(move |s| (s, s.tcp.flags.measurement_bits() & mask != 0))
    }

    /// Times in ms between changes of the spin bit, or between marks, of one
    /// direction.
    fn gaps(&self, profile: &str, signal: Signal, forward: bool) -> Vec<f64> {
        let mut times = Vec::new();
        let mut last = false;
        for (seen, set) in self.signal(profile, signal) {
            if seen.forward != forward {
                continue;
            }
            let event = match signal {
                Signal::Spin => set != last,
                _ => set,
            };
            last = set;
            if event {
                times.push(seen.us / 1000.0);
            }
        }
        let gaps = times.windows(2).map(|w| w[1] - w[0]);
        gaps.filter(|gap| signal == Signal::Spin || *gap < CUT_OFF_MS)
            .collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A round trip of 60 ms and the queue's 15 ms at most, for ten seconds.
fn calm(signals: &str, more: &str) -> Plan {
    plan(&format!(
        "duration = \"10s\"\n\
         [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
         up = [\"netem delay 30ms {more}\", \"tap mid\", \"rate 100Mbit queue dualpi2\"]\n\
         down = [\"tap mid\", \"netem delay 30ms {more}\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n\
         {signals}"
    ))
}

#[test]
fn marks_change_bits_and_nothing_else() {
    let text = "duration = \"5s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
        up = [\"netem delay 10ms loss random 0.5%\", \"tap mid\", \"rate 20Mbit queue pfifo limit 60\"]\n\
        down = [\"netem delay 10ms\", \"rate 20Mbit queue dualpi2\"]\n\
        [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n\
        [[flow]]\nname = \"g\"\nfrom = \"b\"\nto = \"a\"\nopens = \"a\"\ncc = \"prague\"\nip = 6\n";
    let mark = "[[mark]]\nname = \"m\"\nsignals = \"d+q+l\"\n";
    let (mut plain, mut marked) = (Record::default(), Record::default());
    run(&plan(text), 3, &mut plain);
    run(&plan(&format!("{text}{mark}")), 3, &mut marked);
    assert_eq!(plain.delivered, marked.delivered);
    assert_eq!(plain.samples, marked.samples);
    assert_eq!(plain.drops, marked.drops);
    // The checksums are checked as well, in both versions of IP.
    let bits = |text: &str| {
        let tap = Tap::of(&plan(text));
        tap.0
            .iter()
            .fold(0, |all, s| all | s.tcp.flags.measurement_bits())
    };
    assert_eq!(bits(text), 0);
    assert_eq!(bits(&format!("{text}{mark}")), 0x0e);
}

#[test]
fn the_handshake_announces_the_profile() {
    for (signals, code) in [("d+q", 3), ("s+d+q", 5), ("s+t", 0)] {
        let tap = Tap::of(&calm(&format!("mark = \"{signals}\"\n"), ""));
        let syns = tap.0.iter().filter(|s| s.tcp.flags.has(TcpFlags::SYN));
        let codes: Vec<_> = syns
            .map(|s| (s.forward, s.tcp.flags.announced_code()))
            .collect();
        assert_eq!(codes, [(true, code), (false, code)], "{signals}");
    }
}

#[test]
fn spin_and_delay_bit_show_the_round_trip() {
    for signals in ["s+d+q", "s+d+q spin naive delay thesis"] {
        let tap = Tap::of(&calm(&format!("mark = \"{signals}\"\n"), ""));
        for forward in [true, false] {
            // The first gaps are those of the handshake's ACK.
            let [spin, delay] = [Signal::Spin, Signal::Delay].map(|signal| {
                let gaps = tap.gaps("s+d+q", signal, forward);
                assert!(gaps.len() > 100, "{signals} {signal:?}: {}", gaps.len());
                mean(&gaps[2..])
            });
            assert!((60.0..75.0).contains(&spin), "{signals}: spin {spin} ms");
            // As far apart as the two were in the thesis's base case with CUBIC.
            assert!((spin - delay).abs() < 3.0, "{signals}: {spin}, {delay} ms");
        }
    }
}

/// The thesis's spin bit collapses when packets come late, as its endpoints have
/// no ordering test; with the RFC's it does not, nor does the delay bit.
#[test]
fn reordering_ruins_the_naive_spin_bit_and_spares_the_others() {
    let plan = |signals: &str| calm(&format!("mark = \"{signals}\"\n"), "reorder 0.02%");
    let naive = Tap::of(&plan("s+d+q spin naive"));
    let rfc = Tap::of(&plan("s+d+q"));
    let spin = |tap: &Tap| mean(&tap.gaps("s+d+q", Signal::Spin, true)[2..]);
    let delay = |tap: &Tap| mean(&tap.gaps("s+d+q", Signal::Delay, true)[2..]);
    assert!(spin(&naive) < 0.8 * 60.0, "naive {}", spin(&naive));
    // Each late packet still shows an observer that does not sort two false edges.
    assert!(spin(&rfc) > 0.88 * 60.0, "rfc {}", spin(&rfc));
    for tap in [&naive, &rfc] {
        assert!((59.0..70.0).contains(&delay(tap)), "delay {}", delay(tap));
    }
}

/// RFC 9506 §3.3 and §3.5: marks are as many as packets that were lost, and that
/// arrived with CE.
#[test]
fn loss_and_ecn_echo_events_are_as_many_as_happened() {
    for (signals, signal, cc, path) in [
        ("d+q+l", Signal::Loss, "cubic", "netem loss random 0.5%"),
        ("d+q+e", Signal::EcnEcho, "prague", "netem delay 1ms"),
    ] {
        let plan = plan(&format!(
            "duration = \"20s\"\n\
             [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
             up = [\"tap mid\", \"netem delay 5ms\", \"{path}\", \"rate 20Mbit queue dualpi2\"]\n\
             down = [\"netem delay 5ms\"]\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\nmark = \"{signals}\"\n"
        ));
        let mut truth = Truth::default();
        run(&plan, 1, &mut truth);
        let marks = truth.tap.signal(signals, signal).filter(|(_, set)| *set);
        let marks = marks.count();
        let happened = match signal {
            Signal::Loss => truth.dropped,
            _ => truth.received_ce,
        };
        assert!(happened > 100, "{signals}: {happened}");
        // What happens in the last round trip is not reported any more.
        let missing = happened.abs_diff(marks);
        assert!(
            missing * 50 <= happened + 50,
            "{signals}: {marks} for {happened}"
        );
    }
}
