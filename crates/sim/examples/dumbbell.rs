//! How fast the engine is: two flows through one bottleneck, with what an
//! event, a packet and a packet-hop cost.
//!
//! ```text
//! cargo run --release --example dumbbell -p narrows-sim -- \
//!     [--rate 50Mbit] [--rtt-ms 20] [--queue fq_codel] [--cc cubic] \
//!     [--flows 2] [--seconds 60] [--traffic bulk] [--seed 1]
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use narrows_core::{Event, EventSink};
use narrows_scenario::{Draft, Plan};
use narrows_sim::RunHandle;

/// Counts, as cheaply as a sink can.
#[derive(Default)]
struct Tally {
    events: u64,
    data_packets: u64,
    delivered: Vec<u64>,
    marks: u64,
    drops: u64,
}

impl EventSink for Tally {
    fn record(&mut self, _: narrows_units::Instant, event: Event<'_>) {
        self.events += 1;
        match event {
            Event::Delivered { flow, bytes } => {
                let flow = flow.0 as usize;
                if self.delivered.len() <= flow {
                    self.delivered.resize(flow + 1, 0);
                }
                self.delivered[flow] += bytes;
            }
            Event::Sent { packet, .. } if packet.len() > 500 => self.data_packets += 1,
            Event::Marked { .. } => self.marks += 1,
            Event::Dropped { .. } => self.drops += 1,
            _ => {}
        }
    }
}

fn plan(options: &BTreeMap<String, String>) -> Plan {
    let option = |key: &str, default: &str| {
        options
            .get(key)
            .cloned()
            .unwrap_or_else(|| default.to_owned())
    };
    let one_way_us = option("rtt-ms", "20").parse::<u64>().expect("--rtt-ms N") * 500;
    let (rate, queue) = (option("rate", "50Mbit"), option("queue", "fq_codel"));
    let mut toml = format!(
        r#"version = 1
name = "dumbbell"
duration = "{}s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay {one_way_us}us", "rate {rate} queue {queue}"]
down = ["netem delay {one_way_us}us", "rate {rate} queue {queue}"]
"#,
        option("seconds", "60")
    );
    let cc = option("cc", "cubic");
    for i in 0..option("flows", "2").parse::<u32>().expect("--flows N") {
        let ecn = if cc.starts_with("prague") {
            ""
        } else {
            "ecn = true"
        };
        write!(
            toml,
            "[[flow]]\nname = \"{i}\"\nfrom = \"client\"\nto = \"server\"\ncc = \"{cc}\"\n{ecn}\ntraffic = \"{}\"\n",
            option("traffic", "bulk")
        )
        .expect("writing to a string");
    }
    Draft::read("dumbbell.toml", toml.as_bytes())
        .and_then(|draft| draft.check())
        .unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

/// Time that this thread has spent on a CPU, where Linux reports it: other
/// programs on the machine do not count.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e9)
}

fn main() {
    let mut options = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let key = word.strip_prefix("--").expect("--key value").to_owned();
        options.insert(key, words.next().expect("a value"));
    }
    let seed = options
        .get("seed")
        .map_or(1, |s| s.parse().expect("--seed N"));
    let plan = plan(&options);
    let mut tally = Tally::default();
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let outcome =
        narrows_sim::run(&plan, seed, &mut tally, &RunHandle::default()).expect("a checked plan");
    let wall = started.elapsed().as_secs_f64();
    let spent = cpu
        .zip(cpu_seconds())
        .map_or(wall, |(before, after)| after - before);
    let virtual_s = outcome.virtual_time.as_secs_f64();
    let per = |n: u64| spent * 1e9 / n.max(1) as f64;
    println!(
        "{virtual_s} s in {spent:.3} s of CPU ({wall:.3} s by the clock): {:.0} times real time",
        virtual_s / spent
    );
    println!(
        "{} wakes, {:.2} M/s; {} events recorded",
        outcome.events,
        outcome.events as f64 / spent / 1e6,
        tally.events
    );
    println!(
        "{} packets, {} of them data; {} packet-hops",
        outcome.packets, tally.data_packets, outcome.packet_hops
    );
    println!(
        "{:.0} ns per data packet, {:.0} ns per packet, {:.0} ns per packet-hop",
        per(tally.data_packets),
        per(outcome.packets),
        per(outcome.packet_hops)
    );
    println!("{} marks, {} drops", tally.marks, tally.drops);
    for (i, bytes) in tally.delivered.iter().enumerate().take(8) {
        println!("flow {i}: {:.2} Mbit/s", *bytes as f64 * 8e-6 / virtual_s);
    }
}
