//! The mean of round trips, and how far it may be off.

use crate::interval::{Interval, batch_reach, student_95};
use crate::quantiles::Quantiles;

/// Samples from which the mean's interval comes from batches; below that they
/// are taken as independent.
const BATCHED_FROM: u32 = 32;
/// Batches are joined in pairs when there are this many.
const BATCHES: usize = 32;
/// The least that a TCP sender's retransmission timer adds to its smoothed round trip:
/// 200 ms, Linux's `TCP_RTO_MIN` (include/net/tcp.h).
const LEAST_TIMER_MS: f32 = 200.0;

/// Running mean, spread, minimum and quantiles of samples, in milliseconds.
///
/// Consecutive round trips are alike, so the interval of their mean comes from
/// the means of batches (batch means; Law, Simulation Modeling and Analysis,
/// 5th ed., §9.5.3): 16 to 32 of them, whose length doubles as the flow goes on, and
/// one more of the samples before them, often of a queue that only slow start fills.
/// What batches still share with their neighbours, and a long tail on one side,
/// [`batch_reach`] accounts for.
///
/// Where flows are many, a line of the cache costs more than arithmetic. So
/// what each sample touches is here, and the batches are one step away and
/// touched when one of them is full.
#[derive(Debug, Default)]
pub(crate) struct Mean {
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    /// Sum of the batch that is filling.
    current: f64,
    batches: Option<Box<Batches>>,
    n: u32,
    min_ms: f32,
    quantiles: Quantiles,
}

#[derive(Debug)]
struct Batches {
    full: usize,
    sums: [f64; BATCHES],
    timer: Timer,
    /// Samples that were added for others that could not be taken.
    repeated: u32,
}

/// What a sender's retransmission timer would be (RFC 6298 §2), and how many
/// samples were longer.
#[derive(Debug)]
struct Timer {
    smoothed_ms: f32,
    variation_ms: f32,
    overdue: u32,
}

impl Timer {
    /// Whether a sample may be a round trip. One that is longer than the timer
    /// spans a timeout, or a time in which an application had nothing to say.
    /// The timer backs off, so that a path that became that long is soon accepted.
    fn takes(&mut self, ms: f32) -> bool {
        let off = (ms - self.smoothed_ms).abs();
        let margin = LEAST_TIMER_MS.max(4.0 * self.variation_ms);
        if ms > self.smoothed_ms + margin {
            // Twice as long: §5.5.
            self.variation_ms = margin / 2.0;
            self.overdue = self.overdue.saturating_add(1);
            return false;
        }
        self.variation_ms += (off - self.variation_ms) / 4.0;
        self.smoothed_ms += (ms - self.smoothed_ms) / 8.0;
        true
    }
}

/// What is known of a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanFacts {
    /// Samples that were taken.
    pub n: u32,
    pub mean: f64,
    pub sd: f64,
    pub min: f64,
    pub median: f64,
    pub p95: f64,
    pub interval: Option<Interval>,
    /// Samples that were not taken, as they were longer than a timeout.
    pub overdue: u32,
}

impl Mean {
    /// Adds a sample in milliseconds unless it is longer than a TCP sender would have
    /// waited for it; whether it did. Before there are batches, all are added.
    pub fn add_timely(&mut self, ms: f64) -> bool {
        if let Some(batches) = &mut self.batches {
            if !batches.timer.takes(ms as f32) {
                return false;
            }
        }
        self.add(ms);
        true
    }

    /// Adds the last sample again for `others` that could not be taken, so that it
    /// counts for as much as they do. Before there are batches one sample is one.
    #[cold]
    pub fn repeat(&mut self, ms: f64, others: u32) {
        for _ in 0..others {
            let Some(batches) = &mut self.batches else {
                return;
            };
            batches.repeated = batches.repeated.saturating_add(1);
            self.add(ms);
        }
    }

    /// Adds a sample in milliseconds.
    pub fn add(&mut self, ms: f64) {
        self.n = self.n.saturating_add(1);
        // Welford's update.
        let before = ms - self.mean;
        self.mean += before / f64::from(self.n);
        self.squares += before * (ms - self.mean);
        if self.n == 1 || (ms as f32) < self.min_ms {
            self.min_ms = ms as f32;
        }
        self.quantiles.add(ms as f32);
        let Some(batches) = &mut self.batches else {
            if self.n >= BATCHED_FROM {
                let spread = (self.squares / f64::from(self.n)).sqrt();
                self.batches = Some(Box::new(Batches {
                    full: 0,
                    sums: [0.0; BATCHES],
                    timer: Timer {
                        smoothed_ms: self.mean as f32,
                        variation_ms: spread as f32,
                        overdue: 0,
                    },
                    repeated: 0,
                }));
            }
            return;
        };
        self.current += ms;
        let batched = self.n - BATCHED_FROM;
        if batched & (length_at(batched) - 1) == 0 {
            batches.end_of_one(&mut self.current);
        }
    }

    /// Samples of a full batch, once there are batches: as long as the one that
    /// the next sample is for.
    fn batch_length(&self) -> u32 {
        length_at(self.n - BATCHED_FROM + 1)
    }

