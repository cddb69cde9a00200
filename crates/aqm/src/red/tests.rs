use narrows_wire::Ecn::{Ce, Ect0, Ect1, NotEct};

use super::*;
use crate::QueueSpec;
use crate::testing::{Bench, ms, us};

const FRAME: u32 = 1514;

fn config(words: &str) -> RedConfig {
    match QueueSpec::parse(words).unwrap() {
        QueueSpec::Red(config) => config,
        other => panic!("{other}"),
    }
}

#[test]
fn thresholds_and_burst_are_derived_as_tc_derives_them() {
    let c = config("red limit 400000 avpkt 1000 adaptive bandwidth 50Mbit ecn");
    // max = limit/4, min = max/3, burst = (2·min + max)/(3·avpkt).
    assert_eq!(c.defaults(), (33_333, 100_000, 55));
    assert_eq!(c.thresholds().unwrap().derived.w_log, 5);
    let c = config("red limit 150000 avpkt 1000 adaptive bandwidth 50Mbit ecn");
    assert_eq!(c.defaults(), (12_500, 37_500, 20));
    let c = config("red limit 400000 min 10000 avpkt 1000");
    assert_eq!(c.defaults(), (10_000, 30_000, 16));
    let c = config("red limit 400000 max 90000 avpkt 1000 burst 60");
    assert_eq!(c.defaults(), (30_000, 90_000, 60));
    assert_eq!(c.bandwidth, Rate::from_mbit(10));
}

#[test]
fn what_tc_refuses_is_refused() {
    for words in [
        "red",
        "red limit 400000",
        "red avpkt 1000",
        "red limit 400000 avpkt 1000 min 90000 max 80000",
        "red limit 400000 avpkt 1000 burst 10",
        "red limit 400000 avpkt 1000 nodrop",
        "red limit 400000 avpkt 1000 probability 1.5",
        "red limit 400000 avpkt 1000 bandwidth 0bit",
        "red limit 4gb avpkt 1000",
        "red limit 4000mb avpkt 1000 probability 0.000001",
    ] {
        assert!(QueueSpec::parse(words).is_err(), "{words}");
    }
}

/// A queue held at `backlog` frames for `n` arrivals.
fn held(words: &str, backlog: u32, ecn: narrows_wire::Ecn, n: u64) -> Bench {
    let mut b = Bench::new(words);
    for i in 0..n {
        let now = us(1_000 + 100 * i);
        b.offer(now, 1, ecn, FRAME);
        if b.queue.backlog().packets > backlog {
            b.take(now);
        }
    }
    b
}

const RED: &str = "red limit 400000 avpkt 1000 bandwidth 10Mbit";

#[test]
fn below_the_minimum_nothing_happens() {
    let b = held(RED, 20, NotEct, 5_000);
    assert_eq!(b.queue.counts().dropped, 0);
}

#[test]
fn between_the_thresholds_packets_are_dropped_or_marked() {
    let b = held(RED, 50, NotEct, 20_000);
    assert!(b.queue.counts().dropped > 100);
    assert!(b.log.drops.iter().all(|d| d.2 == DropCause::Probability));
    let b = held(&format!("{RED} ecn"), 50, Ect0, 20_000);
    assert_eq!(b.queue.counts().dropped, 0);
    assert!(b.log.marks.iter().all(|m| m.2 == MarkCause::Probability));
    assert!(b.log.marks.len() > 100);
}

#[test]
fn above_the_maximum_every_ect_packet_is_marked_and_others_are_dropped() {
    for ecn in [Ect0, Ect1] {
        let mut b = held(&format!("{RED} ecn"), 80, ecn, 5_000);
        let marks = b.log.marks.len();
        for i in 0..100 {
            b.offer(ms(1_000 + i), 1, ecn, FRAME);
            b.take(ms(1_000 + i));
        }
        assert_eq!(b.log.marks.len() - marks, 100);
        assert_eq!(b.log.marks[marks].2, MarkCause::Overflow);
        assert!(!b.offer(ms(2_000), 2, NotEct, FRAME).1);
        // A packet that is CE already counts as marked.
        assert!(b.offer(ms(2_000), 2, Ce, FRAME).1);
    }
}

#[test]
fn harddrop_drops_above_the_maximum_and_nodrop_spares_what_has_no_ecn() {
    let b = held(&format!("{RED} ecn harddrop"), 80, Ect0, 5_000);
    assert!(b.log.drops.iter().any(|d| d.2 == DropCause::Overload));
    let b = held(&format!("{RED} ecn nodrop"), 80, NotEct, 5_000);
    assert_eq!(b.queue.counts().dropped, 0);
}

#[test]
fn the_limit_is_a_tail_drop_in_bytes() {
    let mut b = Bench::new("red limit 150000 avpkt 1000 ecn nodrop");
    let taken = (0..200)
        .filter(|_| b.offer(ms(1), 1, Ect0, FRAME).1)
        .count();
    assert_eq!(taken, 99);
    assert_eq!(b.log.drops[0].2, DropCause::Overflow);
}

#[test]
fn only_adaptive_red_has_a_clock_of_500_ms() {
    assert_eq!(Bench::new(RED).queue.next_tick(), None);
    let mut b = Bench::new(&format!("{RED} adaptive"));
    assert_eq!(b.queue.next_tick(), Some(ms(500)));
    b.queue.tick(ms(500));
    assert_eq!(b.queue.next_tick(), Some(ms(1_000)));
}

#[test]
fn a_change_keeps_the_packets_and_forgets_the_average() {
    let mut b = held(RED, 50, NotEct, 5_000);
    assert!(b.queue.probability() > 0.0);
    let waiting = b.queue.backlog();
    b.queue.change(ms(9_000), "limit 500000").unwrap();
    assert_eq!(b.queue.backlog(), waiting);
    assert_eq!(b.queue.probability(), 0.0);
    assert!(b.queue.change(ms(9_000), "min 90000 max 80000").is_err());
}

#[test]
fn what_tc_derives_is_what_the_kernel_gets() {
    let config = config(RED);
    let found = config.kernel_parameters().unwrap();
    // A quarter of the limit, and a third of that; tc's burst is 55 packets, so that
    // (1 − (1 − W)^55)/W reaches 55 + 1 − 33.3 with W = 2⁻⁵.
    assert_eq!((found.min, found.max, found.w_log), (33_333, 100_000, 5));
    // 2 % in units of 2⁻³², and 0.02/66667·2²² = 1.26.
    assert_eq!((found.max_p, found.p_log), (85_899_345, 22));
    let reversed = RedConfig {
        min: Some(90_000),
        max: Some(80_000),
        ..config
    };
    assert_eq!(reversed.kernel_parameters(), None);
}
