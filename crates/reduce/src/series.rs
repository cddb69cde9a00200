//! Time series: `series.csv.gz`, tidy rows of `t_s,entity,metric,value`.
//!
//! Metrics of a flow (`flow/…`): `goodput_mbit` (delivered in order to the
//! receiving application), `throughput_mbit` (payload of the packets that reached
//! the receiver, in whatever order and whether it had them or not),
//! `delivery_rate_mbit` (acknowledged payload as the sender sees it, which leaps when
//! a hole is filled), `rtt_ms` (mean of the samples), `srtt_ms`,
//! `cwnd_packets`, `in_flight_packets`, `pacing_rate_mbit`, the counters
//! `retransmissions`, `ce_marks`, `drops`, and what its sender's congestion control
//! reports of itself: of Prague, `alpha` (0..1).
//! Of a queue: `sojourn_ms` (mean), `sojourn_max_ms`, with several bands also
//! `sojourn_BAND_ms` and `sojourn_BAND_max_ms` of each (of DualPI2, `classic` and
//! `low_latency`); `throughput_mbit`, `backlog_packets`,
//! `backlog_bytes`, `probability`, and the counters `marks`, `drops`.
//! Of a probe: `rtt_ms` and the counter `lost`.
//! Of whatever reports of itself: its fields, of a sample the mean, of a gauge the last value,
//! of a counter the sum.
//!
//! A row covers the interval that *ends* at `t_s`. A gauge without a sample
//! and a counter at zero have no row.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use narrows_scenario::Plan;
use narrows_units::Duration;

use crate::Reduced;
use crate::decimal::{shortest, spell};

/// The series of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// One per entity and metric.
    pub tracks: Vec<Track>,
}

/// One metric of one entity over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// Full name, `flow/prague`.
    pub entity: String,
    /// `rtt_ms`.
    pub metric: String,
    /// Ends of the intervals, rising.
    pub t_s: Vec<f64>,
    /// The value over each interval.
    pub value: Vec<f64>,
}

/// Tracks by entity and metric.
pub type ByName<'a> = BTreeMap<(&'a str, &'a str), &'a Track>;

/// Header of the file.
pub const SERIES_HEADER: &str = "t_s,entity,metric,value";

impl Series {
    /// The track of that entity and metric.
    pub fn track(&self, entity: &str, metric: &str) -> Option<&Track> {
        self.tracks
            .iter()
            .find(|t| t.entity == entity && t.metric == metric)
    }

    /// All tracks by entity and metric, for who asks for many of them.
    pub fn by_name(&self) -> ByName<'_> {
        let tracks = self.tracks.iter();
        tracks
            .map(|t| ((t.entity.as_str(), t.metric.as_str()), t))
            .collect()
    }

    /// All tracks of that metric.
    pub fn of_metric<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = &'a Track> {
        self.tracks.iter().filter(move |t| t.metric == metric)
    }
}

/// Numbers of all series together that a run keeps: 32 MiB of them while it runs, and five times
/// as much while they are written. More are read by no page, and what writes them would take
/// longer than the run.
const MOST_NUMBERS: u64 = 1 << 23;

/// The sampling interval of `plan`, or the least multiple of it of which the run has at most
/// `intervals`.
pub fn interval_of_at_most(plan: &Plan, intervals: u64) -> Duration {
    let own = plan.sample_interval.as_nanos().max(1);
    let samples = plan.duration.as_nanos().div_ceil(own);
    plan.sample_interval * samples.div_ceil(intervals.max(1)).max(1)
}

/// The interval of a run's series: the sampling interval; of a run so long, or of so many
/// flows, that its series would be more than 8 million numbers, a multiple of it, so that
/// memory and files are bounded. The verdict notes it.
pub fn interval(plan: &Plan) -> Duration {
    // Columns of an entity, and a few that a control declares itself.
    let flows = plan.flows.len() as u64 * 16;
    let others = (plan.elements().count() + plan.probes.len()) as u64 * 12;
    interval_of_at_most(plan, MOST_NUMBERS / (flows + others).max(1))
}

impl Series {
    /// The series of a reduced run.
    pub fn of(reduced: &Reduced) -> Self {
        let interval = reduced.interval.as_secs_f64();
        let ends = IntervalEnds::new(reduced.interval);
        let mut tracks = Vec::new();
        for columns in &reduced.columns {
            for (metric, points) in columns.tracks() {
                let mut track = Track {
                    entity: columns.entity.clone(),
                    metric: metric.to_owned(),
                    t_s: Vec::with_capacity(points.len()),
                    value: Vec::with_capacity(points.len()),
                };
                for (i, value) in points {
                    track.t_s.push(ends.seconds(i));
                    track.value.push(shortest(value));
                }
                tracks.push(track);
            }
        }
        Self {
            interval_s: interval,
            tracks,
        }
    }

