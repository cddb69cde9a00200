//! A switch: a node of any number of ports that share one buffer.

use std::fmt;

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, EventSink, Outlet, Packet, Port,
};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Value, WordError, WordWriter, Words,
};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, usages};
use crate::rate::{RateLink, RateSpec};
use crate::site::{PortSite, Site};
use crate::waiting::earliest;

/// How much of the free buffer the queue of one port may be: a positive number or a
/// fraction, such as `2` or `1/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha {
    numerator: u16,
    denominator: u16,
}

impl Alpha {
    /// With it a single busy port gets half of the buffer.
    pub const ONE: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// This times `free` bytes, rounded down.
    fn of(self, free: u64) -> u64 {
        let threshold =
            u128::from(free) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(threshold).unwrap_or(u64::MAX)
    }
}

impl Value for Alpha {
    const ALLOWED: &'static str = "a number above zero or a fraction such as 1/8, of at most 65535";

    fn parse(word: &str) -> Option<Self> {
        let (numerator, denominator) = word.split_once('/').unwrap_or((word, "1"));
        let number = |text: &str| -> Option<u16> {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|n| digits && *n > 0)
        };
        Some(Self {
            numerator: number(numerator)?,
            denominator: number(denominator)?,
        })
    }
}

impl fmt::Display for Alpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            d => write!(f, "{}/{d}", self.numerator),
        }
    }
}

/// `switch buffer BYTES [alpha A] rate RATE [overhead BYTES] [shaper] [queue …]`: what
/// begins with `rate` is that of each port, as in the element of that name. Of a port alone
/// `alpha` and what begins with `rate` may be said.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSpec {
    /// What all ports have together, in bytes as the ports count them.
    pub buffer: Bytes,
    /// The share of the free buffer that bounds the queue of a port.
    pub alpha: Alpha,
    /// Rate and queue of a port.
    pub port: RateSpec,
}

impl SwitchSpec {
    /// A port of its own for this site.
    fn outgoing(&self, site: &Site<'_>) -> Outgoing {
        Outgoing {
            alpha: self.alpha,
            overhead: self.port.overhead,
            link: self.port.link(site),
            entity: site.entity,
            refused: ElementCounters::default(),
        }
    }

