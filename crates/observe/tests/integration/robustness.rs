//! Whatever bytes come, an observer answers, ends, and accounts for each packet.

use crate::targets::{is_accounted_for, read, small};
use narrows_fuzz::Corpus;
use narrows_observe::{Filter, Nothing, Observer, ObserverConfig, classify_into};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::link::LinkType;

fn corpus(name: &str) -> Corpus {
    Corpus::in_directory(format!(
        "{}/../wire/tests/corpus/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
}

#[test]
fn fuzz_captures() {
    corpus("capture").run(5_000, |bytes| {
        read(bytes);
    });
}

#[test]
fn fuzz_packets_one_after_another() {
    let mut observer = Observer::new(small());
    let mut id = 0;
    corpus("packet").run(20_000, |bytes| {
        id += 1;
        // Time goes back now and then, as in captures of several queues.
        let at = Instant::from_nanos(id * 1_000_000 % 977_000_000);
        observer.observe(bytes, at, id, &mut Nothing);
        for number in [0, 1, 101, 113, 276] {
            observer.observe_frame(LinkType(number), bytes, at, id, &mut Nothing);
        }
    });
    is_accounted_for(&observer);
    for flow in observer.flows() {
        Observer::estimates(flow);
    }
}

#[test]
fn fuzz_filters() {
    let seeds = [
        "tcp and port 443",
        "not (host 10.0.0.1 or net ::/0)",
        "src port 1-2",
        "tcp src port 80 or vlan 7",
    ];
    Corpus::of(seeds.map(|s| s.as_bytes().to_vec()))
        .with_words(&[
            "and", "or", "not", "(", ")", "port", "host", "&&", "||", "!", "tcp", "icmp6", "vlan",
            "net", "dst",
        ])
        .run(10_000, |bytes| {
            let Ok(text) = std::str::from_utf8(bytes) else {
                return;
            };
            if let Ok(filter) = text.parse::<Filter>() {
                assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
            }
        });
}

#[test]
fn a_file_cut_at_any_byte_gives_what_came_before() {
    let path = format!(
        "{}/../wire/tests/corpus/capture/micros-little.pcap",
        env!("CARGO_MANIFEST_DIR")
    );
    let whole = std::fs::read(path).unwrap();
    let packets = read(&whole);
    assert!(packets > 1);
    let mut before = 0;
    for end in 0..whole.len() {
        let seen = read(&whole[..end]);
        assert!(seen >= before && seen <= packets, "cut at {end}");
        before = seen;
    }
    assert_eq!(before, packets - 1);
}

#[test]
fn random_bytes_are_no_flows_or_few_and_end() {
    let mut rng = Rng::for_name(1, "bytes");
    let mut observer = Observer::new(small());
    for id in 0..20_000 {
        let length = rng.below(120) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x60, 0x4f, 0x46][rng.below(4) as usize];
        }
        observer.observe(&bytes, Instant::from_nanos(id), id, &mut Nothing);
    }
    is_accounted_for(&observer);
    let c = observer.counters();
    assert!(c.malformed > 0 && c.truncated > 1_000, "{c:?}");
}

/// Every kept packet, with its file's name.
fn packets() -> Vec<(String, Vec<u8>)> {
    let directory = format!("{}/../wire/tests/corpus/packet", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|e| e.unwrap().path()).filter(|p| p.is_file());
    let name = |p: &std::path::Path| p.file_name().unwrap().to_string_lossy().into_owned();
    let all: Vec<_> = paths
        .map(|p| (name(&p), std::fs::read(&p).unwrap()))
        .collect();
    assert!(all.len() > 15);
    all
}

/// What an observer that has seen nothing counts for one packet.
fn counted(bytes: &[u8]) -> narrows_observe::ObserverCounters {
    counted_cut(bytes, 0)
}

