//! The station against the formulas.

use narrows_core::DropCause;
use narrows_units::{Duration, Instant};

use super::phy::{AIFS, Phy, SIFS, SLOT, block_ack, subframe};
use crate::ElementSpec;
use crate::testing::{Bench, Seen, ms};

const VHT80: Phy = Phy {
    width: 80,
    streams: 1,
    short: false,
};

/// The mean backoff of a window of 15 slots.
fn backoff_us() -> f64 {
    7.5 * SLOT.as_micros() as f64
}

/// `n` packets of 1500 bytes at once, until all have left.
fn filled(words: &str, n: u64) -> Bench {
    let mut bench = Bench::new(&format!("{words} queue pfifo limit 1000000"));
    for _ in 0..n {
        bench.offer(ms(0), 1500, 0);
    }
    bench.run_until(Instant::MAX);
    bench.check_conservation();
    bench
}

/// How many packets left at each time at which some did.
fn aggregates(bench: &Bench) -> Vec<(Instant, usize)> {
    let mut all: Vec<(Instant, usize)> = Vec::new();
    for (_, at, _) in &bench.left {
        match all.last_mut() {
            Some((last, count)) if last == at => *count += 1,
            _ => all.push((*at, 1)),
        }
    }
    all
}

fn mean_gap_us(all: &[(Instant, usize)]) -> f64 {
    let (first, last) = (all[0].0, all[all.len() - 1].0);
    last.since(first).as_micros() as f64 / (all.len() - 1) as f64
}

#[test]
fn a_lone_packet_waits_for_a_random_backoff_and_its_airtime() {
    let mut bench = Bench::new("wifi mcs 9");
    for i in 0..2_000 {
        bench.offer(ms(10 * i), 1500, 0);
    }
    bench.run_until(Instant::MAX);
    let airtime = AIFS + VHT80.ppdu(1560, subframe(1500));
    let slots: Vec<u64> = bench
        .left
        .iter()
        .map(|(i, at, _)| {
            let backoff = at.since(ms(10 * i)).as_nanos() - airtime.as_nanos();
            assert_eq!(backoff % SLOT.as_nanos(), 0);
            backoff / SLOT.as_nanos()
        })
        .collect();
    assert_eq!(slots.iter().max(), Some(&15));
    assert_eq!(slots.iter().min(), Some(&0));
    let mean = slots.iter().sum::<u64>() as f64 / slots.len() as f64;
    // 16 equal chances have a standard deviation of 4.6.
    assert!(
        (mean - 7.5).abs() < 5.0 * 4.6 / (slots.len() as f64).sqrt(),
        "{mean}"
    );
}

#[test]
fn what_waits_goes_in_aggregates_of_64_that_arrive_at_once_at_the_rate_of_the_formula() {
    let bench = filled("wifi mcs 9", 64 * 400);
    let all = aggregates(&bench);
    assert!(all.iter().all(|(_, count)| *count == 64));
    let cycle = AIFS + VHT80.ppdu(1560, 64 * subframe(1500)) + SIFS + block_ack(9);
    let expected = cycle.as_micros() as f64 + backoff_us();
    let found = mean_gap_us(&all);
    assert!(
        (found / expected - 1.0).abs() < 0.01,
        "{found} of {expected}"
    );
    // And that is the rate that the verdict goes by.
    let rates = ElementSpec::parse("wifi mcs 9").unwrap().rates().unwrap();
    let mbit = rates.steps()[0].1.as_mbit_f64();
    assert!((mbit - 64.0 * 12_000.0 / expected).abs() < 1.0, "{mbit}");
}

#[test]
fn an_aggregate_ends_at_its_frames_its_bytes_or_its_time() {
    let first = |words: &str| aggregates(&filled(words, 200))[0].1;
    assert_eq!(first("wifi mcs 9 frames 10"), 10);
    assert_eq!(first("wifi mcs 9 bytes 20000"), 20_000 / 1544);
    // At MCS 0 of 20 MHz a symbol has 26 bits: (5484 − 40)/4 symbols hold 4421 bytes.
    assert_eq!(first("wifi mcs 0 width 20"), 2);
    // A packet that is too long for all of them goes alone.
    assert_eq!(first("wifi mcs 0 width 20 airtime 1ms"), 1);
}

