//! Prints what a run of a box's programs costs by how many rules and masks it has, by the
//! kernel's own test runs, and how long loading takes. Needs root. Part of `bench/mmb`.
//!
//! The packet is a full TCP segment; only rules of the last two rows match it, and what one writes
//! stays from the first run on. Connections follow, one run at a time. A batch is 20,000 runs; shown are the median and the least of the
//! batches.

use std::time::Instant as Clock;

use narrows_bpf::BpfError;
use narrows_bpf::testkit::BoxRuns;
use narrows_mmb::{Middlebox, Settings, commands};
use narrows_units::Rng;
use narrows_wire::{IpFields, TcpFields, TcpFlags, ip};

const BATCHES: usize = 15;
const RUNS: u32 = 20_000;

/// An Ethernet frame with a full segment.
fn frame() -> Vec<u8> {
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = [&[2; 12][..], &[8, 0]].concat();
    let fields = IpFields {
        source,
        destination,
        traffic_class: 1,
        ttl: 64,
        protocol: ip::TCP,
        ident: 0,
    };
    fields.write(&mut frame, 1480);
    let fields = TcpFields {
        source_port: 40_000,
        destination_port: 443,
        flags: TcpFlags(TcpFlags::ACK),
        ..TcpFields::default()
    };
    fields.write(&mut frame, source, destination, &[0; 1460], 0);
    frame
}

/// So many rules of one mask.
fn one_mask(count: u32) -> String {
    let rule = |n: u32| {
        let (a, b, c) = (16 + (n >> 16), n >> 8 & 255, n & 255);
        format!("add ip-saddr 172.{a}.{b}.{c} tcp-dport 9 drop\n")
    };
    (0..count).map(rule).collect()
}

/// So many rules, each with a mask of its own.
fn masks(count: u32) -> String {
    let rule = |n: u32| {
        let (source, destination) = (1 + n % 32, 1 + n / 32 % 32);
        let ttl = if n < 1024 { "" } else { "ip-ttl 3" };
        format!(
            "add ip-saddr 172.16.0.1/{source} ip-daddr 172.17.0.1/{destination} tcp-dport 9 {ttl} drop\n"
        )
    };
    (0..count).map(rule).collect()
}

fn row(name: &str, text: &str, frame: &[u8]) -> Result<(), BpfError> {
    let begun = Clock::now();
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let read = commands(text).expect("rules of this file");
    middlebox.apply_all(read).expect("rules of this file");
    let read_s = begun.elapsed().as_secs_f64();
    let program = middlebox.program().expect("rules that the program can do");
    let runs = BoxRuns::load(&program)?;
    let loaded_s = begun.elapsed().as_secs_f64();
    let mut costs = Vec::new();
    for _ in 0..BATCHES {
        costs.push(runs.run(true, frame, RUNS)?.1);
    }
    costs.sort_unstable();
    println!(
        "  {name:<28} {:>6} {:>6} ns   {read_s:>6.2} {loaded_s:>6.2} s",
        costs[BATCHES / 2],
        costs[0]
    );
    Ok(())
}

/// What a packet of a connection costs beside so many other connections. Each run is one for
/// itself, as what a run writes stays in the packet of the next.
fn connection(name: &str, text: &str, others: u32, frame: &[u8]) -> Result<(), BpfError> {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let read = commands(text).expect("rules of this file");
    middlebox.apply_all(read).expect("rules of this file");
    let program = middlebox.program().expect("rules that the program can do");
    let runs = BoxRuns::load(&program)?;
    let begun = Clock::now();
    let mut other = frame.to_vec();
    for n in 0..others {
        // Another source of as many connections as there are.
        other[26..30].copy_from_slice(&(0xac10_0000 + n).to_be_bytes());
        runs.run(true, &other, 1)?;
    }
    let filled_s = begun.elapsed().as_secs_f64();
    let mut costs = Vec::new();
    for _ in 0..RUNS {
        costs.push(runs.run(true, frame, 1)?.1);
    }
    costs.sort_unstable();
    let tracked = runs.totals()?.connections;
    println!(
        "  {name:<28} {:>6} {:>6} ns   {tracked:>7} connections, {filled_s:.1} s",
        costs[costs.len() / 2],
        costs[0]
    );
    Ok(())
}

fn main() -> Result<(), BpfError> {
    let frame = frame();
    println!(
        "What a run of a box's programs costs: median, least; rules read, and in the kernel after"
    );
    row("no rule", "", &frame)?;
    for count in [1, 1_000, 100_000, 1_000_000] {
        row(
            &format!("one mask, {count} rules"),
            &one_mask(count),
            &frame,
        )?;
    }
    for count in [28, 200, 2_000] {
        row(&format!("{count} masks"), &masks(count), &frame)?;
    }
    row("a rule that matches", "add all mod ip-ttl 3", &frame)?;
    row("one that matches and drops", "add ip-ect1 drop", &frame)?;
    println!("One run at a time, clock and all: median, least");
    connection("a rule without state", "add all accept", 0, &frame)?;
    connection("a connection, accept", "add-stateful all accept", 0, &frame)?;
    let snat = "add-stateful all map ip-saddr 192.0.2.1 shuffle tcp-sport";
    connection("a connection, SNAT", snat, 0, &frame)?;
    let accept = "add-stateful all accept";
    connection("the same, accept, and others", accept, 990_000, &frame)
}
