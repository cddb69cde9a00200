//! What holds of every queue, against naive models.

use std::collections::{BTreeMap, VecDeque};

use narrows_units::{Duration, Instant};
use narrows_wire::Ecn;
use proptest::prelude::*;

use crate::testing::{Bench, Taken};

/// Each kind of queue, at its defaults and in corners.
const QUEUES: &[&str] = &[
    "pfifo limit 20",
    "bfifo limit 20000",
    "codel limit 30",
    "codel ecn target 1ms interval 5ms ce_threshold 500us",
    "fq_codel",
    "fq_codel flows 1 target 1ms interval 20ms",
    "fq_codel limit 20 flows 4 quantum 300 target 1ms interval 3ms drop_batch 3",
    "fq_codel memory_limit 20kb noecn",
    "pie limit 30 ecn",
    "pie target 1ms tupdate 1ms alpha 32 beta 32 bytemode",
    "pie dq_rate_estimator",
    "fq_pie",
    "fq_pie limit 20 flows 4 quantum 300 target 1ms tupdate 1ms alpha 32 beta 32 ecn",
    "pi2 limit 30",
    "pi2 noecn target 1ms tupdate 1ms alpha 30 beta 300",
    "pi2 variant rfc9332 target 1ms tupdate 1ms beta 300",
    "red limit 60000 avpkt 1000",
    "red limit 30000 avpkt 300 adaptive ecn probability 0.5",
    "dualpi2",
    "dualpi2 limit 20 target 1ms tupdate 1ms alpha 30 beta 300",
    "dualpi2 limit 20 overflow drop_enqueue step_thresh 3p",
    "dualpi2 variant linux-2020 target 1ms tupdate 1ms beta 300",
    "dualpi2 variant rfc9332 target 1ms tupdate 1ms beta 300",
    "sfq limit 20 flows 3 depth 6",
    "sfq limit 20 headdrop perturb 1 quantum 300 divisor 2",
    "prio",
    "prio bands 2 priomap 0 0 0 0 0 0 0 band 1 queue (pfifo limit 5)",
    "drr class a queue (pfifo limit 10)",
    "drr class a dscp 1 class b quantum 300 queue (fq_codel flows 2 target 1ms interval 5ms)",
    "bearers bearer a",
    "bearers bearer a dscp 1 qci 7 queue (codel target 1ms) bearer b queue (bfifo limit 9kb)",
    "fq",
    "fq maxrate 2Mbit quantum 300 initial_quantum 700 flow_limit 5 orphan_mask 3",
    "fq limit 20 maxrate 500Kbit",
    "htb class a rate 20Mbit",
    "htb class top rate 6Mbit class a parent top rate 2Mbit ceil 6Mbit queue (codel target 1ms) \
     class b parent top rate 3Mbit ceil 4Mbit prio 1 dscp 1 class c parent top rate 1Mbit dscp 2",
    "tbf rate 20Mbit burst 3000 limit 20000",
    "tbf rate 5Mbit burst 3000 limit 60kb peakrate 6Mbit mtu 1514 queue (codel target 1ms)",
    "dualq limit 30",
    "dualq target 1ms tupdate 1ms alpha 30 beta 300",
    "dualq aqm pie target 1ms tupdate 1ms alpha 30 beta 300",
    "dualq aqm pie uncoupled wrr 1:3 l_target 1ms tupdate 1ms",
    "dualq aqm cred",
    "dualq aqm red min 2 max 5 l_min 1 l_max 3",
    "cnq_codel_af",
    "cnq_codel_af limit 20 rtt 2ms",
    "cake",
    "cake lan diffserv8 flowblind wash memlimit 20kb",
    "cake bandwidth 3Mbit metro triple-isolate pppoe-ptm",
    "cake bandwidth 1Mbit datacentre hosts ingress memlimit 30kb atm ack-filter",
    "cobalt limit 20 target 1ms interval 3ms",
    "cobalt noecn",
];

