//! What the observer inside of a run said, and what one says that reads the
//! run's capture afterwards.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Observer, ObserverConfig};
use narrows_wire::capture::CaptureReader;

/// An observer at `tap/mid` whose window is the whole run of so many seconds, and a capture of
/// what passes there.
pub fn at_mid(seconds: u32) -> String {
    format!(
        r#"
[[observe]]
name    = "mid"
tap     = "tap/mid"
measure = "0s..{seconds}s"

[[capture]]
name = "mid"
at   = "tap/mid"
"#
    )
}

/// The rows of the run's `samples.csv.gz`, the titles first, in columns.
pub fn samples(dir: &Path) -> Vec<Vec<String>> {
    let file = File::open(dir.join("samples.csv.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    in_columns(&text)
}

fn in_columns(text: &str) -> Vec<Vec<String>> {
    let columns = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(columns).collect()
}

/// The same rows of an observer that reads the capture at [`at_mid`].
fn read_again(dir: &Path) -> Vec<Vec<String>> {
    let capture = File::open(dir.join("captures/mid.pcapng")).unwrap();
    let mut capture = CaptureReader::new(capture).unwrap();
    let rows = Rows {
        samples: true,
        estimates: true,
    };
    let mut report = Report::new(Vec::new(), Format::Csv, rows, Names::open(), "tap/mid");
    let mut observer = Observer::new(ObserverConfig::default());
    while let Some(record) = capture.read().unwrap() {
        let (packet, at) = (record.ip_packet().unwrap(), record.at.unwrap());
        observer.observe(packet, at, record.id.unwrap(), &mut report);
    }
    observer.finish(&mut report);
    in_columns(&String::from_utf8(report.finish().unwrap()).unwrap())
}

/// The columns of `samples.csv` before the truth's, which only runs know.
const SEEN: usize = 11;

/// Fails unless both have the same rows, one for one, but for the truth. How many
/// there are.
pub fn assert_capture_gives_the_same(dir: &Path) -> usize {
    let seen = |rows: Vec<Vec<String>>| -> Vec<String> {
        rows.iter().map(|row| row[..SEEN].join(",")).collect()
    };
    let (inside, outside) = (seen(samples(dir)), seen(read_again(dir)));
    let differ = inside.iter().zip(&outside).find(|(a, b)| a != b);
    assert_eq!(differ, None, "the first rows that differ");
    assert_eq!(inside.len(), outside.len());
    inside.len()
}
