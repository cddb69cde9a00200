//! netem's rules against naive oracles.

use narrows_core::DropCause;
use narrows_units::{Duration, Instant};

use crate::ElementSpec;
use crate::testing::{Bench, Seen, ms};

/// Which of `n` packets, one each millisecond, were lost.
fn losses(words: &str, n: u64) -> Vec<bool> {
    let mut bench = Bench::new(words);
    let mut lost = vec![true; n as usize];
    for i in 0..n {
        bench.offer(ms(i), 100, 0);
    }
    bench.run_until(Instant::MAX);
    bench.check_conservation();
    for (i, _, _) in &bench.left {
        lost[*i as usize] = false;
    }
    lost
}

fn share(of: &[bool]) -> f64 {
    of.iter().filter(|x| **x).count() as f64 / of.len() as f64
}

/// Mean length of the runs of `true`.
fn mean_run(of: &[bool]) -> f64 {
    let starts = (0..of.len()).filter(|i| of[*i] && (*i == 0 || !of[*i - 1]));
    share(of) * of.len() as f64 / starts.count() as f64
}

#[test]
fn a_constant_delay_is_exact_and_keeps_order() {
    let mut bench = Bench::new("netem delay 10ms");
    for i in 0..100 {
        bench.offer(Instant::from_nanos(i * 12_345), 1500, 0);
    }
    bench.run_until(Instant::MAX);
    for (i, (number, at, _)) in bench.left.iter().enumerate() {
        assert_eq!(*number, i as u64);
        assert_eq!(at.as_nanos(), i as u64 * 12_345 + 10_000_000);
    }
    assert_eq!(bench.left.len(), 100);
}

#[test]
fn without_a_delay_packets_pass_at_once() {
    let mut bench = Bench::new("netem loss none");
    bench.offer(ms(3), 1500, 0);
    assert_eq!(bench.left, [(0, ms(3), 0)]);
}

#[test]
fn random_loss_loses_its_share() {
    // 5 standard errors of a binomial share over 100 000 packets.
    let lost = losses("netem loss random 2%", 100_000);
    assert!((share(&lost) - 0.02).abs() < 5.0 * (0.02f64 * 0.98 / 1e5).sqrt());
    assert_eq!(losses("netem loss 2%", 10_000), lost[..10_000]);
}

#[test]
fn gilbert_elliott_has_its_share_and_its_burst_length() {
    // Stationary share p/(p+r) = 1/21; bursts of mean length 1/r = 5.
    let lost = losses("netem loss gemodel 1% 20%", 200_000);
    assert!(
        (share(&lost) - 1.0 / 21.0).abs() < 0.004,
        "{}",
        share(&lost)
    );
    assert!((mean_run(&lost) - 5.0).abs() < 0.35, "{}", mean_run(&lost));
}

#[test]
fn gilbert_elliott_loses_within_each_state_at_its_rate() {
    // Half of the time in each state: 0.5·80 % + 0.5·10 %.
    let lost = losses("netem loss gemodel 10% 10% 80% 10%", 200_000);
    assert!((share(&lost) - 0.45).abs() < 0.015, "{}", share(&lost));
}

#[test]
fn the_four_state_model_has_its_stationary_share() {
    // With p14 = 0, p32 = 0: a chain of states 1 and 3 only.
    let lost = losses("netem loss state 2% 50%", 200_000);
    assert!((share(&lost) - 0.02 / 0.52).abs() < 0.004);
    assert!((mean_run(&lost) - 2.0).abs() < 0.1);
    // Lone losses only: a share of p14/(1 + p14), each of length 1.
    let lost = losses("netem loss state 0% 0% 0% 0% 10%", 100_000);
    assert!((share(&lost) - 0.1 / 1.1).abs() < 0.006);
    assert!((mean_run(&lost) - 1.0).abs() < 1e-9);
}

#[test]
fn with_ecn_a_loss_becomes_a_mark() {
    let mut bench = Bench::new("netem loss 100% ecn");
    for class in [0, 1, 2, 3] {
        bench.offer(ms(0), 100, class);
    }
    let classes: Vec<u8> = bench.left.iter().map(|(_, _, class)| *class).collect();
    assert_eq!(classes, [3, 3, 3]);
    assert_eq!(bench.element.counters().marked, 2);
    assert_eq!(bench.element.counters().dropped, 1);
    bench.check_conservation();
}

