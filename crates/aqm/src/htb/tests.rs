//! Each rule against Linux's source, and wrong ones.

use narrows_units::Words;

use super::*;
use crate::QueueSpec;
use crate::testing::{Bench, ETHERNET, Taken, ms};

const FRAME: u32 = 1_250;

fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
    let mut b = Bench::new("pfifo");
    let words = words.strip_prefix("htb").unwrap();
    let config = reading::fresh::<HtbConfig>(Words::new(words)).unwrap();
    let mut queue = Htb::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
    queue.mutant = mutant;
    b.queue = Box::new(queue);
    b
}

/// All that leaves within `span` ms of classes that always have packets: those of `dscps`, a
/// frame of 1250 bytes each time that one has gone.
fn saturated(b: &mut Bench, dscps: &[u8], span: u64) -> Vec<(u64, Taken)> {
    let offer = |b: &mut Bench, now, flow: usize| {
        b.offer_class(now, flow as u16, dscps[flow] << 2, FRAME);
    };
    for flow in 0..dscps.len() {
        (0..20).for_each(|_| offer(b, ms(0), flow));
    }
    let (mut now, mut all) = (ms(0), Vec::new());
    while now < ms(span) {
        while let Some(taken) = b.take(now) {
            all.push((now.as_nanos() / 1_000, taken));
            offer(b, now, usize::from(taken.flow));
        }
        now = b.queue.next_dequeue(now).expect("packets wait");
    }
    all
}

/// kbit/s of each flow over the last nine tenths of `span`.
fn rates(words: &str, mutant: Option<Mutant>, dscps: &[u8], span: u64) -> Vec<u64> {
    let mut b = queue(words, mutant);
    let all = saturated(&mut b, dscps, span);
    let late = all.iter().filter(|(us, _)| *us >= span * 100);
    let mut bits = vec![0; dscps.len()];
    late.for_each(|(_, t)| bits[usize::from(t.flow)] += u64::from(FRAME) * 8);
    bits.iter().map(|bits| bits * 10 / (9 * span)).collect()
}

fn near(found: &[u64], want: &[u64]) -> bool {
    let pairs = found.iter().zip(want);
    found.len() == want.len() && pairs.into_iter().all(|(a, b)| a.abs_diff(*b) * 50 <= *b)
}

/// Ten thousand milliseconds of two classes below one of 10 Mbit/s.
const TREE: &str = "htb class top rate 10Mbit class a parent top rate 6Mbit ceil 10Mbit \
                    class b parent top rate 2Mbit ceil 10Mbit dscp 46";

#[test]
fn a_class_keeps_its_rate_and_its_bucket() {
    let mut b = queue("htb class a rate 1Mbit burst 5000 cburst 5000", None);
    let all = saturated(&mut b, &[0], 50);
    // 5000 bytes are four frames; a class sends while it owes nothing, so a fifth goes at once
    // and it has to wait for what that one owes: 10 ms each at 125 bytes in a millisecond.
    let at: Vec<_> = all.iter().map(|(us, _)| *us).collect();
    assert_eq!(at[..7], [0, 0, 0, 0, 0, 10_000, 20_000]);
}

#[test]
fn children_have_their_rates_and_share_what_is_left_by_their_quanta() {
    // 2 Mbit/s are left of 10: rates over r2q are 75000 and 25000 bytes of a turn.
    let found = rates(TREE, None, &[0, 46], 10_000);
    assert!(near(&found, &[7_500, 2_500]), "{found:?}");
    // One alone has all of it.
    let found = rates(TREE, None, &[46], 2_000);
    assert!(near(&found, &[10_000]), "{found:?}");
}

fn ends_at_its_ceil(mutant: Option<Mutant>) -> bool {
    let words = TREE.replace("rate 2Mbit ceil 10Mbit", "rate 2Mbit ceil 3Mbit");
    near(&rates(&words, mutant, &[46], 5_000), &[3_000])
}

#[test]
fn a_class_borrows_up_to_its_ceil() {
    assert!(ends_at_its_ceil(None));
    assert!(!ends_at_its_ceil(Some(Mutant::NoCeil)));
}

fn both_together_keep_the_parents_rate(mutant: Option<Mutant>) -> bool {
    let found = rates(TREE, mutant, &[0, 46], 5_000);
    found.iter().sum::<u64>().abs_diff(10_000) <= 100
}

#[test]
fn what_children_send_is_the_parents_too() {
    assert!(both_together_keep_the_parents_rate(None));
    assert!(!both_together_keep_the_parents_rate(Some(
        Mutant::ParentNotCharged
    )));
}

fn lends_by_priority(mutant: Option<Mutant>) -> bool {
    let words = TREE
        .replace("dscp 46", "prio 0 dscp 46")
        .replace("ceil 10Mbit class b", "ceil 10Mbit prio 1 class b");
    // What is left goes to b alone.
    near(&rates(&words, mutant, &[0, 46], 5_000), &[6_000, 4_000])
}

