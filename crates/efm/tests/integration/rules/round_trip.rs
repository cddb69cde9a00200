//! The round-trip loss bit.

use std::collections::VecDeque;

use narrows_wire::Signal;
use proptest::prelude::*;

use super::ends::{ACK, DATA, End, Segment, pair};

const WORDS: &str = "s+t";

/// A packet as it left.
#[derive(Clone, Copy, Debug)]
struct Left {
    spin: bool,
    marked: bool,
    /// Whether it is a retransmission.
    again: bool,
}

/// Which train a marked packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Train {
    Generation,
    Reflection,
}

/// What went over a path with a fixed delay and some loss.
struct Exchange {
    initiator: Vec<Left>,
    responder: Vec<Left>,
    /// Marked packets of the generation phase, both ways, that were lost.
    lost_in_generation: usize,
}

/// Sends `count` packets from each end, `gaps` apart, over a path of 10 ms each
/// way. `lost` says which; only the first half of the run loses.
fn exchange(gaps: (u64, u64), seconds: u64, lost: &mut dyn FnMut() -> bool) -> Exchange {
    exchange_with(gaps, seconds, lost, &mut |_| false)
}

/// The same where `again` says which of the initiator's packets carry data that
/// it has sent before. Its argument says whether the packet would begin a spin period.
fn exchange_with(
    gaps: (u64, u64),
    seconds: u64,
    lost: &mut dyn FnMut() -> bool,
    again: &mut dyn FnMut(bool) -> bool,
) -> Exchange {
    const DELAY: u64 = 10_000;
    let (mut a, mut b) = pair(WORDS);
    let mut out = Exchange {
        initiator: Vec::new(),
        responder: Vec::new(),
        lost_in_generation: 0,
    };
    let mut to_b: VecDeque<(u64, Segment, Option<Train>)> = VecDeque::new();
    let mut to_a: VecDeque<(u64, Segment)> = VecDeque::new();
    // The train of each mark that the responder still has to send back.
    let mut held: VecDeque<Train> = VecDeque::new();
    // Trains of the initiator follow each other in turn, a period apart.
    let (mut train, mut quiet, mut spin) = (Train::Reflection, 2, false);
    let end = seconds * 1_000_000;
    for us in 0..end {
        while to_b.front().is_some_and(|(at, ..)| *at <= us) {
            let (at, segment, train) = to_b.pop_front().unwrap();
            b.receive(at, &segment);
            held.extend(train);
        }
        while to_a.front().is_some_and(|(at, _)| *at <= us) {
            let (at, segment) = to_a.pop_front().unwrap();
            a.receive(at, &segment);
        }
        if us % gaps.0 == 0 {
            let would = look(&a.clone().send(us, DATA));
            let again = again(would.spin != spin);
            let segment = if again {
                a.send_at(us, DATA, a.next.wrapping_sub(10 * DATA.payload))
            } else {
                a.send(us, DATA)
            };
            let left = Left {
                again,
                ..look(&segment)
            };
            if left.spin != spin && !again {
                spin = left.spin;
                quiet += 1;
            }
            if left.marked {
                if quiet > 1 {
                    train = match train {
                        Train::Generation => Train::Reflection,
                        Train::Reflection => Train::Generation,
                    };
                }
                quiet = 0;
            }
            out.initiator.push(left);
            let gone = us < end / 2 && lost();
            if gone && left.marked && train == Train::Generation {
                out.lost_in_generation += 1;
            }
            if !gone {
                to_b.push_back((us + DELAY, segment, left.marked.then_some(train)));
            }
        }
        if us % gaps.1 == 0 {
            let segment = b.send(us, ACK);
            let left = look(&segment);
            let train = if left.marked { held.pop_front() } else { None };
            assert_eq!(
                left.marked,
                train.is_some(),
                "the responder only sends back"
            );
            out.responder.push(left);
            let gone = us < end / 2 && lost();
            if gone && train == Some(Train::Generation) {
                out.lost_in_generation += 1;
            }
            if !gone {
                to_a.push_back((us + DELAY, segment));
            }
        }
    }
    out
}

fn look(segment: &Segment) -> Left {
    Left {
        spin: segment.has(WORDS, Signal::Spin),
        marked: segment.has(WORDS, Signal::RoundTripLoss),
        again: false,
    }
}

/// Sizes of the trains, separated as an observer does: by whole spin periods
/// without a mark (RFC 9506 §3.1.3), which no retransmission begins.
fn trains(sent: &[Left]) -> Vec<usize> {
    let mut periods: Vec<usize> = vec![0];
    let mut spin = sent[0].spin;
    for left in sent {
        if left.spin != spin && !left.again {
            spin = left.spin;
            periods.push(0);
        }
        *periods.last_mut().unwrap() += usize::from(left.marked);
    }
    let mut trains = vec![0];
    for marks in periods {
        if marks > 0 {
            *trains.last_mut().unwrap() += marks;
        } else if trains.last() != Some(&0) {
            trains.push(0);
        }
    }
    // The last one may not have ended.
    trains.pop();
    trains
}

