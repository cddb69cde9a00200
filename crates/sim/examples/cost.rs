//! Runs a scenario file with nobody listening and prints, on one line of
//! key=value pairs, what the engine did: for `make bench`.
//!
//! ```console
//! $ cargo run --release -p narrows-sim --example cost -- scenario.toml
//! ```

#![forbid(unsafe_code)]

use std::error::Error;

use narrows_core::{Event, EventSink};
use narrows_scenario::{Draft, Plan};
use narrows_sim::RunHandle;
use narrows_units::Instant;

/// Counts what flows got in the steady window, and nothing else.
struct Goodput<'a> {
    plan: &'a Plan,
    bytes: Vec<u64>,
}

impl EventSink for Goodput<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Event::Delivered { flow, bytes } = event {
            if now >= self.plan.measure.from && now <= self.plan.measure.to {
                self.bytes[flow.0 as usize] += bytes;
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name a scenario file")?;
    let draft = Draft::read(&path, &std::fs::read(&path)?).map_err(|e| e.to_string())?;
    let plan = draft.check().map_err(|e| e.to_string())?;
    let mut goodput = Goodput {
        plan: &plan,
        bytes: vec![0; plan.flows.len()],
    };
    let outcome = narrows_sim::run(&plan, plan.seed, &mut goodput, &RunHandle::default())?;

    let bottleneck = outcome
        .elements
        .iter()
        .find(|e| outcome.names[e.element.0 as usize] == "link/middle/up/bottleneck")
        .map(|e| e.counters)
        .unwrap_or_default();
    // A hop is one packet over one link; delay lines are part of their link.
    let hops: u64 = outcome
        .elements
        .iter()
        .filter(|e| !outcome.names[e.element.0 as usize].contains("netem"))
        .map(|e| e.counters.packets_out)
        .sum();
    let window = plan.measure.to.since(plan.measure.from).as_secs_f64();
    let rates: Vec<String> = goodput
        .bytes
        .iter()
        .map(|bytes| format!("{:.4}", *bytes as f64 * 8.0 / 1e6 / window))
        .collect();
    println!(
        "engine=narrows events={} packets={} hops={hops} marks={} drops={} goodput_mbit={}",
        outcome.events,
        outcome.packets,
        bottleneck.marked,
        bottleneck.dropped,
        rates.join(",")
    );
    Ok(())
}