    /// Writes the rows as CSV to `out`, compressed with gzip; the same bytes for the same
    /// series, as no time and no name go into the header.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_csv_gz(&self, out: impl Write) -> std::io::Result<()> {
        let mut gz = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
        writeln!(gz, "{SERIES_HEADER}")?;
        let mut rows = String::new();
        // Most tracks have the same times.
        let mut times: Vec<(f64, String)> = Vec::new();
        for track in &self.tracks {
            let names = format!(",{},{},", track.entity, track.metric);
            for (i, (t, value)) in track.t_s.iter().zip(&track.value).enumerate() {
                if times.get(i).is_none_or(|known| known.0 != *t) {
                    times.truncate(i);
                    times.push((*t, t.to_string()));
                }
                rows.push_str(&times[i].1);
                rows.push_str(&names);
                spell(*value, &mut rows);
                rows.push('\n');
                if rows.len() >= ROWS_AT_ONCE {
                    gz.write_all(rows.as_bytes())?;
                    rows.clear();
                }
            }
        }
        gz.write_all(rows.as_bytes())?;
        gz.finish()?.flush()
    }

    /// Reads what [`write_csv_gz`](Self::to_csv_gz) wrote.
    ///
    /// # Errors
    /// A sentence that says what is wrong, and in which row.
    pub fn from_csv_gz(gz: &[u8]) -> Result<Self, String> {
        let mut text = String::new();
        GzDecoder::new(gz)
            .read_to_string(&mut text)
            .map_err(|e| format!("it is not a whole gzip file of text ({e})"))?;
        let mut rows = text.lines().enumerate();
        match rows.next() {
            Some((_, SERIES_HEADER)) => {}
            _ => return Err(format!("its first row is not `{SERIES_HEADER}`")),
        }
        let mut series = Self::default();
        for (n, row) in rows {
            let wrong = || format!("row {} is not of the form `{SERIES_HEADER}`", n + 1);
            let mut cells = row.split(',');
            let mut cell = || cells.next().ok_or_else(wrong);
            let (t, entity, metric, value) = (cell()?, cell()?, cell()?, cell()?);
            if cells.next().is_some() {
                return Err(wrong());
            }
            let t: f64 = t.parse().map_err(|_| wrong())?;
            let value: f64 = value.parse().map_err(|_| wrong())?;
            let same = series
                .tracks
                .last()
                .is_some_and(|l| l.entity == entity && l.metric == metric);
            if !same {
                series.tracks.push(Track {
                    entity: entity.to_owned(),
                    metric: metric.to_owned(),
                    ..Track::default()
                });
            }
            if let Some(track) = series.tracks.last_mut() {
                track.t_s.push(t);
                track.value.push(value);
            }
        }
        series.interval_s = series.shortest_step();
        Ok(series)
    }

    /// The interval, as the rows show it.
    fn shortest_step(&self) -> f64 {
        let steps = self
            .tracks
            .iter()
            .flat_map(|t| t.t_s.windows(2).map(|w| w[1] - w[0]));
        let least = steps.fold(f64::INFINITY, f64::min);
        // Differences of decimals are a hair off; intervals are whole µs.
        if least.is_finite() {
            (least * 1e6).round() / 1e6
        } else {
            0.0
        }
    }
}

/// Low enough to cost a campaign little, high enough to quarter the file.
const GZIP_LEVEL: u32 = 4;

/// Bytes of rows that the compressor is given at once: it clears 32 KB for each write.
const ROWS_AT_ONCE: usize = 1 << 18;

/// Ends of intervals in seconds.
struct IntervalEnds(u64);

impl IntervalEnds {
    fn new(interval: Duration) -> Self {
        Self(interval.as_nanos())
    }

