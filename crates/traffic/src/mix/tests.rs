//! Sizing, schedules, and files that are wrong or meant to do harm.

use narrows_units::Duration;
use proptest::prelude::*;

use super::*;

/// A mix in trafic's grammar with entries of `kind share`.
fn mix_of(bandwidth: &str, time: &str, entries: &[(&str, &str)]) -> String {
    let mut text = format!("total-bandwidth: {bandwidth}\ntotal-time: {time}\nflows:\n");
    for (i, (kind, share)) in entries.iter().enumerate() {
        let (first, last) = (1_000 + i * 10_000, 1_000 + i * 10_000 + 9_999);
        text += &format!(
            "  - kind: {kind}\n    percent-bandwidth: {share}\n    ports-range: {first}-{last}\n    \
             props:\n      label: {kind}-{i}\n"
        );
    }
    text
}

fn refused(text: &str) -> MixError {
    match Mix::read("mix.yaml", text) {
        Err(error) => error,
        Ok(mix) => panic!("{text} was read as {mix:?}"),
    }
}

const FLOW: &str = "label: &name segments
port: &p 7000
client:
  at: [0s, 5s, 15s]
  config: {server-address: host.example, server-port: *p, title: *name, bytes: 1.8M}
server:
  at: [0s]
  config: {server-port: *p}
";

#[test]
fn a_mix_has_as_many_flows_of_each_kind_as_its_share_has_room_for() {
    let shares = [
        ("realtime-audio", "1%"),
        ("realtime-video", "6%"),
        ("scavenger", "10%"),
        ("greedy", "25%"),
    ];
    let mix = Mix::read("mix.yaml", &mix_of("12.5MB", "60s", &shares)).unwrap();
    let counts: Vec<_> = mix.sets.iter().map(|set| set.instances).collect();
    assert_eq!(counts, [15, 7, 10, 3]);
    assert_eq!(
        mix.sets[3].starts,
        Starts::Every {
            period: Duration::from_secs(30),
            times: 2
        }
    );
    // 8 kB a second are 507.9 datagrams in 8 s… each in whole datagrams, for 60 s.
    let audio = mix.sets[0].sends.packets().unwrap();
    assert_eq!(audio, 3_810);
    assert_eq!(mix.sets[2].bytes(), Some(10 * 7_500_000));
    assert_eq!(mix.sets[3].bytes(), Some(3 * 2 * 25_000_000));
}

/// How many there are, by adding one after the other in whole billionths of a bit.
fn naive(bandwidth: u64, hundredths: u64, kind: &str) -> u32 {
    let (bits, seconds) = match kind {
        "realtime-audio" => (64_000, 1),
        "realtime-video" => (810_000, 1),
        "scavenger" => (1_000_000, 1),
        "greedy" => (25_000_000 * 8, 30),
        "abr-video" => (1_800_000 * 8, 10),
        _ => (1_246_000 * 8, 10),
    };
    let room = u128::from(bandwidth) * 8 * u128::from(hundredths) * seconds;
    let mut taken = 0_u128;
    let mut count = 0;
    while taken + bits * 10_000 <= room {
        taken += bits * 10_000;
        count += 1;
    }
    count
}