    /// The switch with these ports, of which others than switches have none.
    fn switch(&self, ports: &[PortSite<'_>]) -> Switch {
        let ports = ports.iter().filter_map(|port| match port.spec {
            ElementSpec::Switch(spec) => Some(spec.outgoing(&port.site)),
            _ => None,
        });
        Switch {
            buffer: self.buffer.get(),
            ports: ports.collect(),
        }
    }

    /// The same switch with what follows `rate` laid over rate and queue of its ports.
    pub(crate) fn with_rate(&self, words: &mut Words<'_>) -> Result<Self, WordError> {
        let port = RateSpec::over(&ElementSpec::Rate(self.port.clone()), words)?;
        Ok(Self {
            port,
            ..self.clone()
        })
    }

    /// Reads words over `alpha` and, if there is one, what a port has.
    fn read(
        words: &mut Words<'_>,
        mut buffer: Option<Bytes>,
        mut alpha: Alpha,
        port: Option<&RateSpec>,
    ) -> Result<Self, WordError> {
        let of_a_port = port.is_some();
        loop {
            let word = match (words.take(), buffer, port) {
                (None, Some(buffer), Some(port)) => {
                    let port = port.clone();
                    return Ok(Self {
                        buffer,
                        alpha,
                        port,
                    });
                }
                (None, ..) => return Err(words.ended(usages(Self::PARAMETERS))),
                (Some(word), ..) => word,
            };
            match (word.text, buffer) {
                ("buffer", Some(shared)) if of_a_port => {
                    let allowed = format!("{shared}, which all ports share");
                    words.checked_value(allowed, |given: &Bytes| *given == shared)?;
                }
                ("buffer", _) => buffer = Some(words.value()?),
                ("alpha", _) => alpha = words.value()?,
                ("rate", None) => return Err(word.refused("buffer BYTES before it")),
                ("rate", Some(buffer)) => {
                    let port = match port {
                        None => RateSpec::parse(words)?,
                        Some(port) => RateSpec::over(&ElementSpec::Rate(port.clone()), words)?,
                    };
                    return Ok(Self {
                        buffer,
                        alpha,
                        port,
                    });
                }
                _ => return Err(word.refused(usages(Self::PARAMETERS))),
            }
        }
    }
}

impl Kind for SwitchSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "buffer BYTES",
            ParameterKind::Size,
            Bytes::ALLOWED,
            "",
            "The buffer that all ports share",
        ),
        Parameter::new(
            "alpha A",
            ParameterKind::Words,
            Alpha::ALLOWED,
            "1",
            "How much of the free buffer the queue of one port may be",
        ),
        Parameter::new(
            "rate RATE …",
            ParameterKind::Words,
            "a rate above zero",
            "",
            "Rate and queue of each port, up to the end, as of the element `rate`",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::read(words, None, Alpha::ONE, None)
    }

    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        match before {
            ElementSpec::Switch(old) => {
                Self::read(words, Some(old.buffer), old.alpha, Some(&old.port))
            }
            _ => Self::parse(words),
        }
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        let spec = ElementSpec::Switch(self.clone());
        let alone = [PortSite {
            site: *site,
            spec: &spec,
        }];
        Box::new(self.switch(match site.ports {
            [] => &alone,
            ports => ports,
        }))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            node: true,
            ..self.port.facts()
        }
    }

    fn base_delay(&self, dscp: u8, mtu: u32) -> Duration {
        self.port.base_delay(dscp, mtu)
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for SwitchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "switch buffer {}", self.buffer)?;
        WordWriter::new(f)
            .stated("alpha", self.alpha, Alpha::ONE)
            .finish()?;
        write!(f, " {}", self.port)
    }
}

/// One port: what is sent there waits in front of its link.
struct Outgoing {
    alpha: Alpha,
    overhead: u32,
    link: RateLink,
    entity: EntityId,
    /// What the shared buffer had no room for.
    refused: ElementCounters,
}

impl Outgoing {
    fn counters(&self) -> ElementCounters {
        let (link, refused) = (self.link.counters(), self.refused);
        ElementCounters {
            packets_in: link.packets_in + refused.packets_in,
            bytes_in: link.bytes_in + refused.bytes_in,
            dropped: link.dropped + refused.dropped,
            ..link
        }
    }
}

/// The running switch: it stores a packet until its last bit is out, and forwards it by the
/// port at which it is pushed. Where a packet came from decides nothing.
///
/// All ports share the buffer by dynamic thresholds (Choudhury and Hahne, "Dynamic Queue
/// Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking
/// 6(2), 1998): a packet is taken while what its port holds is below `alpha` times what is
/// free, and while it fits. The queue of the port may drop it all the same.
pub struct Switch {
    buffer: u64,
    ports: Vec<Outgoing>,
}

impl Switch {
    /// How many bytes of the buffer are taken.
    pub fn held_bytes(&self) -> u64 {
        self.ports.iter().map(|port| port.link.held_bytes()).sum()
    }

    /// Runs `f` on the link of `port`; what it lets out leaves there.
    fn run(
        &mut self,
        port: Port,
        out: &mut Outlet<'_>,
        f: impl FnOnce(&mut RateLink, &mut Outlet<'_>),
    ) {
        let before = out.sent.len();
        f(&mut self.ports[usize::from(port)].link, out);
        for (leaves_by, _) in &mut out.sent[before..] {
            *leaves_by = port;
        }
    }
}

impl Element for Switch {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        let free = self.buffer.saturating_sub(self.held_bytes());
        let at = &mut self.ports[usize::from(port)];
        let bytes = u64::from(packet.len() + at.overhead);
        if at.link.held_bytes() < at.alpha.of(free) && bytes <= free {
            return self.run(port, out, |link, out| link.push(now, 0, packet, out));
        }
        at.refused.packets_in += 1;
        at.refused.bytes_in += u64::from(packet.len());
        at.refused.dropped += 1;
        out.drop(now, at.entity, packet, DropCause::Overflow);
    }

