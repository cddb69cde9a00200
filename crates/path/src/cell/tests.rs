//! The cell against arithmetic, theory and plausible wrong rules.

use narrows_core::DropCause;
use narrows_units::{Duration, Instant};
use proptest::prelude::*;

use crate::ElementSpec;
use crate::testing::{Bench, Seen, ms};

/// Bytes that each of `n` ports received.
fn received(bench: &Bench, n: usize, length: u64) -> Vec<u64> {
    let mut bytes = vec![0; n];
    for port in &bench.by {
        bytes[usize::from(*port)] += length;
    }
    bytes
}

/// Keeps `ports` of a cell full with packets of `length` bytes until `end`.
fn kept_full(words: &str, ports: &[&str], length: u32, end: u64) -> Bench {
    let bench = {
        let ports = with_queues(ports);
        let ports: Vec<_> = ports.iter().map(String::as_str).collect();
        Bench::node(words, &ports)
    };
    keep_full(bench, ports.len(), length, end)
}

/// With room for as much as [`keep_full`] offers.
fn with_queues(ports: &[&str]) -> Vec<String> {
    let ports = ports.iter();
    ports
        .map(|own| format!("{own} queue pfifo limit 100"))
        .collect()
}

/// A terminal that a recording drives.
fn traced(words: &str, text: &str) -> ElementSpec {
    let mut spec = ElementSpec::parse(words).unwrap();
    spec.file().unwrap().read(text).unwrap();
    spec
}

fn keep_full(mut bench: Bench, ports: usize, length: u32, end: u64) -> Bench {
    for now in 0..end {
        bench.run_until(ms(now));
        for port in 0..ports {
            let sent = bench.element.port_counters(port as u8);
            let waiting = sent.packets_in - sent.packets_out - sent.dropped;
            for _ in waiting..60 {
                bench.offer_to(ms(now), port as u8, length, 0);
            }
        }
    }
    bench.run_until(ms(end));
    bench
}

#[test]
fn a_packet_leaves_by_its_port_when_its_last_segment_has_come() {
    let mut bench = Bench::node("cell blocks 6 cqi 15", &["", "", ""]);
    // 549 bytes a subframe: 1500 take three, the last of which is received after 3 ms.
    bench.offer_to(Instant::from_nanos(300_000), 1, 1500, 0);
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left, [(0, ms(1 + 2 + 3), 0)]);
    assert_eq!(bench.by, [1]);
    // The third subframe had 147 bytes of room; what comes meanwhile shares the next one.
    let between = Instant::from_nanos(19_500_000);
    bench.offer_to(between, 0, 40, 0);
    bench.offer_to(between, 2, 40, 0);
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left[1..], [(1, ms(23), 0), (2, ms(23), 0)]);
}

#[test]
fn a_cell_that_is_woken_late_sends_no_packet_in_a_subframe_before_it_came() {
    let mut bench = Bench::node("cell blocks 6 cqi 15", &["", ""]);
    bench.offer_unwoken(Instant::from_nanos(300_000), 0, 200, 0);
    // The subframe of 1 ms is due, and nobody has woken it.
    bench.offer_unwoken(Instant::from_nanos(5_500_000), 0, 200, 0);
    bench.offer_unwoken(Instant::from_nanos(5_600_000), 1, 200, 0);
    bench.run_until(ms(8));
    assert_eq!(bench.left, [(0, ms(1 + 3), 0)]);
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left[1..], [(1, ms(6 + 3), 0), (2, ms(6 + 3), 0)]);
}

#[test]
fn an_average_goes_on_falling_while_a_terminal_is_idle() {
    // The first had its fill, and was then idle for three windows. What it has next it gets before
    // the second, whose average is as high as its share.
    let mut bench = Bench::node(
        "cell blocks 6 cqi 15 window 100ms",
        &["queue pfifo limit 1000", "queue pfifo limit 1000"],
    );
    for _ in 0..36 {
        bench.offer_to(ms(0), 0, 1500, 0);
    }
    bench.run_until(ms(400));
    assert_eq!(bench.left.len(), 36);
    // Eleven subframes: an average of a tenth of the rate.
    for _ in 0..4 {
        bench.offer_to(ms(400), 1, 1500, 0);
    }
    bench.run_until(ms(415));
    assert_eq!(bench.left.len(), 40);
    let together = Instant::from_nanos(415_300_000);
    for port in [1, 0, 1, 0] {
        bench.offer_to(together, port, 1500, 0);
    }
    let before = bench.left.len();
    bench.run_until(Instant::MAX);
    assert_eq!(bench.by[before], 0, "{:?}", bench.by);
}

