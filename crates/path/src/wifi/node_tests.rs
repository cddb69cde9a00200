//! The access point against arithmetic, the link element and plausible wrong rules.

use narrows_core::{Change, DropCause, EntityId, Event, EventSink};
use narrows_units::{Duration, Instant};
use proptest::prelude::*;

use super::phy::{AIFS, Phy, SIFS, SLOT, block_ack, subframe};
use crate::ElementSpec;
use crate::kind::Reports;
use crate::testing::{Bench, Seen, ms};

/// 144.4 Mbit/s at MCS 7 and, with one stream, 7.2 at MCS 0: short guard intervals at 20 MHz.
const FAST: &str = "mcs 7 streams 2";
const SLOW: &str = "mcs 0";
const AP: &str = "wifi ap width 20 short-gi airtime 4ms";

fn phy(streams: u32) -> Phy {
    Phy {
        width: 20,
        streams,
        short: true,
    }
}

/// How long `packets` of 1500 bytes are on the air for a station of these words.
fn airtime(own: &str, packets: u32) -> Duration {
    let (phy, mcs) = match own {
        FAST => (phy(2), 7),
        SLOW => (phy(1), 0),
        "mcs 7" => (phy(1), 7),
        _ => panic!("{own} has no airtime here"),
    };
    phy.ppdu(phy.bits(mcs).unwrap(), packets * subframe(1500))
}

/// What left in one aggregate: when, by which port, and how many packets.
fn aggregates(bench: &Bench) -> Vec<(Instant, u8, u32)> {
    let mut all: Vec<(Instant, u8, u32)> = Vec::new();
    for ((_, at, _), port) in bench.left.iter().zip(&bench.by) {
        match all.last_mut() {
            Some((last, to, count)) if (*last, *to) == (*at, *port) => *count += 1,
            _ => all.push((*at, *port, 1)),
        }
    }
    all
}

/// Offers packets of 1500 bytes in turn so that each of `ports` has so many from `from` to `end` ms.
fn keep_full(bench: &mut Bench, ports: &[u8], waiting: u64, (from, end): (u64, u64)) {
    for now in from..end {
        bench.run_until(ms(now));
        let mut missing: Vec<u64> = ports
            .iter()
            .map(|port| {
                let sent = bench.element.port_counters(*port);
                waiting.saturating_sub(sent.packets_in - sent.packets_out - sent.dropped)
            })
            .collect();
        while missing.iter().any(|n| *n > 0) {
            for (port, n) in ports.iter().zip(&mut missing) {
                if *n > 0 {
                    *n -= 1;
                    bench.offer_to(ms(now), *port, 1500, 0);
                }
            }
        }
    }
    bench.run_until(ms(end));
}

/// Airtime of each station from `from` to `to` ms, in ms.
fn shares(bench: &Bench, own: &[&str], (from, to): (u64, u64)) -> Vec<f64> {
    let mut sums = vec![0.0; own.len()];
    for (at, port, count) in aggregates(bench) {
        if (ms(from)..ms(to)).contains(&at) {
            let port = usize::from(port);
            sums[port] += airtime(own[port], count).as_nanos() as f64 / 1e6;
        }
    }
    sums
}

/// Packets that each station has received.
fn received(bench: &Bench, ports: usize) -> Vec<u64> {
    let port = |port| bench.element.port_counters(port as u8).packets_out;
    (0..ports).map(port).collect()
}

#[test]
fn a_station_alone_has_each_packet_when_the_link_element_has_it() {
    for own in [
        "mcs 9",
        "mcs 3 width 40 streams 2 error 20%",
        "mcs 0 stations 2 theirs 1ms",
    ] {
        for rule in ["airtime", "fifo"] {
            let ap = format!("wifi ap {own} scheduler {rule} queue pfifo limit 100");
            let mut ap = Bench::node(&ap, &[""]);
            let mut link = Bench::named(&format!("wifi {own} queue pfifo limit 100"), "port 0");
            for i in 0..2_000 {
                let burst = i % 70 * i % 3;
                for bench in [&mut ap, &mut link] {
                    (0..burst).for_each(|n| {
                        bench.offer(ms(3 * i), 100 + 20 * n as u32, 0);
                    });
                }
            }
            for bench in [&mut ap, &mut link] {
                bench.run_until(Instant::MAX);
                bench.check_conservation();
            }
            assert_eq!(ap.left, link.left, "{own} {rule}");
            assert_eq!(ap.element.counters(), link.element.counters());
        }
    }
}