#[test]
fn every_kind_of_queue_is_tried() {
    for kind in crate::QUEUES {
        let mut tried = QUEUES.iter().map(|words| words.split(' ').next());
        assert!(tried.any(|first| first == Some(*kind)), "{kind}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Offer { flow: u16, length: u32 },
    Take,
    Wait { us: u64 },
}

fn step() -> impl Strategy<Value = Call> {
    prop_oneof![
        5 => (0u16..6, 64u32..=1514).prop_map(|(flow, length)| Call::Offer { flow, length }),
        4 => Just(Call::Take),
        2 => (0u64..4_000).prop_map(|us| Call::Wait { us }),
        1 => (0u64..300_000).prop_map(|us| Call::Wait { us }),
    ]
}

/// A flow keeps its ECN field, so that it stays in one queue of two.
fn ecn_of(flow: u16) -> Ecn {
    [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(flow % 4)]
}

/// Whether the queue lets packets wait although the link is free.
fn is_shaper(words: &str) -> bool {
    let kind = words.split(' ').next().unwrap_or_default();
    ["tbf", "htb", "fq"].contains(&kind) || (kind == "cake" && words.contains("bandwidth"))
}

/// Takes all that waits, each packet when the queue gives it.
fn drain(bench: &mut Bench, mut now: Instant) -> Vec<Taken> {
    let mut out = Vec::new();
    loop {
        bench.tick_until(now);
        if let Some(taken) = bench.take(now) {
            out.push(taken);
            continue;
        }
        match bench.queue.next_dequeue(now) {
            // A packet that was promised for now and did not come will never come.
            Some(at) => {
                assert!(at > now, "gives nothing at {now:?}");
                now = at;
            }
            None => return out,
        }
    }
}

/// A change that the queue takes in mid-run; none where it takes none.
fn change_of(words: &str, limit: u32) -> Option<String> {
    Some(match words.split(' ').next().unwrap_or_default() {
        "red" | "bfifo" => format!("limit {}", 30_000 + limit),
        "sfq" | "bearers" => return None,
        "prio" => "priomap 0 1".to_owned(),
        "drr" => format!("class a quantum {}", 100 * limit),
        "tbf" => format!("rate {limit}Kbit"),
        "cake" => format!("besteffort memlimit {}", 1_500 * limit),
        "htb" => format!("class a ceil {limit}Mbit"),
        _ => format!("limit {limit}"),
    })
}

/// Runs `steps` and checks the books after each; returns what left.
fn run(words: &str, steps: &[Call]) -> Result<(Vec<Taken>, Bench), TestCaseError> {
    let mut bench = Bench::new(words);
    let mut now = Instant::from_nanos(1);
    let (mut offered, mut out) = (0u64, Vec::new());
    let mut lengths = BTreeMap::new();
    let mut last_of_flow = BTreeMap::new();
    for step in steps {
        match *step {
            Call::Offer { flow, length } => {
                let before = bench.queue.counts().dropped;
                let (id, taken) = bench.offer(now, flow, ecn_of(flow), length);
                offered += 1;
                lengths.insert(id, length);
                // What is not taken was dropped.
                let gone = bench.log.drops.iter().any(|d| d.1 == id);
                prop_assert_eq!(taken, !gone);
                prop_assert!(taken || bench.queue.counts().dropped > before);
            }
            Call::Take => {
                let next = bench.queue.next_dequeue(now);
                prop_assert_eq!(next.is_some(), bench.queue.backlog().packets > 0);
                let holds_back = next.is_some_and(|at| at > now);
                prop_assert!(!holds_back || is_shaper(words), "{words}");
                let taken = bench.take(now);
                prop_assert!(taken.is_none() || !holds_back, "{words}: too early");
                if let Some(taken) = taken {
                    prop_assert!(taken.held_since <= now, "negative sojourn");
                    let last = last_of_flow.insert(taken.flow, taken.id);
                    prop_assert!(last.is_none_or(|id| id < taken.id), "order in a flow");
                    let may_mark = ecn_of(taken.flow) != Ecn::NotEct;
                    prop_assert!(taken.ecn == ecn_of(taken.flow) || may_mark);
                    out.push(taken);
                }
            }
            Call::Wait { us } => {
                now += Duration::from_micros(us);
                bench.tick_until(now);
            }
        }
        let backlog = bench.queue.backlog();
        prop_assert_eq!(bench.queue.counts().dropped, bench.log.drops.len() as u64);
        prop_assert_eq!(bench.queue.counts().marked, bench.log.marks.len() as u64);
        let accounted =
            out.len() as u64 + bench.queue.counts().dropped + u64::from(backlog.packets);
        prop_assert_eq!(offered, accounted, "packets in = out + dropped + waiting");
        prop_assert_eq!(bench.pool.outstanding(), u64::from(backlog.packets));
        let mut bytes: u64 = lengths.values().map(|n| u64::from(*n)).sum();
        let left = out.iter().map(|t| t.id);
        for id in left.chain(bench.log.drops.iter().map(|d| d.1)) {
            bytes -= u64::from(lengths[&id]);
        }
        prop_assert_eq!(bytes, backlog.bytes);
        let p = bench.queue.probability();
        prop_assert!((0.0..=1.0).contains(&p), "{words}: {p}");
    }
    Ok((out, bench))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_queue_conserves_packets_and_keeps_order_within_a_flow(
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        for words in QUEUES {
            let (mut out, mut bench) = run(words, &steps)?;
            // Whatever is left can be drained.
            let now = Instant::from_nanos(10_000_000_000);
            out.extend(drain(&mut bench, now));
            prop_assert_eq!(bench.queue.backlog(), Default::default(), "{}", words);
            prop_assert_eq!(bench.pool.outstanding(), 0);
            prop_assert_eq!(bench.queue.next_dequeue(now), None);
        }
    }

    #[test]
    fn the_same_seed_and_steps_give_the_same_packets_marks_and_drops(
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        for words in QUEUES {
            let (a, ours) = run(words, &steps)?;
            let (b, theirs) = run(words, &steps)?;
            prop_assert_eq!(a, b);
            prop_assert_eq!(&ours.log.marks, &theirs.log.marks);
            prop_assert_eq!(&ours.log.drops, &theirs.log.drops);
        }
    }

    #[test]
    fn pfifo_and_bfifo_equal_a_list_with_a_limit(
        steps in proptest::collection::vec(step(), 1..400),
        limit in 1u64..40,
    ) {
        for bytes in [false, true] {
            let (words, limit) = if bytes {
                (format!("bfifo limit {}", limit * 500), limit * 500)
            } else {
                (format!("pfifo limit {limit}"), limit)
            };
            let mut bench = Bench::new(&words);
            let mut model: VecDeque<(u64, u64)> = VecDeque::new();
            let now = Instant::from_nanos(5);
            for step in &steps {
                match *step {
                    Call::Offer { flow, length } => {
                        let length = u64::from(length);
                        let size: u64 = if bytes {
                            model.iter().map(|(_, n)| n).sum::<u64>() + length
                        } else {
                            model.len() as u64 + 1
                        };
                        let (id, taken) = bench.offer(now, flow, ecn_of(flow), length as u32);
                        prop_assert_eq!(taken, size <= limit);
                        if taken {
                            model.push_back((id, length));
                        }
                    }
                    Call::Take => {
                        let taken = bench.take(now).map(|t| t.id);
                        prop_assert_eq!(taken, model.pop_front().map(|(id, _)| id));
                    }
                    Call::Wait { .. } => {}
                }
            }
        }
    }

    #[test]
    fn a_change_in_mid_run_breaks_no_books(
        before in proptest::collection::vec(step(), 1..150),
        limit in 1u32..30,
    ) {
        for words in QUEUES {
            let (out, mut bench) = run(words, &before)?;
            let Some(change) = change_of(words, limit) else {
                continue;
            };
            let now = Instant::from_nanos(5_000_000_000);
            bench.queue.change(now, &change).unwrap();
            let waiting = bench.queue.backlog().packets;
            let dropped = bench.queue.counts().dropped;
            let left = drain(&mut bench, now).len() as u32;
            let shed = (bench.queue.counts().dropped - dropped) as u32;
            prop_assert_eq!(left + shed, waiting, "{} after {:?}", words, out.len());
            prop_assert_eq!(bench.pool.outstanding(), 0);
        }
    }
}
