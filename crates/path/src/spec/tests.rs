//! What kinds of elements answer, all beside each other.

use narrows_core::{Event, EventSink, PacketPool};
use narrows_units::Value;

use super::*;
use crate::codepoint::{Dscp, EcnWord};
use crate::testing::{Bench, datagram, ms};
use crate::trace::TraceSpec;

/// An element with what its file holds, if it names one.
fn spec(words: &str, file: &str) -> ElementSpec {
    let mut spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
    if !file.is_empty() {
        let named = spec.file().unwrap_or_else(|| panic!("{words}: no file"));
        named.read(file).unwrap_or_else(|e| panic!("{words}: {e}"));
    }
    spec
}

#[test]
fn an_empty_element_takes_what_its_words_and_the_length_say() {
    let by = "by dscp cs1 (netem delay 5ms | netem delay 7ms) else (netem delay 1ms)";
    let each = "time_s,rate_mbit\n0,8\n";
    for (words, file, dscp, mtu, us) in [
        // 1000 bytes as the link counts them, at a byte a microsecond.
        ("rate 8Mbit overhead 0", "", 0, 1000, 1_000),
        ("rate 8Mbit overhead 38", "", 0, 962, 1_000),
        ("switch buffer 1mb rate 8Mbit", "", 0, 986, 1_000),
        ("rate trace a.csv", each, 0, 986, 1_000),
        // 1504 bytes a millisecond, four of them of the TUN device.
        ("rate trace a.up", "1\n", 0, 1500, 1_000),
        // What was not read sends nothing.
        ("rate trace a.up", "", 0, 1500, 0),
        ("netem delay 10ms 2ms", "", 0, 1500, 10_000),
        (
            "netem trace a.csv",
            "time_s,delay_ms\n0,50\n1,20\n",
            0,
            1500,
            50_000,
        ),
        (by, "", 8, 1500, 12_000),
        (by, "", 0, 1500, 1_000),
        // Packets of a flow have several codepoints: the longest way.
        (
            "by ecn ce (netem delay 4ms) ect1 (netem delay 9ms)",
            "",
            0,
            1500,
            9_000,
        ),
        ("cell blocks 6", "", 0, 1500, 0),
        // 549 bytes a subframe, the last of which is received after 3 ms.
        ("cell blocks 6 cqi 15", "", 0, 549, 3_000),
        ("cell blocks 6 cqi 15", "", 0, 550, 4_000),
        ("cell blocks 6 cqi 15", "", 0, 1500, 5_000),
        ("cell blocks 6 cqi 15 delay 4ms", "", 0, 1500, 6_000),
        ("cell blocks 6 cqi 0", "", 0, 1500, 3_000),
        ("cell blocks 6 trace a.up", "1\n", 0, 1500, 3_000),
        ("cell blocks 6 trace a.up", "1\n", 0, 1501, 4_000),
        ("cell blocks 6 trace a.csv", each, 0, 2000, 4_000),
    ] {
        let found = spec(words, file).base_delay(dscp, mtu);
        assert_eq!(found, Duration::from_micros(us), "{words} {dscp} {mtu}");
    }
}

#[test]
fn an_element_with_a_file_names_it_and_what_it_may_hold() {
    for (words, name, what, allowed) in [
        (
            "rate trace up.trace",
            "up.trace",
            "the trace",
            TraceSpec::ALLOWED,
        ),
        (
            "netem trace d.csv",
            "d.csv",
            "the trace",
            "a first line `time_s,delay_ms`, and a time and a delay in each further line",
        ),
        (
            "wifi mcs trace m.csv",
            "m.csv",
            "the trace",
            "a first line `time_s,mcs`, and a time and an MCS of the channel in each further line",
        ),
        (
            "cell blocks 6 cqi trace c.csv",
            "c.csv",
            "the trace",
            "a first line `time_s,cqi`, and a time and a CQI from 0 to 15 in each further line",
        ),
        (
            "cell blocks 6 trace c.up",
            "c.up",
            "the trace",
            TraceSpec::ALLOWED,
        ),
        (
            "mmb my.mmb",
            "my.mmb",
            "the rules",
            "a file of rules, or a ready box",
        ),
    ] {
        let mut spec = ElementSpec::parse(words).unwrap();
        let file = spec.file().unwrap_or_else(|| panic!("{words}"));
        assert_eq!((file.name(), file.what()), (name, what), "{words}");
        assert_eq!(file.allowed(), allowed, "{words}");
        let refused = file.read("?\u{1b}[31m").unwrap_err();
        assert!(refused.contains("line 1"), "{words}: {refused}");
        assert!(refused.contains('?'), "{words}: {refused}");
    }
    for words in ["mmb snat", "wifi mcs 3", "cell blocks 6 cqi 1", "nat"] {
        assert!(
            ElementSpec::parse(words).unwrap().file().is_none(),
            "{words}"
        );
    }
}

