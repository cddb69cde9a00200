//! Prints what DA-LBE costs in the kernel beside the control that it is over: runs and time of
//! each hook, by the kernel's own run-time statistics, over one connection on loopback that
//! sends for a while. Needs root. Part of `bench/controls`.
//!
//! The kernel calls hooks once for an ACK, so that what a run of every hook takes is what an
//! ACK costs. Pairs are measured in turn, and medians are shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{env, thread};

use narrows_bpf::testkit::HookCosts;
use narrows_bpf::{BpfError, ControlLoader, EcnFlags, Trace};
use narrows_cc::ControlSpec;
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use nix::time::{ClockId, clock_gettime};

/// What DA-LBE may add to an ACK, nanoseconds.
const BAR_NS: f64 = 100.0;
/// That, of the CPU time of its connection: all that the kernel spends on both ends.
const BAR_SHARE: f64 = 0.002;
/// All of its hooks, of the same (H. P. Tandberg, TCP DA-LBE, 2020, section 7.4).
const BAR_WHOLE: f64 = 0.01;
const PAIRS: usize = 5;
const SECONDS: u64 = 2;
/// Called for each ACK, in the kernel's own 15 characters.
const OF_ACKS: &str = "nw_hook_pkts_ac";

/// What one connection took.
struct Run {
    /// Runs and nanoseconds by hook.
    hooks: BTreeMap<String, (u64, u64)>,
    /// CPU time of both ends, nanoseconds.
    cpu_ns: f64,
}

impl Run {
    fn acks(&self) -> f64 {
        self.hooks
            .get(OF_ACKS)
            .map_or(1.0, |(runs, _)| *runs as f64)
    }

    fn per_ack(&self) -> f64 {
        self.hooks.values().map(|(_, ns)| *ns as f64).sum::<f64>() / self.acks()
    }
}

fn cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    now.tv_sec() as f64 * 1e9 + now.tv_nsec() as f64
}

fn run(words: &str, number: usize) -> Result<Run, BpfError> {
    let costs = HookCosts::begin()?;
    let spec = ControlSpec::parse(words).expect("the words name a control");
    let name = format!("nwc{:x}_{number}", std::process::id());
    let control = ControlLoader::load(&spec, &name, EcnFlags::None, Trace::Off)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    let chosen = setsockopt(&near, TcpCongestion, &OsString::from(control.name()));
    chosen.map_err(std::io::Error::from)?;
    let before = cpu_ns();
    let receiver = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while far.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let (begun, block) = (Instant::now(), vec![1; 1 << 16]);
    let mut sender = &near;
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        sender.write_all(&block)?;
    }
    near.shutdown(Shutdown::Write)?;
    let _ = receiver.join();
    let cpu_ns = cpu_ns() - before;
    let hooks = costs.read().into_iter().filter(|c| c.runs > 0);
    let hooks = hooks.map(|c| (c.name, (c.runs, c.ns))).collect();
    Ok(Run { hooks, cpu_ns })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(bare: &str, over: &str) -> Result<(), BpfError> {
    let (mut plain, mut dalbe) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        plain.push(run(bare, 2 * pair)?);
        dalbe.push(run(over, 2 * pair + 1)?);
    }
    println!("  {over}, beside {bare}");
    println!(
        "  {:<18} {:>10} {:>12} {:>10} {:>10}",
        "hook", "runs", "runs an ACK", "ns a run", "bare ns"
    );
    let of = |runs: &[Run], hook: &String| {
        let each = runs.iter().filter_map(|r| r.hooks.get(hook));
        let each: Vec<f64> = each.map(|(n, ns)| *ns as f64 / *n as f64).collect();
        (!each.is_empty()).then(|| median(each))
    };
    let last = dalbe.last().expect("there are pairs");
    for (hook, (runs, _)) in &last.hooks {
        let cell = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{ns:.0}"));
        println!(
            "  {hook:<18} {runs:>10} {:>12.3} {:>10} {:>10}",
            *runs as f64 / last.acks(),
            cell(of(&dalbe, hook)),
            cell(of(&plain, hook))
        );
    }
    let per_ack = |runs: &[Run]| median(runs.iter().map(Run::per_ack).collect());
    let (with, without) = (per_ack(&dalbe), per_ack(&plain));
    let own = with - without;
    let share = median(dalbe.iter().map(|r| own * r.acks() / r.cpu_ns).collect());
    let whole = median(dalbe.iter().map(|r| with * r.acks() / r.cpu_ns).collect());
    println!("  an ACK: {with:.0} ns, bare {without:.0} ns");
    let row = |what: &str, is: f64, most: f64, unit: &str| {
        let met = if is <= most { "met" } else { "NOT met" };
        println!("  AC13  {what:<44} {is:>7.2} of {most} {unit}: {met}");
    };
    row("DA-LBE's own time for an ACK", own, BAR_NS, "ns");
    let (share, most) = (share * 100.0, BAR_SHARE * 100.0);
    row("that, of the connection's CPU time", share, most, "%");
    let (whole, most) = (whole * 100.0, BAR_WHOLE * 100.0);
    row("all hooks, of the connection's CPU time", whole, most, "%");
    Ok(())
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let of: Vec<&str> = match words.is_empty() {
        true => vec!["vegas", "cubic", "reno", "ledbat"],
        false => words.iter().map(String::as_str).collect(),
    };
    for bare in of {
        let over = format!("dalbe over {bare} deadline 1000s size 1000000000000b");
        if let Err(e) = compare(bare, &over) {
            println!("  skipped: {e}");
            return;
        }
    }
}