#[test]
fn jitter_spreads_delays_by_its_law_and_reorders() {
    for (law, mean, sigma) in [
        ("uniform", 0.0, 1.0 / 3f64.sqrt()),
        ("normal", 0.0, 1.0),
        // Moments of the cut table, by numeric integration of its quantiles.
        ("pareto", -0.033, 0.821),
        ("paretonormal", -0.025, 0.835),
    ] {
        let mut bench = Bench::new(&format!("netem delay 50ms 4ms distribution {law}"));
        for i in 0..50_000 {
            bench.offer(ms(i), 100, 0);
        }
        bench.run_until(Instant::MAX);
        let shifts: Vec<f64> = bench
            .left
            .iter()
            .map(|(i, at, _)| (at.as_nanos() as f64 / 1e6 - *i as f64 - 50.0) / 4.0)
            .collect();
        let n = shifts.len() as f64;
        let m = shifts.iter().sum::<f64>() / n;
        let s = (shifts.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n).sqrt();
        assert!((m - mean).abs() < 0.02, "{law}: mean {m}");
        assert!((s - sigma).abs() < 0.02, "{law}: sigma {s}");
        assert!(bench.left.windows(2).all(|w| w[0].1 <= w[1].1));
        assert!(bench.left.windows(2).any(|w| w[0].0 > w[1].0), "{law}");
    }
}

#[test]
fn every_gapth_packet_goes_ahead_at_once() {
    let mut bench = Bench::new("netem delay 10ms reorder 100% gap 5");
    for i in 0..20 {
        bench.offer(ms(i), 100, 0);
    }
    bench.run_until(Instant::MAX);
    for (i, at, _) in &bench.left {
        let delay = at.since(ms(*i)).as_millis();
        assert_eq!(delay, if i % 5 == 4 { 0 } else { 10 }, "{i}");
    }
}

#[test]
fn reorder_sends_its_share_ahead() {
    let mut bench = Bench::new("netem delay 10ms reorder 25%");
    for i in 0..40_000 {
        bench.offer(ms(i), 100, 0);
    }
    bench.run_until(Instant::MAX);
    let ahead = bench.left.iter().filter(|(i, at, _)| *at == ms(*i)).count();
    assert!((ahead as f64 / 40_000.0 - 0.25).abs() < 0.012);
}

#[test]
fn duplicates_bear_an_id_of_their_own() {
    let mut bench = Bench::new("netem duplicate 100%");
    bench.offer(ms(0), 100, 0);
    assert_eq!(bench.left.len(), 2);
    assert_eq!(bench.pool.made(), 2);
    bench.check_conservation();
}

#[test]
fn the_copy_outlives_a_lost_original_and_may_be_lost_itself() {
    // Linux counts one up for the copy and one down for the loss.
    let mut bench = Bench::new("netem duplicate 100% loss 50%");
    for i in 0..20_000 {
        bench.offer(ms(i), 100, 0);
    }
    // Lost original: 1 copy. Kept original: itself and, half of the time, the
    // copy. 0.5·1 + 0.5·1.5 = 1.25 a packet.
    let each = bench.left.len() as f64 / 20_000.0;
    assert!((each - 1.25).abs() < 0.02, "{each}");
    bench.check_conservation();
}

#[test]
fn slots_release_at_most_so_many_packets_at_random_gaps() {
    // The bursty stage of heistp/l4s-tests.
    let mut bench = Bench::new("netem delay 200us slot 800us 5ms packets 16 limit 10000");
    for i in 0..20_000 {
        bench.offer(Instant::from_nanos(i * 100_000), 1500, 0);
    }
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left.len(), 20_000);
    let mut bursts: Vec<(Instant, usize)> = Vec::new();
    for (i, (number, at, _)) in bench.left.iter().enumerate() {
        assert_eq!(*number, i as u64, "slots keep order");
        match bursts.last_mut() {
            Some((t, n)) if t == at => *n += 1,
            _ => bursts.push((*at, 1)),
        }
    }
    assert!(bursts.iter().all(|(_, n)| *n <= 16));
    // Ten packets a millisecond against 16 per 2.9 ms: the line is never
    // empty, so all full slots but the first few follow the drawn gaps.
    let gaps: Vec<u64> = bursts
        .windows(2)
        .skip(1)
        .map(|w| w[1].0.since(w[0].0).as_micros())
        .collect();
    assert!(gaps.iter().all(|g| (800..5_000).contains(g)));
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    assert!((mean - 2_900.0).abs() < 120.0, "{mean}");
}

#[test]
fn the_gap_before_a_slot_is_counted_from_the_arrival_of_the_packet_that_waits_for_it() {
    let mut bench = Bench::new("netem delay 200us slot 800us packets 16");
    bench.offer(ms(3), 1500, 0);
    bench.run_until(Instant::MAX);
    let left: Vec<_> = bench.left.iter().map(|(_, at, _)| at.as_nanos()).collect();
    assert_eq!(left, [3_800_000]);
}

#[test]
fn a_limit_drops_what_does_not_fit() {
    let mut bench = Bench::new("netem delay 10ms limit 3");
    for _ in 0..5 {
        bench.offer(ms(0), 100, 0);
    }
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left.len(), 3);
    let overflows = bench.record.0.iter();
    assert_eq!(
        overflows
            .filter(|(_, e)| *e == Seen::Dropped(DropCause::Overflow))
            .count(),
        2
    );
}