#[test]
fn what_is_no_element_is_refused_with_what_it_may_have_meant() {
    let queue = Some("a queue belongs to a rate: `rate 50Mbit queue fq_codel`");
    let shaper = Some("write `rate 50Mbit shaper queue …` for a shaper");
    for (words, help) in [
        ("delay 10ms", Some("write `netem delay 10ms`")),
        ("slot 10ms ", Some("write `netem slot 10ms`")),
        ("tbf rate 1Mbit", shaper),
        ("htb rate 1Mbit", shaper),
        ("queue codel", queue),
        ("codel", queue),
        ("frob 1", None),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(error.help.as_deref(), help, "{words}");
        assert_eq!(
            error.allowed,
            "an element: rate, wifi, netem, remark, by, police, mtu, mmb, nat, tunnel, switch, \
             cell or tap",
            "{words}"
        );
    }
}

#[test]
fn words_of_another_kind_make_another_element() {
    let delay = ElementSpec::parse("netem delay 5ms").unwrap();
    for words in [
        "nat",
        "tap mid",
        "remark ecn ce",
        "netem trace a.csv",
        "police rate 1Mbit burst 10Kb",
        "tunnel end",
    ] {
        let over = delay.overlaid(words).unwrap();
        assert_eq!(Ok(&over), ElementSpec::parse(words).as_ref(), "{words}");
        assert_eq!(over.to_string(), words);
    }
    for words in ["nat inside", "remark", "netem trace a.txt", "netem"] {
        assert!(delay.overlaid(words).is_err(), "{words}");
        assert!(ElementSpec::parse(words).is_err(), "{words}");
    }
}

#[test]
fn elements_without_anything_to_change_refuse_changes() {
    for words in [
        "nat",
        "tap mid",
        "netem trace a.csv",
        "tunnel wireguard",
        "rate trace a.csv",
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        let error = spec.check_change("rate 1Mbit").unwrap_err();
        assert_eq!(error.span, 0..10, "{words}");
        assert_eq!(error.found, "`rate 1Mbit`", "{words}");
    }
    for (words, change) in [
        ("police rate 1Mbit burst 1kb", "burst"),
        ("police rate 1Mbit burst 1kb", "overhead 5"),
        ("remark ecn ce", "remark"),
        ("rate 1Mbit queue pfifo", "frob limit 5"),
        ("cell blocks 6 cqi 7", "queue frob 5"),
        ("cell blocks 6 cqi 7", "distance 0m"),
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert!(spec.check_change(change).is_err(), "{words}: {change}");
    }
    for (words, change) in [
        ("cell blocks 6 cqi 7 queue pfifo", "queue limit 5"),
        ("cell blocks 6 cqi 7", "cqi 15 distance 1km"),
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.check_change(change), Ok(()), "{words}: {change}");
    }
}

#[test]
fn a_link_answers_what_its_queue_and_its_words_say() {
    let mut packet = PacketPool::new().take(Instant::ZERO, None);
    packet.bytes = datagram("10.0.0.1:5000", "10.0.0.2:80", 100);
    for (words, overhead, step, flows) in [
        (
            "rate 1Mbit queue dualpi2 step_thresh 3ms",
            14,
            Some(3),
            false,
        ),
        ("rate 1Mbit overhead 38 queue codel", 38, None, false),
        ("rate trace a.up queue fq_codel", 4, None, true),
        ("wifi mcs 7", 0, None, false),
        ("netem delay 1ms", 0, None, false),
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.overhead_bytes(), overhead, "{words}");
        let step = step.map(Duration::from_millis);
        assert_eq!(spec.marking_step(), step, "{words}");
        assert_eq!(spec.bucket_of(1, "a", &packet).is_some(), flows, "{words}");
    }
    // Flows are spread over the buckets, with another salt in each run.
    let fair = ElementSpec::parse("rate 1Mbit queue fq_codel").unwrap();
    let of = |seed| fair.bucket_of(seed, "a", &packet).unwrap();
    assert!((0..10).any(|seed| of(seed) != of(0)));
    assert!((0..10).all(|seed| of(seed) == of(seed)));
}

/// What an element holds back, repeats, damages or sets, and whether it shares its link.
fn facts(words: &str) -> [bool; 5] {
    let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
    let facts = spec.facts();
    [
        facts.holds_back,
        facts.sets_ecn,
        facts.duplicates,
        facts.corrupts,
        facts.link.is_some_and(|link| link.shared),
    ]
}

