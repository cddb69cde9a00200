//! Nanoseconds per packet of a box, and per rule that is loaded.

#![allow(missing_docs)] // of criterion's macros

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use narrows_core::UP;
use narrows_mmb::{Command, Middlebox, Settings, commands};
use narrows_units::{Instant, Rng};
use narrows_wire::{IpFields, TcpFields, TcpFlags, ip};

/// A full segment from one of many ports.
fn packet(port: u16) -> (Vec<u8>, u32) {
    let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let (source, destination) = (address(1), address(2));
    let mut bytes = Vec::new();
    IpFields {
        source,
        destination,
        traffic_class: 1,
        ttl: 64,
        protocol: ip::TCP,
        ident: 0,
    }
    .write(&mut bytes, 1480);
    let fields = TcpFields {
        source_port: port,
        destination_port: 443,
        flags: TcpFlags(TcpFlags::ACK),
        ..TcpFields::default()
    };
    fields.write(&mut bytes, source, destination, &[], 1460);
    (bytes, 1460)
}

fn loaded(commands: Vec<Command>) -> Middlebox {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    middlebox.apply_all(commands).expect("rules of this file");
    middlebox
}

fn rules(text: &str) -> Vec<Command> {
    commands(text).expect("rules of this file")
}

/// Rules that no packet here matches, all with one mask.
fn one_mask(count: u32) -> String {
    let mut text = String::new();
    for n in 0..count {
        let (a, b, port) = (n >> 16, n >> 8 & 255, n & 255);
        text += &format!("add ip-saddr 172.16.{a}.{b} tcp-dport {port} drop\n");
    }
    text
}

/// Rules that no packet here matches, each with a mask of its own.
fn masks(count: u32) -> Vec<Command> {
    let mut text = String::new();
    for n in 0..count {
        let (source, destination) = (1 + n % 32, n / 32 % 33);
        let ttl = if n / 1056 == 1 { "ip-ttl 9" } else { "" };
        text += &format!(
            "add ip-saddr 172.16.0.1/{source} ip-daddr 10.0.0.2/{destination} tcp-dport 77 {ttl} drop\n"
        );
    }
    rules(&text)
}

const TEN: &str = "add ip-ect1 mod ip-ect0
    add ip-ce mod ip-ect0
    add tcp-dport 80 mod tcp-dport 8080
    add tcp-dport 443 mod ip-dscp 46
    add tcp-opt-mss > 1400 mod tcp-opt-mss 1400
    add tcp-res != 0 mod tcp-res 0
    add udp-dport > 1023 udp-dport < 2048 drop
    add ip-saddr 192.168.0.0/16 drop
    add ip-proto 47 drop
    add tcp-syn tcp-payload drop";

fn boxes(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(1_000));
    for (name, commands) in [
        ("no rule", Vec::new()),
        ("10 rules", rules(TEN)),
        ("1 mask, 1 rule", rules(&one_mask(1))),
        ("1 mask, 100000 rules", rules(&one_mask(100_000))),
        ("28 masks", masks(28)),
        ("2000 masks", masks(2_000)),
        ("stateful", rules("add-stateful ip-proto tcp accept")),
        (
            "source translation",
            rules("add-stateful ip-proto tcp map ip-saddr 192.0.2.1 shuffle tcp-sport"),
        ),
    ] {
        let mut middlebox = loaded(commands);
        let packets: Vec<_> = (0..1_000).map(packet).collect();
        let mut bytes = Vec::new();
        group.bench_function(name, |b| {
            b.iter(|| {
                for (packet, tail) in &packets {
                    bytes.clear();
                    bytes.extend_from_slice(packet);
                    let mut tail = *tail;
                    let out = middlebox.process(Instant::ZERO, UP, &mut bytes, &mut tail);
                    black_box(out);
                }
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("load");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(1_000_000));
    let text = one_mask(1_000_000);
    group.bench_function("1000000 rules from text", |b| {
        b.iter_batched(
            || text.clone(),
            |text| loaded(rules(&text)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, boxes);
criterion_main!(benches);
