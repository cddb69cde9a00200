//! Each rule against Linux's source, and wrong ones.

use narrows_units::Words;
use narrows_wire::Ecn::{Ect0, NotEct};

use super::*;
use crate::QueueSpec;
use crate::testing::{Bench, ETHERNET, ms, us};

const FRAME: u32 = 1514;

fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
    let mut b = Bench::new(words);
    let words = words.strip_prefix("fq").unwrap();
    let config = reading::fresh::<FqConfig>(Words::new(words)).unwrap();
    let mut queue = Fq::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
    queue.mutant = mutant;
    b.queue = Box::new(queue);
    b
}

fn flows(b: &mut Bench) -> Vec<u16> {
    std::iter::from_fn(|| b.take(ms(1)))
        .map(|t| t.flow)
        .collect()
}

/// Fills the fast path by packets of flow 99.
fn fill_fast_path(b: &mut Bench) {
    (0..FAST_PATH).for_each(|_| assert!(b.offer(ms(1), 99, NotEct, 64).1));
}

fn eight_pass_the_flows(mutant: Option<Mutant>) -> bool {
    let mut b = queue("fq quantum 1514 initial_quantum 1514", mutant);
    for flow in [1; 10] {
        b.offer(ms(1), flow, NotEct, FRAME);
    }
    b.offer(ms(1), 2, NotEct, FRAME);
    // Two of flow 1 wait as a flow, one turn each.
    flows(&mut b) == [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1]
}

#[test]
fn the_first_eight_packets_of_an_empty_queue_pass_the_flows() {
    assert!(eight_pass_the_flows(None));
    assert!(!eight_pass_the_flows(Some(Mutant::FastForAll)));
}

#[test]
fn a_new_flow_has_ten_frames_and_then_two_in_each_turn() {
    let mut b = queue("fq", None);
    fill_fast_path(&mut b);
    for flow in [1, 2] {
        (0..16).for_each(|_| assert!(b.offer(ms(1), flow, NotEct, FRAME).1));
    }
    let order = flows(&mut b);
    let runs: Vec<_> = order[FAST_PATH..]
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len()))
        .collect();
    assert_eq!(
        runs,
        [
            (1, 10),
            (2, 10),
            (1, 2),
            (2, 2),
            (1, 2),
            (2, 2),
            (1, 2),
            (2, 2)
        ]
    );
}

/// When packets of one flow leave that come at 1 ms, in µs.
fn leaves(words: &str, mutant: Option<Mutant>) -> Vec<u64> {
    let mut b = queue(words, mutant);
    (0..5).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, 1_000).1));
    let (mut now, mut all) = (ms(1), Vec::new());
    loop {
        while b.take(now).is_some() {
            all.push(now.as_nanos() / 1_000);
        }
        match b.queue.next_dequeue(now) {
            Some(at) => now = at,
            None => return all,
        }
    }
}

#[test]
fn maxrate_spaces_the_packets_of_a_flow() {
    // 125 kB/s are 8 ms for 1000 bytes. Above the low rate a quantum of credit goes at once.
    let words = "fq maxrate 1Mbit quantum 1000 initial_quantum 1000";
    assert_eq!(leaves(words, None), [1_000, 9_000, 17_000, 25_000, 33_000]);
    assert_eq!(leaves(words, Some(Mutant::NoPace)), [1_000; 5]);
    assert_eq!(leaves(&format!("{words} nopacing"), None), [1_000; 5]);
    let burst = "fq maxrate 1Mbit quantum 2000 initial_quantum 3000";
    // Three packets of the first credit, then 2000 bytes' worth of pause for two each.
    assert_eq!(leaves(burst, None), [1_000, 1_000, 1_000, 17_000, 17_000]);
    // Up to the low rate each packet pauses by its own length.
    let low = "fq maxrate 400Kbit quantum 2000 initial_quantum 9000";
    assert_eq!(leaves(low, None), [1_000, 21_000, 41_000, 61_000, 81_000]);
}

#[test]
fn a_flow_that_is_held_back_lets_others_send() {
    let mut b = queue("fq maxrate 1Mbit quantum 1000 initial_quantum 1000", None);
    for flow in [1, 1, 2] {
        b.offer(ms(1), flow, NotEct, 1_000);
    }
    assert_eq!(flows(&mut b), [1, 2]);
    assert_eq!(b.queue.next_dequeue(ms(1)), Some(ms(9)));
    // Another packet of the flow that waits comes behind the one that waits.
    b.offer(ms(2), 1, NotEct, 1_000);
    assert!(b.take(ms(8)).is_none());
    assert_eq!(b.take(ms(9)).map(|t| t.id), Some(1));
}

fn shares_by_weight(mutant: Option<Mutant>) -> bool {
    let mut b = queue(
        "fq limit 100000 flow_limit 100000 weights 32768 16384 16384",
        mutant,
    );
    fill_fast_path(&mut b);
    // Interactive is band 0, best effort 1. A flow is first listed in band 0, whatever it is.
    for _ in 0..400 {
        b.offer_class(ms(1), 1, 0x10, FRAME);
        b.offer_class(ms(1), 2, 0, FRAME);
    }
    let order: Vec<_> = (0..FAST_PATH + 420).filter_map(|_| b.take(ms(1))).collect();
    let of_one = order[FAST_PATH + 120..]
        .iter()
        .filter(|t| t.band == 0)
        .count();
    (of_one as i64 - 200).abs() <= 22
}

