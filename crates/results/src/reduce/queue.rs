//! What is kept of a queue.

use narrows_core::{DropCause, EntityId, MarkCause};
use narrows_path::Recording;
use narrows_units::{Duration, Histogram, Instant};

use super::bins::{Column, Columns, mbit, mean_ms};
use crate::distribution::{Distribution, cdf_ms};
use crate::facts::RateSteps;
use crate::summary::{BandSummary, DropCounts, MarkCounts, QueueSummary, millionths};

const COLUMNS: [(&str, Column); 12] = [
    ("sojourn_ms", Column::Gauge),
    ("sojourn_max_ms", Column::Gauge),
    ("sojourn_classic_ms", Column::Gauge),
    ("sojourn_classic_max_ms", Column::Gauge),
    ("sojourn_low_latency_ms", Column::Gauge),
    ("sojourn_low_latency_max_ms", Column::Gauge),
    ("throughput_mbit", Column::Gauge),
    ("backlog_packets", Column::Gauge),
    ("backlog_bytes", Column::Gauge),
    ("probability", Column::Gauge),
    ("marks", Column::Counter),
    ("drops", Column::Counter),
];

/// Band names by number (`Event::Dequeued::band`).
const BANDS: [&str; 2] = ["classic", "low_latency"];

pub(super) struct QueueState {
    entity: EntityId,
    bands: [Band; 2],
    marks: MarkCounts,
    drops: DropCounts,
    /// When the last packet of the steady window left for the link, and what the
    /// link counted for it; and the last one before the window.
    last: Option<(Instant, u32)>,
    last_before: Option<(Instant, u32)>,
    peak_packets: u32,
    peak_bytes: u64,
    probability_sum: f64,
    probability_count: u64,
    bin: Bin,
    columns: Columns,
}

#[derive(Default)]
struct Band {
    sojourn: Histogram,
    wire_bytes: u64,
    /// Whether it let any packet go in the whole run.
    seen: bool,
}

/// What happened in the present interval.
#[derive(Default)]
struct Bin {
    sojourn_sum: [u64; 2],
    sojourn_count: [u64; 2],
    sojourn_max: [u64; 2],
    wire_bytes: u64,
    marks: u64,
    drops: u64,
    sample: Option<(u32, u64, f64)>,
}

impl QueueState {
    pub(super) fn new(entity: EntityId) -> Self {
        Self {
            entity,
            bands: Default::default(),
            marks: MarkCounts::default(),
            drops: DropCounts::default(),
            last: None,
            last_before: None,
            peak_packets: 0,
            peak_bytes: 0,
            probability_sum: 0.0,
            probability_count: 0,
            bin: Bin::default(),
            columns: Columns::new(&COLUMNS),
        }
    }

    pub(super) fn entity(&self) -> EntityId {
        self.entity
    }