proptest! {
    #[test]
    fn sizing_is_that_of_a_count_one_by_one(
        kilobytes in 1_u64..100_000,
        hundredths in 1_u64..=10_000,
        kind in 0_usize..6,
    ) {
        let name = KINDS[kind].name;
        let share = format!("{}.{:02}%", hundredths / 100, hundredths % 100);
        let text = mix_of(&format!("{kilobytes}KB"), "60s", &[(name, &share)]);
        let expected = naive(kilobytes * 1_000, hundredths, name);
        match Mix::read("mix.yaml", &text) {
            Ok(mix) => prop_assert_eq!(mix.sets[0].instances, expected),
            Err(error) => prop_assert!(expected > 10_000, "{error}"),
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail_otherwise_than_by_an_error(text in "[\\PC\n]{0,200}") {
        let _ = Mix::read("mix.yaml", &text);
    }
}

#[test]
fn mutated_files_are_read_or_refused_at_a_place_of_theirs() {
    let whole = mix_of(
        "12.5MB",
        "60s",
        &[("web-page", "25%"), ("realtime-audio", "1%")],
    );
    let seeds = [whole, FLOW.to_owned()].map(String::into_bytes);
    narrows_fuzz::Corpus::of(seeds).run(4_000, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(error) = Mix::read("mix.yaml", &text) {
            assert!(error.at.0 <= text.lines().count() + 2, "{error}");
        }
    });
}

#[test]
fn offsets_are_of_the_seed_within_the_period_and_bytes_do_not_depend_on_them() {
    let mix = Mix::read("mix.yaml", &mix_of("12.5MB", "60s", &[("web-page", "25%")])).unwrap();
    let bytes = |all: &[Transfer]| all.iter().filter_map(|t| t.sends.bytes()).sum::<u64>();
    let (one, two) = (
        mix.schedule(Offsets::Random, 1),
        mix.schedule(Offsets::Random, 2),
    );
    assert_eq!(one, mix.schedule(Offsets::Random, 1));
    assert_ne!(one, two);
    for offsets in [Offsets::Random, Offsets::Spread, Offsets::Together] {
        let all = mix.schedule(offsets, 1);
        assert_eq!((all.len(), bytes(&all)), (25 * 6, mix.bytes()));
        assert!(
            all.iter().all(|t| t.start < Duration::from_secs(60)),
            "{offsets:?}"
        );
    }
    let spread = mix.schedule(Offsets::Spread, 1);
    assert_eq!(spread[1].start, Duration::from_millis(400));
}

#[test]
fn a_flow_file_is_read_with_anchors_and_irregular_times() {
    let mix = Mix::read("flow.yaml", FLOW).unwrap();
    let set = &mix.sets[0];
    assert_eq!(
        (set.label.as_str(), set.sends),
        ("segments", Sends::Get(1_800_000))
    );
    assert_eq!(set.starts.times(), 3);
    assert_eq!(mix.bytes(), 3 * 1_800_000);
}

#[test]
fn the_words_of_iperf3_say_what_is_sent() {
    let of = |config: &str| {
        let text =
            format!("label: x\nclient:\n  at: [0s]\n  config: {{server-address: h, {config}}}\n");
        Mix::read("flow.yaml", &text).unwrap().sets.remove(0)
    };
    let minute = Until::Time(Duration::from_secs(60));
    let audio =
        of("udp: true, length: 126, target-bitrate: 64K, time-s: 60, parallel: 2, tos: 0xb8");
    let sends = Sends::Datagrams {
        rate: 64_000,
        size: 126,
        until: minute,
    };
    assert_eq!(
        (audio.sends, audio.instances, audio.dscp),
        (sends, 2, Some(46))
    );
    assert_eq!(
        of("target-bitrate: 1M, time-s: 60").sends,
        Sends::Paced {
            rate: 1_000_000,
            until: minute
        }
    );
    assert_eq!(of("time-s: 5").sends, Sends::Bulk(Duration::from_secs(5)));
    assert_eq!(of("title: x").sends, Sends::Bulk(Duration::from_secs(10)));
    assert_eq!(of("blockcount: 10, length: 1K").sends, Sends::Get(10_000));
    assert_eq!(of("dscp: af12").dscp, Some(12));
    let counted = of("udp: true, length: 100, bytes: 250");
    assert_eq!(
        (counted.sends.packets(), counted.sends.bytes()),
        (Some(3), Some(300))
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let mix = mix_of("12.5MB", "60s", &[("web-page", "25%")]);
    let with = |from: &str, to: &str| {
        assert!(mix.contains(from), "{from}");
        refused(&mix.replace(from, to))
    };
    for (from, to, at, key) in [
        ("12.5MB", "12.5", (1, 18), "total-bandwidth"),
        ("60s", "sixty", (2, 13), "total-time"),
        ("60s", "0s", (2, 13), "total-time"),
        ("kind: web-page", "kind: webpage", (4, 11), "flows/1/kind"),
        ("25%", "125%", (5, 24), "flows/1/percent-bandwidth"),
        ("1000-10999", "2000-1000", (6, 18), "flows/1/ports-range"),
        ("1000-10999", "1000-1001", (6, 18), "flows/1/ports-range"),
        (
            "label: web-page-0",
            "label: $(reboot)",
            (8, 14),
            "flows/1/props/label",
        ),
        (
            "label: web-page-0",
            "label: ../../etc/passwd",
            (8, 14),
            "flows/1/props/label",
        ),
        (
            "label: web-page-0",
            "label: \"a; rm -rf /\"",
            (8, 14),
            "flows/1/props/label",
        ),
        ("percent-bandwidth", "percent", (5, 5), "flows/1"),
        ("total-time", "total", (2, 1), ""),
    ] {
        let error = with(from, to);
        assert_eq!((error.at, error.key.as_str()), (at, key), "{error}");
        assert!(error.to_string().starts_with("mix.yaml:"), "{error}");
    }
    let error = with("kind: web-page", "template: t\n    kind: web-page");
    assert!(error.allowed.contains("flow file"), "{error}");
    assert_eq!(refused("").found, "nothing");
    assert_eq!(refused("- a\n- b\n").allowed, "a map of keys");
    assert!(refused("a: 1\na: 2\n").found.contains("second time"));
    assert!(
        refused("a: 1\n---\nb: 2\n")
            .found
            .contains("second document")
    );
    assert!(refused("a: !!binary x\n").found.contains("tag"));
    assert!(refused("a: &x [*x]\n").found.contains("alias"));
}

#[test]
fn a_label_is_not_two_flows() {
    let two = mix_of("12.5MB", "60s", &[("web-page", "1%"), ("web-page", "1%")]);
    let error = refused(&two.replace("web-page-1", "web-page-0"));
    assert_eq!(error.key, "flows/2/props/label");
    let twice = Mix::of_files([("a.yaml", FLOW), ("b.yaml", FLOW)]).unwrap_err();
    assert_eq!(twice.file, "b.yaml");
}

#[test]
fn what_is_large_or_deep_beyond_meaning_is_refused() {
    // A billion by aliases of aliases.
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let of = format!("*a{}, ", i - 1).repeat(10);
        laughs += &format!("a{i}: &a{i} [{}]\n", of.trim_end_matches(", "));
    }
    assert!(refused(&laughs).allowed.contains("aliases"));
    let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(refused(&deep).allowed.contains("at most"));
    let deepest = "[".repeat(200_000);
    assert!(!refused(&deepest).found.is_empty());
    let many = format!("flows:\n{}", "- x\n".repeat(100_000));
    assert!(refused(&many).allowed.contains("at most"));
    let keys: String = (0..20_000).map(|i| format!("k{i}: 1\n")).collect();
    assert!(refused(&keys).allowed.contains("keys"));
    assert!(refused(&" ".repeat(2 << 20)).found.contains("bytes"));
    let huge = mix_of("1TB", "168h", &[("realtime-audio", "100%")]);
    assert!(refused(&huge).allowed.contains("in all"));
    let long = mix_of("9".repeat(400).as_str(), "60s", &[("greedy", "1%")]);
    let error = refused(&long);
    assert!(error.to_string().len() < 300, "{error}");
}

#[test]
fn shares_above_the_whole_are_noted() {
    let notes = |shares: [&str; 2]| {
        let [one, other] = shares;
        let text = mix_of("10MB", "60s", &[("greedy", one), ("realtime-audio", other)]);
        Mix::read("mix.yaml", &text).unwrap().notes
    };
    let noted = notes(["90%", "60.5%"]);
    assert!(
        noted.iter().any(|note| note.contains("150.5 %")),
        "{noted:?}"
    );
    assert_eq!(notes(["40%", "60%"]), Vec::<String>::new());
    assert!(notes(["40%", "60.01%"])[0].contains("100.01 %"));
    assert!(notes(["100%", "5%"])[0].contains(" 105 %"));
}

#[test]
fn a_share_too_small_for_one_flow_has_none_and_says_so() {
    let mix = Mix::read("mix.yaml", &mix_of("1KB", "60s", &[("greedy", "1%")])).unwrap();
    assert_eq!((mix.sets[0].instances, mix.bytes()), (0, 0));
    assert!(mix.notes[0].contains("less than one"), "{:?}", mix.notes);
    let mix = Mix::read("mix.yaml", &mix_of("10MB", "20s", &[("greedy", "90%")])).unwrap();
    assert!(mix.notes[0].contains("shorter"), "{:?}", mix.notes);
}
