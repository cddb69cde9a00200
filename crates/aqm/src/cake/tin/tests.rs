use narrows_core::PacketPool;

use super::*;
use crate::testing::between;

const MS: u64 = 1_000_000;

fn rng() -> Rng {
    Rng::for_name(1, "tin")
}

/// A tin without a shaper.
fn tin() -> Tin {
    let mut tin = Tin::new(FlowMode::Flows, FlowHash::new(&mut rng()));
    let share = Share {
        threshold: 0,
        weight: 1_024,
    };
    let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
    tin.configure(share, target, interval, 1_514);
    tin
}

/// Puts a packet of 1514 bytes of flow `port` into `tin`; its queue.
fn put(tin: &mut Tin, port: u16, rng: &mut Rng) -> u16 {
    let packet = between(
        &mut PacketPool::new(),
        Instant::ZERO,
        [1, 1],
        port,
        0,
        1_514,
    );
    let queue = tin.isolation.queue_of(&packet);
    tin.flows[usize::from(queue)].packets.push_back(packet);
    tin.backlogs[usize::from(queue)] += 1_500;
    tin.packets += 1;
    tin.arrived(queue, rng);
    queue
}

/// Takes a packet of `queue` and charges it.
fn send(tin: &mut Tin, queue: u16) {
    tin.pull(queue, |p| p.len()).unwrap();
    tin.flows[usize::from(queue)].deficit -= 1_514;
}

#[test]
fn the_target_is_one_and_a_half_frames_at_least_and_the_interval_two_targets() {
    let params = |rate| {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        params_of(Pace::new(rate), target, interval, 1_500)
    };
    let of = |frame_time, target, interval| Params {
        target,
        interval,
        frame_time,
    };
    // A frame of 1500 bytes takes 0.6 ms, 12 ms, and 187.5 ms.
    assert_eq!(params(2_500_000), of(600_000, 5 * MS, 100 * MS));
    assert_eq!(params(125_000), of(12 * MS, 18 * MS, 113 * MS));
    let slow = of(187_500_000, 281_250_000, 562_500_000);
    assert_eq!(params(8_000), slow);
    assert_eq!(params(0), of(0, 5 * MS, 100 * MS));
}

#[test]
fn a_new_flow_has_its_quantum_at_once() {
    let (mut tin, mut rng) = (tin(), rng());
    let queue = put(&mut tin, 1, &mut rng);
    assert!((1_513..=1_514).contains(&tin.flows[usize::from(queue)].deficit));
    assert_eq!(tin.isolation.set_of(queue), Set::Sparse);
    assert!(tin.is_active());
}

#[test]
fn a_sparse_flow_that_is_empty_in_debt_waits_as_sparse_and_is_bulk_when_it_sends_again() {
    let (mut tin, mut rng) = (tin(), rng());
    let queue = put(&mut tin, 1, &mut rng);
    assert_eq!(tin.turn(false, &mut rng), Some(queue));
    send(&mut tin, queue);
    // In debt or even: goes to the old ones for its quantum.
    assert_eq!(tin.turn(false, &mut rng), Some(queue));
    assert_eq!(tin.isolation.set_of(queue), Set::SparseWait);
    assert_eq!((tin.sparse, tin.bulk), (1, 0));
    put(&mut tin, 1, &mut rng);
    assert_eq!(tin.isolation.set_of(queue), Set::Bulk);
    assert_eq!((tin.sparse, tin.bulk), (0, 1));
}

#[test]
fn a_sparse_flow_that_still_has_packets_in_debt_is_bulk() {
    let (mut tin, mut rng) = (tin(), rng());
    let queue = put(&mut tin, 1, &mut rng);
    put(&mut tin, 1, &mut rng);
    send(&mut tin, queue);
    assert_eq!(tin.turn(false, &mut rng), Some(queue));
    assert_eq!(tin.isolation.set_of(queue), Set::Bulk);
    assert_eq!((tin.sparse, tin.bulk), (0, 1));
}

#[test]
fn a_queue_that_decays_has_the_first_turn_of_a_dequeue_and_none_after_it() {
    let (mut tin, mut rng) = (tin(), rng());
    let first = put(&mut tin, 1, &mut rng);
    tin.pull(first, |p| p.len()).unwrap();
    // Its AQM is not at rest: an overflow made a signal due.
    let params = tin.params;
    let now = Instant::from_nanos(50 * MS);
    tin.flows[usize::from(first)]
        .cobalt
        .overflowed(&params, now);
    tin.ran_empty(first, now);
    assert_eq!(tin.isolation.set_of(first), Set::Decaying);
    assert!(!tin.is_active());
    let second = put(&mut tin, 2, &mut rng);
    assert_eq!(tin.turn(false, &mut rng), Some(second));
    assert_eq!(tin.turn(true, &mut rng), Some(first));
    // It rests once BLUE and the count have come down.
    let mut now = now;
    for _ in 0..100 {
        now += Duration::from_millis(200);
        if tin.turn(true, &mut rng) == Some(first) {
            tin.ran_empty(first, now);
        }
    }
    assert_eq!(tin.isolation.set_of(first), Set::Free);
    assert_eq!(tin.turn(true, &mut rng), Some(second));
}
