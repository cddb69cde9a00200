//! Nanoseconds per packet (one enqueue and one dequeue) of each queue, with
//! about 40 packets waiting and four flows, at 1 Gbit/s.

#![allow(missing_docs)] // of criterion's macros

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narrows_aqm::{LinkFacts, QueueSpec};
use narrows_core::{EntityId, NullSink, Outlet, Packet, PacketPool};
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

fn queues(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(BATCH));
    for words in [
        "pfifo",
        "codel ecn",
        "fq_codel",
        "fq_codel flows 1",
        "pie ecn",
        "red limit 400000 avpkt 1000 bandwidth 1Gbit ecn",
        "dualpi2",
        "dualpi2 variant linux-2020",
        "dualpi2 variant rfc9332",
        "cnq_codel_af",
        "fq_pie",
        "pi2",
        "sfq",
        "prio",
        "drr class a dscp 1 class b",
        "fq",
        "fq maxrate 900Mbit",
        "htb class a rate 10Gbit burst 1Mb cburst 1Mb",
        "htb class t rate 10Gbit burst 1Mb cburst 1Mb class a parent t rate 8bit ceil 10Gbit cburst 1Mb",
        "tbf rate 10Gbit burst 1Mb limit 1Mb",
        "dualq",
        "dualq aqm pie",
        "dualq aqm cred",
        "dualq aqm red wrr 1:2",
    ] {
        let spec = QueueSpec::parse(words).expect("words of this file");
        group.bench_function(words, |b| {
            let mut queue = spec.build(EntityId(0), LINK, Rng::for_name(1, "queue"));
            let (mut pool, mut sent, mut events) = (PacketPool::new(), Vec::new(), NullSink);
            let mut now = Instant::from_nanos(1_000_000);
            // Packets are built once and passed round, so that only the
            // queue is measured; CE is taken off again as they return.
            let mut spare: Vec<_> = (0..4 * WAITING)
                .map(|i| packet(&mut pool, now, (i % 4) as u8))
                .collect();
            b.iter(|| {
                for _ in 0..BATCH {
                    let mut out = Outlet {
                        pool: &mut pool,
                        events: &mut events,
                        sent: &mut sent,
                    };
                    let next = spare.pop();
                    let next = next.unwrap_or_else(|| packet(out.pool, now, 1));
                    black_box(queue.enqueue(now, next, &mut out));
                    now += FRAME_TIME;
                    if queue.next_tick().is_some_and(|at| at <= now) {
                        queue.tick(now);
                    }
                    if queue.backlog().packets as usize > WAITING {
                        if let Some(mut packet) = queue.dequeue(now, &mut out) {
                            packet.bytes[1] = 1 + packet.bytes[15] % 2;
                            spare.push(packet);
                        }
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, queues);
criterion_main!(benches);