    fn next_wake(&self) -> Option<Instant> {
        let wakes = self.ports.iter().map(|port| port.link.next_wake());
        wakes.fold(None, earliest)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        for (i, port) in (0..self.ports.len()).zip(0..=Port::MAX) {
            if self.ports[i].link.next_wake().is_some_and(|t| t <= now) {
                self.run(port, out, |link, out| link.wake(now, out));
            }
        }
    }

    /// `rate RATE`, `queue …`, or both, of one port.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        self.ports[usize::from(change.port)]
            .link
            .change(now, change)
    }

    fn counters(&self) -> ElementCounters {
        self.ports.iter().map(Outgoing::counters).sum()
    }

    fn port_counters(&self, port: Port) -> ElementCounters {
        self.ports[usize::from(port)].counters()
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for port in &self.ports {
            port.link.sample(now, events);
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_core::PacketPool;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{OWN, Record};

    const FIVE: usize = 5;

    /// A switch of five ports, its clock, and what left by which port when.
    struct Rig {
        switch: Switch,
        pool: PacketPool,
        left: Vec<(Instant, Port, u64)>,
        offered: u64,
    }

    impl Rig {
        fn new(words: &str) -> Self {
            Self::of(words, [""; FIVE])
        }

        /// A switch with these words, and what each port has of its own.
        fn of(words: &str, ports: [&str; FIVE]) -> Self {
            let ElementSpec::Switch(spec) = ElementSpec::parse(words).unwrap() else {
                panic!("{words}")
            };
            let specs = ports.map(|port| {
                ElementSpec::Switch(spec.clone())
                    .overlaid(&format!("switch {port}"))
                    .unwrap()
            });
            let sites = [0, 1, 2, 3, 4].map(|i| PortSite {
                site: Site {
                    entity: EntityId(i),
                    name: ["p0", "p1", "p2", "p3", "p4"][i as usize],
                    seed: 1,
                    mtu: 1500,
                    forward: true,
                    addresses: OWN,
                    other_end: None,
                    ports: &[],
                },
                spec: &specs[i as usize],
            });
            Self {
                switch: spec.switch(&sites),
                pool: PacketPool::new(),
                left: Vec::new(),
                offered: 0,
            }
        }

        fn call(&mut self, now: Instant, f: impl FnOnce(&mut Switch, &mut Outlet<'_>)) {
            let mut sent = Vec::new();
            let mut out = Outlet {
                pool: &mut self.pool,
                events: &mut Record::default(),
                sent: &mut sent,
            };
            f(&mut self.switch, &mut out);
            for (port, packet) in sent {
                self.left.push((now, port, packet.born.as_nanos()));
                self.pool.give(packet);
            }
            assert!(self.switch.held_bytes() <= self.switch.buffer);
        }

        fn run_until(&mut self, end: Instant) {
            while let Some(at) = self.switch.next_wake().filter(|t| *t <= end) {
                self.call(at, |switch, out| switch.wake(at, out));
            }
        }

        /// Offers a packet of `len` bytes of IP that is to leave by `port`.
        fn offer(&mut self, now: Instant, port: Port, len: u32) {
            self.run_until(now);
            let mut packet = self.pool.take(now, None);
            packet.bytes.resize(20, 0);
            packet.bytes[0] = 0x45;
            packet.zero_tail = len - 20;
            // The number travels as the birth time.
            packet.born = Instant::from_nanos(self.offered);
            self.offered += 1;
            self.call(now, |switch, out| switch.push(now, port, packet, out));
        }

        fn held(&self, port: usize) -> u64 {
            self.switch.ports[port].link.held_bytes()
        }
    }

    /// 986 bytes with 14 of overhead: 1000 in the buffer.
    const KILO: u32 = 986;

    #[test]
    fn a_busy_port_gets_its_share_of_the_buffer_and_leaves_room_for_others() {
        // With alpha 1 a queue stops where it is as long as what is free: half of the buffer.
        // With alpha 1/4 at a quarter of the rest, a fifth; with 4 at four fifths.
        for (alpha, share) in [("1", 50), ("1/4", 20), ("4", 80)] {
            let mut rig = Rig::new(&format!("switch buffer 100000b alpha {alpha} rate 1Kbit"));
            for _ in 0..200 {
                rig.offer(Instant::ZERO, 0, KILO);
            }
            assert_eq!(rig.held(0), share * 1000, "alpha {alpha}");
            rig.offer(Instant::ZERO, 3, KILO);
            assert_eq!(rig.held(3), 1000, "alpha {alpha}");
        }
    }

    #[test]
    fn busy_ports_share_alike() {
        // alpha / (1 + n alpha) of the buffer each: a sixth of 60 for five ports.
        let mut rig = Rig::new("switch buffer 60000b rate 1Kbit");
        for i in 0..500u16 {
            rig.offer(Instant::ZERO, (i % 5) as Port, KILO);
        }
        let held: Vec<_> = (0..FIVE).map(|port| rig.held(port)).collect();
        assert_eq!(held, [10_000; FIVE]);
    }

    #[test]
    fn a_packet_leaves_by_its_port_after_its_last_bit_and_no_port_waits_for_another() {
        let mut rig = Rig::new("switch buffer 1000000b rate 8Mbit");
        for port in [4, 4, 1] {
            rig.offer(Instant::ZERO, port, KILO);
        }
        rig.run_until(Instant::MAX);
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        let mut left = rig.left;
        left.sort_unstable();
        assert_eq!(left, [(ms(1), 1, 2), (ms(1), 4, 0), (ms(2), 4, 1)]);
    }

    #[test]
    fn a_packet_that_does_not_fit_is_dropped_whatever_alpha_allows() {
        let mut rig = Rig::new("switch buffer 2000b alpha 1000 rate 1Kbit");
        for _ in 0..3 {
            rig.offer(Instant::ZERO, 2, KILO);
        }
        assert_eq!(rig.held(2), 2000);
        let counters = rig.switch.port_counters(2);
        assert_eq!(counters.dropped, 1);
        let bytes = 3 * u64::from(KILO);
        assert_eq!((counters.packets_in, counters.bytes_in), (3, bytes));
        // One that would fit without its overhead.
        let mut rig = Rig::new("switch buffer 999b alpha 1000 rate 1Kbit");
        for _ in 0..2 {
            rig.offer(Instant::ZERO, 2, KILO);
        }
        assert_eq!(rig.held(2), 0);
        let counters = rig.switch.counters();
        let refused = (counters.packets_in, counters.bytes_in, counters.dropped);
        assert_eq!(refused, (2, 2 * u64::from(KILO), 2));
    }

    #[test]
    fn words_are_written_back_without_what_is_usual() {
        for (words, written) in [
            (
                "switch buffer 100000b alpha 1 rate 1Gbit queue codel",
                "switch buffer 100000b rate 1Gbit queue codel",
            ),
            (
                "switch alpha 1/8 buffer 2000b rate 1Gbit overhead 38 queue codel",
                "switch buffer 2000b alpha 1/8 rate 1Gbit overhead 38 queue codel",
            ),
        ] {
            let spec = ElementSpec::parse(words).unwrap();
            assert_eq!(spec.to_string(), written);
            assert_eq!(ElementSpec::parse(written), Ok(spec));
        }
        let error = ElementSpec::parse("switch rate 1Gbit").unwrap_err();
        assert_eq!(error.allowed, "buffer BYTES before it");
        let twice = ElementSpec::parse("switch buffer 1mb buffer 2mb rate 1Gbit");
        assert_eq!(twice, ElementSpec::parse("switch buffer 2mb rate 1Gbit"));
        for (words, at) in [
            ("switch", ""),
            ("switch rate 1Gbit", "rate"),
            ("switch buffer 1000b alpha 0 rate 1Gbit", "0"),
            ("switch buffer 1000b alpha 1/0 rate 1Gbit", "1/0"),
            ("switch buffer 1000b rate 0bit", "0bit"),
            ("switch buffer 1000b ports 5", "ports"),
        ] {
            let error = ElementSpec::parse(words).unwrap_err();
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
    }

    #[test]
    fn a_port_may_differ_in_all_but_the_buffer() {
        let own = ["alpha 1/4", "rate 16Mbit", "", "", ""];
        let mut rig = Rig::of("switch buffer 100000b rate 8Mbit", own);
        for port in [1, 2] {
            rig.offer(Instant::ZERO, port, KILO);
        }
        rig.run_until(Instant::MAX);
        let us = |n: u64| Instant::from_nanos(n * 1_000);
        assert_eq!(rig.left, [(us(500), 1, 0), (us(1000), 2, 1)]);
        for _ in 0..200 {
            rig.offer(us(2000), 0, KILO);
        }
        assert_eq!(rig.held(0), 20_000);

        let switch = ElementSpec::parse("switch buffer 1mb rate 1Gbit queue codel").unwrap();
        let port = switch.overlaid("switch alpha 2 rate 2Gbit").unwrap();
        let written = "switch buffer 1mb alpha 2 rate 2Gbit queue codel";
        assert_eq!(port, ElementSpec::parse(written).unwrap());
        let port = switch.overlaid("rate 2Gbit").unwrap();
        let written = "switch buffer 1mb rate 2Gbit queue codel";
        assert_eq!(port, ElementSpec::parse(written).unwrap());
        let error = switch.overlaid("switch buffer 2mb").unwrap_err();
        assert!(error.to_string().contains("all ports share"), "{error}");
    }

    #[test]
    fn a_change_is_of_one_port() {
        let mut rig = Rig::new("switch buffer 100000b rate 8Mbit");
        let change = Change {
            words: "rate 4Mbit".to_owned(),
            port: 3,
        };
        rig.switch.change(Instant::ZERO, &change).unwrap();
        for port in [2, 3] {
            rig.offer(Instant::ZERO, port, KILO);
        }
        rig.run_until(Instant::MAX);
        let left: Vec<_> = rig
            .left
            .iter()
            .map(|(at, port, _)| (at.as_nanos(), *port))
            .collect();
        assert_eq!(left, [(1_000_000, 2), (2_000_000, 3)]);
    }

    proptest! {
        #[test]
        fn packets_are_conserved_and_runs_repeat(
            offers in proptest::collection::vec((0u64..2_000_000, 0u8..5, 40u32..1500), 1..200),
            queue in prop::sample::select(vec!["pfifo limit 20", "codel", "fq_codel flows 4"]),
        ) {
            let run = || {
                let words = format!("switch buffer 20000b alpha 2 rate 10Mbit queue {queue}");
                let mut rig = Rig::new(&words);
                let mut now = Instant::ZERO;
                for (gap, port, len) in &offers {
                    now = Instant::from_nanos(now.as_nanos() + gap);
                    rig.offer(now, *port, *len);
                    let counters = rig.switch.counters();
                    assert_eq!(counters.packets_in, rig.offered);
                    let held = rig.pool.outstanding();
                    assert_eq!(rig.offered, counters.packets_out + counters.dropped + held);
                }
                rig.run_until(now + narrows_units::Duration::from_secs(60));
                assert_eq!(rig.switch.held_bytes(), 0);
                assert_eq!(rig.left.len() as u64, rig.switch.counters().packets_out);
                rig.left
            };
            prop_assert_eq!(run(), run());
        }
    }
}
