use narrows_core::DropCause;
use narrows_wire::Ecn::{Ect0, NotEct};

use crate::testing::{Bench, ms, us};

const FRAME: u32 = 1514;

#[test]
fn overflow_drops_from_the_head_and_raises_blue() {
    let mut b = Bench::new("cobalt limit 3");
    (0..5).for_each(|i| assert!(b.offer(ms(100 + 10 * i), 1, NotEct, FRAME).1));
    let dropped: Vec<_> = b.log.drops.iter().map(|d| (d.1, d.2)).collect();
    assert_eq!(
        dropped,
        [(0, DropCause::Overflow), (1, DropCause::Overflow)]
    );
    assert!((b.queue.probability() - 2.0 / 256.0).abs() < 1e-9);
}

#[test]
fn marks_what_can_be_marked_and_drops_what_cannot() {
    for (ecn, marks) in [(Ect0, true), (NotEct, false)] {
        let mut b = Bench::new("cobalt");
        for half in 1..2_000u64 {
            b.offer(us(1_200 * half), 1, ecn, FRAME);
            if half > 20 {
                b.take(us(1_200 * half));
            }
        }
        assert_eq!(b.log.marks.is_empty(), !marks);
        assert_eq!(b.log.drops.is_empty(), marks);
        assert!(b.log.marks.len() + b.log.drops.len() > 10);
    }
}

#[test]
fn the_last_packet_is_not_dropped() {
    let mut b = Bench::new("cobalt");
    for i in 0..200u64 {
        b.offer(ms(100 * i), 1, NotEct, FRAME);
        assert!(b.take(ms(100 * i + 50)).is_some());
    }
    assert!(b.log.drops.is_empty());
}

#[test]
fn a_delay_of_four_frames_at_the_links_rate_signals_nothing() {
    // A frame takes 1.2 ms at 10 Mbit/s: 5 ms decide. At 1 Mbit/s 48.4 ms do.
    for (rate, ms_waited, signalled) in [(10, 6, true), (1, 6, false), (1, 50, true)] {
        let mut b = Bench::new("cobalt");
        b.queue
            .link_rate_changed(narrows_units::Rate::from_mbit(rate));
        for i in 0..400u64 {
            b.offer(ms(i), 1, Ect0, FRAME);
            if i >= ms_waited {
                b.take(ms(i));
            }
        }
        assert_eq!(!b.log.marks.is_empty(), signalled, "{rate} {ms_waited}");
    }
}

#[test]
fn a_lower_limit_drops_from_the_head_at_the_next_call() {
    let mut b = Bench::new("cobalt");
    (0..5).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    b.queue.change(ms(1), "limit 2").unwrap();
    assert_eq!(b.take(ms(1)).map(|t| t.id), Some(3));
    let dropped: Vec<_> = b.log.drops.iter().map(|d| (d.1, d.2)).collect();
    assert_eq!(dropped, [0, 1, 2].map(|id| (id, DropCause::Overflow)));
    assert!(b.queue.change(ms(1), "flows 2").is_err());
}
