//! A log-linear histogram of nanoseconds: constant relative precision in a few
//! kilobytes, whatever the range.

use narrows_units::Duration;

use crate::summary::{Distribution, millionths};

/// Values that share their leading 1 and the next eight bits share a bucket:
/// a bucket is at most 1/256 of its value wide, so its middle is at most 0.2 %
/// off.
const PRECISION_BITS: u32 = 8;

/// Largest number of points that [`Histogram::cdf_ms`] gives.
pub const MAX_CDF_POINTS: usize = 200;

/// Counts of values by size. Count, sum, least and greatest are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: Duration) {
        let ns = value.as_nanos();
        let index = bucket_of(ns);
        if index >= self.buckets.len() {
            self.grow(index);
        }
        self.buckets[index] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        // In steps of an octave, so that a rising maximum grows it rarely.
        let octave = 1usize << PRECISION_BITS;
        self.buckets.resize((index / octave + 1) * octave, 0);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds all of `other`'s values.
    pub fn merge(&mut self, other: &Self) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The smallest value that at least `permille`/1000 of the values do not
    /// exceed (nearest rank), to the histogram's precision; `None` if empty.
    pub fn quantile(&self, permille: u32) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1000);
        let rank = u64::try_from(rank).unwrap_or(u64::MAX).max(1);
        if rank >= self.count {
            return Some(Duration::from_nanos(self.max));
        }
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Some(Duration::from_nanos(self.clamp(middle_of(index))));
            }
        }
        Some(Duration::from_nanos(self.max))
    }

    fn clamp(&self, ns: u64) -> u64 {
        ns.max(self.min).min(self.max)
    }

    /// The distribution in milliseconds; `None` if empty.
    pub fn distribution_ms(&self) -> Option<Distribution> {
        let at = |permille| self.quantile(permille).map(Duration::as_millis_f64);
        Some(Distribution {
            count: self.count,
            min: self.min as f64 / 1e6,
            mean: millionths(self.sum as f64 / self.count as f64 / 1e6),
            p50: at(500)?,
            p95: at(950)?,
            p99: at(990)?,
            max: self.max as f64 / 1e6,
        })
    }

    /// The distribution function as pairs (ms, share of values at most that),
    /// both rising, the last share 1; at most [`MAX_CDF_POINTS`], finer in the
    /// upper hundredth, where the eye looks for tails.
    pub fn cdf_ms(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        if self.count == 0 {
            return points;
        }
        let mut seen = 0;
        let mut next = 0.0f64;
        for (index, &n) in self.buckets.iter().enumerate() {
            if n == 0 {
                continue;
            }
            seen += n;
            let share = millionths(seen as f64 / self.count as f64);
            if seen == self.count {
                points.push((self.max as f64 / 1e6, 1.0));
            } else if share >= next {
                points.push((self.clamp(middle_of(index)) as f64 / 1e6, share));
                next = share
                    + if share < 0.99 {
                        1.0 / 150.0
                    } else {
                        1.0 / 4500.0
                    };
            }
        }
        points
    }
}

/// The bucket of `ns`.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(PRECISION_BITS + 1);
    ((shift as usize) << PRECISION_BITS) + (ns >> shift) as usize
}

/// The middle of bucket `index`.
fn middle_of(index: usize) -> u64 {
    let shift = (index >> PRECISION_BITS).saturating_sub(1);
    let low = ((index - (shift << PRECISION_BITS)) as u64) << shift;
    low + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive_quantile(sorted: &[u64], permille: u32) -> u64 {
        let rank = (sorted.len() * permille as usize).div_ceil(1000).max(1);
        sorted[rank - 1]
    }

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        for &v in values {
            h.record(Duration::from_nanos(v));
        }
        h
    }

    proptest! {
        #[test]
        fn every_value_lies_in_a_bucket_whose_middle_is_at_most_a_500th_off(ns in any::<u64>()) {
            let middle = middle_of(bucket_of(ns));
            prop_assert!(middle.abs_diff(ns) <= ns / 500 + 1, "{ns} -> {middle}");
        }

        #[test]
        fn buckets_are_in_the_order_of_their_values(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(bucket_of(a.min(b)) <= bucket_of(a.max(b)), true);
        }

        #[test]
        fn quantiles_agree_with_sorting(
            mut values in proptest::collection::vec(0u64..3_000_000_000, 1..400),
            permille in 0u32..=1000,
        ) {
            let got = of(&values).quantile(permille).unwrap().as_nanos();
            values.sort_unstable();
            let want = naive_quantile(&values, permille);
            prop_assert!(got.abs_diff(want) <= want / 500 + 1, "{got} for {want}");
        }

        #[test]
        fn merging_is_counting_together(
            a in proptest::collection::vec(0u64..1_000_000_000, 0..100),
            b in proptest::collection::vec(0u64..1_000_000_000, 1..100),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let together: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged.distribution_ms(), of(&together).distribution_ms());
        }

        #[test]
        fn a_distribution_function_rises_to_one_in_few_points(
            values in proptest::collection::vec(0u64..3_000_000_000, 1..3000),
        ) {
            let cdf = of(&values).cdf_ms();
            prop_assert!(cdf.len() <= MAX_CDF_POINTS);
            prop_assert_eq!(cdf.last().unwrap().1, 1.0);
            for pair in cdf.windows(2) {
                prop_assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
            }
        }
    }

    #[test]
    fn ends_and_mean_are_exact() {
        let d = of(&[1_234_567, 7_654_321, 3]).distribution_ms().unwrap();
        assert_eq!((d.count, d.min, d.max), (3, 0.000_003, 7.654_321));
        assert!((d.mean - 2.962_963_666).abs() < 1e-6);
    }

    #[test]
    fn an_empty_histogram_has_no_distribution() {
        assert_eq!(Histogram::new().distribution_ms(), None);
        assert!(Histogram::new().cdf_ms().is_empty());
    }
}
