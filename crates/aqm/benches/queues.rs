//! Nanoseconds per packet (one enqueue and one dequeue) of each queue, with
//! about 40 packets waiting and four flows, at 1 Gbit/s; at the end what each costs beside
//! fq_codel.

#![allow(missing_docs)] // of criterion's macros

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narrows_aqm::{LinkFacts, QueueSpec};
use narrows_core::{EntityId, NullSink, Outlet, Packet, PacketPool, Queue};
use narrows_units::{Duration, Instant, Rate, Rng};
use narrows_wire::{IpFields, ip};

const LINK: LinkFacts = LinkFacts {
    rate: Rate::from_mbit(1_000),
    overhead: 14,
    mtu: 1500,
};
const WAITING: usize = 40;
const BATCH: u64 = 1_000;
/// A full frame at 1 Gbit/s.
const FRAME_TIME: Duration = Duration::from_nanos(12_112);

fn packet(pool: &mut PacketPool, now: Instant, flow: u8) -> Box<Packet> {
    let mut packet = pool.take(now, None);
    let fields = IpFields {
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, flow)),
        destination: IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)),
        // ECT(0) and ECT(1) in turn.
        traffic_class: 1 + flow % 2,
        ttl: 64,
        protocol: ip::TCP,
        ident: 0,
    };
    fields.write(&mut packet.bytes, 1480);
    packet.bytes.extend_from_slice(&[0; 32]);
    packet.zero_tail = 1448;
    packet
}

const QUEUES: &[&str] = &[
    "pfifo",
    "codel ecn",
    "fq_codel",
    "fq_codel flows 1",
    "pie ecn",
    "red limit 400000 avpkt 1000 bandwidth 1Gbit ecn",
    "dualpi2",
    "dualpi2 variant linux-2020",
    "dualpi2 variant rfc9332",
    "cake",
    "cake besteffort flows",
    "cake bandwidth 1Gbit",
    "cake bandwidth 1Gbit ack-filter",
    "cobalt",
    "cnq_codel_af",
    "fq_pie",
    "pi2",
    "sfq",
    "prio",
    "drr class a dscp 1 class b",
    "bearers bearer a dscp 1 qci 7 bearer b",
    "fq",
    "fq maxrate 900Mbit",
    "htb class a rate 10Gbit burst 1Mb cburst 1Mb",
    "htb class t rate 10Gbit burst 1Mb cburst 1Mb class a parent t rate 8bit ceil 10Gbit cburst 1Mb",
    "tbf rate 10Gbit burst 1Mb limit 1Mb",
    "dualq",
    "dualq aqm pie",
    "dualq aqm cred",
    "dualq aqm red wrr 1:2",
];
/// What the ratios are of.
const STANDARD: &str = "fq_codel";
/// Batches of which the fastest counts in the ratios.
const LAPS: usize = 300;

/// A queue and the packets that go through it. They are built once and passed round, so that
/// only the queue is measured; CE is taken off again as they return.
// A queue takes packets in their boxes.
#[allow(clippy::vec_box)]
struct Rig {
    queue: Box<dyn Queue>,
    pool: PacketPool,
    sent: Vec<(narrows_core::Port, Box<Packet>)>,
    spare: Vec<Box<Packet>>,
    now: Instant,
}

impl Rig {
    fn new(words: &str) -> Self {
        let spec = QueueSpec::parse(words).expect("words of this file");
        let now = Instant::from_nanos(1_000_000);
        let mut pool = PacketPool::new();
        let spare = (0..4 * WAITING).map(|i| packet(&mut pool, now, (i % 4) as u8));
        Self {
            queue: spec.build(EntityId(0), LINK, Rng::for_name(1, "queue")),
            spare: spare.collect(),
            pool,
            sent: Vec::new(),
            now,
        }
    }

    /// Passes a batch of packets through.
    fn lap(&mut self) {
        for _ in 0..BATCH {
            let mut out = Outlet {
                pool: &mut self.pool,
                events: &mut NullSink,
                sent: &mut self.sent,
            };
            let next = self.spare.pop();
            let next = next.unwrap_or_else(|| packet(out.pool, self.now, 1));
            black_box(self.queue.enqueue(self.now, next, &mut out));
            self.now += FRAME_TIME;
            if self.queue.next_tick().is_some_and(|at| at <= self.now) {
                self.queue.tick(self.now);
            }
            if self.queue.backlog().packets as usize > WAITING {
                if let Some(mut packet) = self.queue.dequeue(self.now, &mut out) {
                    packet.bytes[1] = 1 + packet.bytes[15] % 2;
                    self.spare.push(packet);
                }
            }
        }
    }
}

fn queues(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(BATCH));
    for words in QUEUES {
        group.bench_function(*words, |b| {
            let mut rig = Rig::new(words);
            b.iter(|| rig.lap());
        });
    }
    group.finish();
}

/// Prints what a packet costs in each queue beside fq_codel. The fastest of many batches
/// counts, with those of the two in turn, so that both meet the same machine.
fn ratios(_: &mut Criterion) {
    let fastest = |rig: &mut Rig, least: &mut f64| {
        let begun = std::time::Instant::now();
        rig.lap();
        *least = least.min(begun.elapsed().as_nanos() as f64 / BATCH as f64);
    };
    println!("{:<52} {:>8} {:>12}", "queue", "ns", "of fq_codel");
    for words in QUEUES {
        let (mut rig, mut standard) = (Rig::new(words), Rig::new(STANDARD));
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..LAPS {
            fastest(&mut rig, &mut ours);
            fastest(&mut standard, &mut theirs);
        }
        println!("{words:<52} {ours:>8.1} {:>12.2}", ours / theirs);
    }
}

criterion_group!(benches, queues, ratios);
criterion_main!(benches);
