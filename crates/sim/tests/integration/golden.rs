//! Kept digests of short runs: every queue, every congestion control, loss,
//! reordering, probes, both versions of IP.
//!
//! They must come out in every build profile and on every machine. A change
//! that is meant to alter what packets do changes them: compare the counts,
//! then accept with `INSTA_UPDATE=always cargo test -p narrows-sim --test integration golden::`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::rig::{flow, plan, run};
use narrows_core::{Event, EventSink, Packet, Source};
use narrows_units::Instant;
use xxhash_rust::xxh3::Xxh3;

/// A digest of what became of each packet and what each sender and queue
/// thought, with a few counts that say where two runs part.
#[derive(Default)]
struct Digest {
    hash: Xxh3,
    /// What Prague said of marking since its last sample, by flow.
    alpha: BTreeMap<u32, i64>,
    packets: u32,
    marks: u32,
    drops: u32,
    bytes: u64,
    probes: u32,
}

impl Digest {
    fn add(&mut self, kind: u8, now: Instant, facts: &[u64]) {
        self.hash.update(&[kind]);
        self.hash.update(&now.as_nanos().to_le_bytes());
        for fact in facts {
            self.hash.update(&fact.to_le_bytes());
        }
    }

    fn add_packet(&mut self, kind: u8, now: Instant, facts: &[u64], packet: &Packet) {
        self.add(kind, now, facts);
        self.add(kind, packet.born, &[packet.zero_tail.into()]);
        self.hash.update(&packet.bytes);
    }

    fn line(&self) -> String {
        format!(
            "{:032x} packets {} marks {} drops {} bytes {} probes {}",
            self.hash.digest128(),
            self.packets,
            self.marks,
            self.drops,
            self.bytes,
            self.probes
        )
    }
}

impl EventSink for Digest {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Sent { host, packet } => {
                self.packets += 1;
                self.add_packet(0, now, &[host.0.into()], packet);
            }
            Event::Received { host, packet } => {
                self.add_packet(1, now, &[host.0.into()], packet);
            }
            Event::Dequeued {
                queue,
                packet,
                sojourn,
                wire_bytes,
                band,
            } => {
                let facts = [
                    queue.0.into(),
                    sojourn.as_nanos(),
                    wire_bytes.into(),
                    band.index() as u64,
                ];
                self.add_packet(2, now, &facts, packet);
            }
            Event::Marked {
                queue,
                packet,
                cause,
            } => {
                self.marks += 1;
                self.add_packet(3, now, &[queue.0.into(), cause as u64], packet);
            }
            Event::Dropped {
                element,
                packet,
                cause,
            } => {
                self.drops += 1;
                self.add_packet(4, now, &[element.0.into(), cause as u64], packet);
            }
            Event::Delivered { flow, bytes } => {
                self.bytes += bytes;
                self.add(5, now, &[flow.0.into(), bytes]);
            }
            Event::RttSample { flow, rtt } => {
                self.add(6, now, &[flow.0.into(), rtt.as_nanos()]);
            }
            // Of the sample that follows.
            Event::Telemetry {
                source: Source::Flow(flow),
                field,
                value,
            } if field.name == "alpha" => {
                self.alpha.insert(flow.0, value);
            }
            Event::Sampled { flow, sample: s } => {
                let facts = [
                    flow.0.into(),
                    s.cwnd.into(),
                    s.ssthresh.into(),
                    s.srtt.as_nanos(),
                    s.pacing_rate,
                    s.delivery_rate,
                    self.alpha
                        .remove(&flow.0)
                        .map_or(u32::MAX.into(), |alpha| alpha as u64),
                ];
                self.add(7, now, &facts);
            }
            Event::QueueSampled {
                queue,
                backlog_bytes,
                probability,
                ..
            } => self.add(
                8,
                now,
                &[queue.0.into(), backlog_bytes, probability.to_bits()],
            ),
            Event::ProbeRtt { probe, rtt } => {
                self.probes += 1;
                self.add(9, now, &[probe.0.into(), rtt.as_nanos()]);
            }
            _ => {}
        }
    }
}

fn digest(toml: &str) -> String {
    let mut digest = Digest::default();
    run(&plan(toml), 1, &mut digest);
    digest.line()
}

/// `flows` and a probe through `up` for three seconds.
fn dumbbell(up: &str, flows: &str) -> String {
    format!(
        r#"
duration = "3s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = [{up}]
down = ["netem delay 10ms"]
[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "20ms"
{flows}
"#
    )
}

#[test]
fn every_queue_treats_packets_as_kept() {
    let flows = flow("classic", "cc = \"cubic\"\necn = \"accecn\"")
        + &flow("scalable", "cc = \"prague variant 2020\"")
        + &flow("deaf", "cc = \"reno\"\necn = false");
    let mut kept = String::new();
    for queue in [
        "pfifo limit 50",
        "bfifo limit 60000",
        "codel ecn",
        "fq_codel",
        "fq_codel flows 1",
        "pie ecn",
        "red limit 400000 avpkt 1000 bandwidth 20Mbit ecn",
        "red limit 400000 avpkt 1000 adaptive bandwidth 20Mbit ecn",
        "dualpi2",
        "dualpi2 variant linux-2020",
        "dualpi2 variant rfc9332",
        "cnq_codel_af",
    ] {
        let up = format!("\"netem delay 10ms\", \"rate 20Mbit queue {queue}\"");
        writeln!(kept, "{queue}: {}", digest(&dumbbell(&up, &flows))).unwrap();
    }
    insta::assert_snapshot!("queues", kept);
}

#[test]
fn every_congestion_control_sends_as_kept() {
    let mut kept = String::new();
    for cc in [
        "reno",
        "cubic",
        "cubic hystart++",
        "prague variant 2020",
        "prague variant 2020 rtt_control rate rtt_target 25ms rtt_transition 20",
    ] {
        for queue in ["fq_codel", "pfifo limit 60"] {
            let up =
                format!("\"netem delay 10ms loss random 0.1%\", \"rate 20Mbit queue {queue}\"");
            let words = format!("cc = \"{cc}\"\necn = \"accecn\"");
            let line = digest(&dumbbell(&up, &flow("lone", &words)));
            writeln!(kept, "{cc}, {queue}: {line}").unwrap();
        }
    }
    insta::assert_snapshot!("controls", kept);
}

#[test]
fn every_impairment_befalls_packets_as_kept() {
    let flows = flow("six", "cc = \"cubic\"\necn = true\nip = 6")
        + &flow("voice", "traffic = \"cbr rate 1Mbit size 400\"");
    let mut kept = String::new();
    for netem in [
        "delay 10ms",
        "delay 10ms loss random 1%",
        "delay 10ms loss gemodel 1% 20%",
        "delay 10ms 2ms distribution normal",
        "delay 10ms 2ms distribution paretonormal",
        "delay 10ms duplicate 1% reorder 2%",
        "delay 10ms slot 800us 5ms packets 16",
    ] {
        let up = format!("\"netem {netem}\", \"rate 20Mbit queue pfifo limit 100\"");
        writeln!(kept, "{netem}: {}", digest(&dumbbell(&up, &flows))).unwrap();
    }
    insta::assert_snapshot!("impairments", kept);
}
