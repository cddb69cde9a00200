//! An engine for tests: it obeys a law that the test writes down, instead of
//! simulating a network. And how tests have a plan run.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use narrows_core::{
    Band, EntityId, Event, EventSink, FlowId, FlowSample, MarkCause, Packet, RecoveryEvent,
};
use narrows_results::{
    Ended, Engine, EngineError, Output, Progress, RunHandle, RunOptions, RunResult, Watch,
    run_scenario,
};
use narrows_scenario::{Draft, Plan};
use narrows_units::{Duration, Instant, Rng};

/// A model of how flows share the bottleneck: the payload rate of each in
/// Mbit/s.
pub type Law = fn(&Plan, u64) -> Vec<f64>;

/// Reports what a network would in which each flow gets the rate that `law`
/// says.
pub struct ModelEngine {
    /// Which engine it stands for.
    pub name: &'static str,
    /// The law.
    pub law: Law,
    /// If set, cells whose name contains it panic.
    pub panics_on: Option<&'static str>,
}

impl ModelEngine {
    /// An engine that obeys `law`.
    pub fn new(law: Law) -> Self {
        Self {
            name: "model",
            law,
            panics_on: None,
        }
    }
}

/// Every flow gets the same.
pub fn equal_shares(plan: &Plan, _: u64) -> Vec<f64> {
    vec![47.7 / plan.flows.len() as f64; plan.flows.len()]
}

/// Rates that the seed decides.
pub fn by_seed(plan: &Plan, seed: u64) -> Vec<f64> {
    let mut rng = Rng::for_name(seed, &plan.name);
    plan.flows.iter().map(|_| 5.0 + 20.0 * rng.unit()).collect()
}

const MSS: u64 = 1448;
const STEP: Duration = Duration::from_millis(10);

impl Engine for ModelEngine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        let mut names: Vec<String> = plan.elements().map(|e| e.name.clone()).collect();
        names.extend(plan.hosts.iter().map(|h| format!("host/{}", h.name)));
        names
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        if self.panics_on.is_some_and(|word| plan.name.contains(word)) {
            panic!("the model has no law for {}", plan.name);
        }
        let names = self.names(plan);
        let queue = names
            .iter()
            .position(|n| n.ends_with("up/bottleneck"))
            .ok_or_else(|| EngineError::Failed("no bottleneck".to_owned()))?;
        let queue = EntityId(queue as u32);
        let rates = (self.law)(plan, seed);
        let mut rng = Rng::for_name(seed, "model");
        let packet = Packet {
            bytes: vec![0x45, 0x01],
            zero_tail: MSS as u32 + 50,
            ..Packet::default()
        };
        let mut carry = vec![0.0; rates.len()];
        let mut acked = vec![0u64; rates.len()];
        let mut events = 0u64;
        let mut record = |now, event: Event<'_>| {
            sink.record(now, event);
            events += 1;
        };
        let mut now = Instant::ZERO;
        while now < Instant::ZERO + plan.duration {
            if !handle.tick(now) {
                return Ok(Ended {
                    events,
                    packets: 0,
                    virtual_time: now.since(Instant::ZERO),
                    interrupted: true,
                    ..Ended::default()
                });
            }
            for (i, rate) in rates.iter().enumerate() {
                let flow = FlowId(i as u32);
                if now == Instant::ZERO {
                    let transport = &plan.flows[i].transport;
                    let asked = transport.ecn() == narrows_scenario::EcnMode::AccEcn;
                    let (ecn, accecn) = (true, asked || transport.needs().accecn);
                    record(now, Event::Established { flow, ecn, accecn });
                }
                carry[i] += rate * 1e6 / 8.0 * STEP.as_secs_f64() / MSS as f64;
                while carry[i] >= 1.0 {
                    carry[i] -= 1.0;
                    acked[i] += MSS;
                    let mut packet = packet.clone();
                    packet.flow = Some(flow);
                    let sojourn = Duration::from_micros(500 + u64::from(rng.below(9_000)));
                    let backlog_packets = 1 + rng.below(40);
                    record(
                        now,
                        Event::Enqueued {
                            queue,
                            backlog_packets,
                            backlog_bytes: u64::from(backlog_packets) * 1514,
                        },
                    );
                    if rng.below(100) == 0 {
                        let cause = MarkCause::Probability;
                        let packet = &packet;
                        record(
                            now,
                            Event::Marked {
                                queue,
                                packet,
                                cause,
                            },
                        );
                        let event = RecoveryEvent::CongestionExperienced;
                        record(now, Event::Recovery { flow, event });
                    }
                    record(
                        now,
                        Event::Dequeued {
                            queue,
                            packet: &packet,
                            sojourn,
                            wire_bytes: 1514,
                            band: Band::new(&["classic", "low_latency"], (i % 2) as u8),
                        },
                    );
                    record(now, Event::Delivered { flow, bytes: MSS });
                    let rtt = Duration::from_millis(20) + sojourn;
                    record(now, Event::RttSample { flow, rtt });
                }
                let sample = FlowSample {
                    cwnd: 40,
                    srtt: Duration::from_millis(25),
                    bytes_acked: acked[i],
                    ..FlowSample::default()
                };
                record(now, Event::Sampled { flow, sample });
            }
            now += STEP;
        }
        Ok(Ended {
            events,
            packets: acked.iter().sum::<u64>() / MSS,
            virtual_time: plan.duration,
            interrupted: false,
            ..Ended::default()
        })
    }
}

/// Two flows over a dumbbell, six seconds.
pub const SCENARIO: &str = r#"
version  = 1
name     = "two flows"
duration = "6s"
measure  = "2s..6s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue fq_codel"]
down = ["netem delay 10ms", "bottleneck: rate 50Mbit queue fq_codel"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "prague variant 2020"

[[flow]]
name = "second"
from = "client"
to   = "server"
cc   = "cubic"
ecn  = true
"#;

/// The plan of [`SCENARIO`].
pub fn plan() -> Plan {
    plan_of(SCENARIO)
}

/// The plan of the scenario `text`.
pub fn plan_of(text: &str) -> Plan {
    Draft::read("test.toml", text.as_bytes())
        .and_then(|draft| draft.check())
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs `plan` by `engine` and writes nothing.
pub fn run(engine: &dyn Engine, plan: &Plan) -> RunResult {
    unwatched(|watch| run_scenario(engine, plan, &RunOptions::default(), watch)).unwrap()
}

/// Runs `plan` by `engine`, with `seed`, into the folder `dir`.
pub fn run_to(engine: &dyn Engine, plan: &Plan, seed: u64, dir: &Path) -> RunResult {
    let options = RunOptions {
        seed: Some(seed),
        output: Output::Folder(dir.to_path_buf()),
        ..RunOptions::default()
    };
    unwatched(|watch| run_scenario(engine, plan, &options, watch)).unwrap()
}

/// All files below `dir` but `run.json`, which knows times of day.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap() != "run.json" {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Calls `f` with a watch that ignores progress and never cancels.
pub fn unwatched<T>(f: impl FnOnce(&Watch<'_>) -> T) -> T {
    let cancel = AtomicBool::new(false);
    let progress = |_: Progress<'_>| {};
    f(&Watch {
        cancel: &cancel,
        progress: &progress,
    })
}