    #[inline]
    pub(super) fn enqueued(&mut self, packets: u32, bytes: u64) {
        self.peak_packets = self.peak_packets.max(packets);
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    #[inline]
    pub(super) fn dequeued(
        &mut self,
        (now, before, inside): (Instant, bool, bool),
        sojourn: Duration,
        wire_bytes: u32,
        band: u8,
    ) {
        let b = usize::from(band.min(1));
        let ns = sojourn.as_nanos();
        self.bin.sojourn_sum[b] += ns;
        self.bin.sojourn_count[b] += 1;
        self.bin.sojourn_max[b] = self.bin.sojourn_max[b].max(ns);
        self.bin.wire_bytes += u64::from(wire_bytes);
        let band = &mut self.bands[b];
        band.seen = true;
        if inside {
            band.sojourn.record(sojourn);
            band.wire_bytes += u64::from(wire_bytes);
            self.last = Some((now, wire_bytes));
        } else if before {
            self.last_before = Some((now, wire_bytes));
        }
    }

    pub(super) fn marked(&mut self, inside: bool, cause: MarkCause) {
        self.bin.marks += 1;
        if inside {
            self.marks.count(cause);
        }
    }

    pub(super) fn dropped(&mut self, inside: bool, cause: DropCause) {
        self.bin.drops += 1;
        if inside {
            self.drops.count(cause);
        }
    }

    pub(super) fn sampled(&mut self, inside: bool, packets: u32, bytes: u64, probability: f64) {
        self.bin.sample = Some((packets, bytes, probability));
        if inside {
            self.probability_sum += probability;
            self.probability_count += 1;
        }
    }

    pub(super) fn close_interval(&mut self, interval: usize, seconds: f64) {
        let bin = std::mem::take(&mut self.bin);
        let two_bands = self.bands.iter().all(|b| b.seen);
        let mut row = [f32::NAN; COLUMNS.len()];
        let count = bin.sojourn_count[0] + bin.sojourn_count[1];
        row[0] = mean_ms(bin.sojourn_sum[0] + bin.sojourn_sum[1], count);
        if count > 0 {
            row[1] = mean_ms(bin.sojourn_max[0].max(bin.sojourn_max[1]), 1);
        }
        for b in 0..2 {
            if two_bands && bin.sojourn_count[b] > 0 {
                row[2 + 2 * b] = mean_ms(bin.sojourn_sum[b], bin.sojourn_count[b]);
                row[3 + 2 * b] = mean_ms(bin.sojourn_max[b], 1);
            }
        }
        row[6] = mbit(bin.wire_bytes, seconds);
        if let Some((packets, bytes, probability)) = bin.sample {
            row[7] = packets as f32;
            row[8] = bytes as f32;
            row[9] = probability as f32;
        }
        row[10] = bin.marks as f32;
        row[11] = bin.drops as f32;
        self.columns.push(interval, &row);
    }

    /// Bits that the link carried between `from` and `until`: those of all packets
    /// that left the queue in that time, but for the part of the last one that
    /// is carried later, and with the rest of the one that was under way at `from`.
    /// Over a slow link a packet lasts longer than a window.
    fn bits_on_link(&self, rates: &RateSteps, bytes: u64, from: Instant, until: Instant) -> f64 {
        let bits = |bytes: u32| f64::from(bytes) * 8.0;
        let all = bytes as f64 * 8.0;
        if matches!(rates, RateSteps::Recorded(Recording::Opportunities(_))) {
            // The opportunity that a packet takes is there when it leaves the queue.
            return all;
        }
        let later = self.last.map_or(0.0, |(at, bytes)| {
            (bits(bytes) - rates.bits_between(at, until)).max(0.0)
        });
        let before = self.last_before.map_or(0.0, |(at, bytes)| {
            let rest = (bits(bytes) - rates.bits_between(at, from)).max(0.0);
            rest.min(rates.bits_between(from, until))
        });
        all - later + before
    }

    pub(super) fn finish(
        self,
        name: String,
        words: String,
        rates: Option<RateSteps>,
        from: Instant,
        until: Instant,
    ) -> (QueueSummary, Columns) {
        let mut sojourn = Histogram::default();
        for band in &self.bands {
            sojourn.merge(&band.sojourn);
        }
        let wire_bytes = self.bands.iter().map(|b| b.wire_bytes).sum();
        let capacity = rates.as_ref().map(|r| r.bits_between(from, until));
        let used = rates.map(|r| self.bits_on_link(&r, wire_bytes, from, until));
        let span = until.since(from).as_secs_f64();
        let bands = if self.bands.iter().all(|b| b.seen) {
            self.bands
                .iter()
                .zip(BANDS)
                .map(|(band, name)| BandSummary {
                    name: name.to_owned(),
                    packets: band.sojourn.count(),
                    wire_bytes: band.wire_bytes,
                    sojourn_ms: Distribution::of_ms(&band.sojourn),
                    sojourn_cdf: cdf_ms(&band.sojourn),
                })
                .collect()
        } else {
            Vec::new()
        };
        let summary = QueueSummary {
            words,
            rate_mbit: capacity
                .filter(|_| span > 0.0)
                .map(|bits| millionths(bits / span / 1e6)),
            utilisation: capacity
                .zip(used)
                .filter(|(capacity, _)| *capacity > 0.0)
                .map(|(capacity, used)| millionths(used / capacity)),
            packets: sojourn.count(),
            wire_bytes,
            sojourn_ms: Distribution::of_ms(&sojourn),
            sojourn_cdf: cdf_ms(&sojourn),
            bands,
            marks: self.marks,
            drops: self.drops,
            peak_backlog_packets: self.peak_packets,
            peak_backlog_bytes: self.peak_bytes,
            probability: (self.probability_count > 0)
                .then(|| millionths(self.probability_sum / self.probability_count as f64)),
            name: name.clone(),
        };
        (summary, self.columns.named(name))
    }
}
