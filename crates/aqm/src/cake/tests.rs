use std::collections::BTreeMap;

use narrows_core::{DropCause, EntityId};
use narrows_units::{Instant, Rng, Words};
use narrows_wire::Ecn::{Ect0, NotEct};

use super::Cake;
use crate::reading;
use crate::testing::{Bench, ETHERNET, Taken, ms};

const FRAME: u32 = 1514;
/// DS fields: CS1, expedited forwarding.
const BULK: u8 = 8 << 2;
const VOICE: u8 = 46 << 2;

/// Offers `count` packets.
fn fill(b: &mut Bench, count: u64, now: Instant, ends: [u8; 2], flow: u16, class: u8, length: u32) {
    for _ in 0..count {
        b.offer_between(now, ends, flow, class, length);
    }
}

/// Takes until `end`, and has each packet replaced by one of its flow.
fn saturated(b: &mut Bench, now: &mut Instant, end: Instant) -> Vec<Taken> {
    let mut all = Vec::new();
    while *now < end {
        let Some(taken) = b.take_from(now) else {
            continue;
        };
        b.offer_between(*now, taken.ends, taken.flow, taken.dscp << 2, taken.length);
        all.push(taken);
    }
    all
}

/// Bytes by what `key` says.
fn bytes_by<K: Ord>(all: &[Taken], key: impl Fn(&Taken) -> K) -> BTreeMap<K, u64> {
    let mut bytes = BTreeMap::new();
    for taken in all {
        *bytes.entry(key(taken)).or_default() += u64::from(taken.length);
    }
    bytes
}

fn leaving(words: &str, lengths: &[u32]) -> Vec<u64> {
    let mut b = Bench::new(words);
    let mut now = ms(1);
    for length in lengths {
        b.offer(now, 1, NotEct, *length);
    }
    std::iter::from_fn(|| {
        b.take_from(&mut now)?;
        Some(now.as_nanos() - 1_000_000)
    })
    .collect()
}

#[test]
fn the_shaper_spaces_departures_by_what_packets_count_to_the_nanosecond() {
    // 2.5 MB/s, 400 ns a byte; the link counts 1514.
    let at = leaving(
        "cake bandwidth 20mbit flowblind",
        &[1_514, 1_514, 114, 1_514],
    );
    assert_eq!(at, [0, 605_600, 1_211_200, 1_256_800]);
    // Of the IP packet 1500 + 18; 100 + 18.
    let at = leaving(
        "cake bandwidth 20mbit docsis flowblind",
        &[1_514, 1_514, 114, 1_514],
    );
    assert_eq!(at, [0, 607_200, 1_214_400, 1_261_600]);
    // ⌈1540/48⌉ = 33 cells; ⌈140/48⌉ = 3.
    let at = leaving(
        "cake bandwidth 20mbit pppoe-llcsnap flowblind",
        &[1_514, 114, 1_514],
    );
    assert_eq!(at, [0, 699_600, 699_600 + 63_600]);
    // 1530 + 24; 130 + 3.
    let at = leaving(
        "cake bandwidth 20mbit pppoe-ptm flowblind",
        &[1_514, 114, 1_514],
    );
    assert_eq!(at, [0, 621_600, 621_600 + 53_200]);
    assert_eq!(leaving("cake", &[1_514; 3]), [0, 0, 0]);
}

#[test]
fn nothing_leaves_before_its_time_and_a_pause_earns_no_burst() {
    let mut b = Bench::new("cake bandwidth 20mbit");
    for at in [1, 50] {
        (0..3).for_each(|_| assert!(b.offer(ms(at), 1, NotEct, FRAME).1));
        let mut now = ms(at);
        assert!(b.take(now).is_some());
        assert!(b.take(now).is_none());
        let next = b.queue.next_dequeue(now).unwrap();
        assert_eq!(next.as_nanos(), now.as_nanos() + 605_600);
        assert!(b.take(Instant::from_nanos(next.as_nanos() - 1)).is_none());
        assert!(b.take(next).is_some());
        assert!(b.take_from(&mut now).is_some());
    }
}