#[test]
fn the_lower_priority_number_borrows_first() {
    assert!(lends_by_priority(None));
    assert!(!lends_by_priority(Some(Mutant::OnePriority)));
}

fn turns_by_quantum(mutant: Option<Mutant>) -> Vec<u16> {
    let words = "htb class top rate 10Mbit class a parent top rate 8bit ceil 10Mbit quantum 3750 \
                 burst 1 class b parent top rate 8bit ceil 10Mbit quantum 1250 burst 1 dscp 46";
    let mut b = queue(words, mutant);
    let all = saturated(&mut b, &[0, 46], 100);
    all[40..48].iter().map(|(_, t)| t.flow).collect()
}

#[test]
fn equal_priorities_take_turns_of_their_quanta() {
    let count = |flows: Vec<u16>| flows.iter().filter(|flow| **flow == 0).count();
    assert_eq!(count(turns_by_quantum(None)), 6);
    assert_eq!(count(turns_by_quantum(Some(Mutant::OnePacket))), 4);
}

#[test]
fn three_levels_lend_from_the_nearest() {
    // c has 1 Mbit/s of its own and may use what b leaves of mid's 4; top's 10 are a's but for
    // what mid needs.
    let words = "htb class top rate 10Mbit class mid parent top rate 4Mbit \
                 class a parent top rate 6Mbit ceil 10Mbit dscp 8 \
                 class b parent mid rate 1Mbit dscp 16 \
                 class c parent mid rate 1Mbit ceil 10Mbit";
    let found = rates(words, None, &[8, 16, 0], 10_000);
    assert!(near(&found, &[6_000, 1_000, 3_000]), "{found:?}");
    // mid's ceil is its rate: 4 Mbit/s for both below it, whatever is free above.
    let found = rates(words, None, &[16, 0], 10_000);
    assert!(near(&found, &[1_000, 3_000]), "{found:?}");
}

#[test]
fn quanta_and_buckets_are_those_of_tc_and_the_kernel() {
    let config = |words: &str| reading::fresh::<HtbConfig>(Words::new(words)).unwrap();
    let turn = |words: &str| {
        let c = config(words);
        c.classes[0].turn(c.r2q)
    };
    assert_eq!(turn("class a rate 1Mbit"), 12_500);
    assert_eq!(turn("r2q 100 class a rate 1Mbit"), 1_250);
    assert_eq!(turn("class a rate 10Kbit"), 1_000);
    assert_eq!(turn("class a rate 1Gbit"), 200_000);
    assert_eq!(turn("class a rate 1Gbit quantum 1514"), 1_514);
    // 1600 bytes at 125 kB/s are 12.8 ms, in whole ticks of 64 ns.
    let buckets = |words: &str| config(words).classes[0].buckets();
    assert_eq!(buckets("class a rate 1Mbit"), (12_800_000, 12_800_000));
    assert_eq!(buckets("class a rate 1Mbit burst 1").0, 8_000);
    assert_eq!(
        buckets("class a rate 1Mbit ceil 7Mbit cburst 1000").1,
        1_142_848
    );
}

#[test]
fn classes_that_are_no_tree_of_leaves_are_refused() {
    let refused = |words: &str| {
        let e = QueueSpec::parse(words).unwrap_err();
        (
            words[e.span].to_owned(),
            e.found,
            e.help.unwrap_or_default(),
        )
    };
    assert!(refused("htb class a").1.contains("without `rate`"));
    assert!(
        refused("htb class a rate 1Mbit parent b")
            .1
            .contains("not there")
    );
    let circle = "htb class a parent b rate 1Mbit class b parent a rate 1Mbit";
    assert!(refused(circle).1.contains("below itself"));
    let inner = "htb class a rate 1Mbit dscp 3 class b parent a rate 1Mbit";
    assert!(refused(inner).1.contains("packets of its own"));
    assert_eq!(refused("htb rate 1Mbit").0, "rate");
    assert_eq!(refused("htb class a rate 0bit").0, "0bit");
    assert!(refused("htb default 10").2.contains("without `dscp`"));
    assert!(
        refused("htb class a rate 1Mbit overhead 20")
            .2
            .contains("link")
    );
    let deep: String = (1..10)
        .map(|n| format!(" class {n} parent {} rate 1Mbit", n - 1))
        .collect();
    let deep = format!("htb class 0 rate 1Mbit{deep}");
    assert!(refused(&deep).1.contains("too deep"));
}

#[test]
fn a_change_gives_other_rates_and_no_other_tree() {
    let mut b = queue(TREE, None);
    b.queue.change(ms(1), "class b rate 4Mbit").unwrap();
    for words in [
        "class c rate 1Mbit dscp 1",
        "class b dscp 5",
        "class a queue (codel)",
    ] {
        assert!(b.queue.change(ms(1), words).is_err(), "{words}");
    }
}

