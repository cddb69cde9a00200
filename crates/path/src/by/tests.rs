//! Classes of packets, each with its own elements.

use crate::ElementSpec;
use crate::testing::{Bench, ms};
use narrows_units::Instant;

const WORDS: &str = "by dscp cs1 (netem delay 5ms) cs2,af41 (netem delay 40ms | netem delay 40ms) else (netem delay 10ms)";

#[test]
fn brackets_are_read_eight_deep_and_no_deeper() {
    let nested = |depth: usize| {
        let open = "by dscp 8 (".repeat(depth);
        format!("{open}netem delay 1ms{}", ")".repeat(depth))
    };
    let spec = ElementSpec::parse(&nested(8)).expect("eight are read");
    assert!(spec.facts().nests());
    for depth in [9, 40, 50_000] {
        let refused = ElementSpec::parse(&nested(depth)).expect_err("more are not");
        let allowed = refused.allowed;
        assert!(allowed.contains("at most 8 brackets"), "{depth}: {allowed}");
    }
}

#[test]
fn brackets_that_are_too_deep_are_refused_at_the_first_of_them() {
    let words = "by dscp 8 (".repeat(9);
    let refused = ElementSpec::parse(&words).unwrap_err();
    assert_eq!(refused.span, words.len() - 1..words.len());
    // Eight that are not closed are not too many.
    let words = format!("by dscp 8 {}", "(".repeat(8));
    let refused = ElementSpec::parse(&words).unwrap_err();
    assert_eq!(refused.span, words.len()..words.len());
    assert_eq!(refused.allowed, "`)`");
}

#[test]
fn classes_draw_for_themselves() {
    let mut bench = Bench::new("by dscp 0 (netem loss 50%) 8 (netem loss 50%)");
    for i in 0..100 {
        for dscp in [0, 8] {
            bench.offer(ms(i), 100, dscp << 2);
        }
    }
    let passed = |class: u8| -> Vec<u64> {
        let of = bench.left.iter().filter(|(_, _, c)| *c == class);
        of.map(|(number, ..)| number / 2).collect()
    };
    assert_ne!(passed(0), passed(8 << 2));
}

#[test]
fn drops_and_marks_of_all_elements_are_counted() {
    let lossy = "netem loss 100% ecn";
    let words = format!("by dscp 8 ({lossy}) else (remark dscp be | {lossy})");
    let mut bench = Bench::new(&words);
    for class in [0, 1, 2, 8 << 2, 8 << 2 | 1] {
        bench.offer(ms(0), 100, class);
    }
    let counters = bench.element.counters();
    assert_eq!((counters.dropped, counters.marked), (2, 3));
    bench.check_conservation();
}

#[test]
fn one_that_is_woken_late_lets_out_what_was_due_before() {
    let mut bench = Bench::new("by dscp 0 (netem delay 10ms | remark dscp cs1)");
    bench.offer(ms(0), 100, 0);
    bench.wake(ms(20));
    assert_eq!(bench.left, [(0, ms(20), 8 << 2)]);
}

#[test]
fn a_change_for_an_element_too_many_is_refused_at_its_place() {
    let spec = ElementSpec::parse(WORDS).unwrap();
    let change = "af41 (delay 1ms | delay 2ms | delay 3ms)";
    let error = spec.check_change(change).unwrap_err();
    assert_eq!(&change[error.span], "delay 3ms");
    assert_eq!(error.allowed, "changes for at most 2 elements");
}

#[test]
fn each_class_has_its_own_delay() {
    let mut bench = Bench::new(WORDS);
    for dscp in [0, 8, 16, 34] {
        bench.offer(ms(0), 100, dscp << 2);
    }
    bench.run_until(Instant::MAX);
    let left: Vec<_> = bench.left.iter().map(|(i, t, _)| (*i, *t)).collect();
    assert_eq!(left, [(1, ms(5)), (0, ms(10)), (2, ms(80)), (3, ms(80))]);
    bench.check_conservation();
}

#[test]
fn a_class_without_elements_is_a_plain_wire() {
    let mut bench = Bench::new("by ecn ect1 () ce (netem delay 1ms)");
    for ecn in 0..3 {
        bench.offer(ms(0), 100, ecn);
    }
    assert_eq!(bench.left.len(), 3);
}

#[test]
fn classes_change_by_their_values() {
    let mut bench = Bench::new(WORDS);
    bench.change(ms(0), "af41 (| delay 1ms) else (loss 100%)");
    bench.offer(ms(0), 100, 16 << 2);
    bench.offer(ms(0), 100, 0);
    bench.run_until(Instant::MAX);
    assert_eq!(bench.left.len(), 1);
    assert_eq!(bench.left[0].1, ms(41));
    let spec = ElementSpec::parse(WORDS).unwrap();
    for words in [
        "af11 (delay 1ms)",
        "cs1 delay 1ms",
        "cs1 (rate 1Mbit)",
        "cs1 (|||)",
    ] {
        assert!(spec.check_change(words).is_err(), "{words}");
    }
}

#[test]
fn words_print_back() {
    for words in [
        WORDS,
        "by ecn not-ect (remark dscp cs1)",
        "by dscp 3 () else (netem delay 1ms)",
        "by dscp cs1 (by ecn ce (netem delay 1ms)) else (netem delay 2ms)",
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.to_string(), words);
    }
}

#[test]
fn wrong_words_are_refused_at_their_place() {
    for (words, at) in [
        ("by", ""),
        ("by port 5 (netem delay 1ms)", "port"),
        ("by dscp", ""),
        ("by dscp 64 (netem delay 1ms)", "64"),
        ("by dscp 8 netem delay 1ms", "netem"),
        ("by dscp 8 (netem delay 1ms", ""),
        ("by dscp 8", ""),
        ("by dscp 8 (netem delay 1m)", "1m"),
        ("by dscp 8 (netem delay 1ms | rate 5Mbit)", "rate 5Mbit"),
        ("by dscp 8 () 8 ()", "8"),
        ("by dscp 8 () cs1 ()", "cs1"),
        ("by dscp 8 () else () else ()", "else"),
        ("by dscp 8 ())", ")"),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
    }
}