    /// How far the mean may be off, below and above. What came before the batches
    /// is a batch as well: the rest of the sum.
    fn reach(&self, batches: &Batches) -> (f64, f64) {
        let (n, length) = (f64::from(self.n), f64::from(self.batch_length()));
        let sums = &batches.sums[..batches.full];
        let early = f64::from(BATCHED_FROM);
        let before = self.mean * n - sums.iter().sum::<f64>() - self.current;
        let full = sums.iter().map(|sum| (sum / length, length));
        batch_reach(
            std::iter::once((before / early, early)).chain(full),
            length,
            n,
        )
    }

    /// What is known; `None` before the first sample.
    pub fn facts(&self) -> Option<MeanFacts> {
        let n = f64::from(self.n);
        let squares = self.squares;
        let sd = (squares.max(0.0) / n).sqrt();
        let reach = match &self.batches {
            Some(batches) if batches.full >= BATCHES / 2 => Some(self.reach(batches)),
            _ if self.n >= 2 => {
                let error = (squares.max(0.0) / (n - 1.0) / n).sqrt();
                let half = student_95(self.n - 1) * error;
                Some((half, half))
            }
            _ => None,
        };
        let [median, p95] = self.quantiles.at([0.5, 0.95])?;
        Some(MeanFacts {
            n: self.n - self.batches.as_ref().map_or(0, |b| b.repeated),
            mean: self.mean,
            sd,
            min: f64::from(self.min_ms),
            median,
            p95,
            overdue: self.batches.as_ref().map_or(0, |b| b.timer.overdue),
            interval: reach.map(|(below, above)| Interval {
                low: (self.mean - below).max(0.0),
                high: self.mean + above,
            }),
        })
    }
}

/// How long the batch is that sample number `batched` since they began, counted
/// from one, is for: they are doubled when a 33rd one would be full.
const fn length_at(batched: u32) -> u32 {
    let joined = u32::BITS - ((batched - 1) / (BATCHES as u32 + 1)).leading_zeros();
    1 << joined
}

impl Batches {
    /// A batch is full, and `current` is its sum.
    fn end_of_one(&mut self, current: &mut f64) {
        if self.full == BATCHES {
            for i in 0..BATCHES / 2 {
                self.sums[i] = self.sums[2 * i] + self.sums[2 * i + 1];
            }
            self.full = BATCHES / 2;
            // The batch that was filling is half of a longer one.
            return;
        }
        self.sums[self.full] = std::mem::take(current);
        self.full += 1;
    }
}

/// Full round trips in packets of either side, and their two parts.
#[derive(Debug, Default)]
pub(crate) struct RttMeans {
    pub full: [Mean; 2],
    pub left: Mean,
    pub right: Mean,
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rng;

    #[test]
    fn mean_spread_and_minimum_are_those_of_the_samples() {
        let mut mean = Mean::default();
        assert_eq!(mean.facts(), None);
        for ms in [10.0, 20.0, 30.0] {
            mean.add(ms);
        }
        let facts = mean.facts().unwrap();
        assert_eq!((facts.n, facts.min), (3, 10.0));
        assert!((facts.median / 20.0 - 1.0).abs() < 0.016, "{facts:?}");
        assert!((facts.p95 / 30.0 - 1.0).abs() < 0.016, "{facts:?}");
        assert!((facts.mean - 20.0).abs() < 1e-9);
        assert!((facts.sd - (200.0f64 / 3.0).sqrt()).abs() < 1e-5);
        // t(0.975, 2) = 4.303, standard error 10/√3.
        let interval = facts.interval.unwrap();
        assert!((interval.high - 20.0 - 4.303 * 10.0 / 3f64.sqrt()).abs() < 0.05);
    }

    /// Of 400 series of `n` round trips, how many in 100 have an interval that
    /// holds the `truth`.
    fn covered(n: u32, truth: f64, mut series: impl FnMut(u64, &mut dyn FnMut(f64))) -> f64 {
        let held = (0..400).filter(|seed| {
            let mut mean = Mean::default();
            series(*seed, &mut |ms| mean.add(ms));
            let facts = mean.facts().unwrap();
            assert_eq!(facts.n, n);
            let i = facts.interval.unwrap();
            i.low <= truth && truth <= i.high
        });
        held.count() as f64 / 4.0
    }

    /// A draw of the normal distribution: twelve of the uniform one.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    /// Round trips of 50 ms, each of which keeps the part `keep` of how far the
    /// one before was from that: an autoregressive series of the first order.
    fn autoregressive(n: u32, keep: f64) -> f64 {
        covered(n, 50.0, |seed, add| {
            let mut rng = Rng::for_name(seed, "autoregressive");
            let mut off = normal(&mut rng);
            let fresh = (1.0 - keep * keep).sqrt();
            for _ in 0..n {
                add(50.0 + off);
                off = keep * off + fresh * normal(&mut rng);
            }
        })
    }