/// The same of a packet of which a capture has not kept the last `cut` bytes.
fn counted_cut(bytes: &[u8], cut: usize) -> narrows_observe::ObserverCounters {
    let mut observer = Observer::new(small());
    let mut read = None;
    classify_into(bytes, cut as u32, &mut read);
    if let Some(packet) = observer.count(&read.expect("it is read")) {
        observer.take(packet, Instant::from_nanos(0), 1, &mut Nothing);
    }
    is_accounted_for(&observer);
    *observer.counters()
}

#[test]
fn a_packet_cut_at_any_byte_is_truncated_or_seen_but_never_a_contradiction() {
    for (name, whole) in packets() {
        let all = counted(&whole);
        if all.malformed > 0 || name.starts_with("frame-") {
            continue;
        }
        let mut before = 0;
        for end in 0..=whole.len() {
            let c = counted_cut(&whole[..end], whole.len() - end);
            assert_eq!(c.malformed, 0, "{name} cut at {end}: {c:?}");
            assert!(c.observed >= before, "{name} cut at {end} is seen less");
            before = c.observed;
            if all.observed > 0 {
                assert_eq!(c.observed + c.truncated, 1, "{name} cut at {end}: {c:?}");
            }
        }
        assert_eq!(before, all.observed, "{name}");
    }
}

#[test]
fn lengths_that_contradict_each_other_are_malformed() {
    let read = |name: &str| packets().into_iter().find(|p| p.0 == name).unwrap().1;
    let (v4, udp, v6) = (read("v4-syn"), read("v4-udp"), read("v6-syn"));
    assert_eq!(v4[0], 0x45);
    let with = |bytes: &[u8], at: usize, value: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let more: [(&str, Vec<u8>); 11] = [
        ("an IPv4 header of 0 bytes", with(&v4, 0, &[0x40])),
        ("an IPv4 header of 16 bytes", with(&v4, 0, &[0x44])),
        (
            "an IPv4 packet shorter than its header",
            with(&v4, 2, &[0, 19]),
        ),
        (
            "an IPv4 packet that ends inside TCP",
            with(&v4, 2, &[0, 39]),
        ),
        ("a TCP header of 0 bytes", with(&v4, 32, &[0])),
        ("a TCP header of 16 bytes", with(&v4, 32, &[0x40])),
        (
            "a TCP header longer than its packet",
            with(&with(&v4, 32, &[0xf0]), 2, &[0, 79]),
        ),
        ("a UDP datagram of 0 bytes", with(&udp, 24, &[0, 0])),
        ("a UDP datagram of 7 bytes", with(&udp, 24, &[0, 7])),
        (
            "an IPv6 packet without room for TCP",
            with(&v6, 4, &[0, 19]),
        ),
        ("version 5", with(&v4, 0, &[0x55])),
    ];
    for (what, bytes) in more {
        let c = counted(&bytes);
        assert_eq!((c.malformed, c.observed), (1, 0), "{what}: {c:?}");
    }
    // Longer than what was captured is no contradiction, however long, nor is no length.
    for (bytes, at) in [(&v4, 2), (&v6, 4), (&udp, 2)] {
        for length in [[0xff, 0xff], [0, 0]] {
            let c = counted(&with(bytes, at, &length));
            assert_eq!((c.malformed, c.observed), (0, 1), "{c:?}");
        }
    }
}

#[test]
fn options_of_any_length_end_and_those_that_contradict_themselves_are_malformed() {
    let base = packets().into_iter().find(|p| p.0 == "v4-syn").unwrap().1;
    let mut of_all = 0;
    for kind in 0..=255u8 {
        for length in 0..=255u8 {
            let mut bytes = base[..40].to_vec();
            bytes[32] = 0xf0;
            bytes[2..4].copy_from_slice(&80u16.to_be_bytes());
            // The same option over and over, up to the end of the header.
            bytes.extend([kind, length].iter().cycle().take(40));
            let c = counted(&bytes);
            assert_eq!(c.observed, 1, "option {kind} of {length}: {c:?}");
            let bad = match (kind, length) {
                // The end of the list; a no-operation before one or another.
                (0, _) | (1, 0 | 1) => false,
                // What follows a no-operation has length 1; others 0 or 1.
                (1, _) | (_, 0 | 1) => true,
                // Past the end at once, or after some that fit; or just to it.
                (_, 41..) => true,
                (_, even) if even % 2 == 0 => 40 % even != 0,
                // The next one starts in the middle of a pair.
                _ => continue,
            };
            assert_eq!(c.malformed == 1, bad, "option {kind} of {length}: {c:?}");
            of_all += c.malformed;
        }
    }
    assert!(of_all > 50_000, "{of_all}");
}