#[test]
fn flows_share_by_bytes_whatever_their_packets() {
    let mut b = Bench::new("cake bandwidth 20mbit interplanetary");
    let mut now = ms(1);
    for _ in 0..30 {
        b.offer(now, 1, NotEct, FRAME);
        fill(&mut b, 4, ms(1), [1, 1], 2, NotEct as u8, 300);
    }
    let all = saturated(&mut b, &mut now, ms(5_000));
    let bytes = bytes_by(&all, |t| t.flow);
    let share = bytes[&1] as f64 / (bytes[&1] + bytes[&2]) as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn the_quantum_is_a_4096th_of_the_rate_between_300_and_1514_bytes() {
    // How many packets of 50 bytes a flow sends before the other one's turn.
    let run = |words: &str| {
        let mut b = Bench::new(words);
        for flow in [1, 2] {
            fill(&mut b, 400, ms(1), [1, 1], flow, NotEct as u8, 50);
        }
        let mut now = ms(1);
        let mut order: Vec<u16> = Vec::new();
        while let Some(taken) = b.take_from(&mut now) {
            order.push(taken.flow);
        }
        // The second turn of the first flow, as old as the other one.
        let turns: Vec<usize> = order.chunk_by(|a, b| a == b).map(<[u16]>::len).collect();
        turns[2..6].iter().sum::<usize>() as f64 / 4.0 * 50.0
    };
    for (words, quantum) in [
        ("cake bandwidth 1mbit flows interplanetary", 300.0),
        ("cake bandwidth 32768kbit flows", 1_000.0),
        ("cake bandwidth 1gbit flows", 1_514.0),
        ("cake flows", 1_514.0),
    ] {
        let found = run(words);
        assert!((found - quantum).abs() <= 25.0, "{words}: {found}");
    }
}

/// Which end of the flows has the hosts to tell apart, and what is at the other one.
#[derive(Clone, Copy, Debug)]
enum Hosts {
    /// Sources; each flow has a destination of its own.
    Sources,
    /// Destinations; each flow has a source of its own.
    Destinations,
    /// Sources; all flows have one destination.
    OneDestination,
}

/// Share of a host with one flow against a host with 32.
fn share_of_the_lone_host(words: &str, ends: Hosts) -> f64 {
    let mut b = Bench::new(words);
    let mut now = ms(1);
    for flow in 0..33u8 {
        let (host, other) = (1 + u8::from(flow > 0), 100 + flow);
        let ends = match ends {
            Hosts::Sources => [host, other],
            Hosts::Destinations => [other, host],
            Hosts::OneDestination => [host, 9],
        };
        fill(&mut b, 12, ms(1), ends, flow.into(), 0, FRAME);
    }
    saturated(&mut b, &mut now, ms(1_000));
    let all = saturated(&mut b, &mut now, ms(21_000));
    let end = usize::from(matches!(ends, Hosts::Destinations));
    let bytes = bytes_by(&all, |t| t.ends[end]);
    bytes[&1] as f64 / (bytes[&1] + bytes[&2]) as f64
}

#[test]
fn a_host_with_one_flow_has_as_much_as_one_with_32() {
    use Hosts::{Destinations, OneDestination, Sources};
    let base = "cake bandwidth 20mbit interplanetary besteffort";
    for (mode, ends) in [
        ("triple-isolate", Sources),
        ("triple-isolate", Destinations),
        ("dual-srchost", Sources),
        ("dual-srchost", OneDestination),
        ("dual-dsthost", Destinations),
        ("srchost", Sources),
        ("dsthost", Destinations),
        ("hosts", OneDestination),
    ] {
        let share = share_of_the_lone_host(&format!("{base} {mode}"), ends);
        assert!((share - 0.5).abs() < 0.01, "{mode} {ends:?}: {share}");
    }
    // By flow alone a 33rd, as where the hosts of the other end are isolated; and where
    // one destination has all flows, it is the more loaded end of each.
    for (mode, ends) in [
        ("flows", Sources),
        ("dual-dsthost", Sources),
        ("dual-srchost", Destinations),
        ("triple-isolate", OneDestination),
        ("hosts", Sources),
    ] {
        let share = share_of_the_lone_host(&format!("{base} {mode}"), ends);
        assert!(
            (share - 1.0 / 33.0).abs() < 0.005,
            "{mode} {ends:?}: {share}"
        );
    }
}

#[test]
fn tins_that_all_have_enough_get_their_thresholds_or_share_by_weight() {
    let mut b = Bench::new("cake bandwidth 20mbit interplanetary");
    let mut now = ms(1);
    for (flow, class) in [(1, 0), (2, BULK), (3, VOICE)] {
        fill(&mut b, 40, ms(1), [1, 2], flow, class, FRAME);
    }
    let all = saturated(&mut b, &mut now, ms(10_000));
    let bytes = bytes_by(&all, |t| t.band);
    let total: u64 = bytes.values().sum();
    // Bulk and voice have what their thresholds promise, best effort the rest.
    for (tin, part) in [(0u8, 68.75), (1, 6.25), (2, 25.0)] {
        let share = 100.0 * bytes[&tin] as f64 / total as f64;
        assert!((share - part).abs() < 0.3, "{tin}: {share}");
    }
    // Without a shaper all by weight, 1024 : 64 : 256.
    let mut b = Bench::new("cake interplanetary");
    for (flow, class) in [(1, 0), (2, BULK), (3, VOICE)] {
        fill(&mut b, 2_000, ms(1), [1, 2], flow, class, FRAME);
    }
    let all: Vec<Taken> = (0..2_000).filter_map(|_| b.take(ms(1))).collect();
    let bytes = bytes_by(&all, |t| t.band);
    let total: u64 = bytes.values().sum();
    for (tin, part) in [(0u8, 100.0), (1, 6.25), (2, 25.0)] {
        let share = bytes[&tin] as f64 / total as f64;
        assert!((share - part / 131.25).abs() < 0.01, "{tin}: {share}");
    }
}

#[test]
fn below_its_threshold_a_tin_is_served_before_all_others() {
    // Longest wait of a packet each 10 ms behind a full tin of best effort.
    let longest = |class: u8| {
        let mut b = Bench::new("cake bandwidth 20mbit interplanetary");
        let mut now = ms(1);
        for flow in 0..50 {
            fill(&mut b, 8, ms(1), [1, 2], flow, 0, FRAME);
        }
        let mut longest = 0;
        for round in 1..100u64 {
            let from = ms(10 * round);
            fill(&mut b, 3, from, [1, 2], 99, class, FRAME);
            now = now.max(from);
            for taken in saturated_but(&mut b, &mut now, ms(10 * round + 10), 99) {
                longest = longest.max(taken);
            }
        }
        longest
    };
    // Three frames in 10 ms are 3.6 Mbit/s, below a quarter of 20: each waits for those
    // before it at 5 Mbit/s, and for the one that is being sent.
    let voice = longest(VOICE);
    assert!(voice <= 2 * 2_422_400 + 605_600, "{voice}");
    let usual = longest(0);
    assert!(usual > 20_000_000, "{usual}");
}

/// Waits in ns of the packets of `flow` until `end`; others are replaced.
fn saturated_but(b: &mut Bench, now: &mut Instant, end: Instant, flow: u16) -> Vec<u64> {
    let mut waits = Vec::new();
    while *now < end {
        let Some(taken) = b.take_from(now) else {
            continue;
        };
        if taken.flow == flow {
            waits.push(now.since(taken.held_since).as_nanos());
        } else {
            b.offer_between(*now, taken.ends, taken.flow, taken.dscp << 2, taken.length);
        }
    }
    waits
}

#[test]
fn wash_clears_the_code_point_once_it_was_looked_at_and_keeps_ecn() {
    let mut b = Bench::new("cake wash");
    b.offer_between(ms(1), [1, 2], 1, VOICE | 2, FRAME);
    let taken = b.take(ms(1)).unwrap();
    assert_eq!((taken.dscp, taken.ecn, taken.band), (0, Ect0, 2));
    let mut b = Bench::new("cake");
    b.offer_between(ms(1), [1, 2], 1, VOICE | 2, FRAME);
    let taken = b.take(ms(1)).unwrap();
    assert_eq!((taken.dscp, taken.ecn, taken.band), (46, Ect0, 2));
}

#[test]
fn beyond_the_memory_the_longest_queue_of_all_tins_loses_its_oldest() {
    let mut b = Bench::new("cake memlimit 15140");
    (0..4).for_each(|_| assert!(b.offer_between(ms(1), [1, 2], 1, VOICE, FRAME).1));
    (0..6).for_each(|_| assert!(b.offer_between(ms(1), [1, 2], 2, 0, FRAME).1));
    assert!(b.log.drops.is_empty());
    assert!(b.offer_between(ms(1), [1, 2], 3, 0, 100).1);
    let drops: Vec<_> = b.log.drops.iter().map(|d| (d.1, d.2)).collect();
    assert_eq!(drops, [(4, DropCause::Overflow)]);
    let mut b = Bench::new("cake memlimit 15140");
    fill(&mut b, 6, ms(1), [1, 2], 1, VOICE, FRAME);
    fill(&mut b, 4, ms(1), [1, 2], 2, 0, FRAME);
    b.offer_between(ms(1), [1, 2], 3, 0, 100);
    assert_eq!(b.log.drops[0].1, 0);
    // A newcomer that is the longest by itself is not taken.
    let mut b = Bench::new("cake memlimit 1kb");
    assert!(b.offer(ms(1), 1, NotEct, 100).1);
    assert!(!b.offer(ms(1), 2, NotEct, FRAME).1);
}

#[test]
fn the_usual_memory_is_four_products_of_rate_and_round_trip() {
    // What is taken of packets of one flow that come at once.
    let taken = |words: &str, count| {
        let mut b = Bench::new(words);
        fill(&mut b, count, ms(1), [1, 1], 1, NotEct as u8, FRAME);
        u64::from(b.queue.backlog().packets)
    };
    // 12.5 MB/s × 100 ms × 4 = 5 MB; at 20 Mbit/s the least, 4 MiB.
    assert_eq!(taken("cake bandwidth 100mbit", 4_000), 5_000_000 / 1_514);
    assert_eq!(taken("cake bandwidth 20mbit", 4_000), (4 << 20) / 1_514);
    // Without a shaper, and at most, 10240 frames.
    assert_eq!(taken("cake", 10_300), 10_240);
    assert_eq!(taken("cake bandwidth 10gbit", 10_300), 10_240);
}

#[test]
fn what_is_dropped_of_arriving_traffic_has_used_the_link() {
    // Ten packets overflow a limit of two: the next waits for them, or for two thirds of
    // the rate.
    let next = |words: &str| {
        let mut b = Bench::new(words);
        fill(&mut b, 12, ms(1), [1, 1], 1, NotEct as u8, FRAME);
        assert_eq!(b.log.drops.len(), 10);
        b.queue.next_dequeue(ms(1)).unwrap().as_nanos() - 1_000_000
    };
    let words = "cake bandwidth 20mbit memlimit 3028";
    assert_eq!(next(words), 0);
    assert_eq!(next(&format!("{words} ingress")), 0);
    // The failsafe lets one through at once, and the following after 1.5 packets' time.
    let mut b = Bench::new(&format!("{words} ingress"));
    fill(&mut b, 12, ms(1), [1, 1], 1, NotEct as u8, FRAME);
    assert!(b.take(ms(1)).is_some());
    let at = b.queue.next_dequeue(ms(1)).unwrap();
    assert_eq!(at.as_nanos() - 1_000_000, 908_400);
}

#[test]
fn signals_are_only_above_one_and_a_half_frames() {
    // A frame takes 12.1 ms at 1 Mbit/s: a standing queue of 17 ms is signalled nothing,
    // for it is less than four frames; one of 60 ms is.
    let marks = |frames: u64| {
        let mut b = Bench::new("cake bandwidth 1mbit besteffort flowblind");
        let mut now = ms(1);
        fill(&mut b, frames, ms(1), [1, 1], 1, Ect0 as u8, FRAME);
        for _ in 0..400 {
            b.take_from(&mut now).unwrap();
            b.offer(now, 1, Ect0, FRAME);
        }
        b.log.marks.len()
    };
    assert_eq!(marks(3), 0);
    assert!(marks(6) > 10);
}

#[test]
fn the_last_packet_of_a_queue_is_not_dropped() {
    let mut b = Bench::new("cake datacentre");
    for i in 0..500u64 {
        b.offer(ms(10 * i), 1, NotEct, FRAME);
        assert!(b.take(ms(10 * i + 9)).is_some());
    }
    assert!(b.log.drops.is_empty());
}

#[test]
fn a_change_of_tins_drops_what_waits_in_those_that_go() {
    let mut b = Bench::new("cake diffserv4");
    for class in [0, BULK, VOICE, VOICE] {
        b.offer_between(ms(1), [1, 2], 1, class, FRAME);
    }
    b.queue
        .change(ms(1), "besteffort bandwidth 20mbit")
        .unwrap();
    let mut now = ms(1);
    assert_eq!(b.take_from(&mut now).unwrap().id, 0);
    assert!(b.take_from(&mut now).is_none());
    assert_eq!(b.log.drops.len(), 3);
    b.queue.change(ms(1), "diffserv3").unwrap();
    b.offer_between(ms(2), [1, 2], 1, VOICE, FRAME);
    assert_eq!(b.take_from(&mut now).unwrap().band, 2);
}

#[test]
fn lateness_is_made_up_while_anything_waits() {
    let mut b = Bench::new("cake bandwidth 20mbit");
    fill(&mut b, 3, ms(1), [1, 2], 1, 0, FRAME);
    assert!(b.take(ms(1)).is_some());
    // Nothing was taken for 9 ms; a packet in another tin changes nothing of that.
    b.offer_between(ms(10), [1, 2], 2, VOICE, FRAME);
    (0..3).for_each(|_| assert!(b.take(ms(10)).is_some()));
}

#[test]
fn a_tin_that_was_idle_has_saved_nothing_up() {
    let mut b = Bench::new("cake bandwidth 20mbit interplanetary");
    let mut now = ms(1_000);
    fill(&mut b, 40, now, [1, 2], 1, 0, FRAME);
    fill(&mut b, 40, now, [1, 2], 2, VOICE, FRAME);
    let taken: Vec<Taken> = (0..20).filter_map(|_| b.take_from(&mut now)).collect();
    let voice = taken.iter().filter(|t| t.band == 2).count();
    assert!(
        (4..=6).contains(&voice),
        "{voice} of 20, a quarter expected"
    );
}

#[test]
fn what_does_not_respond_is_dropped_by_blue_whether_it_can_be_marked_or_not() {
    let mut b = Bench::new("cake bandwidth 10mbit memlimit 100kb");
    let mut now = ms(1);
    for i in 0..4_000u64 {
        // Two frames a millisecond, 24 Mbit/s.
        fill(&mut b, 2, ms(1 + i), [1, 2], 1, Ect0 as u8, FRAME);
        while b.queue.next_dequeue(now).is_some_and(|at| at <= ms(1 + i)) {
            b.take_from(&mut now);
        }
        now = now.max(ms(1 + i));
    }
    let blue = b.log.drops.iter().filter(|d| d.2 == DropCause::Overload);
    assert!(blue.count() > 200);
    assert!(b.log.drops.iter().all(|d| d.2 != DropCause::Probability));
}

#[test]
fn on_arriving_traffic_a_flow_pays_for_what_is_dropped_of_it() {
    // Bytes of a flow that is dropped over those of one that is marked, both above their share.
    let paid = |words: &str| {
        let mut b = Bench::new(words);
        let mut flows = BTreeMap::new();
        let (mut now, mut sent) = (ms(1), [0u64; 3]);
        for i in 0..3_000u64 {
            for (flow, ecn) in [(1u16, NotEct), (2, Ect0)] {
                flows.insert(b.offer(ms(1 + i), flow, ecn, FRAME).0, flow);
            }
            while b.queue.next_dequeue(now).is_some_and(|at| at <= ms(1 + i)) {
                if let Some(taken) = b.take_from(&mut now) {
                    sent[usize::from(taken.flow)] += 1;
                }
            }
            now = now.max(ms(1 + i));
        }
        let lost = b.log.drops.iter().filter(|d| flows[&d.1] == 1).count() as u64;
        assert!(lost * 10 > sent[1], "{lost} lost of {}", sent[1]);
        (sent[1] + lost) as f64 / sent[2] as f64
    };
    let words = "cake bandwidth 20mbit datacentre flows";
    let ingress = paid(&format!("{words} ingress"));
    assert!((ingress - 1.0).abs() < 0.03, "{ingress}");
    let egress = paid(words);
    assert!(egress > 1.1, "{egress}");
}

#[test]
fn there_are_as_many_tins_as_the_mode_has() {
    for (words, tins) in [
        ("besteffort", 1),
        ("diffserv3", 3),
        ("diffserv4", 4),
        ("precedence", 8),
        ("diffserv8", 8),
    ] {
        let config = reading::fresh(Words::new(words)).unwrap();
        let cake = Cake::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        assert_eq!(cake.tins.len(), tins, "{words}");
    }
}

#[test]
fn a_lower_memory_limit_drops_the_oldest_beyond_it_and_no_more() {
    // Room for three frames, and for one byte less.
    for (limit, first) in [(4_542, 7), (4_541, 8)] {
        let mut b = Bench::new("cake besteffort");
        fill(&mut b, 10, ms(1), [1, 1], 1, NotEct as u8, FRAME);
        b.queue.change(ms(1), &format!("memlimit {limit}")).unwrap();
        assert_eq!(b.take(ms(1)).unwrap().id, first, "{limit}");
        let drops: Vec<_> = b.log.drops.iter().map(|d| d.1).collect();
        assert!(drops.into_iter().eq(0..first), "{limit}");
    }
}

#[test]
fn asked_while_nothing_waits_the_queue_leaves_its_flows_where_they_are() {
    // As in `cake_dequeue`, which returns at once without packets: flow 1 has spent its quantum
    // and stays in its place, so that it is no new flow when it comes back.
    let mut b = Bench::new("cake besteffort flows");
    b.offer(ms(1), 1, NotEct, FRAME);
    assert!(b.take(ms(1)).is_some() && b.take(ms(1)).is_none());
    for flow in [1, 2] {
        b.offer(ms(1), flow, NotEct, FRAME);
    }
    let flows = [(); 2].map(|()| b.take(ms(1)).unwrap().flow);
    assert_eq!(flows, [2, 1]);
}
