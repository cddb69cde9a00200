use super::*;

const MS: u64 = 1_000_000;
const PARAMS: Params = Params {
    target: 5 * MS,
    interval: 100 * MS,
    frame_time: 242_240,
};

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

fn rng() -> Rng {
    Rng::for_name(1, "cobalt")
}

/// Times in ms at which a packet that waited for `sojourn` is signalled, one a millisecond.
fn signals(cobalt: &mut Cobalt, ms: std::ops::Range<u64>, sojourn: Duration) -> Vec<u64> {
    let mut rng = rng();
    ms.filter(|t| {
        cobalt
            .judge(&PARAMS, at(*t), sojourn, 0, true, &mut rng)
            .mark
    })
    .collect()
}

#[test]
fn a_signal_needs_more_than_the_target_and_more_than_four_frames() {
    let marks =
        |ns| !signals(&mut Cobalt::default(), 1..2_000, Duration::from_nanos(ns)).is_empty();
    assert!(!marks(5 * MS));
    assert!(marks(5 * MS + 1));

    let slow = Params {
        frame_time: 2 * MS,
        ..PARAMS
    };
    let marks = |ns, bulk| {
        let (mut cobalt, mut rng) = (Cobalt::default(), rng());
        let wait = Duration::from_nanos(ns);
        (1..2_000).any(|t| cobalt.judge(&slow, at(t), wait, bulk, true, &mut rng).mark)
    };
    assert!(!marks(8 * MS, 0));
    assert!(marks(8 * MS + 1, 0));
    // Two frames of each bulk flow, where arriving traffic is shaped.
    assert!(marks(8 * MS + 1, 2));
    assert!(!marks(40 * MS, 10));
    assert!(marks(40 * MS + 1, 10));
}

#[test]
fn the_first_signal_of_all_comes_with_the_second_packet_over_target() {
    // The root is still 0, so the first episode starts without an interval's wait.
    let mut cobalt = Cobalt::default();
    let at = signals(&mut cobalt, 1..20, Duration::from_millis(8));
    assert_eq!(at, [2]);
}

#[test]
fn a_later_episode_waits_for_an_interval_from_when_the_delay_rose() {
    let mut cobalt = Cobalt::default();
    signals(&mut cobalt, 1..20, Duration::from_millis(8));
    // Decays to rest.
    signals(&mut cobalt, 20..2_000, Duration::from_millis(1));
    assert_eq!(cobalt.count, 0);
    let at = signals(&mut cobalt, 2_000..2_150, Duration::from_millis(8));
    assert_eq!(at, [2_100]);
}

#[test]
fn signals_come_closer_by_one_over_root_of_count() {
    let at = signals(&mut Cobalt::default(), 1..3_000, Duration::from_millis(8));
    assert!(at.len() > 120);
    for (i, pair) in at.windows(2).enumerate() {
        // The first signal makes the count two.
        let want = 100.0 / (i as f64 + 2.0).sqrt();
        let gap = (pair[1] - pair[0]) as f64;
        assert!((gap - want).abs() < 1.6, "{i}: {gap} {want}");
    }
}

#[test]
fn the_count_decays_step_by_step_and_not_at_once() {
    let mut cobalt = Cobalt::default();
    signals(&mut cobalt, 1..1_000, Duration::from_millis(8));
    let peak = cobalt.count;
    assert!(peak > 20);
    let mut last = peak;
    for t in 1_000..9_000 {
        signals(&mut cobalt, t..t + 1, Duration::from_millis(1));
        assert!(last - cobalt.count <= 1, "{t}");
        last = cobalt.count;
    }
    assert_eq!(last, 0);
    // All steps that are due are made when a packet comes after a pause.
    let mut cobalt = Cobalt::default();
    signals(&mut cobalt, 1..1_000, Duration::from_millis(8));
    signals(&mut cobalt, 9_000..9_001, Duration::from_millis(1));
    assert_eq!(cobalt.count, 0);
}

#[test]
fn an_empty_queue_decays_by_one_step_a_visit() {
    let mut cobalt = Cobalt::default();
    signals(&mut cobalt, 1..1_000, Duration::from_millis(8));
    let peak = cobalt.count;
    cobalt.ran_empty(&PARAMS, at(9_000));
    assert_eq!(cobalt.count, peak - 1);
    assert!(!cobalt.is_at_rest(at(9_000)));
    for _ in 1..peak {
        cobalt.ran_empty(&PARAMS, at(9_000));
    }
    assert_eq!(cobalt.count, 0);
    // Not before the last spacing has passed too.
    let rest = (0..20_000).find(|t| cobalt.is_at_rest(at(*t))).unwrap();
    assert!(rest > 1_000, "{rest}");
}

#[test]
fn a_long_pause_earns_no_row_of_signals() {
    let mut cobalt = Cobalt::default();
    signals(&mut cobalt, 1..300, Duration::from_millis(8));
    // A second without a packet; then one packet each 10 µs.
    let mut rng = rng();
    let marks = (0..1_000u64)
        .filter(|i| {
            let now = Instant::from_nanos(1_300 * MS + i * 10_000);
            cobalt
                .judge(&PARAMS, now, Duration::from_millis(8), 0, true, &mut rng)
                .mark
        })
        .count();
    assert!(marks <= 2, "{marks}");
}

