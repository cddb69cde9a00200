//! What queues come to.

use super::*;
use crate::summary::QueueSummary;

const UP: &str = "link/access/up/bottleneck";

/// A packet leaves `queue`, of so many bytes for the link, after 3 ms.
fn leaves(reducer: &mut Reducer, queue: EntityId, ms: u64, wire_bytes: u32) {
    let event = Event::Dequeued {
        queue,
        packet: &Packet::default(),
        sojourn: Duration::from_millis(3),
        wire_bytes,
        band: Band::new(&["all"], 0),
    };
    reducer.record(at(ms), event);
}

/// Two packets of 1500 bytes wait.
fn sampled(reducer: &mut Reducer, queue: EntityId, ms: u64, probability: f64) {
    let event = Event::QueueSampled {
        queue,
        backlog_packets: 2,
        backlog_bytes: 3_000,
        probability,
    };
    reducer.record(at(ms), event);
}

/// At 10 Mbit/s a packet of 250 kB takes 200 ms and one of 125 kB 100 ms. One is under way as the
/// window begins and has half of its bits left, and one as it ends, which has half of them left.
#[test]
fn a_link_is_used_by_the_bits_that_it_carries_in_the_window() {
    let plan = plan(&[]);
    let (mut reducer, names) = reducer(&plan);
    let queue = names.id(UP).expect("a queue");
    for (ms, bytes) in [
        (500, 1_000),
        (900, 250_000),
        (1_500, 125_000),
        (2_950, 125_000),
        (3_200, 125_000),
    ] {
        leaves(&mut reducer, queue, ms, bytes);
    }
    for (ms, backlog_packets, backlog_bytes) in [(3_400, 3, 9_000), (3_500, 4, 6_000)] {
        let event = Event::Enqueued {
            queue,
            backlog_packets,
            backlog_bytes,
        };
        reducer.record(at(ms), event);
    }
    for (ms, probability) in [(3_600, 0.9), (3_700, 0.8)] {
        sampled(&mut reducer, queue, ms, probability);
    }
    // An engine may report of what the plan does not name.
    let other = EntityId(names.as_slice().len() as u32 + 5);
    leaves(&mut reducer, other, 3_800, 1_000);
    let reduced = reducer.finish(&plan, "sim", 1, at(4_000));
    let [found, unnamed] = &reduced.summary.queues[..] else {
        panic!("two queues: {:?}", reduced.summary.queues)
    };
    let element = plan.elements().find(|e| e.name == UP);
    let element = element.expect("an element");
    let expected = QueueSummary {
        name: UP.to_owned(),
        words: element.spec.to_string(),
        rate_mbit: Some(10.0),
        // 1 + 1 + 0.5 Mbit of 20.
        utilisation: Some(0.125),
        packets: 2,
        wire_bytes: 250_000,
        peak_backlog_packets: 4,
        peak_backlog_bytes: 9_000,
        // No sample was in the window.
        probability: None,
        ..found.clone()
    };
    assert_eq!(*found, expected);
    assert_eq!(unnamed.name, format!("entity/{}", other.0));
    assert_eq!((unnamed.rate_mbit, unnamed.words.as_str()), (None, ""));
    let series = Series::of(&reduced);
    let rows = |metric| {
        let track = series.track(UP, metric).expect(metric);
        (track.t_s.clone(), track.value.clone())
    };
    // Where none left there was no wait.
    let ends = vec![0.5, 1.0, 1.5, 3.0, 3.5];
    assert_eq!(rows("sojourn_max_ms"), (ends.clone(), vec![3.0; 5]));
    assert_eq!(rows("sojourn_ms").0, ends);
    assert_eq!(rows("backlog_packets"), (vec![4.0], vec![2.0]));
    assert_eq!(rows("backlog_bytes"), (vec![4.0], vec![3_000.0]));
    assert_eq!(rows("probability"), (vec![4.0], vec![0.8]));
}

#[test]
fn a_probability_is_the_mean_of_the_samples_in_the_window() {
    let plan = plan(&[]);
    let (mut reducer, names) = reducer(&plan);
    let queue = names.id(UP).expect("a queue");
    for (ms, probability) in [
        (500, 0.9),
        (1_500, 0.125),
        (2_500, 0.25),
        (2_600, 0.75),
        (3_500, 0.9),
    ] {
        sampled(&mut reducer, queue, ms, probability);
    }
    let summary = reducer.finish(&plan, "sim", 1, at(4_000)).summary;
    assert_eq!(summary.queues[0].probability, Some(0.375));
}

#[test]
fn a_run_that_ends_before_its_window_has_no_rate_and_used_nothing() {
    let plan = plan(&[]);
    let (mut reducer, names) = reducer(&plan);
    leaves(&mut reducer, names.id(UP).expect("a queue"), 500, 1_000);
    let summary = reducer.finish(&plan, "sim", 1, at(1_000)).summary;
    let queue = &summary.queues[0];
    assert_eq!((queue.rate_mbit, queue.utilisation), (None, None));
}