#[test]
fn chains_of_extension_headers_of_every_kind_and_length_end() {
    let mut malformed = 0;
    for kind in [0u8, 43, 44, 51, 60, 135] {
        for length in [0u8, 1, 2, 7, 254, 255] {
            for payload in [0u16, 8, 40, 0xffff] {
                let mut bytes = vec![0x60, 0, 0, 0, 0, 0, kind, 64];
                bytes[4..6].copy_from_slice(&payload.to_be_bytes());
                bytes.resize(40, 1);
                // Each says that another of its kind follows.
                for _ in 0..200 {
                    bytes.extend_from_slice(&[kind, length, 0, 0, 0, 0, 0, 0]);
                }
                let c = counted(&bytes);
                assert_eq!(c.observed, 0, "{kind} {length} {payload}: {c:?}");
                malformed += c.malformed;
            }
        }
    }
    assert!(
        malformed > 50,
        "a chain that outruns its packet: {malformed}"
    );
}

#[test]
fn files_that_claim_absurd_lengths_end_and_cost_nothing() {
    let directory = format!(
        "{}/../wire/tests/corpus/capture",
        env!("CARGO_MANIFEST_DIR")
    );
    for entry in std::fs::read_dir(directory).unwrap() {
        let whole = std::fs::read(entry.unwrap().path()).unwrap();
        // Every aligned word in turn, in both byte orders.
        for at in (0..whole.len().saturating_sub(3)).step_by(4) {
            for value in [0u32, 1, 3, 0x7fff_ffff, 0xffff_fff0, u32::MAX] {
                for word in [value.to_le_bytes(), value.to_be_bytes()] {
                    let mut bytes = whole.clone();
                    bytes[at..at + 4].copy_from_slice(&word);
                    read(&bytes);
                }
            }
        }
    }
}

#[test]
fn a_long_chain_of_extension_headers_ends() {
    let mut bytes = vec![0x60, 0, 0, 0, 0xff, 0xff, 0, 64];
    bytes.resize(40, 1);
    for _ in 0..8_000 {
        bytes.extend_from_slice(&[0, 0, 1, 4, 0, 0, 0, 0]);
    }
    let mut observer = Observer::new(ObserverConfig::default());
    observer.observe(&bytes, Instant::from_nanos(0), 0, &mut Nothing);
    let c = observer.counters();
    assert_eq!((c.observed, c.truncated + c.malformed), (0, 1));
}

#[test]
fn silent_flows_end_and_the_table_never_overflows() {
    let config = ObserverConfig {
        max_flows: 100,
        idle: Duration::from_secs(10),
        ..ObserverConfig::default()
    };
    let mut observer = Observer::new(config);
    let mut bytes = std::fs::read(format!(
        "{}/../wire/tests/corpus/packet/v4-udp",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    for n in 0..1_000u32 {
        bytes[12..16].copy_from_slice(&n.to_be_bytes());
        let at = Instant::from_nanos(u64::from(n));
        observer.observe(&bytes, at, u64::from(n), &mut Nothing);
    }
    assert_eq!(
        (observer.flows().count(), observer.counters().evicted),
        (100, 900)
    );
    // An hour later, each new flow sees two old ones off.
    for n in 0..60u32 {
        bytes[12..16].copy_from_slice(&(n | 1 << 24).to_be_bytes());
        let at = Instant::from_nanos(3_600_000_000_000 + u64::from(n));
        observer.observe(&bytes, at, u64::from(n), &mut Nothing);
    }
    assert_eq!(
        (observer.flows().count(), observer.counters().expired),
        (60, 100)
    );
}
