use narrows_core::PacketPool;
use narrows_units::Instant;

use super::*;
use crate::testing::between;

fn hash() -> FlowHash {
    FlowHash::new(&mut Rng::for_name(1, "cake"))
}

fn packet(ends: [u8; 2], flow: u16) -> Box<Packet> {
    between(&mut PacketPool::new(), Instant::ZERO, ends, flow, 0, 100)
}

/// Ports whose flows are of one set of eight.
fn ports_of_one_set(count: usize) -> Vec<u16> {
    let set = |port| {
        let flow = FlowMode::Flows.flow_of(hash(), &packet([1, 1], port));
        flow.unwrap() % u32::from(QUEUES) / u32::from(WAYS)
    };
    let ports: Vec<u16> = (0..u16::MAX).filter(|p| set(*p) == 5).take(count).collect();
    assert_eq!(ports.len(), count);
    ports
}

#[test]
fn eight_flows_of_one_set_have_queues_of_their_own_and_the_ninth_shares() {
    let mut isolation = Isolation::new(FlowMode::Flows, hash());
    let ports = ports_of_one_set(9);
    let mut queues = Vec::new();
    for port in &ports[..8] {
        let queue = isolation.queue_of(&packet([1, 1], *port));
        assert_eq!(queue / WAYS, 5);
        assert!(!queues.contains(&queue), "{port}");
        isolation.enter(queue, Set::Sparse);
        queues.push(queue);
    }
    // Each keeps its queue, whichever it is.
    for (port, queue) in ports.iter().zip(&queues) {
        assert_eq!(isolation.queue_of(&packet([1, 1], *port)), *queue);
    }
    let shared = isolation.queue_of(&packet([1, 1], ports[8]));
    assert!(queues.contains(&shared));
    // A queue that becomes free is taken by the next one.
    isolation.enter(queues[3], Set::Free);
    isolation.tags[usize::from(shared)] = 0;
    assert_eq!(isolation.queue_of(&packet([1, 1], ports[8])), queues[3]);
}

#[test]
fn a_flow_that_comes_back_finds_its_queue_while_no_other_has_taken_it() {
    let mut isolation = Isolation::new(FlowMode::Flows, hash());
    let ports = ports_of_one_set(3);
    let queues: Vec<u16> = ports
        .iter()
        .map(|port| {
            let queue = isolation.queue_of(&packet([1, 1], *port));
            isolation.enter(queue, Set::Bulk);
            queue
        })
        .collect();
    isolation.enter(queues[1], Set::Free);
    assert_eq!(isolation.queue_of(&packet([1, 1], ports[1])), queues[1]);
}

#[test]
fn what_a_flow_is_follows_the_mode() {
    // Against a flow from 1 to 1 with port 7: another port, source, destination, both ends.
    let others = [([1, 1], 8), ([2, 1], 7), ([1, 2], 7), ([2, 2], 7)];
    for (mode, same) in [
        (FlowMode::Blind, [true, true, true, true]),
        (FlowMode::SourceHost, [true, false, true, false]),
        (FlowMode::DestinationHost, [true, true, false, false]),
        (FlowMode::Hosts, [true, false, false, false]),
        (FlowMode::Flows, [false; 4]),
        (FlowMode::DualSource, [false; 4]),
        (FlowMode::DualDestination, [false; 4]),
        (FlowMode::Triple, [false; 4]),
    ] {
        let first = mode.flow_of(hash(), &packet([1, 1], 7));
        let found = others.map(|(ends, port)| mode.flow_of(hash(), &packet(ends, port)) == first);
        assert_eq!(found, same, "{mode:?}");
    }
}

/// Bulk flows from one source to `n` destinations; the load that a flow of them has.
fn load(mode: FlowMode, n: u8) -> (Isolation, Vec<u16>) {
    let mut isolation = Isolation::new(mode, hash());
    let queues = (0..n)
        .map(|i| {
            let queue = isolation.queue_of(&packet([1, 10 + i], 7));
            isolation.enter(queue, Set::Bulk);
            queue
        })
        .collect();
    (isolation, queues)
}