#[test]
fn a_terminal_alone_has_the_rate_of_its_blocks() {
    for (words, bytes_per_ms) in [
        ("cell blocks 6 cqi 15", 549),
        ("cell blocks 50 cqi 7", 50 * 194 / 8),
        ("cell blocks 100 cqi 15", 100 * 733 / 8),
    ] {
        let bench = kept_full(words, &[""], 1000, 2_000);
        let found = received(&bench, 1, 1000)[0];
        let wanted = bytes_per_ms * 2_000;
        // What is in flight at the end, and a subframe that was not full.
        assert!(
            found.abs_diff(wanted) < 10 * bytes_per_ms,
            "{words}: {found} of {wanted}"
        );
        let rates = ElementSpec::parse(words).unwrap().rates().unwrap();
        assert_eq!(
            rates.steps()[0].1.as_bits(),
            8_000 * bytes_per_ms,
            "{words}"
        );
    }
}

#[test]
fn proportional_fairness_gives_each_as_much_of_the_time_whatever_its_channel() {
    for n in [2, 5, 10, 20] {
        let cqis: Vec<_> = (0..n).map(|i| 4 + (i * 11 / n) as u8).collect();
        let ports: Vec<_> = cqis.iter().map(|cqi| format!("cqi {cqi}")).collect();
        let ports: Vec<_> = ports.iter().map(String::as_str).collect();
        let shares = |scheduler: &str| -> Vec<f64> {
            let words = format!("cell blocks 25 cqi 7 scheduler {scheduler}");
            let bench = kept_full(&words, &ports, 300, 8_000);
            let found = received(&bench, n, 300);
            let alone = |cqi| {
                let spec = ElementSpec::parse(&format!("cell blocks 25 cqi {cqi}")).unwrap();
                spec.rates().unwrap().steps()[0].1.as_bits() as f64
            };
            let each = found.iter().zip(&cqis);
            each.map(|(bytes, cqi)| *bytes as f64 / alone(*cqi) * n as f64)
                .collect()
        };
        // In the long run each terminal has 1/n of what it had alone (Jalali and others 2000). In turn
        // it has as many blocks, in transport blocks of one to three whose bytes are rounded down.
        for (scheduler, within) in [("pf", 0.02), ("rr", 0.07)] {
            let found = shares(scheduler);
            let even = found.iter().all(|share| (share - 1.0).abs() < within);
            assert!(even, "{scheduler}, {n}: {found:?}");
        }
        let found = shares("max-rate");
        assert!(
            found[0] < 0.01 && found[n - 1] > 0.9 * n as f64,
            "{found:?}"
        );
    }
}