#[test]
fn frames_that_do_not_arrive_are_sent_again_and_nothing_overtakes_them() {
    let n = 20_000;
    let bench = filled("wifi mcs 7 error 20%", n);
    let order: Vec<u64> = bench.left.iter().map(|(number, ..)| *number).collect();
    // Eight losses in a row: one in 390,000.
    assert!(order.len() as u64 >= n - 2);
    assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
    let clean = filled("wifi mcs 7", n);
    let (with, without) = (bench.left[n as usize - 3].1, clean.left[n as usize - 3].1);
    let longer = with.as_nanos() as f64 / without.as_nanos() as f64;
    // A fifth of all frames goes to waste, and the window of 64 is held back by a lost first one.
    assert!((1.25..2.0).contains(&longer), "{longer}");
    let bench = filled("wifi mcs 7 error 99%", 300);
    let lost = bench.record.0.iter();
    let lost = lost
        .filter(|(_, seen)| *seen == Seen::Dropped(DropCause::Loss))
        .count();
    assert_eq!(lost + bench.left.len(), 300);
    // 0.99⁸ is 92 %.
    assert!((260..300).contains(&lost), "{lost}");
}

#[test]
fn other_stations_get_the_medium_as_often() {
    let alone = mean_gap_us(&aggregates(&filled("wifi mcs 9", 64 * 500)));
    let shared = mean_gap_us(&aggregates(&filled(
        "wifi mcs 9 stations 3 theirs 1ms",
        64 * 500,
    )));
    let theirs = 3.0 * (1_000.0 + AIFS.as_micros() as f64 + backoff_us());
    assert!(
        ((shared - alone) / theirs - 1.0).abs() < 0.2,
        "{alone} {shared}"
    );
}

#[test]
fn the_mcs_follows_a_recording_and_changes() {
    let mut spec = ElementSpec::parse("wifi mcs trace a.csv queue pfifo limit 100000").unwrap();
    let file = spec.file().expect("a file");
    file.read("time_s,mcs\r\n0,9\r\n1,0\r\n").unwrap();
    let mut bench = Bench::with(&spec, 1);
    for _ in 0..80_000 {
        bench.offer(ms(0), 1500, 0);
    }
    bench.run_until(ms(1000));
    let fast = bench.left.len();
    bench.run_until(ms(2000));
    let slow = bench.left.len() - fast;
    assert!(fast > 10 * slow, "{fast} {slow}");
    bench.change(ms(2000), "wifi mcs 9");
    bench.run_until(ms(3000));
    let again = bench.left.len() - fast - slow;
    assert!(again as f64 > 0.95 * fast as f64, "{again} {fast}");
    for (text, line) in [
        ("", 1),
        ("time_s,rate_mbit\n0,1\n", 1),
        ("time_s,mcs\n0,10\n", 2),
        ("time_s,mcs\n0,1.5\n", 2),
        ("time_s,mcs\n0,1\n0,2\n", 3),
        ("time_s,mcs\n-1,1\n", 2),
    ] {
        let mut spec = ElementSpec::parse("wifi mcs trace a.csv").unwrap();
        let error = spec.file().expect("a file").read(text).unwrap_err();
        assert!(
            error.starts_with(&format!("line {line}:")),
            "{text:?}: {error}"
        );
    }
    let narrow = "wifi mcs trace a.csv width 20";
    let mut narrow = ElementSpec::parse(narrow).unwrap();
    assert!(
        narrow
            .file()
            .expect("a file")
            .read("time_s,mcs\n0,9\n")
            .is_err()
    );
}

