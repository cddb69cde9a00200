//! What the tests of whole runs share: plans from text, and sinks.
#![allow(dead_code)] // each test file uses its part

pub mod reports;

use std::fmt::Write;

use narrows_core::{
    DropCause, Event, EventSink, FlowSample, RecoveryEvent, Source, TelemetryField,
};
use narrows_scenario::{Draft, Plan};
use narrows_sim::{Outcome, RunHandle};
use narrows_units::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

pub fn plan(toml: &str) -> Plan {
    let text = format!("version = 1\nname = \"test\"\n{toml}");
    match Draft::read("test.toml", text.as_bytes()).and_then(|d| d.check()) {
        Ok(plan) => plan,
        Err(refusal) => panic!("{refusal:?}\n{text}"),
    }
}

/// A link of 50 Mbit/s with a round trip of 20 ms, `queue` before its
/// bottleneck, for ten seconds; the tables `flows` over it.
pub fn dumbbell(queue: &str, flows: &str) -> String {
    format!(
        r#"
duration = "10s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue {queue}"]
down = ["netem delay 10ms"]
{flows}
"#
    )
}

/// The table of a flow from the client to the server.
pub fn flow(name: &str, words: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n{words}\n")
}

pub fn run(plan: &Plan, seed: u64, sink: &mut dyn EventSink) -> Outcome {
    let outcome = narrows_sim::run(plan, seed, sink, &RunHandle::default()).unwrap();
    conserves(&outcome);
    outcome
}

/// Every packet made was delivered, was dropped, or is still under way.
pub fn conserves(outcome: &Outcome) {
    assert_eq!(
        outcome.packets,
        outcome.delivered + outcome.dropped + outcome.in_flight,
        "{outcome:?}"
    );
}

/// A digest of every event with all that it carries.
#[derive(Default)]
pub struct Digest {
    hash: Xxh3,
    line: String,
    pub events: u64,
}

impl Digest {
    pub fn value(&self) -> u128 {
        self.hash.digest128()
    }
}

impl EventSink for Digest {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        self.line.clear();
        write!(self.line, "{} {event:?}", now.as_nanos()).unwrap();
        self.hash.update(self.line.as_bytes());
        self.events += 1;
    }
}

/// What tests want to know.
#[derive(Default)]
pub struct Record {
    pub probe_rtts: Vec<(Instant, Duration)>,
    pub probes_lost: Vec<Instant>,
    pub drops: Vec<(Instant, DropCause)>,
    pub delivered: Vec<(Instant, u32, u64)>,
    pub finished: Vec<(Instant, u32, u64, bool)>,
    pub established: Vec<(Instant, u32, bool, bool)>,
    pub recoveries: Vec<(Instant, u32, RecoveryEvent)>,
    pub samples: Vec<(Instant, u32, FlowSample)>,
    pub telemetry: Vec<(Instant, u32, TelemetryField, i64)>,
    pub queue_samples: Vec<(Instant, u32, u32)>,
    pub sojourns: Vec<(Instant, Duration)>,
    pub taps: Vec<(Instant, bool)>,
    pub last: Instant,
}

impl EventSink for Record {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        assert!(now >= self.last, "time goes on");
        self.last = now;
        match event {
            Event::ProbeRtt { rtt, .. } => self.probe_rtts.push((now, rtt)),
            Event::ProbeLost { .. } => self.probes_lost.push(now),
            Event::Dropped { cause, .. } => self.drops.push((now, cause)),
            Event::Delivered { flow, bytes } => self.delivered.push((now, flow.0, bytes)),
            Event::Finished {
                flow,
                bytes,
                complete,
            } => self.finished.push((now, flow.0, bytes, complete)),
            Event::Established { flow, ecn, accecn } => {
                self.established.push((now, flow.0, ecn, accecn));
            }
            Event::Recovery { flow, event } => self.recoveries.push((now, flow.0, event)),
            Event::Sampled { flow, sample } => self.samples.push((now, flow.0, sample)),
            Event::Telemetry {
                source: Source::Flow(flow),
                field,
                value,
            } => {
                self.telemetry.push((now, flow.0, field, value));
            }
            Event::QueueSampled {
                queue,
                backlog_packets,
                ..
            } => self.queue_samples.push((now, queue.0, backlog_packets)),
            Event::Dequeued { sojourn, .. } => self.sojourns.push((now, sojourn)),
            Event::Tapped { forward, .. } => self.taps.push((now, forward)),
            _ => {}
        }
    }
}

impl Record {
    /// Payload of `flow` delivered from `from` to `to`, in Mbit/s.
    pub fn goodput_mbit(&self, flow: u32, from: u64, to: u64) -> f64 {
        let second = 1_000_000_000;
        let bytes: u64 = self
            .delivered
            .iter()
            .filter(|(at, f, _)| {
                *f == flow && (from * second..to * second).contains(&at.as_nanos())
            })
            .map(|(_, _, bytes)| bytes)
            .sum();
        bytes as f64 * 8.0 / 1e6 / (to - from) as f64
    }
}
