//! Prints what a million rules and a million connections take of memory, and what a packet costs
//! among as many connections beside one. Linux, for it reads `/proc`. Part of `bench/mmb`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant as Clock;

use narrows_core::UP;
use narrows_mmb::{Middlebox, Settings, commands};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{IpFields, TcpFields, TcpFlags, ip};

const MILLION: u32 = 1_000_000;
/// Packets whose cost is measured.
const PACKETS: u32 = 200_000;

/// A number of `/proc/self/status` in MiB; 0 where there is none.
fn mib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn loaded(rules: &str) -> Middlebox {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    let read = commands(rules).expect("rules of this file");
    middlebox.apply_all(read).expect("rules of this file");
    middlebox
}

/// A segment of the connection of this number.
fn segment(number: u32, bytes: &mut Vec<u8>) {
    let [_, a, b, c] = (number / 50_000 + 1).to_be_bytes();
    let (source, destination) = (
        IpAddr::V4(Ipv4Addr::new(10, a, b, c)),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    );
    bytes.clear();
    let fields = IpFields {
        source,
        destination,
        traffic_class: 0,
        ttl: 64,
        protocol: ip::TCP,
        ident: 0,
    };
    fields.write(bytes, 20);
    let fields = TcpFields {
        source_port: 1_024 + (number % 50_000) as u16,
        destination_port: 443,
        flags: TcpFlags(TcpFlags::SYN),
        ..TcpFields::default()
    };
    fields.write(bytes, source, destination, &[], 0);
}

/// Sends `packets` packets of `connections` connections in turn, one each `gap` from `now` on;
/// nanoseconds of each.
fn send(
    middlebox: &mut Middlebox,
    connections: u32,
    packets: u32,
    (mut now, gap): (Instant, Duration),
) -> f64 {
    let mut bytes = Vec::new();
    let begun = Clock::now();
    for number in 0..packets {
        // Far apart, as connections come.
        let connection = (u64::from(number) * 7_919 % u64::from(connections)) as u32;
        segment(connection, &mut bytes);
        let outcome = middlebox.process(now, UP, &mut bytes, &mut 0);
        now += gap;
        assert_eq!(outcome.dropped, None);
    }
    begun.elapsed().as_nanos() as f64 / f64::from(packets)
}

fn main() {
    println!("What a box takes (bars: 512 MiB for the connections, 0.90 of the packets with one)");
    let empty = mib("VmRSS");
    let mut middlebox = loaded("add-stateful in inside accept");
    let at_once = (Instant::ZERO, Duration::ZERO);
    let one = send(&mut middlebox, 1, PACKETS, at_once);
    send(&mut middlebox, MILLION, MILLION, at_once);
    let count = middlebox.connection_count();
    let held = mib("VmRSS") - empty;
    let many = send(&mut middlebox, MILLION, PACKETS, at_once);
    println!(
        "  {count} connections: {held} MiB, at most {} MiB",
        mib("VmHWM") - empty
    );
    println!(
        "  a packet: {one:.0} ns with one connection, {many:.0} ns with all: {:.2}",
        one / many
    );
    // 20 s, in which the box looks for connections that expired.
    let gap = Duration::from_micros(100);
    let slowly = send(&mut middlebox, MILLION, PACKETS, (Instant::ZERO, gap));
    println!("  a packet each 100 us among all: {slowly:.0} ns");
    drop(middlebox);
    let rule = |n: u32| {
        let (a, b, c) = (16 + (n >> 16), n >> 8 & 255, n & 255);
        format!("add ip-saddr 172.{a}.{b}.{c} tcp-dport 9 drop\n")
    };
    let text: String = (0..MILLION).map(rule).collect();
    let before = mib("VmRSS");
    let begun = Clock::now();
    let middlebox = loaded(&text);
    let took = begun.elapsed().as_secs_f64();
    println!(
        "  {} rules: {} MiB, read in {took:.2} s",
        middlebox.rules().len(),
        mib("VmRSS").saturating_sub(before)
    );
}