#[test]
fn stations_of_unequal_rates_have_equal_airtime() {
    for quantum in ["100us", "300us", "4ms"] {
        for ports in [vec![FAST, FAST, SLOW], vec![SLOW, FAST, "mcs 7", SLOW]] {
            let all: Vec<u8> = (0..ports.len() as u8).collect();
            let mut bench = Bench::node(&format!("{AP} quantum {quantum}"), &ports);
            keep_full(&mut bench, &all, 80, (0, 3_000));
            let found = shares(&bench, &ports, (500, 3_000));
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            // An aggregate of 4 ms more or less, of some 800 ms.
            let even = found.iter().all(|one| (one / mean - 1.0).abs() < 0.01);
            assert!(even, "{quantum} {ports:?}: {found:?}");
            assert!(
                found.iter().sum::<f64>() > 2_100.0,
                "the medium is busy: {found:?}"
            );
        }
    }
}

#[test]
fn in_order_of_arrival_the_slow_station_has_nearly_all_airtime_and_nobody_more_packets() {
    let ports = [FAST, FAST, SLOW];
    let ap = format!("{AP} scheduler fifo queue pfifo limit 10000");
    let mut bench = Bench::node(&ap, &ports);
    for _ in 0..2_000 {
        (0..3).for_each(|port| {
            bench.offer_to(ms(0), port, 1500, 0);
        });
    }
    bench.run_until(ms(4_000));
    let packets = received(&bench, 3);
    assert!(packets[0] - packets[2] <= 1, "{packets:?}");
    // Packets of the three come in turn, so that each goes alone.
    let each = |own: &str, mcs| {
        let access = AIFS.as_nanos() + SLOT.as_nanos() * 15 / 2;
        access + (airtime(own, 1) + SIFS + block_ack(mcs)).as_nanos()
    };
    let round = 2 * each(FAST, 7) + each(SLOW, 0);
    let expected = 4e9 / round as f64;
    assert!(
        (packets[2] as f64 / expected - 1.0).abs() < 0.01,
        "{packets:?} {expected}"
    );
    let airtimes = shares(&bench, &ports, (0, 4_000));
    assert!(
        airtimes[2] > 0.85 * airtimes.iter().sum::<f64>(),
        "{airtimes:?}"
    );
    // By airtime the fast ones have as much as if they were three of their kind.
    let mut fair = Bench::node(AP, &ports);
    keep_full(&mut fair, &[0, 1, 2], 80, (0, 4_000));
    assert!(received(&fair, 3)[0] > 6 * packets[0]);
}

#[test]
fn packets_leave_one_queue_in_its_order_and_those_of_one_station_together() {
    let mut bench = Bench::node(&format!("{AP} scheduler fifo"), &[FAST, FAST, SLOW]);
    for port in [0, 0, 0, 1, 1, 2, 0, 1, 1] {
        bench.offer_to(ms(1), port, 1500, 0);
    }
    bench.run_until(Instant::MAX);
    let found: Vec<_> = aggregates(&bench)
        .iter()
        .map(|(_, p, n)| (*p, *n))
        .collect();
    assert_eq!(found, [(0, 3), (1, 2), (2, 1), (0, 1), (1, 2)]);
    let order: Vec<_> = bench.left.iter().map(|(number, ..)| *number).collect();
    assert!(order.is_sorted());
    // 4 ms hold two packets of the slow one.
    for _ in 0..5 {
        bench.offer_to(ms(100), 2, 1500, 0);
    }
    bench.run_until(Instant::MAX);
    let found: Vec<_> = aggregates(&bench)[5..]
        .iter()
        .map(|(_, p, n)| (*p, *n))
        .collect();
    assert_eq!(found, [(2, 2), (2, 2), (2, 1)]);
}