/// RFC 9506 §3.1: without loss what is generated is reflected, in both directions.
#[test]
fn rfc_3_1_without_loss_every_train_comes_back_whole() {
    for gaps in [(500, 500), (250, 1_000), (1_000, 250), (300, 700)] {
        let sent = exchange(gaps, 4, &mut || false);
        for side in [&sent.initiator, &sent.responder] {
            let trains = trains(side);
            assert!(trains.len() > 30, "{gaps:?}: {trains:?}");
            for pair in trains.chunks_exact(2) {
                assert_eq!(pair[0], pair[1], "{gaps:?}: {trains:?}");
            }
        }
    }
}

/// RFC 9506 §3.1.2 counts by packet numbers that only grow. TCP sends the same data
/// again: a retransmission that is the first to carry a new spin value begins no
/// period, and no mark is lost or goes round once more because of it.
#[test]
fn rfc_3_1_2_retransmissions_at_the_head_of_a_train_cost_no_mark() {
    for gaps in [(500, 500), (250, 1_000), (300, 700)] {
        let sent = exchange_with(gaps, 4, &mut || false, &mut |begins| begins);
        // With each edge a retransmission, no period ever begins.
        assert!(sent.initiator.iter().all(|l| !l.marked), "{gaps:?}");
        let mut turn = 0;
        let mut every_third = |begins: bool| {
            turn += usize::from(begins);
            begins && turn % 3 != 0
        };
        let sent = exchange_with(gaps, 4, &mut || false, &mut every_third);
        let trains = trains(&sent.initiator);
        assert!(trains.len() > 30, "{gaps:?}: {trains:?}");
        for pair in trains.chunks_exact(2) {
            assert_eq!(pair[0], pair[1], "{gaps:?}: {trains:?}");
        }
    }
}

/// RFC 9506 §3.1.4 counts six round trips where each pause takes one. A pause that
/// lasts until a whole period without marks has come back (§3.1.2) takes two: the
/// period in which it begins still brings the train. Of eight round trips two
/// generate, so a quarter of the slower direction's packets are measured.
#[test]
fn rfc_3_1_4_a_cycle_takes_eight_round_trips_and_measures_a_quarter() {
    let sent = exchange((250, 1_000), 12, &mut || false);
    let share = |sent: &[Left]| sent.iter().filter(|l| l.marked).count() as f64 / sent.len() as f64;
    let cycles = trains(&sent.initiator).len() as f64 / 2.0;
    let round_trips = 12_000.0 / 20.5 / cycles;
    assert!((7.5..8.5).contains(&round_trips), "{round_trips}");
    let slow = share(&sent.responder);
    assert!((0.45..0.55).contains(&slow), "both trains: {slow}");
    let fast = share(&sent.initiator);
    assert!((fast - share(&sent.responder) / 4.0).abs() < 0.01, "{fast}");
}

/// RFC 9506 §3.1.2: a token for each packet that arrives, at most one at a time.
#[test]
fn rfc_3_1_2_marks_are_not_more_than_packets_that_arrived() {
    let (mut a, mut b) = pair(WORDS);
    // An edge begins the generation.
    let first = b.send(0, DATA);
    a.receive(0, &first);
    let seen = |a: &mut End| look(&a.send(1, DATA)).marked;
    assert!(seen(&mut a));
    assert!(!seen(&mut a), "no token is left");
    for us in 0..5 {
        let packet = b.send(us, ACK);
        a.receive(us, &packet);
    }
    assert!(seen(&mut a));
    assert!(!seen(&mut a), "the cap is one");
}

/// RFC 9506 §3.1.2: the responder marks as many as arrived marked.
#[test]
fn rfc_3_1_2_the_responder_sends_back_each_mark_once() {
    let (mut a, mut b) = pair(WORDS);
    let first = b.send(0, DATA);
    a.receive(0, &first);
    let marked = a.send(1, DATA);
    assert!(look(&marked).marked);
    b.receive(2, &marked);
    let plain = a.send(3, DATA);
    b.receive(4, &plain);
    let sent: Vec<_> = (5..9).map(|us| look(&b.send(us, ACK)).marked).collect();
    assert_eq!(sent, [true, false, false, false]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// RFC 9506 §3.1.1: what the reflection lacks of the generation is what was
    /// lost of it on the way round.
    #[test]
    fn rfc_3_1_1_the_trains_differ_by_what_was_lost(
        seed in any::<u64>(),
        one_in in 30..200_u64,
        slow in 500..1_500_u64,
    ) {
        let mut state = seed | 1;
        let mut lost = || {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % one_in == 0
        };
        let sent = exchange((400, slow), 4, &mut lost);
        let trains = trains(&sent.initiator);
        let sum = |from: usize| trains.iter().skip(from).step_by(2).sum::<usize>();
        let whole = trains.len() - trains.len() % 2;
        prop_assert!(whole >= 20, "{:?}", trains);
        let unpaired = if trains.len() > whole { trains[whole] } else { 0 };
        prop_assert_eq!(sum(0) - unpaired - sum(1), sent.lost_in_generation, "{:?}", trains);
    }
}
