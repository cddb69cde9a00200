//! What is kept of a queue.

use narrows_core::{Band, DropCause, EntityId, MarkCause};
use narrows_path::Recording;
use narrows_units::{Duration, Histogram, Instant};

use super::bins::{Column, Columns, mbit, mean_ms};
use crate::distribution::{Distribution, cdf_ms};
use crate::facts::RateSteps;
use crate::summary::{BandSummary, DropCounts, MarkCounts, QueueSummary, millionths};

const COLUMNS: [(&str, Column); 8] = [
    ("sojourn_ms", Column::Gauge),
    ("sojourn_max_ms", Column::Gauge),
    ("throughput_mbit", Column::Gauge),
    ("backlog_packets", Column::Gauge),
    ("backlog_bytes", Column::Gauge),
    ("probability", Column::Gauge),
    ("marks", Column::Counter),
    ("drops", Column::Counter),
];

/// The columns before those of bands.
const BEFORE_BANDS: usize = 2;

pub(super) struct QueueState {
    entity: EntityId,
    /// In the order of the queue.
    bands: Vec<BandState>,
    /// The names that the queue's last packet came with, and the place in `bands` of each.
    names: &'static [&'static str],
    places: Vec<usize>,
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
struct BandState {
    name: &'static str,
    sojourn: Histogram,
    wire_bytes: u64,
    /// Whether it let any packet go in the whole run.
    seen: bool,
    bin: BandBin,
    /// Interval and value, in ms.
    mean: Vec<(usize, f32)>,
    max: Vec<(usize, f32)>,
}

/// Times in the queue of a band in the present interval, in ns.
#[derive(Clone, Copy, Default)]
struct BandBin {
    sum: u64,
    count: u64,
    max: u64,
}

impl BandState {
    /// Moves its series to `columns`.
    fn declare(&mut self, columns: &mut Columns) {
        for (part, points) in [("", &mut self.mean), ("max_", &mut self.max)] {
            let name = format!("sojourn_{}_{part}ms", self.name);
            columns.declare_after(BEFORE_BANDS, name, std::mem::take(points));
        }
    }
}

impl BandBin {
    fn mean_ms(self) -> f32 {
        mean_ms(self.sum, self.count)
    }

    fn max_ms(self) -> f32 {
        mean_ms(self.max, 1)
    }
}

/// What happened in the present interval.
#[derive(Default)]
struct Bin {
    wire_bytes: u64,
    marks: u64,
    drops: u64,
    sample: Option<(u32, u64, f64)>,
}

impl QueueState {
    pub(super) fn new(entity: EntityId) -> Self {
        Self {
            entity,
            bands: Vec::new(),
            names: &[],
            places: Vec::new(),
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
        band: Band,
    ) {
        if !std::ptr::eq(self.names, band.names()) {
            self.name_bands(band.names());
        }
        self.bin.wire_bytes += u64::from(wire_bytes);
        let band = &mut self.bands[self.places[band.index()]];
        let ns = sojourn.as_nanos();
        band.bin.sum += ns;
        band.bin.count += 1;
        band.bin.max = band.bin.max.max(ns);
        band.seen = true;
        if inside {
            band.sojourn.record(sojourn);
            band.wire_bytes += u64::from(wire_bytes);
            self.last = Some((now, wire_bytes));
        } else if before {
            self.last_before = Some((now, wire_bytes));
        }
    }

    /// Bands have these names from now on; what they had by the same name stays theirs.
    #[cold]
    fn name_bands(&mut self, names: &'static [&'static str]) {
        self.places.clear();
        for name in names {
            let known = self.bands.iter().position(|band| band.name == *name);
            self.places.push(known.unwrap_or(self.bands.len()));
            if known.is_none() {
                self.bands.push(BandState {
                    name,
                    ..BandState::default()
                });
            }
        }
        self.names = names;
    }

    /// Whether more than one band has let packets go, so that each has figures of its own.
    fn has_bands(&self) -> bool {
        self.bands.iter().filter(|band| band.seen).count() > 1
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
        let apart = self.has_bands();
        let mut all = BandBin::default();
        for band in &mut self.bands {
            let bin = std::mem::take(&mut band.bin);
            all.sum += bin.sum;
            all.count += bin.count;
            all.max = all.max.max(bin.max);
            if apart && bin.count > 0 {
                band.mean.push((interval, bin.mean_ms()));
                band.max.push((interval, bin.max_ms()));
            }
        }
        let mut row = [f32::NAN; COLUMNS.len()];
        row[0] = all.mean_ms();
        if all.count > 0 {
            row[1] = all.max_ms();
        }
        row[2] = mbit(bin.wire_bytes, seconds);
        if let Some((packets, bytes, probability)) = bin.sample {
            row[3] = packets as f32;
            row[4] = bytes as f32;
            row[5] = probability as f32;
        }
        row[6] = bin.marks as f32;
        row[7] = bin.drops as f32;
        self.columns.push(interval, &row);
    }

    /// Begins the present interval anew, but for its counts.
    pub(super) fn restart(&mut self) {
        self.bin.wire_bytes = 0;
        for band in &mut self.bands {
            band.bin = BandBin::default();
        }
    }

    /// Takes the rows so far out of it.
    pub(super) fn take_rows(&mut self) -> Columns {
        let mut columns = std::mem::replace(&mut self.columns, Columns::new(&COLUMNS));
        for band in &mut self.bands {
            band.declare(&mut columns);
        }
        columns
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
        let apart = self.has_bands();
        let (mut bands, mut columns) = (Vec::new(), self.columns);
        for mut band in self.bands.into_iter().filter(|band| apart && band.seen) {
            band.declare(&mut columns);
            bands.push(BandSummary {
                name: band.name.to_owned(),
                packets: band.sojourn.count(),
                wire_bytes: band.wire_bytes,
                sojourn_ms: Distribution::of_ms(&band.sojourn),
                sojourn_cdf: cdf_ms(&band.sojourn),
            });
        }
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
        (summary, columns.named(name))
    }
}
