//! A delay that follows a recording: `netem trace FILE.csv`.
//!
//! A CSV file begins with the line `time_s,delay_ms`. Each further line holds a time in seconds
//! and the delay in milliseconds of packets that come from then on. The first time is 0, times
//! rise, and the last delay holds to the end of the run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use narrows_core::{Change, Element, ElementCounters, Outlet, Packet, Port};
use narrows_units::{Duration, Instant, Parameter, ParameterKind, WordError, WordWriter, Words};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports, require_end};
use crate::recording::{is_csv, number, steps};
use crate::site::Site;

/// The first line of a recording.
const HEADER: &str = "time_s,delay_ms";

/// The longest delay in milliseconds: more than any path has that carries packets.
const LONGEST_MS: f64 = 600_000.0;

/// `netem trace FILE.csv [ordered]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayTraceSpec {
    /// The file, as it is written; a scenario's check reads it.
    pub file: String,
    /// From each time on, a delay; nothing until the file is read.
    pub steps: Arc<Vec<(Instant, Duration)>>,
    /// Whether no packet overtakes another where the delay becomes shorter.
    pub ordered: bool,
}

impl DelayTraceSpec {
    /// The delay of a packet that comes at `now`.
    fn delay(&self, now: Instant) -> Duration {
        let next = self.steps.partition_point(|(at, _)| *at <= now);
        let step = next.checked_sub(1).and_then(|step| self.steps.get(step));
        step.map_or(Duration::ZERO, |(_, delay)| *delay)
    }
}

impl Kind for DelayTraceSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "FILE.csv",
            ParameterKind::Words,
            "a file whose name ends in .csv",
            "",
            "The delay over time: a first line `time_s,delay_ms`, then a time and a delay in each line",
        ),
        Parameter::flag(
            "ordered",
            "not ordered",
            "Whether no packet overtakes another where the delay becomes shorter",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let file = words.needed("a file whose name ends in .csv")?;
        if !is_csv(file.text) {
            return Err(file.refused("a file whose name ends in .csv"));
        }
        let ordered = words.take_if("ordered");
        require_end(words.clone())?;
        Ok(Self {
            file: file.text.to_owned(),
            ordered,
            ..Self::default()
        })
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Element> {
        Box::new(DelayTrace {
            spec: self.clone(),
            held: VecDeque::new(),
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

    /// The first delay.
    fn base_delay(&self, _: u8, _: u32) -> Duration {
        self.delay(Instant::ZERO)
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        Some(self)
    }
}

impl NamesFile for DelayTraceSpec {
    fn name(&self) -> &str {
        &self.file
    }

    fn what(&self) -> &'static str {
        "the trace"
    }

    fn allowed(&self) -> &'static str {
        "a first line `time_s,delay_ms`, and a time and a delay in each further line"
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        let wanted = format!("milliseconds up to {LONGEST_MS}, such as `1.5,20`,");
        let delay = |text: &str| {
            let ms = number(text, LONGEST_MS)?;
            Some(Duration::from_nanos(libm::round(ms * 1e6) as u64))
        };
        let steps = steps(text.as_bytes(), HEADER, &wanted, delay);
        self.steps = Arc::new(steps.map_err(|e| e.to_string())?);
        Ok(())
    }
}

impl fmt::Display for DelayTraceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "netem trace {}", self.file)?;
        WordWriter::new(f).word_if(self.ordered, "ordered").finish()
    }
}

/// The running element.
struct DelayTrace {
    spec: DelayTraceSpec,
    /// Packets and when they may go, in that order.
    held: VecDeque<(Instant, Box<Packet>)>,
    counters: ElementCounters,
}

impl Element for DelayTrace {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        let mut at = now + self.spec.delay(now);
        if let Some((last, _)) = self.held.back().filter(|_| self.spec.ordered) {
            at = at.max(*last);
        }
        let place = self.held.partition_point(|(t, _)| *t <= at);
        self.held.insert(place, (at, packet));
        self.wake(now, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.held.front().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        while self.held.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, packet)) = self.held.pop_front() else {
                return;
            };
            self.counters.packets_out += 1;
            self.counters.bytes_out += u64::from(packet.len());
            out.send(0, packet);
        }
    }

    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        let words = &change.words;
        let allowed = "no change, for the trace says the delay";
        Err(WordError::new(
            0..words.len(),
            format!("`{words}`"),
            allowed,
        ))
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, ms};

    fn spec(words: &str, text: &str) -> ElementSpec {
        let mut spec = ElementSpec::parse(words).unwrap();
        spec.file().unwrap().read(text).unwrap();
        spec
    }

    fn leaving(spec: &ElementSpec) -> Vec<(u64, u64)> {
        let mut bench = Bench::with(spec, 1);
        for at in [0, 99, 100, 110, 300] {
            bench.offer(ms(at), 1500, 0);
        }
        bench.run_until(Instant::MAX);
        bench.check_conservation();
        let left = bench.left.iter();
        left.map(|(number, at, _)| (*number, at.as_micros()))
            .collect()
    }

    const FILE: &str = "time_s,delay_ms\r\n0,50\r\n0.1,12.5\n0.2,0\n";

    #[test]
    fn each_packet_has_the_delay_of_the_time_at_which_it_came() {
        let free = leaving(&spec("netem trace a.csv", FILE));
        let overtaken = [
            (0, 50_000),
            (2, 112_500),
            (3, 122_500),
            (1, 149_000),
            (4, 300_000),
        ];
        assert_eq!(free, overtaken);
        let ordered = leaving(&spec("netem trace a.csv ordered", FILE));
        let kept = [
            (0, 50_000),
            (1, 149_000),
            (2, 149_000),
            (3, 149_000),
            (4, 300_000),
        ];
        assert_eq!(ordered, kept);
    }

    #[test]
    fn what_is_none_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("time_s,rate_mbit\n0,1\n", 1),
            ("time_s,delay_ms\n", 2),
            ("time_s,delay_ms\n1,5\n", 2),
            ("time_s,delay_ms\n-1,5\n", 2),
            ("time_s,delay_ms\n0,5\n1,5\n1,6\n", 4),
            ("time_s,delay_ms\n0,5\n2,5\n1,6\n", 4),
            ("time_s,delay_ms\n0,-5\n", 2),
            ("time_s,delay_ms\n0,1e9\n", 2),
            ("time_s,delay_ms\n0,5\n\n1,5\n", 3),
        ] {
            let mut spec = ElementSpec::parse("netem trace a.csv").unwrap();
            let error = spec.file().unwrap().read(text).unwrap_err();
            assert!(
                error.starts_with(&format!("line {line}:")),
                "{text:?}: {error}"
            );
        }
        for words in ["netem trace", "netem trace a.txt", "netem trace a.csv x"] {
            assert!(ElementSpec::parse(words).is_err(), "{words}");
        }
        let spec = ElementSpec::parse("netem trace a/b.csv ordered").unwrap();
        assert_eq!(spec.to_string(), "netem trace a/b.csv ordered");
        assert!(spec.check_change("netem delay 5ms").is_err());
    }
}