const HELD: &str = "queue (tbf rate 8bit burst 1600 limit 30000)";

#[test]
fn a_class_that_holds_its_packets_back_lets_the_others_send() {
    let words = format!("htb class a rate 1Mbit dscp 46 {HELD} class b rate 1Mbit");
    let mut b = queue(&words, None);
    for (flow, class) in [(1, 46 << 2), (2, 46 << 2), (3, 0)] {
        assert!(b.offer_class(ms(1), flow, class, FRAME).1);
    }
    let mut flows: Vec<_> = std::iter::from_fn(|| b.take(ms(100)))
        .map(|t| t.flow)
        .collect();
    flows.sort_unstable();
    assert_eq!(flows, [1, 3]);
}

#[test]
fn a_class_whose_aqm_drops_all_gives_way_to_one_that_holds_its_packets_back() {
    let words = format!(
        "htb class a rate 1Mbit dscp 46 \
         queue (pi2 variant rfc9332 noecn target 1ms tupdate 1ms alpha 100 beta 100) \
         class b rate 1Mbit {HELD}"
    );
    let mut b = queue(&words, None);
    let offer = |b: &mut Bench, flow, class| assert!(b.offer_class(ms(1), flow, class, FRAME).1);
    [(1, 46 << 2), (2, 0), (2, 0)]
        .into_iter()
        .for_each(|(flow, class)| offer(&mut b, flow, class));
    assert_eq!(std::iter::from_fn(|| b.take(ms(1))).count(), 2);
    (0..3).for_each(|_| offer(&mut b, 1, 46 << 2));
    // The probability rises to 1 while nothing leaves. What is gathered has to exceed 1, so
    // that one packet passes, and the class keeps its turn.
    b.tick_until(ms(5_000));
    assert_eq!(b.take(ms(5_000)).map(|t| t.flow), Some(1));
    assert_eq!(b.queue.counts().dropped, 0);
    assert!(b.take(ms(5_000)).is_none());
    assert_eq!(b.queue.counts().dropped, 2);
    assert_eq!(b.queue.backlog().packets, 1);
}

#[test]
fn classes_that_wait_until_the_same_time_are_woken_in_their_order_of_waiting() {
    // `htb_add_to_wait_tree` puts a class behind those of its time.
    let words = Words::new("class a rate 1Mbit dscp 46 class b rate 1Mbit");
    let config = reading::fresh::<HtbConfig>(words).unwrap();
    let mut queue = Htb::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
    for (index, lasts) in [(1, 5), (0, 5), (1, 4)] {
        queue.wait(index, ms(1), lasts);
    }
    let order: Vec<_> = queue.waiting[0].iter().map(|w| w.2).collect();
    assert_eq!(order, [1, 1, 0]);
}

#[test]
fn the_band_of_a_packet_is_the_place_of_its_class_among_the_leaves() {
    let words = "htb class top rate 9Mbit class a parent top rate 3Mbit dscp 46 \
                 class b parent top rate 3Mbit dscp 8 class c parent top rate 3Mbit";
    let mut b = queue(words, None);
    for (flow, dscp) in [46, 8, 0].into_iter().enumerate() {
        b.offer_class(ms(1), flow as u16, dscp << 2, FRAME);
    }
    let all: Vec<_> = std::iter::from_fn(|| b.take(ms(1))).collect();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|t| u16::from(t.band) == t.flow), "{all:?}");
}

#[test]
fn there_are_at_most_200_classes_and_priorities_end_at_7() {
    // 65 leaves below two classes each, `more` of them below three.
    let line = |more: usize| {
        let branch = |n: usize| {
            let (root, below) = match n < more {
                true => (format!(" class r{n} rate 1Mbit"), format!(" parent r{n}")),
                false => Default::default(),
            };
            let dscp = match n {
                64 => String::new(),
                _ => format!(" dscp {n}"),
            };
            format!(
                "{root} class t{n}{below} rate 1Mbit class m{n} parent t{n} rate 1Mbit \
                 class l{n} parent m{n} rate 1Mbit{dscp}"
            )
        };
        format!("htb{}", (0..65).map(branch).collect::<String>())
    };
    assert!(QueueSpec::parse(&line(5)).is_ok());
    let e = QueueSpec::parse(&line(6)).unwrap_err();
    assert_eq!(e.allowed, "at most 200 classes");

    for (prio, counts) in [(0, 0), (6, 6), (7, 7), (8, 7), (u32::MAX, 7)] {
        let words = format!("class a rate 1Mbit prio {prio}");
        let config = reading::fresh::<HtbConfig>(Words::new(&words)).unwrap();
        assert_eq!(config.classes[0].prio, counts, "{prio}");
    }
}