    fn seconds(&self, index: usize) -> f64 {
        (self.0 * (index as u64 + 1)) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use narrows_scenario::Draft;

    use super::*;

    fn sample() -> Series {
        let track = |entity: &str, metric: &str, value: &[f64]| Track {
            entity: entity.to_owned(),
            metric: metric.to_owned(),
            t_s: (1..=value.len()).map(|i| i as f64 * 50.0 / 1e3).collect(),
            value: value.to_vec(),
        };
        Series {
            interval_s: 0.05,
            tracks: vec![
                track("flow/a", "rtt_ms", &[10.1, 10.25, 1e-7]),
                track("flow/a", "alpha", &[1.0, 0.0, 0.5]),
                track("link/l/up/b", "marks", &[3.0, 1e9, 7.0]),
            ],
        }
    }

    fn written(series: &Series) -> Vec<u8> {
        let mut gz = Vec::new();
        series.write_csv_gz(&mut gz).unwrap();
        gz
    }

    #[test]
    fn tracks_of_other_times_keep_their_own() {
        let track = |metric: &str, t_s: &[f64]| Track {
            entity: "flow/a".to_owned(),
            metric: metric.to_owned(),
            t_s: t_s.to_vec(),
            value: vec![1.0; t_s.len()],
        };
        let series = Series {
            interval_s: 0.05,
            tracks: vec![
                track("rtt_ms", &[0.05, 0.1, 0.15]),
                track("drops", &[0.1, 0.25]),
                track("cwnd_packets", &[0.05, 0.1, 0.15, 0.2]),
                track("drops", &[0.3]),
            ],
        };
        assert_eq!(Series::from_csv_gz(&written(&series)), Ok(series.clone()));
        let drops: Vec<_> = series.of_metric("drops").map(|t| t.t_s.len()).collect();
        assert_eq!(drops, [2, 1]);
    }

    #[test]
    fn a_row_is_of_the_interval_that_ends_at_its_time() {
        for (ms, ends) in [(50, [0.05, 0.1, 0.15]), (2_000, [2.0, 4.0, 6.0])] {
            let ends_of = IntervalEnds::new(Duration::from_millis(ms));
            assert_eq!([0, 1, 2].map(|index| ends_of.seconds(index)), ends);
        }
    }

    fn plan(duration: &str) -> Plan {
        let link = ["netem delay 5ms".to_owned(), "rate 1bit".to_owned()];
        let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).unwrap();
        draft.set(&format!("duration={duration}")).unwrap();
        draft.check().unwrap()
    }

    #[test]
    fn series_of_a_month_take_longer_intervals_so_that_memory_is_bounded() {
        let (short, long) = (plan("60s"), plan("720h"));
        assert_eq!(interval(&short), short.sample_interval);
        let ns = interval(&long).as_nanos();
        assert_eq!(ns % long.sample_interval.as_nanos(), 0);
        let intervals = long.duration.as_nanos() / ns;
        // The flow's columns, and those of two elements.
        assert!(intervals * (11 + 2 * 12) <= MOST_NUMBERS, "{intervals}");
        assert!(
            intervals > 100_000,
            "no coarser than it must be: {intervals}"
        );
    }

    /// A flow counts for sixteen numbers, an element or a probe for twelve.
    #[test]
    fn elements_count_among_the_numbers_of_a_series() {
        let text = "version = 1\nname = \"n\"\nduration = \"720h\"\n[[link]]\nname = \"l\"\n\
                    ends = [\"a\", \"b\"]\nup = [\"netem delay 5ms\", \"rate 1Mbit\"]\n[[flow]]\n\
                    name = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n[[probe]]\n\
                    name = \"p\"\nfrom = \"a\"\nto = \"b\"\n";
        let draft = Draft::read("series.toml", text.as_bytes()).unwrap();
        let long = draft.check().unwrap();
        assert_eq!((long.elements().count(), long.probes.len()), (2, 1));
        let numbers = 16 + (2 + 1) * 12;
        let intervals = |numbers| interval_of_at_most(&long, MOST_NUMBERS / numbers);
        assert_eq!(interval(&long), intervals(numbers));
        assert_ne!(interval(&long), intervals(numbers + 1));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let series = sample();
        let gz = written(&series);
        assert_eq!(Series::from_csv_gz(&gz).unwrap(), series);
    }

    #[test]
    fn the_gzip_header_tells_no_time() {
        let gz = written(&sample());
        // RFC 1952 §2.3: FLG at 3, MTIME at 4..8.
        assert_eq!(&gz[3..8], [0; 5]);
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_row() {
        let gz = written(&sample());
        assert!(Series::from_csv_gz(&gz[..gz.len() / 2]).is_err());
        assert!(Series::from_csv_gz(b"t_s,entity").is_err());
        let mut bad = GzEncoder::new(Vec::new(), Compression::fast());
        write!(bad, "{SERIES_HEADER}\n0.05,flow/a,rtt_ms,1\n0.1,flow/a,x\n").unwrap();
        let error = Series::from_csv_gz(&bad.finish().unwrap()).unwrap_err();
        assert!(error.contains("row 3"), "{error}");
    }
}