#[test]
fn what_was_let_out_ahead_of_time_counts_for_the_limit_until_then() {
    let mut bench = Bench::new("netem delay 10ms limit 3");
    assert_eq!(bench.element.lookahead(), Duration::from_millis(10));
    for _ in 0..3 {
        bench.offer(ms(0), 100, 0);
    }
    bench.run_until(ms(10));
    assert_eq!(bench.left.len(), 3);
    bench.offer(ms(9), 100, 0);
    bench.offer(ms(10), 100, 0);
    bench.run_until(Instant::MAX);
    let left: Vec<_> = bench.left.iter().map(|(n, at, _)| (*n, *at)).collect();
    assert_eq!(left[3..], [(4, ms(20))], "the fourth found three there");
}

#[test]
fn a_change_leaves_held_packets_their_times() {
    let mut bench = Bench::new("netem delay 10ms loss random 0%");
    bench.offer(ms(0), 100, 0);
    bench.change(ms(1), "delay 2ms");
    bench.offer(ms(1), 100, 0);
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left, [(1, ms(3), 0), (0, ms(10), 0)]);
}

#[test]
fn words_print_back_in_canonical_order() {
    for (words, printed) in [
        ("netem delay 10ms", None),
        ("netem latency 10ms", Some("netem delay 10ms")),
        ("netem delay 10ms 2ms", None),
        ("netem delay 10ms 2ms 25% distribution normal", None),
        ("netem loss 1%", Some("netem delay 0s loss random 1%")),
        ("netem delay 1ms loss random 1% 30%", None),
        (
            "netem delay 1ms loss gemodel 1%",
            Some("netem delay 1ms loss gemodel 1% 99% 100% 0%"),
        ),
        ("netem delay 1ms loss state 1% 2% 3% 4% 5%", None),
        ("netem delay 5ms reorder 25% 50% gap 3", None),
        (
            "netem delay 200us slot 800us 5ms packets 16 limit 10000",
            None,
        ),
        (
            "netem delay 0s slot distribution normal 5ms 1ms bytes 3000",
            None,
        ),
        ("netem delay 1ms duplicate 1% 2% limit 5", None),
        ("netem delay 5ms reorder 25%", None),
        ("netem delay 5ms gap 0", Some("netem delay 5ms")),
        ("netem delay 0s slot 5ms", None),
        (
            "netem slot 5ms 5ms packets 0 bytes 0",
            Some("netem delay 0s slot 5ms"),
        ),
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.to_string(), printed.unwrap_or(words));
        assert_eq!(ElementSpec::parse(&spec.to_string()).unwrap(), spec);
    }
}

#[test]
fn wrong_words_are_refused_at_their_place() {
    for (words, at) in [
        ("netem", ""),
        ("netem delay", ""),
        ("netem delay -3ms", "-3ms"),
        ("netem delay 10", "10"),
        ("netem delay 10ms 1ms 200%", "200%"),
        ("netem delay 5ms gap 3", "gap"),
        ("netem delay 10ms distribution normal", "distribution"),
        ("netem delay 10ms 1ms distribution cauchy", "cauchy"),
        ("netem loss 120%", "120%"),
        ("netem loss gemodel", ""),
        ("netem reorder 5%", "reorder"),
        ("netem slot 5ms 1ms", "1ms"),
        ("netem rate 10Mbit", "rate"),
        ("netem delay 10ms limit x", "x"),
        ("netem delay 10ms frobnicate", "frobnicate"),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
}

#[test]
fn ordered_jitter_spreads_delays_and_lets_nothing_overtake() {
    let mut bench = Bench::new("netem delay 10ms 5ms ordered");
    for i in 0..1000 {
        bench.offer(ms(i), 100, 0);
    }
    bench.run_until(Instant::MAX);
    let numbers: Vec<u64> = bench.left.iter().map(|l| l.0).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<u64>>());
    let delays = bench
        .left
        .iter()
        .map(|(i, at, _)| at.as_nanos() - ms(*i).as_nanos());
    let (least, most) = (delays.clone().min(), delays.max());
    assert!(
        least >= Some(5_000_000) && least < Some(9_000_000),
        "{least:?}"
    );
    assert!(
        most > Some(13_000_000) && most <= Some(15_000_000),
        "{most:?}"
    );
}

