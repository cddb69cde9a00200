//! An observer on two processors finds what it finds on one.

use std::net::{IpAddr, Ipv4Addr};

use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Config, Observer};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, UdpFields, ip};

/// Connections that are open at a time, at the most.
const OPEN: usize = 40;

struct Talk {
    port: u16,
    code: u16,
    sent: [u32; 2],
    packets: u32,
}

/// A packet of some connection: handshake, marked data and acknowledgements, a
/// retransmission now and then, FIN or RST, then the same ports again.
fn segment(rng: &mut Rng, talk: &mut Talk, at: u64) -> Vec<u8> {
    let ends = [[10, 0, 0, 1], [192, 0, 2, 1]].map(|a| IpAddr::V4(Ipv4Addr::from(a)));
    let from = match talk.packets {
        0 => 0,
        1 => 1,
        _ => rng.below(2) as usize,
    };
    let open = TcpFlags::SYN | talk.code << 9;
    let bits = (rng.below(8) as u16) << 9;
    let (flags, length) = match talk.packets {
        0 => (open, 0),
        1 => (open | TcpFlags::ACK, 0),
        n if n > 150 && rng.below(40) == 0 => (TcpFlags::ACK | TcpFlags::FIN, 0),
        n if n > 150 && rng.below(80) == 0 => (TcpFlags::RST, 0),
        _ => (TcpFlags::ACK | bits, rng.below(3) * 500),
    };
    let again = if rng.below(20) == 0 { length } else { 0 };
    let seq = talk.sent[from].wrapping_sub(again);
    talk.sent[from] += length - again + u32::from(flags & TcpFlags::SYN != 0);
    let tcp = TcpFields {
        source_port: [talk.port, 443][from],
        destination_port: [443, talk.port][from],
        seq,
        ack: talk.sent[1 - from],
        flags: TcpFlags(flags),
        window: 1_000,
        options: TcpOptions {
            timestamps: Some(((at / 1_000_000) as u32, (at / 1_000_000) as u32 - 3)),
            ..TcpOptions::default()
        },
    };
    talk.packets += 1;
    if flags & (TcpFlags::FIN | TcpFlags::RST) != 0 && rng.below(2) == 0 {
        (talk.packets, talk.sent) = (0, [rng.draw_u64() as u32 >> 1, 7]);
    }
    let mut bytes = Vec::new();
    header(ends[from], ends[1 - from], ip::TCP, rng.below(4) as u8)
        .write(&mut bytes, tcp.header_len() + length as usize);
    tcp.write(&mut bytes, ends[from], ends[1 - from], &[], length);
    bytes
}

fn header(source: IpAddr, destination: IpAddr, protocol: u8, ecn: u8) -> IpFields {
    IpFields {
        source,
        destination,
        traffic_class: ecn,
        ttl: 64,
        protocol,
        ident: 0,
    }
}

/// A datagram that may open a connection of QUIC, or show its spin bit.
fn datagram(rng: &mut Rng) -> Vec<u8> {
    let ends = [[10, 0, 0, 2], [192, 0, 2, 1]].map(|a| IpAddr::V4(Ipv4Addr::from(a)));
    let from = rng.below(2) as usize;
    let port = 50_000 + rng.below(4) as u16;
    let payload = match rng.below(3) {
        0 => {
            let mut initial = vec![0xc0, 0, 0, 0, 1, 8];
            initial.resize(1_200, 4);
            initial
        }
        n => vec![0x40 | (n as u8 - 1) << 5; 40],
    };
    let udp = UdpFields {
        source_port: [port, 443][from],
        destination_port: [443, port][from],
    };
    let mut bytes = Vec::new();
    header(ends[from], ends[1 - from], ip::UDP, 0).write(&mut bytes, 8 + payload.len());
    udp.write(&mut bytes, ends[from], ends[1 - from], &payload, 0);
    bytes
}

fn packets(seed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut rng = Rng::for_name(seed, "ahead");
    let new = |port| Talk {
        port,
        code: u16::from(port as u8 % 8),
        sent: [0; 2],
        packets: 0,
    };
    let mut talks: Vec<_> = (0..OPEN as u16).map(|n| new(40_000 + n)).collect();
    let mut at = 10_000_000_000;
    let made = (0..20_000).map(|n| {
        // Long enough for some to be idle, now and then.
        at += if n % 4_000 == 0 {
            3_000_000_000
        } else {
            100_000
        };
        // Some speak more often than others.
        let which = (rng.below(OPEN as u32) * rng.below(OPEN as u32) / OPEN as u32) as usize;
        let bytes = match rng.below(10) {
            0 => datagram(&mut rng),
            _ => segment(&mut rng, &mut talks[which], at),
        };
        (at, bytes)
    });
    made.collect()
}

fn report() -> Report<Vec<u8>> {
    let rows = Rows {
        samples: false,
        estimates: true,
    };
    Report::new(Vec::new(), Format::Json, rows, Names::open(), "tap")
}

#[test]
fn two_processors_find_what_one_finds_with_flows_that_end_in_every_way() {
    for seed in 0..4 {
        let config = Config {
            max_flows: if seed % 2 == 0 { 30 } else { 1_000 },
            idle: Duration::from_secs(2),
            ..Config::default()
        };
        let packets = packets(seed);
        let (mut alone, mut said) = (Observer::new(config), report());
        for (id, (at, bytes)) in packets.iter().enumerate() {
            alone.observe(bytes, Instant::from_nanos(*at), id as u64, &mut said);
        }
        alone.finish(&mut said);

        let (mut ahead, mut said_apart) = (Observer::new(config), report());
        let numbered: Vec<_> = packets.iter().enumerate().collect();
        for (n, part) in numbered.chunks(3_000).enumerate() {
            // By turns in two and in one.
            let mut follower = (n % 3 != 2).then(|| ahead.part());
            let mut steps = Vec::new();
            for (id, (at, bytes)) in part {
                let (id, at) = (*id as u64, Instant::from_nanos(*at));
                if follower.is_none() {
                    ahead.observe(bytes, at, id, &mut said_apart);
                } else if let Some(packet) = ahead.classify(bytes) {
                    ahead.go_ahead(&packet, at, id, &mut steps);
                }
            }
            if let Some(mut follower) = follower.take() {
                follower.follow(&mut steps, &mut said_apart);
                ahead.join(follower);
            }
        }
        ahead.finish(&mut said_apart);

        let counters = alone.counters();
        assert_eq!(counters, ahead.counters());
        assert!(counters.flows > 60 && counters.expired > 0, "{counters:?}");
        assert_eq!(counters.evicted > 0, seed % 2 == 0, "{counters:?}");
        let text = |said: Report<Vec<u8>>| String::from_utf8(said.finish().unwrap()).unwrap();
        let (one, two) = (text(said), text(said_apart));
        assert!(one.contains("\"reason\":\"reused\"") && one.contains("QUIC"));
        for technique in ["ts-all", "seq-ack", "spin", "\"q\"", "delay", "\"ecn\""] {
            assert!(one.contains(technique), "{technique}");
        }
        for (line, (one, two)) in one.lines().zip(two.lines()).enumerate() {
            assert_eq!(one, two, "seed {seed}, line {line}");
        }
        assert_eq!(one.lines().count(), two.lines().count());
    }
}
