use narrows_core::{MarkCause, PacketPool};
use narrows_units::Rng;
use narrows_wire::Ecn::{Ce, Ect0, Ect1, NotEct};

use super::{FqCodelConfig, bucket_of};
use crate::testing::{Bench, ms, packet, us};

const FRAME: u32 = 1514;

#[test]
fn flows_share_by_bytes_not_by_packets() {
    let mut b = Bench::new("fq_codel target 1000s");
    for _ in 0..1_000 {
        b.offer(ms(1), 1, NotEct, FRAME);
        b.offer(ms(1), 2, NotEct, 300);
        b.offer(ms(1), 2, NotEct, 300);
        b.offer(ms(1), 2, NotEct, 300);
    }
    let mut bytes = [0u64; 3];
    for _ in 0..2_000 {
        let t = b.take(ms(1)).unwrap();
        bytes[usize::from(t.flow)] += if t.flow == 1 { 1514 } else { 300 };
    }
    let share = bytes[1] as f64 / (bytes[1] + bytes[2]) as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn a_new_flow_goes_before_flows_that_have_had_their_quantum() {
    let mut b = Bench::new("fq_codel");
    (0..20).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    // One quantum as a new flow, then it is old.
    assert_eq!(b.take(ms(1)).unwrap().flow, 1);
    assert_eq!(b.take(ms(1)).unwrap().flow, 1);
    b.offer(ms(2), 2, NotEct, 100);
    assert_eq!(b.take(ms(2)).unwrap().flow, 2);
    // Empty now: it passes through the old list and is not new again.
    assert_eq!(b.take(ms(2)).unwrap().flow, 1);
    b.offer(ms(2), 2, NotEct, 100);
    assert_eq!(b.take(ms(2)).unwrap().flow, 2);
}

#[test]
fn one_flow_is_a_plain_codel_queue() {
    let run = |words: &str| {
        let mut b = Bench::new(words);
        let mut order = Vec::new();
        for half in 1..4_000u64 {
            let now = us(500 * half);
            b.offer(now, (half % 7) as u16, Ect0, FRAME);
            if half % 2 == 0 {
                order.extend(b.take(now).map(|t| (t.id, t.ecn)));
            }
        }
        (order, b.log.marks)
    };
    let one = run("fq_codel flows 1");
    assert!(!one.1.is_empty());
    assert_eq!(one, run("codel ecn limit 10240"));
}

#[test]
fn overflow_drops_half_of_the_fattest_flow_at_most_64_packets() {
    let mut b = Bench::new("fq_codel limit 100");
    (0..20).for_each(|_| assert!(b.offer(ms(1), 2, NotEct, FRAME).1));
    (0..80).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    assert!(b.offer(ms(1), 3, NotEct, FRAME).1);
    // Half of 80 frames, from the head.
    let ids: Vec<u64> = b.log.drops.iter().map(|d| d.1).collect();
    assert_eq!(ids, (20..60).collect::<Vec<_>>());
    assert_eq!(b.queue.backlog().packets, 61);

    let mut b = Bench::new("fq_codel limit 1000");
    (0..1_001).for_each(|_| {
        b.offer(ms(1), 1, NotEct, FRAME);
    });
    assert_eq!(b.log.drops.len(), 64);
    let mut b = Bench::new("fq_codel limit 1000 drop_batch 8");
    (0..1_001).for_each(|_| {
        b.offer(ms(1), 1, NotEct, FRAME);
    });
    assert_eq!(b.log.drops.len(), 8);
}

#[test]
fn the_memory_limit_sheds_too() {
    let mut b = Bench::new("fq_codel memory_limit 15140");
    (0..10).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    assert_eq!(b.queue.counts().dropped, 0);
    assert!(b.offer(ms(1), 2, NotEct, 100).1);
    assert_eq!(b.queue.counts().dropped, 5);
}

#[test]
fn a_packet_that_overflow_drops_at_once_was_not_taken() {
    let mut b = Bench::new("fq_codel limit 1");
    assert!(b.offer(ms(1), 1, NotEct, 100).1);
    assert!(!b.offer(ms(1), 2, NotEct, FRAME).1);
    assert_eq!(b.take(ms(1)).unwrap().flow, 1);
    assert!(b.take(ms(1)).is_none());
}

#[test]
fn ce_threshold_can_be_for_l4s_packets_only() {
    let mut b = Bench::new("fq_codel ce_threshold 1ms ce_threshold_selector 0x01/0x03");
    b.offer(ms(1), 1, Ect0, FRAME);
    b.offer(ms(1), 1, Ect1, FRAME);
    assert_eq!(b.take(ms(4)).unwrap().ecn, Ect0);
    assert_eq!(b.take(ms(4)).unwrap().ecn, Ce);
    assert_eq!(b.log.marks[0].2, MarkCause::Step);
}

#[test]
fn a_change_keeps_the_number_of_flows_and_trims_to_the_new_limit() {
    let mut b = Bench::new("fq_codel flows 16");
    (0..10).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    let refused = b.queue.change(ms(1), "target 1ms flows 8").unwrap_err();
    assert_eq!(refused.span, 11..16);
    b.queue.change(ms(1), "flows 16 limit 4").unwrap();
    assert!(b.take(ms(1)).is_some());
    assert_eq!(b.queue.backlog().packets, 3);
    assert_eq!(b.queue.counts().dropped, 6);
}

#[test]
fn of_flows_that_are_equally_fat_the_first_bucket_loses() {
    // `fq_codel_drop` looks for a backlog that is greater than those before it.
    let (config, mut pool) = (FqCodelConfig::default(), PacketPool::new());
    let mut bucket = |flow| {
        let packet = packet(&mut pool, ms(1), flow, NotEct, FRAME);
        bucket_of(&config, Rng::for_name(1, "queue"), &packet).unwrap()
    };
    for flows in [[1, 2], [2, 1]] {
        let mut b = Bench::new("fq_codel limit 3");
        for flow in [flows, flows].concat() {
            b.offer(ms(1), flow, NotEct, FRAME);
        }
        let [one, other] = flows.map(&mut bucket);
        let first = u64::from(other < one);
        let drops: Vec<_> = b.log.drops.iter().map(|d| d.1).collect();
        assert_eq!(drops, [first], "{flows:?}");
    }
}