#[test]
fn corruption_flips_one_bit_anywhere_in_its_share_of_packets() {
    const LEN: u32 = 200;
    let mut bench = Bench::new("netem delay 1ms corrupt 5%");
    let n = 40_000u64;
    for i in 0..n {
        bench.offer(ms(i), LEN, 0);
    }
    bench.run_until(Instant::MAX);
    bench.check_conservation();
    assert_eq!(bench.left.len() as u64, n, "none is lost");
    let whole = bench
        .contents
        .iter()
        .find(|bytes| bytes.len() < LEN as usize);
    let mut whole = whole.expect("one that is as it was").clone();
    whole.resize(LEN as usize, 0);
    let mut hits = vec![0u32; LEN as usize * 8];
    let mut corrupted = Vec::new();
    for bytes in &bench.contents {
        let flipped: Vec<usize> = (0..bytes.len() * 8)
            .filter(|bit| (bytes[bit / 8] ^ whole[bit / 8]) >> (bit % 8) & 1 == 1)
            .collect();
        assert!(flipped.len() <= 1, "{flipped:?}");
        corrupted.push(!flipped.is_empty());
        flipped.iter().for_each(|bit| hits[*bit] += 1);
    }
    assert!((share(&corrupted) - 0.05).abs() < 5.0 * (0.05f64 * 0.95 / n as f64).sqrt());
    // Each quarter of the packet has its part, the tail of zeros too.
    let total: u32 = hits.iter().sum();
    for quarter in hits.chunks(hits.len() / 4) {
        let part = f64::from(quarter.iter().sum::<u32>()) / f64::from(total);
        assert!((part - 0.25).abs() < 0.06, "{part}");
    }
    let words = "netem delay 1ms corrupt 5% 25%";
    assert_eq!(ElementSpec::parse(words).unwrap().to_string(), words);
    assert!(ElementSpec::parse("netem corrupt 101%").is_err());
}

#[test]
fn a_rate_is_refused_with_the_element_that_it_is() {
    let error = ElementSpec::parse("netem rate 10Mbit").unwrap_err();
    let help = error.help.unwrap_or_default();
    assert!(help.contains("rate 10Mbit queue pfifo"), "{help}");
}

#[test]
fn with_ecn_what_is_not_lost_stays_unmarked_and_without_it_nothing_is_marked() {
    let mut bench = Bench::new("netem loss 50% ecn");
    for i in 0..100 {
        bench.offer(ms(i), 100, 1);
    }
    let marked = bench.left.iter().filter(|(_, _, class)| *class == 3);
    let marked = marked.count();
    assert!((25..75).contains(&marked), "{marked}");
    assert_eq!(bench.left.len(), 100);
    let mut bench = Bench::new("netem loss 100%");
    bench.offer(ms(0), 100, 1);
    assert!(bench.left.is_empty());
}

#[test]
fn a_corrupted_packet_differs_in_one_bit_whatever_that_was() {
    let mut whole = Bench::new("netem loss none");
    whole.offer(ms(0), 30, 0xff);
    let mut whole = whole.contents.remove(0);
    whole.resize(30, 0);
    let mut bench = Bench::new("netem corrupt 100%");
    for i in 0..1000 {
        bench.offer(ms(i), 30, 0xff);
    }
    for bytes in &bench.contents {
        let bits = bytes.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(bits.sum::<u32>(), 1);
    }
}

#[test]
fn only_a_delay_that_is_the_same_for_all_lets_packets_out_ahead_of_time() {
    for (words, known) in [
        ("netem delay 10ms", 10),
        ("netem delay 10ms loss 1%", 10),
        ("netem delay 10ms 1ms", 0),
        ("netem delay 10ms reorder 25%", 0),
        ("netem delay 10ms slot 1ms", 0),
    ] {
        let found = Bench::new(words).element.lookahead();
        assert_eq!(found, Duration::from_millis(known), "{words}");
    }
}

#[test]
fn a_packet_that_goes_ahead_leaves_as_it_comes() {
    let mut bench = Bench::new("netem delay 10ms reorder 100%");
    bench.offer(ms(3), 100, 0);
    assert_eq!(bench.left, [(0, ms(3), 0)]);
}

#[test]
fn a_packet_that_is_due_as_its_slot_opens_leaves_in_it() {
    let mut bench = Bench::new("netem delay 1ms slot 1ms packets 1");
    bench.offer(ms(0), 100, 0);
    bench.run_until(ms(10));
    assert_eq!(bench.left, [(0, ms(1), 0)]);
}

#[test]
fn a_change_of_the_slots_opens_one_at_once_and_any_other_leaves_them() {
    for (change, leaves) in [("slot 50ms packets 1", 10), ("loss 0%", 100)] {
        let mut bench = Bench::new("netem delay 0s slot 100ms packets 1");
        bench.offer(ms(0), 100, 0);
        bench.offer(ms(5), 100, 0);
        bench.change(ms(10), change);
        bench.run_until(ms(1000));
        assert_eq!(bench.left, [(0, ms(0), 0), (1, ms(leaves), 0)], "{change}");
    }
}