#[test]
fn in_order_of_arrival_a_station_that_receives_nothing_holds_up_all() {
    let lossy = format!("{FAST} error 99.9%");
    for (rule, waits) in [("fifo", true), ("airtime", false)] {
        let mut bench = Bench::node(&format!("{AP} scheduler {rule}"), &[&lossy, FAST]);
        bench.offer_to(ms(1), 0, 1500, 0);
        bench.offer_to(ms(1), 1, 1500, 0);
        bench.run_until(Instant::MAX);
        let (_, at, _) = *bench.left.last().unwrap();
        // Eight times with windows that double, or one backoff.
        assert_eq!(at > ms(4), waits, "{rule}: {at}");
        let lost = Seen::Dropped(DropCause::Loss);
        assert_eq!(
            bench
                .record
                .0
                .iter()
                .filter(|(_, seen)| *seen == lost)
                .count(),
            1
        );
    }
}

#[test]
fn an_idle_station_takes_nothing_and_saves_nothing() {
    let ports = [FAST, SLOW, FAST];
    let mut bench = Bench::node(AP, &ports);
    keep_full(&mut bench, &[0], 80, (0, 2_000));
    let alone = shares(&bench, &ports, (1_000, 2_000))[0];
    let mut single = Bench::node(AP, &ports[..1]);
    keep_full(&mut single, &[0], 80, (0, 2_000));
    let reference = shares(&single, &ports[..1], (1_000, 2_000))[0];
    assert!(
        (alone / reference - 1.0).abs() < 0.01,
        "{alone} {reference}"
    );
    // Two seconds of silence buy no airtime: each window has equal parts again, but for one
    // aggregate of 4 ms.
    keep_full(&mut bench, &[0, 1, 2], 80, (2_000, 2_300));
    for to in [2_020, 2_050, 2_100, 2_300] {
        let found = shares(&bench, &ports, (2_000, to));
        let mean = found.iter().sum::<f64>() / 3.0;
        assert!(
            found.iter().all(|one| (one - mean).abs() < 6.0),
            "to {to}: {found:?}"
        );
    }
}

#[test]
fn a_station_that_had_more_than_its_part_does_not_lose_what_it_owes_by_a_pause() {
    // Two packets of the slow station take 3.5 ms; it has them every 10 ms, and waits in between. The
    // fast one has the time until both had as much.
    let ports = [FAST, SLOW];
    let mut bench = Bench::node(AP, &ports);
    for turn in 0..300 {
        keep_full(&mut bench, &[0], 200, (4 * turn, 4 * turn + 4));
        for _ in 0..2 {
            bench.offer_to(ms(4 * turn + 4), 1, 1500, 0);
        }
    }
    let found = shares(&bench, &ports, (200, 1_200));
    assert!((found[1] / found[0] - 1.0).abs() < 0.03, "{found:?}");
}

#[test]
fn what_was_owed_while_nobody_else_wanted_the_medium_is_forgotten() {
    let ports = [FAST, SLOW];
    let mut bench = Bench::node(AP, &ports);
    for _ in 0..200 {
        bench.offer_to(ms(0), 1, 1500, 0);
    }
    bench.run_until(ms(1_000));
    assert_eq!(bench.left.len(), 200);
    // Both have something at once; the slow one came first.
    for port in [1, 0] {
        bench.offer_to(ms(1_000), port, 1500, 0);
    }
    bench.run_until(Instant::MAX);
    assert_eq!(bench.by[200..], [1, 0]);
}

