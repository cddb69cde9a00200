//! What a data segment costs: sending it, receiving it, and its share of the
//! ACK. `cargo run --release -p narrows-tcp --example segment_cost`

use std::collections::VecDeque;

use narrows_cc::ControlSpec;
use narrows_core::{Packet, PacketPool};
use narrows_tcp::{Connection, EcnMode, TcpConfig};
use narrows_units::{Duration, Instant, Rng};

/// A bulk flow over a link of `mbit` with `delay_ms` each way; every `drop`th
/// packet is lost (0 for none). Answers ns per data segment and the segments.
fn run(cc: &str, mbit: u64, delay_ms: u64, drop: u64, segments: u64) -> (f64, u64) {
    let Ok(spec) = ControlSpec::parse(cc) else {
        return (0.0, 0);
    };
    let address = |n: u8| std::net::SocketAddr::from(([192, 0, 2, n], 5000));
    let mut client = TcpConfig::new(address(1), address(2), spec.clone());
    let mut server = TcpConfig::new(address(2), address(1), spec);
    client.ecn = EcnMode::AccEcn;
    server.ecn = EcnMode::AccEcn;
    client.cwnd_clamp = (mbit * 125 * 2 * delay_ms / 1514) as u32;
    let mut ends = [
        Connection::client(client, Rng::for_name(1, "client")),
        Connection::server(server, Rng::for_name(1, "server")),
    ];
    let mut pool = PacketPool::new();
    let mut flying: [VecDeque<(Instant, Box<Packet>)>; 2] = Default::default();
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let mut free_at = now;
    let mut sent = 0;
    ends[0].open(now);
    ends[0].write_zeros(1 << 40);
    let start = std::time::Instant::now();
    while sent < segments {
        for from in 0..2 {
            while let Some(packet) = ends[from].poll_transmit(now, &mut pool) {
                let mut at = now;
                if from == 0 {
                    sent += 1;
                    if drop > 0 && sent % drop == 0 {
                        pool.give(packet);
                        continue;
                    }
                    let wire = u64::from(packet.len()) + 14;
                    free_at = free_at.max(now) + Duration::from_nanos(wire * 8_000 / mbit);
                    at = free_at;
                }
                flying[from].push_back((at + Duration::from_millis(delay_ms), packet));
            }
            while ends[from].poll_event().is_some() {}
        }
        if ends[0].unsent() < 1 << 20 {
            ends[0].write_zeros(1 << 30);
        }
        let next = flying
            .iter()
            .filter_map(|q| q.front().map(|p| p.0))
            .chain(ends.iter().filter_map(Connection::next_timeout))
            .min();
        let Some(next) = next else { break };
        now = now.max(next);
        for from in 0..2 {
            if flying[from].front().is_some_and(|p| p.0 <= now) {
                if let Some((_, packet)) = flying[from].pop_front() {
                    ends[1 - from].receive(now, &packet);
                    pool.give(packet);
                    ends[1 - from].read(u64::MAX);
                    break;
                }
            }
        }
        for end in &mut ends {
            if end.next_timeout().is_some_and(|t| t <= now) {
                end.on_timeout(now);
            }
        }
    }
    (start.elapsed().as_nanos() as f64 / sent as f64, sent)
}

fn main() {
    println!("{:32} {:>12} {:>10}", "flow", "ns/segment", "segments");
    for (name, cc, mbit, delay, drop) in [
        ("reno 50 Mbit 80 ms", "reno", 50, 80, 0),
        ("cubic 50 Mbit 80 ms", "cubic", 50, 80, 0),
        ("prague 50 Mbit 10 ms", "prague", 50, 10, 0),
        ("reno 10 Gbit 50 ms", "reno", 10_000, 50, 0),
        ("reno 1 Gbit 20 ms, loss 1/1000", "reno", 1_000, 20, 1000),
        (
            "cubic 10 Gbit 50 ms, loss 1/20000",
            "cubic",
            10_000,
            50,
            20_000,
        ),
    ] {
        let (ns, segments) = run(cc, mbit, delay, drop, 2_000_000);
        println!("{name:32} {ns:12.0} {segments:10}");
    }
}
