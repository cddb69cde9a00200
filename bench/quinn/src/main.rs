//! Bulk data for a minute of the path's time over 10 ms each way, of which packets are lost at
//! random: how many of the data packets are full, and how many no larger than QUIC's least since
//! a search found more. A detector that takes random loss for a black hole shows in the latter.

use std::collections::VecDeque;

use narrows_core::{Packet, PacketPool};
use narrows_quic::{Connection, Epoch, LEAST_PAYLOAD, QuicConfig, QuicControl};
use narrows_units::{Draw, Duration, Instant, Rng};

/// One way.
const DELAY: Duration = Duration::from_millis(10);
/// How long each runs, and from when packets are counted: the search is over.
const RUN: Duration = Duration::from_secs(60);
const FROM: Duration = Duration::from_secs(5);
/// Packets that are lost, of a hundred.
const LOSS: [u32; 6] = [0, 1, 2, 5, 10, 15];
/// IPv4 and UDP, in bytes.
const HEADERS: u32 = 28;
/// Bytes below a full packet that quinn leaves open, and below the least that its frames do.
const NEAR: u32 = 64;

fn config(client: bool) -> QuicConfig {
    let ends = [
        ([10, 0, 0, 1], 32_768).into(),
        ([10, 0, 0, 2], 5_001).into(),
    ];
    let (local, remote) = if client { (0, 1) } else { (1, 0) };
    QuicConfig {
        local: ends[local],
        remote: ends[remote],
        control: QuicControl::Cubic,
        ecn: false,
        dscp: 0,
        mtu: 1_500,
        spin: false,
        flow: None,
        tls: None,
    }
}

/// Packets of data that were full, and of the least size.
fn run(seed: u64, loss: u32) -> (u64, u64) {
    let epoch = Epoch::at(std::time::Instant::now());
    let mut ends = [
        Connection::client(config(true), epoch, Rng::for_name(seed, "client")),
        Connection::server(config(false), epoch, Rng::for_name(seed, "server")),
    ];
    let mut draw = Rng::for_name(seed, "loss");
    let mut pool = PacketPool::new();
    let mut ways: [VecDeque<(Instant, Box<Packet>)>; 2] = Default::default();
    let (mut full, mut least) = (0, 0);
    let mut now = Instant::ZERO;
    ends[0].open(now);
    while now < Instant::ZERO + RUN {
        for at in 0..2 {
            while ways[at].front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, packet)) = ways[at].pop_front() else {
                    break;
                };
                ends[at].receive(now, &packet);
                pool.give(packet);
            }
            if ends[at].next_timeout().is_some_and(|due| due <= now) {
                ends[at].on_timeout(now);
            }
            loop {
                let mut news = ends[at].poll_event().is_some();
                if at == 0 {
                    ends[0].write_zeros(1 << 20);
                } else {
                    ends[1].read(u64::MAX, None);
                }
                while let Some(packet) = ends[at].poll_transmit(now, &mut pool) {
                    news = true;
                    if at == 0 && now >= Instant::ZERO + FROM {
                        let payload = packet.len() - HEADERS;
                        full += u64::from(payload > LEAST_PAYLOAD + NEAR);
                        least += u64::from(payload + NEAR > LEAST_PAYLOAD && payload <= LEAST_PAYLOAD);
                    }
                    // A bottleneck of 200 packets, so that CUBIC has one besides the loss.
                    if ways[1 - at].len() < 200 && draw.draw_u32() % 100 >= loss {
                        ways[1 - at].push_back((now + DELAY, packet));
                    } else {
                        pool.give(packet);
                    }
                }
                if !news {
                    break;
                }
            }
        }
        let due = ways.iter().filter_map(|way| Some(way.front()?.0)).min();
        let timers = ends.iter_mut().filter_map(Connection::next_timeout).min();
        match due.into_iter().chain(timers).min() {
            Some(at) => now = at.max(now),
            None => break,
        }
    }
    (full, least)
}

fn main() {
    for loss in LOSS {
        let (full, least) = run(1, loss);
        let part = 100.0 * least as f64 / (full + least).max(1) as f64;
        println!("{loss:>3} %   {full:>8} full   {least:>8} of the least size   {part:>5.1} %");
    }
}