#[test]
fn a_packet_for_a_station_that_had_nothing_goes_next() {
    let ports = [FAST, SLOW, FAST];
    let mut bench = Bench::node(AP, &ports);
    for i in 0..100 {
        let from = 20 * i;
        keep_full(&mut bench, &[0, 1], 80, (from, from + 20));
        bench.offer_to(ms(from + 20), 2, 200, 0);
    }
    bench.run_until(ms(2_100));
    let all = bench.left.iter().zip(&bench.by);
    let sparse = all.filter(|(_, by)| **by == 2).map(|((_, at, _), _)| *at);
    for (i, at) in sparse.enumerate() {
        let wait = at.since(ms(20 * (i as u64 + 1)));
        // The rest of one aggregate of at most 4 ms.
        assert!(wait < Duration::from_micros(4_600), "{i}: {wait:?}");
    }
}

#[test]
fn a_change_of_an_mcs_changes_the_rate_of_that_station_alone() {
    let mut bench = Bench::node(AP, &["mcs 7", "mcs 7"]);
    keep_full(&mut bench, &[0, 1], 200, (0, 1_000));
    let before = received(&bench, 2);
    bench.change_of(ms(1_000), 1, "wifi mcs 0");
    keep_full(&mut bench, &[0, 1], 200, (1_000, 2_000));
    let found = received(&bench, 2);
    let after: Vec<_> = found
        .iter()
        .zip(&before)
        .map(|(b, a)| (b - a) as f64)
        .collect();
    assert!(
        (after[0] / before[0] as f64 - 1.0).abs() < 0.05,
        "{before:?} {after:?}"
    );
    // 65 and 6.5 Mbit/s; short aggregates cost the slow one more.
    assert!(after[1] < 0.13 * before[1] as f64, "{before:?} {after:?}");
    bench.change_of(ms(2_000), 0, "wifi ap mcs 1 queue limit 3");
    bench.change_of(ms(2_000), 0, "wifi mcs 2");
    let change = |words: &str| Change {
        words: words.to_owned(),
        port: 1,
    };
    for wrong in [
        "wifi mcs 9",
        "wifi mcs 99",
        "wifi ap",
        "wifi width 40",
        "wifi queue nosuch",
    ] {
        let refused = bench.element.change(ms(2_000), &change(wrong));
        assert!(refused.is_err(), "{wrong}");
    }
}

#[test]
fn a_port_without_an_mcs_is_a_wire() {
    for rule in ["airtime", "fifo"] {
        let mut bench = Bench::node(&format!("{AP} scheduler {rule}"), &["", FAST]);
        for _ in 0..100 {
            bench.offer_to(ms(1), 0, 1500, 0);
        }
        bench.offer_to(ms(1), 1, 500, 0);
        assert_eq!(bench.by, [0; 100]);
        bench.run_until(Instant::MAX);
        assert!(bench.left[100].1 < ms(2));
        bench.check_conservation();
        let words = "wifi mcs 7".to_owned();
        let refused = bench.element.change(ms(9), &Change { words, port: 0 });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("a change of a wire"), "{refused}");
    }
    let wire = ElementSpec::parse(AP).unwrap();
    assert!(wire.facts().link.is_none() && wire.facts().node);
    assert!(!wire.facts().holds_back && wire.facts().reports == Reports::Packets);
    assert_eq!(wire.base_delay(0, 1500), Duration::ZERO);
    let station = wire.overlaid("wifi mcs 7").unwrap();
    assert!(station.facts().holds_back && station.facts().reports == Reports::Queue);
    let link = ElementSpec::parse(&format!("{} mcs 7", AP.replace(" ap", ""))).unwrap();
    assert_eq!(station.base_delay(0, 1500), link.base_delay(0, 1500));
    assert!(link.base_delay(0, 1500) > Duration::ZERO);
}

#[test]
fn drops_of_the_one_queue_are_those_of_the_station_whose_packet_it_was() {
    let ap = format!("{AP} scheduler fifo queue pfifo limit 10");
    let mut bench = Bench::node(&ap, &[FAST, SLOW]);
    for _ in 0..10 {
        bench.offer_to(ms(1), 0, 1500, 0);
    }
    for _ in 0..7 {
        bench.offer_to(ms(1), 1, 1000, 0);
    }
    bench.run_until(Instant::MAX);
    let counters = [0, 1].map(|port| bench.element.port_counters(port));
    assert_eq!((counters[0].packets_out, counters[0].dropped), (10, 0));
    assert_eq!((counters[1].packets_in, counters[1].bytes_in), (7, 7_000));
    assert_eq!((counters[1].packets_out, counters[1].dropped), (0, 7));
}

