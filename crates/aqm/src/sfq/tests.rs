//! Each rule against Linux's source, and wrong ones.

use narrows_wire::Ecn::NotEct;

use super::*;
use crate::QueueSpec;
use crate::reading;
use crate::testing::{Bench, ETHERNET, ms};

const FRAME: u32 = 1514;

fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
    let mut b = Bench::new(words);
    let words = words.strip_prefix("sfq").unwrap();
    let config = reading::fresh::<SfqConfig>(Words::new(words)).unwrap();
    let mut queue = Sfq::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
    queue.mutant = mutant;
    b.queue = Box::new(queue);
    b
}

fn flows(b: &mut Bench) -> Vec<u16> {
    std::iter::from_fn(|| b.take(ms(2)))
        .map(|t| t.flow)
        .collect()
}

fn takes_turns(mutant: Option<Mutant>) -> bool {
    let mut b = queue("sfq", mutant);
    for flow in [1, 1, 1, 2, 2, 3] {
        b.offer(ms(1), flow, NotEct, FRAME);
    }
    flows(&mut b) == [1, 2, 3, 1, 2, 1]
}

#[test]
fn flows_take_turns_and_a_new_one_waits_for_its_own() {
    assert!(takes_turns(None));
    assert!(!takes_turns(Some(Mutant::NewFirst)));
    // Two small packets are one quantum: the flow stays at the head until it is spent.
    let mut b = queue("sfq quantum 1000", None);
    for (flow, length) in [(1, 600), (1, 600), (1, 600), (2, 600), (2, 600)] {
        b.offer(ms(1), flow, NotEct, length);
    }
    assert_eq!(flows(&mut b), [1, 1, 2, 2, 1]);
}

fn drops_the_longest(mutant: Option<Mutant>) -> bool {
    let mut b = queue("sfq limit 6", mutant);
    for flow in [1, 1, 1, 2, 2, 2] {
        b.offer(ms(1), flow, NotEct, FRAME);
    }
    // Flow 2 became as long as 1 last, so its newest packet goes.
    let (_, taken) = b.offer(ms(1), 3, NotEct, FRAME);
    taken && b.log.drops.iter().map(|d| d.1).eq([5])
}

#[test]
fn a_full_queue_drops_the_tail_of_the_longest_flow() {
    assert!(drops_the_longest(None));
    assert!(!drops_the_longest(Some(Mutant::DropsNewcomer)));
    assert!(!drops_the_longest(Some(Mutant::OldestLongest)));
    // The newcomer itself, where its flow is the longest.
    let mut b = queue("sfq limit 3", None);
    let taken: Vec<_> = (0..4).map(|_| b.offer(ms(1), 1, NotEct, FRAME).1).collect();
    assert_eq!(taken, [true, true, true, false]);
    // With `headdrop` the oldest.
    let mut b = queue("sfq limit 3 headdrop", None);
    assert!((0..4).all(|_| b.offer(ms(1), 1, NotEct, FRAME).1));
    assert_eq!(b.take(ms(1)).map(|t| t.id), Some(1));
    // 128 flows of one packet each and a limit of 127: that whose turn it is.
    let mut b = queue("sfq divisor 65536", None);
    assert!((0..128).all(|flow| b.offer(ms(1), flow, NotEct, FRAME).1));
    let (all, want): (Vec<_>, Vec<_>) = (flows(&mut b), (1..128).collect());
    assert_eq!(all, want);
}

#[test]
fn a_flow_has_at_most_depth_packets_and_headdrop_makes_room() {
    let mut b = queue("sfq depth 2", None);
    let taken: Vec<_> = (0..3).map(|_| b.offer(ms(1), 1, NotEct, FRAME).1).collect();
    assert_eq!(taken, [true, true, false]);
    let mut b = queue("sfq depth 2 headdrop", None);
    assert!((0..3).all(|_| b.offer(ms(1), 1, NotEct, FRAME).1));
    let ids: Vec<_> = std::iter::from_fn(|| b.take(ms(1))).map(|t| t.id).collect();
    assert_eq!(ids, [1, 2]);
}

