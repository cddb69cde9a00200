use narrows_core::{DropCause, MarkCause};
use narrows_units::{Duration, Rate};
use narrows_wire::Ecn::{self, Ect0, NotEct};

use crate::LinkFacts;
use crate::testing::{Bench, ETHERNET, ms, us};

const FRAME: u32 = 1514;

#[test]
fn a_flow_with_nothing_in_the_bulk_queue_overtakes_it() {
    let mut b = Bench::new("cnq_codel_af");
    (0..10).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    assert!(b.offer(ms(1), 2, NotEct, FRAME).1);
    let flows: Vec<u16> = (0..4).map(|_| b.take(ms(1)).unwrap().flow).collect();
    // Flow 1's first packet was sparse too, and came first.
    assert_eq!(flows, [1, 2, 1, 1]);
}

#[test]
fn the_dummy_keeps_a_flow_in_the_bulk_queue_until_it_reaches_the_head() {
    let mut b = Bench::new("cnq_codel_af");
    (0..5).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    b.offer(ms(1), 2, NotEct, FRAME);
    assert_eq!(b.take(ms(1)).unwrap().flow, 1);
    assert_eq!(b.take(ms(1)).unwrap().flow, 2);
    // Flow 2's dummy is still behind four packets of flow 1.
    b.offer(ms(1), 2, NotEct, FRAME);
    let flows: Vec<u16> = (0..5).map(|_| b.take(ms(1)).unwrap().flow).collect();
    assert_eq!(flows, [1, 1, 1, 1, 2]);
    assert!(b.take(ms(1)).is_none());
    // The dummy is gone: sparse again.
    b.offer(ms(2), 1, NotEct, FRAME);
    b.offer(ms(2), 1, NotEct, FRAME);
    b.offer(ms(2), 2, NotEct, FRAME);
    let flows: Vec<u16> = (0..3).map(|_| b.take(ms(2)).unwrap().flow).collect();
    assert_eq!(flows, [1, 2, 1]);
}

#[test]
fn a_dummy_alone_stays_where_it_is() {
    let mut b = Bench::new("cnq_codel_af");
    b.offer(ms(1), 1, NotEct, FRAME);
    assert_eq!(b.take(ms(1)).unwrap().flow, 1);
    assert!(b.take(ms(1)).is_none());
    // Flow 1's dummy is still in the bulk queue, and so flow 1 is not sparse.
    for flow in [2, 2, 1] {
        b.offer(ms(1), flow, NotEct, FRAME);
    }
    let flows: Vec<u16> = (0..3).map(|_| b.take(ms(1)).unwrap().flow).collect();
    assert_eq!(flows, [2, 2, 1]);
}

#[test]
fn dummies_are_no_backlog() {
    let mut b = Bench::new("cnq_codel_af");
    b.offer(ms(1), 1, NotEct, FRAME);
    assert_eq!(b.queue.backlog().packets, 1);
    assert_eq!(b.queue.backlog().bytes, u64::from(FRAME));
    b.take(ms(1));
    assert_eq!(b.queue.next_dequeue(ms(1)), None);
    assert!(b.take(ms(1)).is_none());
}

/// Flow 1 sends `weight` frames for each of flow 2; the link takes one frame
/// per 242 µs at 50 Mbit/s and the queue is kept about 30 frames long.
/// Returns signals per flow.
fn signals(ecn: Ecn, weight: u64, packets: u64) -> [u64; 2] {
    let link = LinkFacts {
        rate: Rate::from_mbit(50),
        ..ETHERNET
    };
    let mut b = Bench::on("cnq_codel_af", link);
    let mut owner = Vec::new();
    let mut offered = 0;
    for i in 0..packets {
        let now = us(1_000 + 242 * i);
        while b.queue.backlog().packets < 31 {
            let flow = if offered % (weight + 1) == weight {
                2
            } else {
                1
            };
            offered += 1;
            b.offer(now, flow, ecn, FRAME);
            owner.push(flow);
        }
        b.take(now);
    }
    let mut signals = [0; 2];
    let marks = b.log.marks.iter().map(|m| m.1);
    for id in marks.chain(b.log.drops.iter().map(|d| d.1)) {
        signals[usize::from(owner[id as usize] - 1)] += 1;
    }
    signals
}

#[test]
fn the_greedier_flow_is_signalled_and_the_modest_one_is_not() {
    for ecn in [Ect0, NotEct] {
        let [greedy, modest] = signals(ecn, 3, 20_000);
        assert!(greedy > 50, "{greedy}");
        assert!(modest <= 2, "{modest}");
    }
    // Equal shares: both alike.
    let [a, b] = signals(Ect0, 1, 20_000);
    assert!(a > 20 && b > 20 && a.abs_diff(b) <= a / 2, "{a} {b}");
}

