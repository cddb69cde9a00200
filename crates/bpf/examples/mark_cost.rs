//! Prints what a run of the marking programs costs for each profile, by the
//! kernel's own test runs, beside what its parts cost and the bar of 100 ns. Needs
//! root. Part of `bench/marking`.
//!
//! `out` is a packet of this host's TCP, which says when it leaves; `forwarded` one
//! that does not, so that rules that want to know read the clock.
//!
//! A batch is 100,000 runs; shown is the median of the batches, and the least in
//! brackets. The frame of a test run keeps what was written into it, so that bits
//! change where a signal does and not in each run; `out + change` is what a run
//! costs that has to change them.

use narrows_bpf::testkit::{SignalCost, SignalRuns, signal_cost};
use narrows_bpf::{BpfError, SignalOptions};
use narrows_efm::SignalSpec;

/// Nanoseconds that a run may cost.
const BAR: u64 = 100;
const BATCHES: usize = 21;
const RUNS: u32 = 100_000;

/// An Ethernet frame with a TCP segment with timestamps, from this host where it
/// leaves; of IPv4 (10.0.0.1 and .2) or IPv6 (fd00::1 and ::2).
fn frame(ipv6: bool, leaves: bool, flags: u8, seq: u32, payload: usize) -> Vec<u8> {
    let segment = 32 + payload;
    let (from, to) = if leaves { (1, 2) } else { (2, 1) };
    let mut frame = vec![0; 12];
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((segment as u16).to_be_bytes());
        frame.extend([6, 64]);
        for end in [from, to] {
            frame.push(0xfd);
            frame.extend([0; 14]);
            frame.push(end);
        }
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + segment as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 0, 0, from, 10, 0, 0, to]);
    }
    let ports: [u16; 2] = if leaves { [40_000, 443] } else { [443, 40_000] };
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend(seq.to_be_bytes());
    frame.extend(1u32.to_be_bytes());
    frame.extend([0x80, flags, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    frame.resize(frame.len() + payload, 0);
    frame
}

/// Median and least of one value of all batches.
fn of<T>(all: &[T], value: impl Fn(&T) -> u64) -> (u64, u64) {
    let mut values: Vec<u64> = all.iter().map(value).collect();
    values.sort_unstable();
    (values[values.len() / 2], values[0])
}

fn cell((median, least): (u64, u64)) -> String {
    format!("{median:>6} ({least})")
}

/// Nanoseconds of a packet that leaves, of one that arrives and of one that is
/// forwarded, in each batch, on a connection that was opened from here.
fn costs(words: &str, ipv6: bool) -> Result<Vec<[u64; 3]>, BpfError> {
    let spec = SignalSpec::parse(words).expect("the words name signals");
    let runs = SignalRuns::load(&spec, &SignalOptions::default())?;
    runs.leave(&frame(ipv6, true, 0x02, 1, 0), 1)?;
    runs.arrive(&frame(ipv6, false, 0x12, 1, 0), 1)?;
    let leaves = frame(ipv6, true, 0x10, 2, 1000);
    let arrives = frame(ipv6, false, 0x10, 2, 1000);
    let batch = |_| {
        Ok([
            runs.leave_at(&leaves, RUNS, 1_000_000_000)?.ns,
            runs.arrive(&arrives, RUNS)?.ns,
            runs.leave(&leaves, RUNS)?.ns,
        ])
    };
    (0..BATCHES).map(batch).collect()
}

/// One of the times that make up the floor, in nanoseconds.
type Part = fn(&SignalCost) -> u64;

fn run() -> Result<(), BpfError> {
    let packet = frame(false, true, 0x10, 2, 1000);
    let floor: Result<Vec<SignalCost>, BpfError> =
        (0..BATCHES).map(|_| signal_cost(&packet, RUNS)).collect();
    let floor = floor?;
    println!("  ns per run, median (least) of {BATCHES} x {RUNS} test runs");
    let parts: [(&str, Part); 6] = [
        ("an empty program", |f| f.empty_ns),
        ("... that reads the headers", |f| f.read_ns),
        ("... that finds the connection", |f| f.lookup_ns),
        ("... the same by a hash table", |f| f.lookup_hashed_ns),
        ("... that reads the clock", |f| f.clock_ns),
        ("... that changes a bit", |f| f.change_ns),
    ];
    for (name, part) in parts {
        println!("  {name:<30} {}", cell(of(&floor, part)));
    }
    let change = of(&floor, |f| f.change_ns.saturating_sub(f.empty_ns)).0;
    println!(
        "  {:<16} {:>14} {:>14} {:>14} {:>14}",
        "profile", "out", "in", "forwarded", "out + change"
    );
    let mut worst = 0;
    for (words, ipv6) in [
        ("s", false),
        ("d", false),
        ("d+q", false),
        ("s+vec", false),
        ("s+d+q", false),
        ("d+q+r", false),
        ("s+t", false),
        ("d delay thesis", false),
        ("s+d+q", true),
    ] {
        let costs = costs(words, ipv6)?;
        let (out, arriving) = (of(&costs, |c| c[0]), of(&costs, |c| c[1]));
        worst = worst.max(out.0).max(arriving.0);
        let family = if ipv6 { " IPv6" } else { "" };
        println!(
            "  {:<16} {:>14} {:>14} {:>14} {:>14}",
            format!("{words}{family}"),
            cell(out),
            cell(arriving),
            cell(of(&costs, |c| c[2])),
            out.0 + change
        );
    }
    let word = if worst <= BAR { "met" } else { "NOT met" };
    println!("  the dearest takes {worst} ns: the bar of {BAR} ns is {word}");
    Ok(())
}

fn main() {
    if let Err(e) = run() {
        println!("  skipped: {e}");
    }
}