    #[test]
    fn intervals_hold_the_mean_of_independent_round_trips() {
        for n in [8, 40, 64, 100, 1_000, 20_000] {
            let held = autoregressive(n, 0.0);
            assert!((92.0..=98.0).contains(&held), "{n}: {held} %");
        }
    }

    #[test]
    fn intervals_hold_the_mean_of_round_trips_that_resemble_the_last() {
        // As many as 33 independent ones or more.
        for (n, keep) in [
            (100, 0.5),
            (1_000, 0.5),
            (1_000, 0.9),
            (1_300, 0.95),
            (10_000, 0.98),
            (20_000, 0.99),
        ] {
            let held = autoregressive(n, keep);
            assert!((90.0..=98.0).contains(&held), "{n} {keep}: {held} %");
        }
    }

    #[test]
    fn intervals_hold_the_mean_of_round_trips_that_bursts_lengthen() {
        // One round trip in 100 begins a stall, which lengthens some ten by 200 ms.
        let held = covered(4_000, 20.0 + 200.0 / 11.0, |seed, add| {
            let mut rng = Rng::for_name(seed, "stalls");
            let mut stalled = rng.unit() < 1.0 / 11.0;
            for _ in 0..4_000 {
                add(20.0 + rng.unit() - 0.5 + if stalled { 200.0 } else { 0.0 });
                let change = if stalled { 0.1 } else { 0.01 };
                stalled ^= rng.unit() < change;
            }
        });
        assert!((90.0..=98.0).contains(&held), "{held} %");
    }

    #[test]
    fn batches_are_of_one_length_and_join_in_pairs_when_there_are_32() {
        let mut mean = Mean::default();
        let (mut length, mut last, mut full) = (1, 0, 0);
        for n in 1..=200_000u32 {
            mean.add(1.0);
            if n <= BATCHED_FROM {
                continue;
            }
            last += 1;
            if last == length && full == BATCHES {
                (length, full) = (2 * length, BATCHES / 2);
            } else if last == length {
                (last, full) = (0, full + 1);
            }
            let batches = mean.batches.as_ref().unwrap();
            assert_eq!((mean.batch_length(), batches.full), (length, full), "{n}");
            assert_eq!(mean.current, f64::from(last));
            assert!(batches.sums[..full].iter().all(|s| *s == f64::from(length)));
        }
    }

    #[test]
    fn what_spans_a_timeout_is_not_added_and_a_path_that_became_longer_is_soon_believed() {
        let mut mean = Mean::default();
        assert!((0..100).all(|i| mean.add_timely(20.0 + f64::from(i % 3))));
        for stall in [230.0, 14_000.0] {
            assert!(!mean.add_timely(stall));
            assert!((0..20).all(|_| mean.add_timely(21.0)));
        }
        let facts = mean.facts().unwrap();
        assert_eq!((facts.n, facts.overdue), (140, 2));
        assert!(facts.mean < 22.0);
        let believed = (0..10).position(|_| mean.add_timely(700.0));
        assert_eq!(believed, Some(2), "221, 421, then 821 ms");
        assert!((0..10).all(|_| mean.add_timely(700.0)));
    }

    #[test]
    fn a_queue_that_only_the_first_round_trips_had_is_in_the_interval_as_in_the_mean() {
        // 32 of 30 ms more, as slow start leaves it, move the mean by 0.96 ms.
        let held = covered(1_000, 50.0, |seed, add| {
            let mut rng = Rng::for_name(seed, "slow start");
            for i in 0..1_000 {
                let early = if i < 32 { 30.0 } else { 0.0 };
                add(50.0 + early + 3.0 * normal(&mut rng));
            }
        });
        assert!(held >= 90.0, "{held} %");
    }

    #[test]
    fn a_slow_wave_widens_the_interval_of_its_mean() {
        let width = |period: f64| {
            let mut mean = Mean::default();
            for i in 0..10_000 {
                mean.add(50.0 + 10.0 * (f64::from(i) / period).fract());
            }
            let interval = mean.facts().unwrap().interval.unwrap();
            interval.high - interval.low
        };
        assert!(width(1_000.0) > 10.0 * width(7.3));
    }

    #[test]
    fn a_sample_that_stands_for_others_counts_for_as_much_and_is_one() {
        let (mut thinned, mut whole) = (Mean::default(), Mean::default());
        for i in 0..4_000u32 {
            let ms = 50.0 + f64::from(i % 100);
            whole.add(ms);
            if i < 1_000 {
                thinned.add(ms);
            } else if i % 4 == 0 {
                thinned.add(ms + 1.5);
                thinned.repeat(ms + 1.5, 3);
            }
        }
        let (thinned, whole) = (thinned.facts().unwrap(), whole.facts().unwrap());
        assert_eq!((thinned.n, whole.n), (1_750, 4_000));
        assert!((thinned.mean - whole.mean).abs() < 0.01);
        assert!((thinned.sd - whole.sd).abs() < 0.1);
        let width = |facts: &MeanFacts| facts.interval.map(|i| i.high - i.low).unwrap();
        assert!((width(&thinned) / width(&whole) - 1.0).abs() < 0.1);
    }
}