#[test]
fn marks_of_the_one_queue_are_those_of_the_station_and_all_wait_behind_the_same_backlog() {
    let ap = format!("{AP} scheduler fifo queue codel ce_threshold 1us");
    let mut bench = Bench::node(&ap, &[FAST, SLOW]);
    let marked = |bench: &Bench| [0, 1].map(|port| bench.element.port_counters(port).marked);
    let offer = |bench: &mut Bench, at| {
        // ECT(1), and packets that may not be marked.
        for _ in 0..4 {
            bench.offer_to(at, 0, 1500, 1);
        }
        for _ in 0..3 {
            bench.offer_to(at, 1, 1000, 0);
        }
    };
    offer(&mut bench, ms(1));
    let mut waits = Waits::default();
    bench.element.sample(ms(1), &mut waits);
    let all = 4 * 1500 + 3 * 1000;
    assert_eq!(waits.0, [(EntityId(0), 7, all), (EntityId(1), 7, all)]);
    bench.run_until(ms(99));
    assert_eq!(marked(&bench), [4, 0]);
    // The queue of one station is that of all.
    bench.change_of(ms(100), 1, "wifi ap queue codel ce_threshold 1s");
    offer(&mut bench, ms(101));
    bench.run_until(Instant::MAX);
    assert_eq!(marked(&bench), [4, 0]);
    bench.check_conservation();
}

/// Samples of queues: whose they are, and packets and bytes that wait.
#[derive(Default)]
struct Waits(Vec<(EntityId, u32, u64)>);

impl EventSink for Waits {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::QueueSampled {
            queue,
            backlog_packets,
            backlog_bytes,
            ..
        } = event
        {
            self.0.push((queue, backlog_packets, backlog_bytes));
        }
    }
}

#[test]
fn a_queue_that_shapes_by_itself_holds_up_no_other_station() {
    let shaped = format!("{FAST} queue cake bandwidth 8mbit raw");
    let mut bench = Bench::node(AP, &[&shaped, FAST]);
    for port in [0, 0, 0, 0, 0, 1] {
        bench.offer_to(ms(1), port, 1000, 0);
    }
    bench.run_until(ms(1_000));
    assert_eq!(bench.left.len(), 6);
    let all = bench.left.iter().zip(&bench.by);
    let last = |port| {
        all.clone()
            .filter(|(_, by)| **by == port)
            .map(|((_, at, _), _)| *at)
            .max()
    };
    assert!(last(1).unwrap() < ms(2), "{:?}", last(1));
    let shaped = last(0).unwrap();
    assert!(shaped > ms(5) && shaped < ms(7), "{shaped}");
}

#[test]
fn as_many_stations_as_there_are_ports_take_turns() {
    let ports = vec!["mcs 7"; 256];
    let mut bench = Bench::node(AP, &ports);
    for _ in 0..20 {
        for port in 0..=255 {
            bench.offer_to(ms(0), port, 1500, 0);
        }
    }
    bench.run_until(ms(1_000));
    let found = received(&bench, 256);
    assert!(found.iter().all(|n| (10..=20).contains(n)), "{found:?}");
}