#[test]
fn bands_share_the_link_by_their_weights() {
    assert!(shares_by_weight(None));
    assert!(!shares_by_weight(Some(Mutant::EqualBands)));
}

#[test]
fn limits_are_of_bands_and_of_flows() {
    let mut b = queue("fq limit 3 flow_limit 2", None);
    fill_fast_path(&mut b);
    let taken: Vec<_> = [1, 1, 1, 2, 3]
        .into_iter()
        .map(|flow| b.offer(ms(1), flow, NotEct, FRAME).1)
        .collect();
    assert_eq!(taken, [true, true, false, true, false]);
    // Another band has room.
    assert!(b.offer_class(ms(1), 4, 0x10, FRAME).1);
    let mut b = queue("fq", None);
    (0..20).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    b.queue.change(ms(1), "fq limit 5").unwrap();
    assert_eq!(flows(&mut b).len(), 5);
}

#[test]
fn what_is_late_by_more_than_the_threshold_is_marked() {
    let mut b = queue("fq ce_threshold 5ms", None);
    fill_fast_path(&mut b);
    (0..2).for_each(|_| assert!(b.offer(ms(1), 1, Ect0, FRAME).1));
    (0..FAST_PATH).for_each(|_| assert!(b.take(ms(1)).is_some()));
    assert_eq!(b.take(ms(6)).map(|t| t.ecn), Some(Ect0));
    assert_ne!(b.take(us(6_001)).map(|t| t.ecn), Some(Ect0));
}

#[test]
fn an_idle_flow_has_a_quantum_again_after_the_refill_delay() {
    let credit = |pause: u64| {
        let mut b = queue("fq maxrate 1Gbit quantum 1000 initial_quantum 500", None);
        b.offer(ms(1), 1, NotEct, 1_000);
        assert!(b.take(ms(1)).is_some());
        // The flow passes through the lists and leaves them.
        assert!(b.take(ms(3)).is_none());
        b.offer(ms(3 + pause), 1, NotEct, 600);
        b.offer(ms(3 + pause), 1, NotEct, 600);
        b.offer(ms(3 + pause), 2, NotEct, 100);
        let at = ms(4 + pause);
        let all = std::iter::from_fn(|| b.take(at));
        all.map(|t| t.flow).collect::<Vec<_>>()
    };
    // 500 are left of its credit, enough for one of its two packets; 1000 are for both.
    assert_eq!(credit(40), [1, 2]);
    assert_eq!(credit(41), [1, 1, 2]);
}

#[test]
fn what_tc_refuses_and_what_has_no_meaning_is_named() {
    let refused = |words: &str| {
        let e = QueueSpec::parse(words).unwrap_err();
        (words[e.span].to_owned(), e.help.unwrap_or_default())
    };
    assert_eq!(refused("fq quantum 0").0, "0");
    assert_eq!(refused("fq band"), ("band".to_owned(), String::new()));
    assert_eq!(refused("fq bands 2 priomap 0").0, "2");
    assert_eq!(refused("fq bands 3 priomap 0 1 2 3").0, "3");
    assert_eq!(refused("fq bands 3 0").0, "0");
    assert_eq!(refused("fq weights 1 2 3").0, "1");
    assert_eq!(refused("fq orphan_mask 4294967295").0, "orphan_mask");
    for word in ["horizon", "horizon_cap", "timer_slack", "offload_horizon"] {
        let (at, help) = refused(&format!("fq {word}"));
        assert_eq!(at, word);
        assert!(help.contains(word), "{help}");
    }
}

#[test]
fn a_band_is_served_while_it_has_credit() {
    // `fq_pband_head_select` gives no flow of a band whose credit is 0 or less.
    let weight = i64::from(FqConfig::default().weights[1]);
    for (bands, credits, served) in [
        (&[0, 1][..], [1, 0], 0),
        (&[0, 1], [0, 0], 1),
        (&[0, 1], [-1, 1], 1),
        (&[0, 1], [0, -weight], 0),
        // A band whose weight just makes up for what it owes has its turn in the next round.
        (&[1], [0, -weight], 1),
    ] {
        let config = FqConfig::default();
        let mut queue = Fq::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        for band in bands {
            queue.bands[*band].lists[NEW].push_back(*band as u32);
        }
        for (band, credit) in credits.into_iter().enumerate() {
            queue.bands[band].credit = credit;
        }
        assert_eq!(queue.select(), Some(NEW), "{bands:?} {credits:?}");
        assert_eq!(queue.turn, served, "{bands:?} {credits:?}");
    }
}

#[test]
fn a_packet_that_has_left_makes_room_in_its_band() {
    let mut b = queue("fq maxrate 100Mbit limit 2", None);
    let mut now = ms(1);
    let offer = |b: &mut Bench| b.offer(ms(1), 1, NotEct, FRAME).1;
    assert_eq!([(); 3].map(|()| offer(&mut b)), [true, true, false]);
    assert!(b.take_from(&mut now).is_some());
    assert_eq!([(); 2].map(|()| offer(&mut b)), [true, false]);
}