#[test]
fn words_print_back_and_wrong_ones_are_refused() {
    for words in [
        "wifi mcs 7 queue pfifo limit 1000",
        "wifi mcs trace a.csv width 40 streams 2 short-gi frames 32 bytes 65535 airtime 4ms error 10% \
         stations 2 theirs 1ms queue fq_codel",
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(
            ElementSpec::parse(&spec.to_string()).unwrap(),
            spec,
            "{spec}"
        );
    }
    for (words, at) in [
        ("wifi mcs 10", "10"),
        ("wifi mcs 9 width 20", "mcs"),
        ("wifi mcs 9 width 30", "30"),
        ("wifi mcs 9 streams 5", "5"),
        ("wifi mcs 9 frames 65", "65"),
        ("wifi mcs 9 frames 0", "0"),
        ("wifi mcs 9 bytes 1000", "1000"),
        ("wifi mcs 9 airtime 6ms", "6ms"),
        ("wifi mcs 9 error 100%", "100%"),
        ("wifi mcs 9 stations 101", "101"),
        ("wifi mcs 9 theirs 1us", "1us"),
        ("wifi mcs trace a.txt", "a.txt"),
        ("wifi mcs 9 slots 3", "slots"),
        ("wifi", ""),
        ("wifi width 80", ""),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
    let spec = ElementSpec::parse("wifi mcs 9").unwrap();
    assert!(spec.check_change("wifi mcs 4 queue limit 5").is_ok());
    for (words, at) in [
        ("", ""),
        ("wifi", ""),
        ("mcs 4", "mcs"),
        ("wifi mcs 10", "10"),
        ("wifi mcs trace a.csv", "trace"),
        ("wifi mcs 4 queue", ""),
        ("wifi width 40", "width"),
    ] {
        let error = spec.check_change(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
    let kept = spec.overlaid("wifi width 40").unwrap().to_string();
    assert!(kept.starts_with("wifi mcs 9 width 40"), "{kept}");
    let queue = ElementSpec::parse("rate 1Mbit queue codel").unwrap();
    let over = queue.overlaid("wifi mcs 3").unwrap().to_string();
    assert!(over.ends_with("queue codel"), "{over}");
    assert_eq!(
        spec.base_delay(0, 1500),
        AIFS + SLOT * 15 / 2 + VHT80.ppdu(1560, 1544)
    );
    assert!(spec.base_delay(0, 1500) < Duration::from_micros(200));
}

#[test]
fn a_frame_is_sent_eight_times_with_a_doubled_window_and_then_given_up() {
    let mut bench = Bench::new("wifi mcs 9 error 99.9%");
    let n = 2_000;
    for i in 0..n {
        bench.offer(ms(1_000 * i), 1500, 0);
    }
    bench.run_until(Instant::MAX);
    bench.check_conservation();
    let given_up = bench.record.0.iter();
    let given_up = given_up.filter(|(_, seen)| *seen == Seen::Dropped(DropCause::Loss));
    let after: Vec<f64> = given_up
        .map(|(at, _)| (at.as_micros() % 1_000_000) as f64)
        .collect();
    // Eight failures of 0.999 each.
    let share = after.len() as f64 / n as f64;
    assert!((share - 0.992).abs() < 0.01, "{share}");
    // Half of each window, from 15 slots on (10.23.2.2).
    let slots: u64 = [15, 31, 63, 127, 255, 511, 1023, 1023].iter().sum();
    let ppdu = VHT80.ppdu(1560, subframe(1500));
    let fixed = (AIFS + ppdu) * 8 + (SIFS + block_ack(9)) * 7;
    let expected = fixed.as_micros() as f64 + slots as f64 / 2.0 * SLOT.as_micros() as f64;
    let mean = after.iter().sum::<f64>() / after.len() as f64;
    // The standard deviation of one is 4.2 ms.
    assert!((mean - expected).abs() < 400.0, "{mean} for {expected}");
}

#[test]
fn the_rate_is_that_of_the_aggregates_which_their_limits_allow() {
    // Frames of an aggregate, and 12 kbit of each in the time from one to the next.
    for (words, frames, share) in [
        ("wifi mcs 9 frames 10", 10, 1.0),
        ("wifi mcs 9 bytes 20000", 20_000 / 1544, 1.0),
        // (1000 - 40) / 4 symbols of 1560 bits are 46,797 bytes.
        ("wifi mcs 9 airtime 1ms", 46_797 / 1544, 1.0),
        ("wifi mcs 9 error 25%", 64, 0.75),
    ] {
        let ppdu = VHT80.ppdu(1560, frames * subframe(1500));
        let fixed = (AIFS + ppdu + SIFS + block_ack(9)).as_nanos() as f64 / 1e3;
        let expected = f64::from(frames) * 12_000.0 / (fixed + backoff_us()) * share;
        let spec = ElementSpec::parse(words).unwrap();
        let mbit = spec.rates().unwrap().steps()[0].1.as_mbit_f64();
        assert!(
            (mbit - expected).abs() < 0.001,
            "{words}: {mbit} {expected}"
        );
    }
}

#[test]
fn words_over_another_link_need_an_mcs_or_a_file() {
    let link = ElementSpec::parse("rate 1Mbit queue codel").unwrap();
    assert!(link.overlaid("wifi mcs trace a.csv").is_ok());
    assert!(link.overlaid("wifi width 40").is_err());
}

#[test]
fn a_packet_that_comes_while_others_send_waits_for_the_rest_and_for_those_that_win() {
    let n = 10_000;
    let mut bench = Bench::new("wifi mcs 9 stations 1 theirs 100us");
    for i in 0..n {
        bench.offer(ms(10 * i), 1500, 0);
    }
    bench.run_until(Instant::MAX);
    let waits = bench.left.iter().map(|(i, at, _)| at.since(ms(10 * i)));
    let mean = waits.map(|wait| wait.as_nanos() as f64 / 1e3).sum::<f64>() / n as f64;
    let own = AIFS.as_micros() as f64 + backoff_us();
    let ppdu = VHT80.ppdu(1560, subframe(1500)).as_nanos() as f64 / 1e3;
    // Half of what another sends, and one that wins before it on average.
    let expected = own + 50.0 + (own + 100.0) + ppdu;
    // The standard deviation of one is 0.3 ms.
    assert!((mean - expected).abs() < 15.0, "{mean} for {expected}");
}

#[test]
fn a_station_asks_for_nothing_when_all_is_sent() {
    let mut bench = Bench::new("wifi mcs 9");
    bench.offer(ms(0), 1500, 0);
    bench.run_until(ms(1));
    let (_, at, _) = bench.left[0];
    let answered = at + SIFS + block_ack(9);
    let mut bench = Bench::new("wifi mcs 9");
    bench.offer(ms(0), 1500, 0);
    bench.run_until(at);
    assert_eq!(bench.element.next_wake(), Some(answered));
    bench.run_until(answered);
    assert_eq!(bench.element.next_wake(), None);
}

#[test]
fn the_clock_of_a_queue_moves_nothing_of_what_is_on_the_air() {
    let left = |queue: &str| {
        let mut bench = Bench::new(&format!("wifi mcs 0 width 20 queue {queue}"));
        for i in 0..1_500 {
            bench.offer(ms(2 * i), 1000, 0);
        }
        bench.run_until(ms(4_000));
        assert_eq!(bench.left.len(), 1_500, "{queue}");
        bench.left
    };
    assert_eq!(left("pie target 1s"), left("pfifo"));
}

#[test]
fn a_queue_that_shapes_by_itself_lets_the_station_send_at_its_times() {
    let mut bench = Bench::new("wifi mcs 9 queue cake bandwidth 8mbit raw");
    for _ in 0..5 {
        bench.offer(ms(1), 1000, 0);
    }
    bench.run_until(ms(1_000));
    assert_eq!(bench.left.len(), 5);
    let (_, last, _) = bench.left[4];
    // A millisecond each.
    assert!(last > ms(5) && last < ms(7), "{last}");
}