fn frees_its_flows(mutant: Option<Mutant>) -> bool {
    let mut b = queue("sfq flows 2 limit 100", mutant);
    (0..50).all(|flow| b.offer(ms(1), flow, NotEct, FRAME).1 && b.take(ms(1)).is_some())
}

#[test]
fn a_flow_beyond_the_greatest_number_is_dropped_until_one_has_gone() {
    let mut b = queue("sfq flows 2", None);
    let taken: Vec<_> = (0..3).map(|f| b.offer(ms(1), f, NotEct, FRAME).1).collect();
    assert_eq!(taken, [true, true, false]);
    assert!(frees_its_flows(None));
    assert!(!frees_its_flows(Some(Mutant::NeverFreed)));
}

#[test]
fn the_defaults_are_127_packets_of_128_flows() {
    let bounds = |words| reading::fresh::<SfqConfig>(Words::new(words)).map(|c| c.bounds());
    assert_eq!(bounds(""), Ok((128, 127)));
    assert_eq!(bounds("depth 10"), Ok((128, 127)));
    assert_eq!(bounds("limit 5000 depth 10 flows 20"), Ok((20, 200)));
    assert_eq!(bounds("limit 50 flows 100"), Ok((50, 50)));
    assert_eq!(bounds("divisor 64"), Ok((64, 127)));
    assert!(bounds("limit 2 flows 1 depth 1").is_err());
}

#[test]
fn perturbation_sorts_what_waits_anew_and_keeps_each_flow_in_order() {
    let mut b = queue("sfq perturb 10 divisor 4 flows 4", None);
    assert_eq!(b.queue.next_tick(), Some(ms(10_000)));
    let before = |b: &mut Bench| {
        for i in 0..24 {
            b.offer(ms(1), i % 8, NotEct, FRAME);
        }
    };
    before(&mut b);
    let first = flows(&mut b);
    before(&mut b);
    b.tick_until(ms(10_000));
    assert_eq!(b.queue.next_tick(), Some(ms(20_000)));
    let mut last = [0; 8];
    let mut second = Vec::new();
    while let Some(taken) = b.take(ms(10_001)) {
        assert!(last[usize::from(taken.flow)] < taken.id);
        last[usize::from(taken.flow)] = taken.id;
        second.push(taken.flow);
    }
    assert_eq!(second.len(), 24);
    assert_ne!(first, second);
}

#[test]
fn flows_that_a_new_hash_brings_together_have_the_room_of_one() {
    let words = "sfq divisor 2 depth 2 perturb 10";
    let filled = |other: u16| {
        let mut b = queue(words, None);
        for flow in [1, 1, other, other] {
            b.offer(ms(1), flow, NotEct, FRAME);
        }
        b
    };
    let packets = |b: &Bench| b.queue.backlog().packets;
    let mut benches = (2..50).map(filled);
    let mut b = benches.find(|b| packets(b) == 4).expect("flows apart");
    // Half of the hashes bring them together.
    for _ in 0..100 {
        let at = b.queue.next_tick().unwrap();
        b.queue.tick(at);
        // Flow 1 has no room in any case; the new hash is used.
        assert!(!b.offer(at, 1, NotEct, FRAME).1);
        if packets(&b) < 4 {
            break;
        }
    }
    assert_eq!(packets(&b), 2);
}

#[test]
fn what_tc_and_the_kernel_refuse_is_refused() {
    let refused = |words: &str| {
        let e = QueueSpec::parse(words).unwrap_err();
        (words[e.span].to_owned(), e.help.is_some())
    };
    assert_eq!(refused("sfq limit 1"), ("1".to_owned(), false));
    assert_eq!(refused("sfq divisor 1000"), ("1000".to_owned(), false));
    assert_eq!(refused("sfq divisor 131072"), ("131072".to_owned(), false));
    assert_eq!(
        refused("sfq perturb 2147484"),
        ("2147484".to_owned(), false)
    );
    assert_eq!(refused("sfq ecn"), ("ecn".to_owned(), true));
    assert_eq!(refused("sfq bands"), ("bands".to_owned(), false));
    assert!(queue("sfq", None).queue.change(ms(1), "limit 20").is_err());
}
