//! A policer: a token bucket without a queue.

use std::fmt;

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, Event, MarkCause, Outlet, Packet, Port,
};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rate, Value, WordError, WordWriter, Words,
};
use narrows_wire::ip;

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports, usages};
use crate::rate::{DEFAULT_OVERHEAD, read_rate};
use crate::site::Site;

/// `police rate RATE burst BYTES [overhead BYTES] [ecn]`: a packet for which
/// the bucket has no tokens is dropped; with `ecn`, an ECN-capable one is
/// marked CE and passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoliceSpec {
    /// How fast the bucket fills.
    pub rate: Rate,
    /// How much it holds.
    pub burst: Bytes,
    /// Bytes counted for each packet above its IP length.
    pub overhead: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Kind for PoliceSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "rate RATE",
            ParameterKind::Rate,
            "a rate above zero",
            "",
            "How fast the bucket fills",
        ),
        Parameter::new(
            "burst BYTES",
            ParameterKind::Size,
            Bytes::ALLOWED,
            "",
            "How much the bucket holds",
        ),
        Parameter::new(
            "overhead BYTES",
            ParameterKind::Number("bytes"),
            u32::ALLOWED,
            "14",
            "Bytes counted for each packet above its IP length",
        ),
        Parameter::flag(
            "ecn",
            "no ecn",
            "Whether ECN-capable packets are marked instead of dropped",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let (mut rate, mut burst, mut overhead, mut ecn) = (None, None, DEFAULT_OVERHEAD, false);
        while let Some(word) = words.take() {
            match word.text {
                "rate" => rate = Some(read_rate(words)?),
                "burst" => burst = Some(words.value()?),
                "overhead" => overhead = words.value()?,
                "ecn" => ecn = true,
                _ => return Err(word.refused(usages(Self::PARAMETERS))),
            }
        }
        Ok(Self {
            rate: rate.ok_or_else(|| words.ended("rate RATE"))?,
            burst: burst.ok_or_else(|| words.ended("burst BYTES"))?,
            overhead,
            ecn,
        })
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(Police {
            entity: site.entity,
            spec: *self,
            tokens: u128::from(self.burst.get()) * TOKEN,
            filled: Instant::ZERO,
            counters: ElementCounters::default(),
        })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: true,
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Packets,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        Duration::ZERO
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for PoliceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("police")?;
        WordWriter::new(f)
            .pair("rate", self.rate)
            .pair("burst", self.burst)
            .stated("overhead", self.overhead, DEFAULT_OVERHEAD)
            .word_if(self.ecn, "ecn")
            .finish()
    }
}

/// Tokens of one byte: with this unit, rate × nanoseconds counts tokens.
const TOKEN: u128 = 8 * 1_000_000_000;

/// The running policer. It holds nothing.
#[derive(Clone, Debug)]
pub struct Police {
    entity: EntityId,
    spec: PoliceSpec,
    tokens: u128,
    filled: Instant,
    counters: ElementCounters,
}

impl Police {
    fn fill(&mut self, now: Instant) {
        let full = u128::from(self.spec.burst.get()) * TOKEN;
        let gained =
            u128::from(self.spec.rate.as_bits()) * u128::from(now.since(self.filled).as_nanos());
        self.tokens = (self.tokens + gained).min(full);
        self.filled = now;
    }
}

impl Element for Police {
    fn push(&mut self, now: Instant, _: Port, mut packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.fill(now);
        let bytes = u64::from(packet.len());
        self.counters.packets_in += 1;
        self.counters.bytes_in += bytes;
        let price = u128::from(bytes + u64::from(self.spec.overhead)) * TOKEN;
        if price <= self.tokens {
            self.tokens -= price;
        } else if self.spec.ecn && ip::ecn(&packet.bytes).is_capable() {
            if ip::ecn(&packet.bytes) != ip::Ecn::Ce {
                ip::set_ecn(&mut packet.bytes, ip::Ecn::Ce);
                self.counters.marked += 1;
                out.events.record(
                    now,
                    Event::Marked {
                        queue: self.entity,
                        packet: &packet,
                        cause: MarkCause::Overflow,
                    },
                );
            }
        } else {
            self.counters.dropped += 1;
            out.drop(now, self.entity, packet, DropCause::Policy);
            return;
        }
        self.counters.packets_out += 1;
        self.counters.bytes_out += bytes;
        out.send(0, packet);
    }

    /// `rate RATE`, `burst BYTES` or both; what is not named stays.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let mut words = Words::new(&change.words);
        words.take_if("police");
        let mut spec = self.spec;
        while let Some(word) = words.take() {
            match word.text {
                "rate" => spec.rate = read_rate(&mut words)?,
                "burst" => spec.burst = words.value()?,
                _ => return Err(word.refused("rate RATE or burst BYTES")),
            }
        }
        self.fill(now);
        self.spec = spec;
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use crate::ElementSpec;
    use crate::testing::{Bench, ms};

    #[test]
    fn a_burst_passes_and_then_the_rate_does() {
        // 8 kbit/s is one byte a millisecond.
        let mut bench = Bench::new("police rate 8Kbit burst 200 overhead 0");
        for _ in 0..3 {
            bench.offer(ms(0), 100, 0);
        }
        bench.offer(ms(99), 100, 0);
        bench.offer(ms(100), 100, 0);
        let passed: Vec<u64> = bench.left.iter().map(|(i, _, _)| *i).collect();
        assert_eq!(passed, [0, 1, 4]);
        bench.check_conservation();
    }

    #[test]
    fn overhead_costs_tokens_and_what_has_none_is_counted_as_dropped() {
        let mut bench = Bench::new("police rate 8Kbit burst 200 overhead 100");
        bench.offer(ms(0), 100, 0);
        bench.offer(ms(0), 100, 0);
        assert_eq!(bench.left.len(), 1);
        assert_eq!(bench.element.counters().dropped, 1);
    }

    #[test]
    fn a_change_of_rate_or_burst_leaves_the_other() {
        let mut bench = Bench::new("police rate 8Kbit burst 100 overhead 0");
        bench.offer(ms(0), 100, 0);
        bench.change(ms(0), "rate 80Kbit");
        bench.offer(ms(10), 100, 0);
        bench.change(ms(10), "police burst 200");
        bench.offer(ms(30), 100, 0);
        bench.offer(ms(30), 100, 0);
        bench.offer(ms(30), 100, 0);
        let passed: Vec<u64> = bench.left.iter().map(|(i, _, _)| *i).collect();
        assert_eq!(passed, [0, 1, 2, 3]);
    }

    #[test]
    fn with_ecn_the_excess_is_marked() {
        let mut bench = Bench::new("police rate 8Kbit burst 100 overhead 0 ecn");
        for class in [2, 2, 1, 0] {
            bench.offer(ms(0), 100, class);
        }
        let classes: Vec<u8> = bench.left.iter().map(|(_, _, c)| *c).collect();
        assert_eq!(classes, [2, 3, 3]);
        assert_eq!(bench.element.counters().marked, 2);
    }

    #[test]
    fn words_print_back_and_wrong_ones_are_refused() {
        let words = "police rate 8Kbit burst 200b overhead 0 ecn";
        assert_eq!(ElementSpec::parse(words).unwrap().to_string(), words);
        for words in [
            "police",
            "police rate 1Mbit",
            "police rate 0bit burst 9",
            "police x",
        ] {
            assert!(ElementSpec::parse(words).is_err(), "{words}");
        }
    }
}