#[test]
fn what_allows_it_is_marked_and_what_does_not_is_dropped() {
    let run = |ecn| {
        let mut b = Bench::new("cnq_codel_af");
        for i in 0..4_000u64 {
            let now = us(1_000 + 500 * i);
            b.offer(now, 1, ecn, FRAME);
            if i > 40 {
                b.take(now);
            }
        }
        b.log
    };
    let log = run(Ect0);
    assert!(log.drops.is_empty() && log.marks.len() > 20);
    assert!(log.marks.iter().all(|m| m.2 == MarkCause::Probability));
    let log = run(NotEct);
    assert!(log.marks.is_empty() && log.drops.len() > 20);
    assert!(log.drops.iter().all(|d| d.2 == DropCause::Probability));
}

#[test]
fn blue_drops_a_flood_that_ignores_marks() {
    let mut b = Bench::new("cnq_codel_af");
    for half in 0..20_000u64 {
        let now = us(500 * half);
        b.offer(now, 1, Ect0, FRAME);
        if half % 2 == 0 {
            b.take(now);
        }
    }
    let blue = b.log.drops.iter().filter(|d| d.2 == DropCause::Overload);
    assert!(blue.count() > 1_000);
}

#[test]
fn the_four_frames_of_the_link_are_spared_unless_switched_off() {
    // At 1 Mbit/s a frame takes 12.1 ms: 30 ms of delay are less than four.
    let link = LinkFacts {
        rate: Rate::from_mbit(1),
        ..ETHERNET
    };
    let signalled = |words| {
        let mut b = Bench::on(words, link);
        for i in 0..2_000u64 {
            let now = ms(1 + 10 * i);
            b.offer(now, 1, Ect0, FRAME);
            if i >= 3 {
                b.take(now);
            }
        }
        b.queue.counts().marked
    };
    assert_eq!(signalled("cnq_codel_af"), 0);
    assert!(signalled("cnq_codel_af mtu_time 0s") > 100);
    let mut b = Bench::on("cnq_codel_af", link);
    b.queue.link_rate_changed(Rate::from_mbit(50));
    for i in 0..2_000u64 {
        let now = ms(1 + 10 * i);
        b.offer(now, 1, Ect0, FRAME);
        if i >= 3 {
            b.take(now);
        }
    }
    assert!(b.queue.counts().marked > 100);
}

#[test]
fn the_limit_is_a_tail_drop_and_rtt_sets_the_target() {
    let mut b = Bench::new("cnq_codel_af limit 5");
    let taken = (0..8)
        .filter(|_| b.offer(ms(1), 1, NotEct, FRAME).1)
        .count();
    assert_eq!(taken, 5);
    let spec = crate::QueueSpec::parse("cnq_codel_af rtt 40ms").unwrap();
    let crate::QueueSpec::CnqCodelAf(config) = &spec else {
        panic!("{spec}");
    };
    assert_eq!(config.target, Duration::from_millis(2));
    assert_eq!(spec.to_string(), "cnq_codel_af rtt 40ms");
    let error = crate::QueueSpec::parse("cnq_codel_af bandwidth 50Mbit").unwrap_err();
    assert!(error.help.is_some_and(|h| h.contains("rate 50Mbit queue")));
}

/// Marks and drops of flow 1 with four packets, `wait` ms later, while five other flows have
/// dummies alone.
fn behind_dummies(ecn: Ecn, wait: u64) -> (usize, usize) {
    let mut b = Bench::new("cnq_codel_af mtu_time 100us");
    (0..4).for_each(|_| assert!(b.offer(ms(1), 1, ecn, FRAME).1));
    (2..7).for_each(|flow| assert!(b.offer(ms(1), flow, ecn, FRAME).1));
    // The first of each flow is sparse.
    (1..7).for_each(|flow| assert_eq!(b.take(ms(1)).unwrap().flow, flow));
    while b.take(ms(1 + wait)).is_some() {}
    (b.log.marks.len(), b.log.drops.len())
}

#[test]
fn flows_that_are_in_the_bulk_queue_by_a_dummy_are_no_competitors() {
    // Alone, flow 1 is at its fair share, and measured by the plain target of 5 ms.
    assert_eq!(behind_dummies(Ect0, 4), (0, 0));
    assert_eq!(behind_dummies(Ect0, 6), (1, 0));
    assert_eq!(behind_dummies(NotEct, 6), (0, 1));
}

#[test]
fn the_last_packet_of_a_flow_is_never_dropped() {
    // The first signal of all is due with the second packet over target, which is the last one
    // of three that came: the first was sparse.
    for (packets, drops) in [(3, 0), (4, 1)] {
        let mut b = Bench::new("cnq_codel_af mtu_time 100us");
        b.offer(ms(1), 2, NotEct, FRAME);
        (0..packets).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
        b.offer(ms(1), 2, NotEct, FRAME);
        let sparse = [(); 2].map(|()| b.take(ms(1)).unwrap().flow);
        assert_eq!(sparse, [2, 1]);
        let flows: Vec<_> = std::iter::from_fn(|| b.take(ms(13))).collect();
        assert!(flows.iter().map(|t| t.flow).eq([1, 1, 2]), "{flows:?}");
        assert_eq!(b.log.drops.len(), drops, "{packets}");
    }
}
