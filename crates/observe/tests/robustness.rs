//! Whatever bytes come, an observer answers, ends, and accounts for each packet.

use narrows_fuzz::Corpus;
use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Config, Filter, Nothing, Observer};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::capture::CaptureReader;
use narrows_wire::link::LinkType;

fn corpus(name: &str) -> Corpus {
    Corpus::in_directory(format!(
        "{}/../wire/tests/corpus/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
}

/// Every packet is in one account or another.
fn is_accounted_for(observer: &Observer) {
    let c = observer.counters();
    let refused = c.no_ip + c.truncated + c.later_fragments + c.other_protocols;
    // A packet whose options are malformed is observed and counted as malformed.
    assert!(c.observed + refused <= c.packets, "{c:?}");
    assert!(c.observed + refused + c.malformed >= c.packets, "{c:?}");
    assert!(observer.flows().count() as u64 <= u64::from(observer.config().max_flows));
}

fn small() -> Config {
    Config {
        max_flows: 4,
        profile: "s+d+q".parse().ok(),
        ..Config::default()
    }
}

/// Reads a file as the command does; gives back how many packets it held.
fn read(file: &[u8]) -> u64 {
    let mut observer = Observer::new(small());
    let rows = Rows {
        samples: true,
        estimates: true,
    };
    let mut report = Report::new(Vec::new(), Format::Json, rows, Names::open(), "x");
    if let Ok(mut reader) = CaptureReader::new(file) {
        while let Ok(Some(record)) = reader.read() {
            let at = record.at.unwrap_or(Instant::from_nanos(0));
            observer.observe_frame(record.link, record.bytes, at, 1, &mut report);
        }
    }
    is_accounted_for(&observer);
    observer.finish(&mut report);
    report.counters(observer.counters());
    let packets = observer.counters().packets;
    for line in String::from_utf8(report.finish().unwrap()).unwrap().lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
    packets
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
    ];
    Corpus::of(seeds.map(|s| s.as_bytes().to_vec()))
        .with_words(&[
            "and", "or", "not", "(", ")", "port", "host", "&&", "||", "!",
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

#[test]
fn a_long_chain_of_extension_headers_ends() {
    let mut bytes = vec![0x60, 0, 0, 0, 0xff, 0xff, 0, 64];
    bytes.resize(40, 1);
    for _ in 0..8_000 {
        bytes.extend_from_slice(&[0, 0, 1, 4, 0, 0, 0, 0]);
    }
    let mut observer = Observer::new(Config::default());
    observer.observe(&bytes, Instant::from_nanos(0), 0, &mut Nothing);
    let c = observer.counters();
    assert_eq!((c.observed, c.truncated + c.malformed), (0, 1));
}

#[test]
fn silent_flows_end_and_the_table_never_overflows() {
    let config = Config {
        max_flows: 100,
        idle: Duration::from_secs(10),
        ..Config::default()
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
