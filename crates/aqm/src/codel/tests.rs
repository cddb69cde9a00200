use narrows_core::MarkCause;
use narrows_wire::Ecn::{self, Ce, Ect0, NotEct};

use super::*;
use crate::testing::{Bench, ms, us};

const FRAME: u32 = 1514;

/// A queue that is offered a frame each 500 µs and drained one each
/// millisecond: the delay grows without end. Returns the bench.
fn overloaded(words: &str, ecn: Ecn, until_ms: u64) -> Bench {
    let mut b = Bench::new(words);
    for half in 0..2 * until_ms {
        let now = us(500 * half);
        b.offer(now, 1, ecn, FRAME);
        if half % 2 == 0 && half > 0 {
            b.take(now);
        }
    }
    b
}

#[test]
fn under_constant_overload_drops_are_spaced_interval_over_root_n() {
    let b = overloaded("codel limit 100000", NotEct, 3_000);
    assert!(b.log.drops.len() > 40);
    for (i, pair) in b.log.drops.windows(2).enumerate() {
        let gap = pair[1].0.since(pair[0].0).as_millis_f64();
        // Linux's single Newton step from 1 gives 1/2 for 1/√2.
        let root = if i == 1 { 2.0 } else { (i as f64 + 1.0).sqrt() };
        let want = 100.0 / root;
        // A packet leaves each millisecond.
        let tolerance = 1.1 + 0.03 * want;
        assert!(
            (gap - want).abs() < tolerance,
            "{i}: {gap} ms, law {want} ms"
        );
    }
    assert!(b.log.drops.iter().all(|d| d.2 == DropCause::Probability));
}

#[test]
fn the_first_signal_comes_an_interval_after_the_delay_passed_the_target() {
    let b = overloaded("codel limit 100000", NotEct, 400);
    // The delay of a leaving packet grows by half a millisecond per
    // millisecond: 5 ms at about 10 ms.
    let first = b.log.drops[0].0;
    assert!((ms(108)..=ms(113)).contains(&first), "{first}");
}

#[test]
fn with_ecn_the_same_law_marks_and_loses_nothing() {
    let drops = overloaded("codel limit 100000", NotEct, 2_000).log.drops;
    let b = overloaded("codel limit 100000 ecn", Ect0, 2_000);
    assert!(b.log.drops.is_empty());
    assert!(b.log.marks.iter().all(|m| m.2 == MarkCause::Probability));
    assert!(b.log.marks.len().abs_diff(drops.len()) <= 2);
    // What cannot be marked is dropped even so.
    assert!(
        !overloaded("codel limit 100000 ecn", NotEct, 500)
            .log
            .drops
            .is_empty()
    );
    // And without `ecn` nothing is marked.
    assert!(
        overloaded("codel limit 100000", Ect0, 500)
            .log
            .marks
            .is_empty()
    );
}

#[test]
fn no_signal_while_at_most_one_frame_is_left_behind() {
    let mut b = Bench::new("codel");
    let mut now = ms(1);
    for _ in 0..200 {
        b.offer(now, 1, NotEct, FRAME);
        b.offer(now, 1, NotEct, FRAME);
        now += Duration::from_millis(50);
        assert!(b.take(now).is_some());
        assert!(b.take(now).is_some());
    }
    assert_eq!(b.queue.counts().dropped, 0);
}

#[test]
fn a_delay_below_target_once_per_interval_earns_no_signal() {
    let mut b = Bench::new("codel");
    for round in 0..100u64 {
        let start = ms(1 + round * 90);
        (0..20).for_each(|_| assert!(b.offer(start, 1, NotEct, FRAME).1));
        // Up to 80 ms of delay, but the next burst's first packet has none.
        (0..20).for_each(|i| assert!(b.take(start + Duration::from_millis(4 * i)).is_some()));
    }
    assert_eq!(b.queue.counts().dropped, 0);
}

#[test]
fn ce_threshold_marks_whatever_waited_longer() {
    let mut b = Bench::new("codel ce_threshold 1ms");
    b.offer(ms(1), 1, Ect0, FRAME);
    b.offer(ms(1), 1, Ect0, FRAME);
    b.offer(ms(1), 1, NotEct, FRAME);
    assert_eq!(b.take(us(1_900)).unwrap().ecn, Ect0);
    assert_eq!(b.take(us(2_100)).unwrap().ecn, Ce);
    assert_eq!(b.take(us(2_100)).unwrap().ecn, NotEct);
    assert_eq!(b.log.marks[0].2, MarkCause::Step);
    assert_eq!(b.queue.counts().dropped, 0);
}

#[test]
fn the_limit_is_a_tail_drop_and_a_lower_one_drops_from_the_head() {
    let mut b = Bench::new("codel limit 5");
    let taken = (0..8)
        .filter(|_| b.offer(ms(1), 1, NotEct, FRAME).1)
        .count();
    assert_eq!(taken, 5);
    b.queue.change(ms(1), "limit 2 target 1ms").unwrap();
    assert_eq!(b.take(ms(1)).unwrap().id, 3);
    assert!(b.queue.change(ms(1), "flows 2").is_err());
}