#[test]
fn a_small_flow_waits_for_no_large_one_under_proportional_fairness() {
    let delay = |scheduler: &str| {
        let words = format!("cell blocks 6 cqi 15 scheduler {scheduler}");
        let mut bench = Bench::node(&words, &["queue pfifo limit 1000", "", ""]);
        for _ in 0..900 {
            bench.offer_to(ms(0), 0, 1500, 0);
        }
        (1..50).for_each(|i| {
            bench.offer_to(ms(20 * i), 1, 160, 0);
        });
        bench.run_until(ms(1_100));
        let small = bench.left.iter().zip(&bench.by).filter(|(_, by)| **by == 1);
        let waits = small
            .enumerate()
            .map(|(i, ((_, at, _), _))| at.since(ms(20 * (i as u64 + 1))).as_micros() as f64 / 1e3);
        let waits: Vec<_> = waits.collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    assert!(delay("pf") < 4.1, "{}", delay("pf"));
}

#[test]
fn marked_packets_go_by_the_bearer_of_the_higher_priority() {
    let words = "cell blocks 6 cqi 15 queue bearers bearer low dscp 46 qci 7 bearer default";
    let mut bench = Bench::node(words, &[""]);
    for _ in 0..6 {
        bench.offer_to(ms(0), 0, 1500, 0);
    }
    bench.offer_to(Instant::from_nanos(500_000), 0, 100, 46 << 2);
    bench.run_until(Instant::MAX);
    // In the next subframe, in the middle of the packet that was begun.
    assert_eq!(bench.left[0], (6, ms(1 + 3), 46 << 2));
    // Nothing waits: the next one goes on where it was.
    assert_eq!(bench.left[1].0, 0);
    assert_eq!(bench.left.len(), 7);
}

#[test]
fn a_block_that_is_not_decoded_comes_eight_milliseconds_later_and_what_is_behind_it_waits() {
    let mut bench = Bench::node("cell blocks 6 cqi 15 error 30%", &[""]);
    for i in 0..5_000 {
        bench.offer_to(ms(10 * i), 0, 200, 0);
    }
    bench.run_until(Instant::MAX);
    bench.check_conservation();
    let numbers: Vec<_> = bench.left.iter().map(|(number, ..)| *number).collect();
    assert!(numbers.is_sorted(), "in order");
    // Delays of 3 ms and eight for each failure; 0.3⁴ are lost.
    let lost = bench.record.0.iter();
    let lost = lost.filter(|(_, seen)| *seen == Seen::Dropped(DropCause::Loss));
    let share = lost.count() as f64 / 5_000.0;
    assert!((share - 0.0081).abs() < 0.004, "{share}");
    let late = bench
        .left
        .iter()
        .map(|(number, at, _)| at.since(ms(10 * number)));
    let late: Vec<_> = late.collect();
    for (tries, failed) in [(0, 1.0), (1, 0.3), (2, 0.09), (3, 0.027)] {
        let wanted = Duration::from_millis(3 + 8 * tries);
        let found = late.iter().filter(|wait| **wait == wanted).count() as f64;
        // Those of more tries hold up those behind them.
        let expected = 0.7 * failed * 5_000.0;
        assert!(
            found > 0.6 * expected && found < 1.2 * expected,
            "{tries}: {found}"
        );
    }
    // Without errors all take three.
    let mut bench = Bench::node("cell blocks 6 cqi 15", &[""]);
    (0..100).for_each(|i| {
        bench.offer_to(ms(10 * i), 0, 200, 0);
    });
    bench.run_until(Instant::MAX);
    assert!(
        bench
            .left
            .iter()
            .all(|(number, at, _)| *at == ms(10 * number + 3))
    );
}

#[test]
fn a_packet_of_which_a_segment_is_lost_is_lost_whole_and_the_next_one_is_not() {
    let mut bench = Bench::node("cell blocks 6 cqi 15 error 90%", &["queue pfifo"]);
    for i in 0..400 {
        bench.offer_to(ms(100 * i), 0, 1500, 0);
    }
    bench.run_until(Instant::MAX);
    bench.check_conservation();
    // Three blocks, each decoded with 1 − 0.9⁴ = 0.344: 0.041 of all.
    let share = bench.left.len() as f64 / 400.0;
    assert!((share - 0.041).abs() < 0.03, "{share}");
}

#[test]
fn without_service_nothing_leaves_and_with_it_all_does() {
    let mut bench = Bench::node("cell blocks 6 cqi 0", &["", "cqi 15"]);
    bench.offer_to(ms(0), 0, 500, 0);
    bench.offer_to(ms(0), 1, 500, 0);
    bench.run_until(ms(100));
    assert_eq!(bench.by, [1]);
    let change = narrows_core::Change {
        words: "cqi 15".to_owned(),
        port: 0,
    };
    bench.element.change(ms(100), &change).unwrap();
    bench.run_until(Instant::MAX);
    assert_eq!(bench.by, [1, 0]);
    // The subframe of 100 ms was due before the change.
    assert!(bench.left[1].1 <= ms(104), "{:?}", bench.left);
}

#[test]
fn a_port_without_a_channel_is_a_wire() {
    let mut bench = Bench::node("cell blocks 6", &["", "cqi 15"]);
    for _ in 0..100 {
        bench.offer_to(ms(1), 0, 1500, 0);
    }
    bench.offer_to(ms(1), 1, 500, 0);
    assert_eq!(bench.by, [0; 100]);
    bench.run_until(Instant::MAX);
    // What passed the wire took no blocks of the terminal.
    assert_eq!(bench.left[100].1, ms(1 + 3));
    bench.check_conservation();
    let change = narrows_core::Change {
        words: "cqi 15".to_owned(),
        port: 0,
    };
    assert!(bench.element.change(ms(9), &change).is_err());
    let wire = ElementSpec::parse("cell blocks 6").unwrap();
    assert!(wire.facts().link.is_none());
}

#[test]
fn a_channel_follows_its_recording() {
    let mut spec = ElementSpec::parse("cell blocks 6 cqi trace a.csv queue pfifo").unwrap();
    let file = spec.file().unwrap();
    for wrong in [
        "",
        "time_s,mcs\n0,1\n",
        "time_s,cqi\n0,16\n",
        "time_s,cqi\n0,1.5\n",
    ] {
        assert!(file.read(wrong).is_err(), "{wrong:?}");
    }
    file.read("time_s,cqi\r\n0,15\n1,0\n2,7\n").unwrap();
    let mut bench = Bench::with(&spec, 1);
    for i in 0..300 {
        bench.offer(ms(10 * i), 100, 0);
    }
    bench.run_until(Instant::MAX);
    let within = |from: u64, to: u64| {
        let times = bench.left.iter().map(|(_, at, _)| *at);
        times.filter(|at| (ms(from)..ms(to)).contains(at)).count()
    };
    assert_eq!(within(0, 1_000), 100);
    assert_eq!(within(1_003, 2_000), 0);
    assert_eq!(bench.left.len(), 300);
}

/// Opportunities one by one, in bursts, and with a gap in which there is no service.
const TRACE: &str = "1\n2\n2\n5\n17\n17\n17\n20\n320\n";

#[test]
fn a_terminal_alone_that_a_trace_drives_has_received_at_each_opportunity_what_a_link_has() {
    let cell = "cell blocks 25 delay 1ms trace a.up queue pfifo limit 100";
    let full = |spec: &ElementSpec| {
        let bench = keep_full(
            Bench::of_ports(spec, std::slice::from_ref(spec)),
            1,
            1500,
            2_000,
        );
        bench.check_conservation();
        bench.left
    };
    let of_cell = full(&traced(cell, TRACE));
    let mut link = Bench::with(&traced("rate trace a.up queue pfifo limit 9999", TRACE), 1);
    for _ in 0..100 {
        link.offer(ms(0), 1500, 0);
    }
    link.run_until(ms(2_000));
    // Nine packets in each of six rounds of 320 ms, and eight of the seventh.
    assert_eq!(of_cell.len(), 6 * 9 + 8);
    let numbers = |left: &[(u64, Instant, u8)]| left.iter().map(|l| l.0).collect::<Vec<_>>();
    assert_eq!(numbers(&of_cell), numbers(&link.left));
    // Of a burst, which was on the air since the one before, the last packet comes when all of it
    // leaves the link.
    for (i, (cell, link_at)) in of_cell.iter().zip(&link.left).enumerate() {
        let last = link.left.get(i + 1).is_none_or(|next| next.1 > link_at.1);
        assert!(cell.1 <= link_at.1, "{i}: {cell:?} {link_at:?}");
        assert!(!last || cell.1 == link_at.1, "{i}: {cell:?} {link_at:?}");
    }
}

#[test]
fn terminals_that_traces_drive_share_blocks_also_between_their_opportunities() {
    // A packet each ten milliseconds, or each five: as much as either has with all blocks.
    let words = "cell blocks 50 scheduler pf trace a.up queue pfifo limit 100";
    let ports = ["10\n", "5\n"].map(|text| traced(words, text));
    let bench = keep_full(Bench::of_ports(&ports[0], &ports), 2, 1500, 20_000);
    let found = received(&bench, 2, 1500);
    for (found, alone) in found.into_iter().zip([2_000, 4_000]) {
        let share = found as f64 / (f64::from(alone) * 1500.0);
        assert!((0.45..0.55).contains(&share), "{share} of {alone}");
    }
}

#[test]
fn a_terminal_may_be_driven_by_recorded_rates_and_have_another_channel_later() {
    let spec = traced(
        "cell blocks 25 trace walk.csv queue pfifo limit 100",
        "time_s,rate_mbit\n0,8\n1,0\n2,4\n",
    );
    let ports = [spec.clone(), spec.overlaid("cell cqi 15").unwrap()];
    assert_eq!(spec.rates().unwrap().steps().len(), 3);
    let alone = keep_full(Bench::of_ports(&spec, &ports[..1]), 1, 1000, 3_000);
    let until = |end| alone.left.iter().filter(|(_, at, _)| *at < ms(end)).count();
    // 8 and 4 Mbit/s in packets of 1000 bytes, which are received 3 ms after their subframe.
    assert!((997..=1_000).contains(&until(1_003)), "{}", until(1_003));
    assert_eq!(until(2_000), until(1_003));
    assert!((495..=500).contains(&(until(3_000) - until(2_000))));
    let mut both = Bench::of_ports(&spec, &ports);
    both.run_until(ms(1_500));
    both.offer_to(ms(1_500), 0, 1000, 0);
    both.offer_to(ms(1_500), 1, 1000, 0);
    both.run_until(ms(1_600));
    assert_eq!(both.by, [1]);
    both.change(ms(1_600), "cqi 7");
    both.run_until(ms(1_700));
    assert_eq!(both.by, [1, 0]);
}

#[test]
fn what_is_no_trace_is_refused() {
    let mut spec = ElementSpec::parse("cell blocks 6 trace a.up").unwrap();
    for wrong in ["", "3\n1\n", "0\n", "time_s,rate_mbit\n0,1\n"] {
        assert!(spec.file().unwrap().read(wrong).is_err(), "{wrong:?}");
    }
    let mut spec = ElementSpec::parse("cell blocks 6 trace a.csv").unwrap();
    assert!(spec.file().unwrap().read("1\n2\n").is_err());
    // Of one that is not read yet there is nothing.
    let mut bench = Bench::of_ports(&spec, std::slice::from_ref(&spec));
    bench.offer(ms(0), 100, 0);
    bench.run_until(ms(100));
    assert!(bench.left.is_empty());
}

#[test]
fn lines_are_written_as_they_are_read_and_mistakes_are_named() {
    for line in [
        "cell blocks 6 queue bearers bearer default",
        "cell blocks 100 distance 500m scheduler rr window 1s delay 4ms error 10% queue codel",
        "cell blocks 25 cqi trace walk.csv queue pfifo limit 1000",
        "cell blocks 25 trace walk.up delay 1ms queue codel",
    ] {
        assert_eq!(ElementSpec::parse(line).unwrap().to_string(), line);
    }
    for (words, at) in [
        ("cell", ""),
        ("cell cqi 7", ""),
        ("cell blocks 5 cqi 7", "5"),
        ("cell blocks 6 cqi 16", "16"),
        ("cell blocks 6 cqi trace walk.txt", "walk.txt"),
        ("cell blocks 6 trace", ""),
        ("cell blocks 6 cqi 7 error 100%", "100%"),
        ("cell blocks 6 cqi 7 window 0s", "0s"),
        ("cell blocks 6 cqi 7 delay 2s", "2s"),
        ("cell blocks 6 cqi 7 scheduler fair", "fair"),
        ("cell blocks 6 distance 0m", "0m"),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
    let cell = ElementSpec::parse("cell blocks 6 cqi 7").unwrap();
    for (same, another) in [
        ("blocks 6", "blocks 15"),
        ("scheduler pf", "scheduler rr"),
        ("window 100ms", "window 1s"),
        ("delay 3ms", "delay 4ms"),
        ("error 0%", "error 1%"),
    ] {
        let over = cell.overlaid(&format!("cell {same}")).unwrap();
        assert_eq!(over, cell, "{same}");
        let error = cell.overlaid(&format!("cell {another}")).unwrap_err();
        assert!(error.to_string().contains("all terminals share"), "{error}");
    }
    let port = cell.overlaid("cell cqi 9 queue codel").unwrap();
    assert_eq!(port.to_string(), "cell blocks 6 cqi 9 queue codel");
}

proptest! {
    #[test]
    fn packets_are_conserved_kept_in_order_and_runs_repeat(
        offers in proptest::collection::vec((0u64..3_000_000, 0u8..4, 40u32..1500), 1..150),
        queue in prop::sample::select(vec!["pfifo limit 5", "codel", "bearers bearer a"]),
        scheduler in prop::sample::select(vec!["pf", "rr", "max-rate"]),
        error in prop::sample::select(vec!["0%", "20%"]),
    ) {
        let run = || {
            let words = format!("cell blocks 6 cqi 9 scheduler {scheduler} error {error} queue {queue}");
            let mut bench = Bench::node(&words, &["", "cqi 1", "cqi 15", "distance 1km"]);
            let mut now = Instant::ZERO;
            for (gap, port, len) in &offers {
                now = Instant::from_nanos(now.as_nanos() + gap);
                bench.offer_to(now, *port, *len, 0);
                bench.check_conservation();
            }
            bench.run_until(Instant::MAX);
            bench.check_conservation();
            assert_eq!(bench.pool.outstanding(), 0);
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

#[test]
fn less_than_a_bit_of_a_block_is_no_service() {
    // 40 bits a subframe for 50 blocks, and 400.
    for (mbit, leave) in [("0.04", 0), ("0.4", 10)] {
        let text = format!("time_s,rate_mbit\n0,{mbit}\n");
        let spec = traced("cell blocks 50 trace a.csv", &text);
        let mut bench = Bench::with(&spec, 1);
        for _ in 0..10 {
            bench.offer(ms(0), 100, 0);
        }
        bench.run_until(ms(1_000));
        assert_eq!(bench.left.len(), leave, "{mbit}");
    }
}
