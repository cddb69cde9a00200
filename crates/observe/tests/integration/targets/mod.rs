//! What the fuzz targets do with an input: as tests, kept inputs and mutations of
//! them; by libFuzzer, in `fuzz/` at the root, inputs that coverage guides.

use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Observer, ObserverConfig};
use narrows_units::Instant;
use narrows_wire::capture::CaptureReader;

/// Every packet is in one account or another.
pub fn is_accounted_for(observer: &Observer) {
    let c = observer.counters();
    let refused = c.no_ip + c.truncated + c.later_fragments + c.other_protocols;
    // A packet whose options are malformed is observed and counted as malformed.
    assert!(c.observed + refused <= c.packets, "{c:?}");
    assert!(c.observed + refused + c.malformed >= c.packets, "{c:?}");
    assert!(observer.flows().count() as u64 <= u64::from(observer.config().max_flows));
}

/// Room for four flows, so that most inputs fill it.
pub fn small() -> ObserverConfig {
    ObserverConfig {
        max_flows: 4,
        profile: "s+d+q".parse().ok(),
        ..ObserverConfig::default()
    }
}

/// Reads a file as the command does; gives back how many packets it held.
pub fn read(file: &[u8]) -> u64 {
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
