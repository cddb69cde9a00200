//! Opportunities of a trace, and who uses them.

use super::*;
use crate::ElementSpec;
use crate::testing::{Bench, Seen, ms};

fn bench(trace: &str, words: &str) -> Bench {
    let mut spec = ElementSpec::parse(&format!("rate trace up.trace {words}")).unwrap();
    let ElementSpec::Trace(inner) = &mut spec else {
        panic!("no trace: {spec}");
    };
    inner.recording = Recording::parse("up.trace", inner.scale, trace.as_bytes()).unwrap();
    Bench::with(&spec, 1)
}

fn leaving_ms(bench: &Bench) -> Vec<u64> {
    let left = bench.left.iter();
    left.map(|(_, at, _)| at.as_nanos() / NANOS).collect()
}

#[test]
fn full_packets_leave_one_with_each_line_and_the_trace_starts_again() {
    let mut bench = bench("2\n5\n5\n9\n", "queue pfifo limit 100");
    for _ in 0..7 {
        bench.offer(ms(0), 1500, 0);
    }
    bench.run_until(ms(40));
    assert_eq!(leaving_ms(&bench), [2, 5, 5, 9, 11, 14, 14]);
    bench.check_conservation();
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_several() {
    // 376 bytes each as counted: four fit 1504.
    let mut small = bench("3\n6\n", "");
    for _ in 0..6 {
        small.offer(ms(0), 372, 0);
    }
    small.run_until(ms(40));
    assert_eq!(leaving_ms(&small), [3, 3, 3, 3, 6, 6]);
    // 1514 bytes: ten of them are left for the next opportunity, and the
    // next packet has the rest of that.
    let mut large = bench("1\n2\n3\n", "overhead 14");
    for _ in 0..2 {
        large.offer(ms(0), 1500, 0);
    }
    large.run_until(ms(40));
    assert_eq!(leaving_ms(&large), [2, 3]);
}

#[test]
fn what_nobody_uses_is_lost_and_who_comes_at_its_instant_is_late() {
    let mut bench = bench("1\n2\n3\n4\n10\n", "");
    bench.offer(ms(3), 1500, 0);
    bench.run_until(ms(4));
    bench.offer(ms(37), 1500, 0);
    bench.offer(ms(37), 1500, 0);
    bench.run_until(ms(60));
    // The fourth round begins at 30 ms and ends at 40.
    assert_eq!(leaving_ms(&bench), [4, 40, 41]);
    let sojourns = bench.record.0.iter().filter_map(|(_, e)| match e {
        Seen::Dequeued { sojourn, .. } => Some(sojourn.as_millis()),
        _ => None,
    });
    assert_eq!(sojourns.collect::<Vec<_>>(), [1, 3, 4]);
}

#[test]
fn the_first_packet_is_late_for_the_opportunity_of_its_instant_and_one_that_waits_is_not() {
    let mut late = bench("1\n2\n", "");
    late.offer(ms(1), 1500, 0);
    late.run_until(ms(10));
    assert_eq!(leaving_ms(&late), [2]);
    assert_eq!(late.element.next_wake(), None, "nobody waits");
    let mut waits = bench("1\n9\n", "");
    waits.offer(ms(0), 1500, 0);
    waits.offer_unwoken(ms(1), 0, 1500, 0);
    waits.run_until(ms(20));
    assert_eq!(leaving_ms(&waits), [1, 9]);
}

#[test]
fn what_is_left_of_a_packet_takes_so_much_of_the_next_opportunity() {
    // 2500 bytes as counted: 1504 and 996, of the second 508, 1504 and 488.
    let mut bench = bench("1\n2\n3\n4\n", "overhead 1000");
    bench.offer(ms(0), 1500, 0);
    bench.offer(ms(0), 1500, 0);
    bench.run_until(ms(20));
    assert_eq!(leaving_ms(&bench), [2, 4]);
}

#[test]
fn a_scale_stays_with_another_file_of_rates_and_not_with_one_of_opportunities() {
    let scaled = ElementSpec::parse("rate trace a.csv scale 10%").unwrap();
    for (words, written) in [
        ("rate trace b.csv", "rate trace b.csv scale 10% queue"),
        ("rate trace b.up", "rate trace b.up queue"),
    ] {
        let over = scaled.overlaid(words).unwrap().to_string();
        assert!(over.starts_with(written), "{over}");
    }
}

#[test]
fn its_capacity_counts_opportunities_of_every_round() {
    let trace = Trace::parse(b"2\n5\n5\n10").unwrap();
    let full = u64::from(OPPORTUNITY);
    assert_eq!(trace.bytes_between(ms(0), ms(10)), 4 * full);
    assert_eq!(trace.bytes_between(ms(2), ms(5)), 2 * full);
    assert_eq!(trace.bytes_between(ms(5), ms(1_000_005)), 400_000 * full);
    // 4 × 1504 × 8 bits in 10 ms.
    assert_eq!(trace.mean_rate(), Rate::from_bits(4_812_800));
    assert_eq!(Trace::default().mean_rate(), Rate::from_bits(0));
    assert_eq!(Trace::default().bytes_between(ms(0), ms(10)), 0);
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    for (text, line) in [
        ("", 1),
        ("1\n\n2\n", 2),
        ("1\n2\n1\n", 3),
        ("0\n0\n", 2),
        ("1\n-2\n", 2),
        ("1.5\n", 1),
        ("1\n2 \n", 2),
        ("99999999999999999999\n", 1),
        ("1\n\u{fc}\n", 2),
    ] {
        let error = Trace::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
    assert!(Trace::parse(b"0\r\n7\r\n").is_ok());
}

#[test]
fn a_trace_has_no_rate_to_change_and_its_queue_has_words() {
    let spec = ElementSpec::parse("rate trace a.trace queue pfifo").unwrap();
    assert!(spec.check_change("queue limit 5").is_ok());
    assert!(spec.check_change("rate 5Mbit").is_err());
    for words in [
        "rate trace a.trace queue fq_codel",
        "rate trace b/c.up overhead 0 queue dualpi2",
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.kind(), "rate");
        assert_eq!(ElementSpec::parse(&spec.to_string()).unwrap(), spec);
    }
    for (words, at) in [
        ("rate trace", ""),
        ("rate trace a shaper", "shaper"),
        ("rate trace a queue", ""),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
    assert!(ElementSpec::parse("by dscp 8 (rate trace a)").is_err());
}
