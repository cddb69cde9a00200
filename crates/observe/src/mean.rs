//! The mean of round trips, and how far it may be off.

use crate::interval::{Interval, student_95};

/// Samples from which the mean's interval comes from batches; below that they
/// are taken as independent.
const BATCHED_FROM: u32 = 32;
/// Batches are joined in pairs when there are this many.
const BATCHES: usize = 32;

/// Running mean, spread and minimum of samples, in milliseconds.
///
/// Consecutive round trips are alike, so the interval of their mean comes from
/// the means of batches (batch means; Law, Simulation Modeling and Analysis,
/// 5th ed., §9.5.3): 16 to 32 of them, whose length doubles as the flow goes on.
///
/// Where flows are many, a line of the cache costs more than arithmetic. So
/// what each sample touches stands here, and the batches are one step away and
/// touched when one of them is full.
#[derive(Debug, Default)]
pub(crate) struct Mean {
    mean: f64,
    /// Sum of squared distances from the mean; as exact as an `f32` while there
    /// are no batches.
    squares: f64,
    /// Sum of the batch that is filling.
    current: f64,
    batches: Option<Box<Batches>>,
    n: u32,
    min_ms: f32,
}

#[derive(Debug)]
struct Batches {
    /// Samples of a full batch.
    length: u32,
    full: usize,
    sums: [f64; BATCHES],
}

/// What is known of a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanFacts {
    pub n: u32,
    pub mean: f64,
    pub sd: f64,
    pub min: f64,
    pub interval: Option<Interval>,
}

impl Mean {
    /// Adds a sample in milliseconds.
    pub fn add(&mut self, ms: f64) {
        self.n = self.n.saturating_add(1);
        // Welford's update.
        let before = ms - self.mean;
        self.mean += before / f64::from(self.n);
        let square = before * (ms - self.mean);
        if self.n == 1 || (ms as f32) < self.min_ms {
            self.min_ms = ms as f32;
        }
        let Some(batches) = &mut self.batches else {
            self.squares = f64::from(self.squares as f32 + square as f32);
            if self.n >= BATCHED_FROM {
                self.batches = Some(Box::new(Batches {
                    length: 1,
                    full: 0,
                    sums: [0.0; BATCHES],
                }));
            }
            return;
        };
        self.squares += square;
        self.current += ms;
        let batched = self.n - BATCHED_FROM;
        if batched & (length_at(batched) - 1) == 0 {
            batches.end_of_one(&mut self.current);
        }
    }

    /// Reads what the next sample needs.
    pub fn touch(&self) -> u64 {
        u64::from(self.n)
    }

    /// What is known; `None` before the first sample.
    pub fn facts(&self) -> Option<MeanFacts> {
        let n = f64::from(self.n);
        let squares = self.squares;
        let sd = (squares.max(0.0) / n).sqrt();
        let half = match &self.batches {
            Some(batches) if batches.full >= BATCHES / 2 => Some(batches.half_width()),
            _ if self.n >= 2 => {
                let error = (squares.max(0.0) / (n - 1.0) / n).sqrt();
                Some(student_95(self.n - 1) * error)
            }
            _ => None,
        };
        (self.n > 0).then_some(MeanFacts {
            n: self.n,
            mean: self.mean,
            sd,
            min: f64::from(self.min_ms),
            interval: half.map(|half| Interval {
                low: (self.mean - half).max(0.0),
                high: self.mean + half,
            }),
        })
    }
}

/// How long batches are when `batched` samples came since they began, at least
/// one: they are doubled when a 33rd one would be full.
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
            self.length = self.length.saturating_mul(2);
            // The batch that was filling is half of a longer one.
            return;
        }
        self.sums[self.full] = std::mem::take(current);
        self.full += 1;
    }

    /// Half the width of the interval of the mean over the full batches.
    fn half_width(&self) -> f64 {
        let k = self.full as f64;
        let mean = |sum: f64| sum / f64::from(self.length);
        let sums = &self.sums[..self.full];
        let all = sums.iter().map(|s| mean(*s)).sum::<f64>() / k;
        let squares: f64 = sums.iter().map(|s| (mean(*s) - all).powi(2)).sum();
        student_95(self.full as u32 - 1) * (squares / (k - 1.0) / k).sqrt()
    }
}

/// Full round trips in packets of either side, and their two parts.
#[derive(Debug, Default)]
pub(crate) struct RttMeans {
    pub full: [Mean; 2],
    pub left: Mean,
    pub right: Mean,
}

impl RttMeans {
    /// Reads what the next sample needs, whichever it is of.
    pub fn touch(&self) -> u64 {
        let [one, two] = &self.full;
        one.touch() ^ two.touch() ^ self.left.touch() ^ self.right.touch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_spread_and_minimum_are_those_of_the_samples() {
        let mut mean = Mean::default();
        assert_eq!(mean.facts(), None);
        for ms in [10.0, 20.0, 30.0] {
            mean.add(ms);
        }
        let facts = mean.facts().unwrap();
        assert_eq!((facts.n, facts.min), (3, 10.0));
        assert!((facts.mean - 20.0).abs() < 1e-9);
        assert!((facts.sd - (200.0f64 / 3.0).sqrt()).abs() < 1e-5);
        // t(0.975, 2) = 4.303, standard error 10/√3.
        let interval = facts.interval.unwrap();
        assert!((interval.high - 20.0 - 4.303 * 10.0 / 3f64.sqrt()).abs() < 0.05);
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
            assert_eq!((batches.length, batches.full), (length, full), "{n}");
            assert_eq!(mean.current, f64::from(last));
            assert!(batches.sums[..full].iter().all(|s| *s == f64::from(length)));
        }
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
}