#[test]
fn facts_follow_from_the_words_and_those_of_classes_from_their_elements() {
    const NONE: [bool; 5] = [false; 5];
    let only = |at: usize| std::array::from_fn(|i| i == at);
    for (words, expected) in [
        ("netem loss 1%", NONE),
        ("netem delay 1ms", only(0)),
        ("netem slot 1ms", only(0)),
        // A jitter about no delay delays every other packet.
        ("netem delay 0s 1ms", only(0)),
        ("netem duplicate 1%", only(2)),
        ("netem corrupt 1%", only(3)),
        ("remark ecn ce", only(1)),
        ("remark dscp be", NONE),
    ] {
        assert_eq!(facts(words), expected, "{words}");
        let inner = format!("by dscp cs1 ({words}) cs2 (remark dscp be)");
        assert_eq!(facts(&inner), expected, "{inner}");
        let inner = format!("by dscp cs1 () else (remark dscp be | {words})");
        assert_eq!(facts(&inner), expected, "{inner}");
    }
    let link = [true, false, false, false];
    for (words, shared) in [
        ("wifi mcs 9", false),
        ("wifi mcs 9 stations 1", true),
        ("rate 1Mbit", false),
        ("cell blocks 6 cqi 7", true),
        ("wifi ap mcs 7", true),
    ] {
        let found = facts(words);
        assert_eq!((&found[..4], found[4]), (&link[..], shared), "{words}");
    }
    for (words, node) in [
        ("switch buffer 1mb rate 1Mbit", true),
        ("cell blocks 6", true),
        ("wifi ap", true),
        ("wifi mcs 7", false),
        ("rate 1Mbit", false),
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.facts().node, node, "{words}");
    }
    for (words, mtu) in [
        ("mtu 1400", Some(1400)),
        ("tunnel fou mtu 1300", Some(1300)),
        ("tunnel fou", None),
        ("tunnel end", None),
    ] {
        let spec = ElementSpec::parse(words).unwrap();
        assert_eq!(spec.facts().mtu.map(|mtu| mtu.mtu), mtu, "{words}");
    }
}

#[test]
fn what_passes_is_counted_in_packets_and_bytes_in_and_out() {
    for (words, file) in [
        ("by dscp cs1 (remark ecn ce)", ""),
        ("by dscp be (netem delay 1ms) else ()", ""),
        ("police rate 1Gbit burst 10kb", ""),
        ("remark dscp be", ""),
        ("tap mid", ""),
        ("netem loss none", ""),
        ("netem delay 1ms", ""),
        ("netem delay 10ms 1ms", ""),
        ("netem trace a.csv", "time_s,delay_ms\n0,5\n"),
        ("rate 8Mbit", ""),
        ("rate trace a.up", "1\n"),
        ("wifi mcs 9", ""),
        ("switch buffer 1mb rate 8Mbit", ""),
        ("cell blocks 6", ""),
        ("cell blocks 6 cqi 15", ""),
        ("wifi ap", ""),
        ("wifi ap mcs 9", ""),
        ("wifi ap mcs 9 scheduler fifo", ""),
    ] {
        let mut bench = Bench::with(&spec(words, file), 1);
        for len in [100, 250] {
            bench.offer(ms(1), len, 0);
        }
        bench.run_until(ms(1000));
        let counters = bench.element.counters();
        let found = (counters.packets_in, counters.bytes_in);
        assert_eq!(found, (2, 350), "{words}: in");
        let found = (counters.packets_out, counters.bytes_out);
        assert_eq!(found, (2, 350), "{words}: out");
        assert_eq!((counters.dropped, counters.marked), (0, 0), "{words}");
        assert_eq!(bench.left.len(), 2, "{words}");
    }
}

/// Samples of queues: packets and bytes that wait.
#[derive(Default)]
struct Samples(Vec<(u32, u64)>);

impl EventSink for Samples {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::QueueSampled {
            backlog_packets,
            backlog_bytes,
            ..
        } = event
        {
            self.0.push((backlog_packets, backlog_bytes));
        }
    }
}

#[test]
fn a_link_samples_what_waits_for_it_and_a_wire_nothing() {
    let at = Instant::from_nanos(300_000);
    for (words, file, waiting) in [
        // One of the three is on its way.
        ("rate 8Kbit", "", &[(2, 2 * 1514)][..]),
        (
            "rate trace a.csv",
            "time_s,rate_mbit\n0,0.008\n",
            &[(2, 2 * 1514)],
        ),
        (
            "switch buffer 1mb rate 8Kbit overhead 0",
            "",
            &[(2, 2 * 1500)],
        ),
        ("rate trace a.up", "1000\n", &[(3, 3 * 1504)]),
        ("wifi mcs 9", "", &[(3, 3 * 1500)]),
        ("cell blocks 6 cqi 15", "", &[(3, 3 * 1500)]),
        ("cell blocks 6", "", &[]),
        ("netem delay 1s", "", &[]),
    ] {
        let mut bench = Bench::with(&spec(words, file), 1);
        for _ in 0..3 {
            bench.offer(at, 1500, 0);
        }
        let mut samples = Samples::default();
        bench.element.sample(at, &mut samples);
        assert_eq!(samples.0, waiting, "{words}");
    }
}

#[test]
fn a_class_is_refused_with_the_values_of_its_field() {
    for (words, values) in [
        ("by dscp 64 ()", Dscp::ALLOWED),
        ("by ecn ect2 ()", EcnWord::ALLOWED),
    ] {
        let error = ElementSpec::parse(words).unwrap_err();
        assert_eq!(error.allowed, format!("{values}; or else"), "{words}");
    }
}