#[test]
fn lines_are_written_as_they_are_read_and_mistakes_are_named() {
    for line in [
        "wifi ap queue pfifo limit 1000",
        "wifi ap mcs 7 width 20 streams 2 short-gi frames 32 bytes 65535 airtime 4ms error 10% \
         stations 2 theirs 1ms scheduler fifo quantum 1ms queue codel",
        "wifi ap mcs trace walk.csv queue fq_codel",
    ] {
        let spec = ElementSpec::parse(line).unwrap();
        let again = ElementSpec::parse(&spec.to_string()).unwrap();
        assert_eq!(again, spec, "{line}");
        assert!(spec.facts().node, "{line}");
    }
    for (words, at) in [
        ("wifi ap mcs 10", "10"),
        ("wifi ap mcs 99", "99"),
        ("wifi ap mcs 9 width 20", "mcs"),
        ("wifi ap mcs trace walk.txt", "walk.txt"),
        ("wifi ap scheduler fair", "fair"),
        ("wifi ap scheduler", ""),
        ("wifi ap quantum 0s", "0s"),
        ("wifi ap slots 3", "slots"),
        ("wifi ap queue nosuch", "nosuch"),
        ("wifi mcs 7 scheduler fifo", "scheduler"),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
    let ap = ElementSpec::parse("wifi ap mcs 7 scheduler fifo").unwrap();
    for (same, another) in [
        ("scheduler fifo", "scheduler airtime"),
        ("quantum 300us", "quantum 1ms"),
        ("frames 64", "frames 32"),
        ("bytes 1048575", "bytes 65535"),
        ("airtime 5484us", "airtime 4ms"),
        ("stations 0", "stations 1"),
        ("theirs 2ms", "theirs 1ms"),
        ("queue pfifo limit 1000", "queue codel"),
    ] {
        let over = ap.overlaid(&format!("wifi {same}")).unwrap();
        assert_eq!(over, ap, "{same}");
        let error = ap.overlaid(&format!("wifi {another}")).unwrap_err();
        assert!(
            error.to_string().contains("as `is` says for all stations"),
            "{error}"
        );
    }
    let ap = ElementSpec::parse("wifi ap width 20 queue codel").unwrap();
    for no_mcs in ["wifi", "wifi streams 2"] {
        let error = ap.overlaid(no_mcs).unwrap_err();
        assert_eq!(error.span.start, no_mcs.len(), "{error}");
    }
    let station = "wifi mcs 7 streams 2 error 1% queue fq_codel";
    let station = ap.overlaid(station).unwrap();
    assert!(
        station
            .to_string()
            .starts_with("wifi ap mcs 7 width 20 streams 2 error 1% queue fq")
    );
    assert_eq!(ap.overlaid("wifi ap mcs 3"), ap.overlaid("wifi mcs 3"));
    // A link in its place, and an access point in that of a link.
    assert_eq!(ap.overlaid("rate 1Mbit").unwrap().kind(), "rate");
    let link = ElementSpec::parse("wifi mcs 3").unwrap();
    assert!(link.overlaid("wifi ap").unwrap().facts().node);
}

proptest! {
    #[test]
    fn packets_are_conserved_kept_in_order_and_runs_repeat(
        offers in proptest::collection::vec((0u64..1_000_000, 0u8..4, 40u32..1500), 1..300),
        queue in prop::sample::select(vec!["pfifo limit 5", "codel", "fq_codel flows 4"]),
        rule in prop::sample::select(vec!["fifo", "airtime"]),
        error in prop::sample::select(vec!["0%", "20%"]),
    ) {
        let run = || {
            let words = format!("{AP} scheduler {rule} error {error} queue {queue}");
            let mut bench = Bench::node(&words, &["", SLOW, FAST, "mcs 4 width 40"]);
            let mut now = Instant::ZERO;
            for (gap, port, len) in &offers {
                now = Instant::from_nanos(now.as_nanos() + gap);
                bench.offer_to(now, *port, *len, 0);
                bench.check_conservation();
            }
            bench.run_until(Instant::MAX);
            bench.check_conservation();
            assert_eq!(bench.pool.outstanding(), 0);
            let ports = (0..4).map(|port| bench.element.port_counters(port));
            assert_eq!(ports.sum::<narrows_core::ElementCounters>(), bench.element.counters());
            for port in 0..4 {
                let of = bench.left.iter().zip(&bench.by).filter(|(_, by)| **by == port);
                let numbers: Vec<_> = of.map(|((number, ..), _)| *number).collect();
                assert!(numbers.is_sorted(), "{numbers:?}");
            }
            (bench.left, bench.by)
        };
        prop_assert_eq!(run(), run());
    }
}