#[test]
fn the_quantum_is_divided_by_the_bulk_flows_of_the_more_loaded_end() {
    let mut rng = Rng::for_name(1, "dither");
    for (mode, divisor) in [
        (FlowMode::Triple, 32.0),
        (FlowMode::DualSource, 32.0),
        (FlowMode::DualDestination, 1.0),
        (FlowMode::Flows, 1.0),
    ] {
        let (isolation, queues) = load(mode, 32);
        let n = 20_000;
        let sum: i32 = (0..n)
            .map(|_| isolation.quantum(queues[7], 1514, &mut rng))
            .sum();
        // Rounded at random, so that the mean is exact though each is whole.
        let mean = f64::from(sum) / f64::from(n);
        let want = 1514.0 / divisor;
        assert!((mean - want).abs() < 0.05, "{mode:?}: {mean} {want}");
    }
}

#[test]
fn only_bulk_flows_load_their_host_and_the_load_ends_with_them() {
    let (mut isolation, queues) = load(FlowMode::Triple, 5);
    assert_eq!(isolation.host_load(queues[0]), 5);
    for (set, load) in [
        (Set::Decaying, 4),
        (Set::Sparse, 4),
        (Set::SparseWait, 4),
        (Set::Bulk, 5),
        (Set::Bulk, 5),
        (Set::Free, 4),
    ] {
        isolation.enter(queues[4], set);
        assert_eq!(isolation.host_load(queues[0]), load, "{set:?}");
    }
    queues.iter().for_each(|q| isolation.enter(*q, Set::Free));
    assert!(isolation.hosts.iter().all(|h| h.bulk == [0, 0]));
}

#[test]
fn a_shared_queue_counts_for_the_host_of_the_flow_that_came_last() {
    let mut isolation = Isolation::new(FlowMode::DualSource, hash());
    let of_set = |source: u8, count: usize| -> Vec<Box<Packet>> {
        let all = (0..u16::MAX).map(|port| packet([source, 1], port));
        let set = |p: &Packet| hash().of(p) % u32::from(QUEUES) / u32::from(WAYS);
        all.filter(|p| set(p) == 5).take(count).collect()
    };
    let first = of_set(1, 8);
    let mut queues = Vec::new();
    for packet in &first {
        let queue = isolation.queue_of(packet);
        isolation.enter(queue, Set::Bulk);
        queues.push(queue);
    }
    assert_eq!(isolation.host_load(queues[0]), 8);
    let later = of_set(2, 1);
    let shared = isolation.queue_of(&later[0]);
    let other = queues.iter().find(|q| **q != shared).unwrap();
    assert_eq!(isolation.host_load(*other), 7);
    assert_eq!(isolation.host_load(shared), 1);
    queues.iter().for_each(|q| isolation.enter(*q, Set::Free));
    assert!(isolation.hosts.iter().all(|h| h.bulk == [0, 0]));
}

#[test]
fn a_flow_that_comes_back_finds_its_host_anew() {
    // Two sources of which the second takes the place of the first once that is idle.
    let place = |source: u8| hash().ends(&packet([source, 1], 7))[0] % u32::from(QUEUES);
    let pairs = (1..=254u8).flat_map(|a| (1..a).map(move |b| (a, b)));
    let (one, two) = pairs
        .into_iter()
        .find(|(a, b)| place(*a) == place(*b))
        .expect("254 hosts in 1024 places");
    let mut isolation = Isolation::new(FlowMode::DualSource, hash());
    let mut enter = |source: u8, set: Set| {
        let queue = isolation.queue_of(&packet([source, 1], 7));
        isolation.enter(queue, set);
        (queue, isolation.clone())
    };
    enter(one, Set::Bulk);
    enter(one, Set::Free);
    let (of_two, _) = enter(two, Set::Bulk);
    let (of_one, isolation) = enter(one, Set::Bulk);
    assert_eq!(isolation.host_load(of_one), 1);
    assert_eq!(isolation.host_load(of_two), 1);
}

#[test]
fn a_flow_that_became_bulk_before_its_mode_counted_hosts_takes_no_load_away() {
    // `cake_dec_srchost_bulk_flow_count` takes one off where there is one.
    let mut isolation = Isolation::new(FlowMode::Flows, hash());
    let queue = isolation.queue_of(&packet([1, 1], 7));
    isolation.enter(queue, Set::Bulk);
    isolation.change_mode(FlowMode::Triple);
    isolation.enter(queue, Set::Free);
    assert!(isolation.hosts.iter().all(|h| h.bulk == [0, 0]));
    // From now on it counts, in both directions.
    let queue = isolation.queue_of(&packet([1, 1], 7));
    isolation.enter(queue, Set::Bulk);
    let loads = isolation.hosts.iter().flat_map(|h| h.bulk);
    assert_eq!(loads.map(u32::from).sum::<u32>(), 2);
}