#[test]
fn what_cannot_be_marked_is_lost() {
    let (mut cobalt, mut rng) = (Cobalt::default(), rng());
    let wait = Duration::from_millis(8);
    let mut due = |t| cobalt.judge(&PARAMS, at(t), wait, 0, false, &mut rng);
    due(1);
    let second = due(2);
    assert!(second.loss && !second.mark && !second.blue);
}

#[test]
fn blue_rises_by_1_256_and_falls_by_1_4096_at_most_once_per_target() {
    let mut cobalt = Cobalt::default();
    for t in 1..=600 {
        cobalt.overflowed(&PARAMS, at(1_000 + t));
    }
    // Once per more than 5 ms, in steps of a millisecond: each sixth.
    assert_eq!(cobalt.blue, 100 << 24);
    cobalt.ran_empty(&PARAMS, at(1_600));
    assert_eq!(cobalt.blue, 100 << 24, "not before a target has passed");
    cobalt.ran_empty(&PARAMS, at(1_601));
    assert_eq!(cobalt.blue, (100 << 24) - (1 << 20));
    // It is held at the ends.
    cobalt.blue = u32::MAX - 5;
    cobalt.overflowed(&PARAMS, at(2_000));
    assert_eq!(cobalt.blue, u32::MAX);
    cobalt.blue = 5;
    cobalt.ran_empty(&PARAMS, at(3_000));
    assert_eq!(cobalt.blue, 0);
}

#[test]
fn an_overflow_makes_a_signal_due_at_once() {
    let mut cobalt = Cobalt::default();
    cobalt.overflowed(&PARAMS, at(1_000));
    let (wait, mut rng) = (Duration::from_millis(8), rng());
    assert!(
        cobalt
            .judge(&PARAMS, at(1_000), wait, 0, true, &mut rng)
            .mark
    );
}

#[test]
fn blue_drops_with_its_probability_whether_marked_or_not() {
    let mut rng = rng();
    let n = 20_000u64;
    for capable in [false, true] {
        let mut cobalt = Cobalt {
            blue: 1 << 30,
            ..Cobalt::default()
        };
        let wait = Duration::from_millis(1);
        let hits = (1..=n)
            .filter(|t| {
                cobalt
                    .judge(&PARAMS, at(*t), wait, 0, capable, &mut rng)
                    .blue
            })
            .count() as f64;
        assert!((hits / n as f64 - 0.25).abs() < 0.02, "{hits}");
    }
}

#[test]
fn an_empty_queue_ends_the_episode() {
    let mut cobalt = Cobalt::default();
    assert_eq!(signals(&mut cobalt, 1..20, Duration::from_millis(8)), [2]);
    // The next signal would be due after 100 ms/√2, at 73 ms.
    cobalt.ran_empty(&PARAMS, at(20));
    let again = signals(&mut cobalt, 30..150, Duration::from_millis(8));
    assert_eq!(again[0], 101);
}

#[test]
fn a_queue_that_decays_keeps_its_schedule() {
    // From 20 on, steps of 100 ms/√19, 100 ms/√18, … are due; the first that is not stands.
    let mut cobalt = Cobalt {
        count: 20,
        inverse_root: neighbouring(20, 1 << 30),
        next: 1_000 * MS,
        ..Cobalt::default()
    };
    let mut step = cobalt.clone();
    while step.next <= 1_100 * MS {
        step.step_to(step.count - 1, &PARAMS);
    }
    assert!((1..20).contains(&step.count));
    cobalt.judge(&PARAMS, at(1_100), Duration::ZERO, 0, true, &mut rng());
    assert_eq!((cobalt.count, cobalt.next), (step.count, step.next));
}

#[test]
fn blue_draws_where_it_has_a_probability_and_drops_below_it() {
    let judged = |blue| {
        let mut cobalt = Cobalt {
            blue,
            ..Cobalt::default()
        };
        let mut rng = rng();
        let due = cobalt.judge(&PARAMS, at(1), Duration::ZERO, 0, true, &mut rng);
        (due.blue, rng.draw_u32())
    };
    let (first, second) = {
        let mut rng = rng();
        (rng.draw_u32(), rng.draw_u32())
    };
    assert_eq!(judged(0), (false, first));
    assert_eq!(judged(first), (false, second));
    assert_eq!(judged(first + 1), (true, second));
}

#[test]
fn an_episode_after_a_long_pause_begins_at_once() {
    // `cobalt_should_drop`: overdue is what was due before now, and not what is due now.
    for (now, waits) in [(999, true), (1_000, true), (1_001, false)] {
        let mut cobalt = Cobalt {
            inverse_root: 1 << 30,
            next: 1_000 * MS,
            ..Cobalt::default()
        };
        let spacing = if waits { cobalt.spacing(&PARAMS) } else { 0 };
        let sojourn = Duration::from_millis(8);
        cobalt.judge(&PARAMS, at(now), sojourn, 0, true, &mut rng());
        assert_eq!((cobalt.count, cobalt.next), (1, now * MS + spacing));
    }
}
