//! Time series: `series.csv.gz`, tidy rows of `t_s,entity,metric,value`.
//!
//! Metrics of a flow (`flow/…`): `goodput_mbit` (delivered in order to the
//! receiving application), `delivery_rate_mbit` (acknowledged payload as the
//! sender sees it), `rtt_ms` (mean of the samples), `srtt_ms`,
//! `cwnd_packets`, `in_flight_packets`, `pacing_rate_mbit`, `alpha` (0..1),
//! and the counters `retransmissions`, `ce_marks`, `drops`.
//! Of a queue: `sojourn_ms` (mean), `sojourn_max_ms`, with two bands also
//! `sojourn_classic_ms`, `sojourn_classic_max_ms`, `sojourn_low_latency_ms`,
//! `sojourn_low_latency_max_ms`; `throughput_mbit`, `backlog_packets`,
//! `backlog_bytes`, `probability`, and the counters `marks`, `drops`.
//! Of a probe: `rtt_ms` and the counter `lost`.
//!
//! A row covers the interval that *ends* at `t_s`. A gauge without a sample
//! and a counter at zero have no row.

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

/// Header of the file.
pub const SERIES_HEADER: &str = "t_s,entity,metric,value";

impl Series {
    /// The track of that entity and metric.
    pub fn track(&self, entity: &str, metric: &str) -> Option<&Track> {
        self.tracks
            .iter()
            .find(|t| t.entity == entity && t.metric == metric)
    }

    /// All tracks of that metric.
    pub fn of_metric<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = &'a Track> {
        self.tracks.iter().filter(move |t| t.metric == metric)
    }
}
