//! A log-linear histogram of nanoseconds: constant relative precision in a few
//! kilobytes, whatever the range.

use crate::Duration;

/// Values that share their leading 1 and the next eight bits share a bucket:
/// a bucket is at most 1/256 of its value wide, so its middle is at most 0.2 %
/// off.
const PRECISION_BITS: u32 = 8;

/// Buckets of an octave.
const OCTAVE: usize = 1 << PRECISION_BITS;

/// Counts of values by size. Count, sum, least and greatest are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Those of the octaves from that of the least value to that of the greatest.
    buckets: Vec<u64>,
    /// Number of the first of them.
    first: usize,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            first: 0,
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: Duration) {
        let ns = value.as_nanos();
        let bucket = bucket_of(ns);
        if bucket.wrapping_sub(self.first) >= self.buckets.len() {
            self.make_room(bucket);
        }
        self.buckets[bucket - self.first] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Sees to it that `bucket` is there, with its octave and those between it and the others.
    #[cold]
    fn make_room(&mut self, bucket: usize) {
        let octave = bucket / OCTAVE * OCTAVE;
        if self.buckets.is_empty() {
            self.first = octave;
        }
        if octave < self.first {
            let more = std::iter::repeat_n(0, self.first - octave);
            self.buckets.splice(..0, more);
            self.first = octave;
        }
        let buckets = self.buckets.len().max(octave + OCTAVE - self.first);
        self.buckets.resize(buckets, 0);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value; `None` if empty.
    pub fn min(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.min))
    }

    /// The greatest value; zero if empty.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The sum of all values, as far as 64 bits of nanoseconds go.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Buckets with values in them, in rising order: the middle of each, and how
    /// many it has.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let buckets = self.buckets.iter().enumerate();
        let full = buckets.filter(|(_, n)| **n > 0);
        full.map(|(index, n)| {
            let middle = middle_of(self.first + index);
            (Duration::from_nanos(self.clamp(middle)), *n)
        })
    }

    /// Adds all of `other`'s values.
    pub fn merge(&mut self, other: &Self) {
        if !other.buckets.is_empty() {
            self.make_room(other.first);
            self.make_room(other.first + other.buckets.len() - 1);
            let mine = &mut self.buckets[other.first - self.first..];
            for (mine, theirs) in mine.iter_mut().zip(&other.buckets) {
                *mine += theirs;
            }
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
        for (middle, n) in self.buckets() {
            seen += n;
            if seen >= rank {
                return Some(middle);
            }
        }
        Some(Duration::from_nanos(self.max))
    }

    fn clamp(&self, ns: u64) -> u64 {
        ns.max(self.min).min(self.max)
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
        let mut h = Histogram::default();
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
            prop_assert_eq!(merged, of(&together));
        }
    }

    /// A round trip of 20 ms is 16 octaves above the first bucket: a run of ten thousand flows
    /// would have half a gigabyte of empty ones.
    #[test]
    fn only_octaves_with_values_and_those_between_them_take_memory() {
        let mut h = of(&[20_000_000]);
        assert_eq!(h.buckets.len(), OCTAVE);
        h.record(Duration::from_nanos(35_000_000));
        assert_eq!(h.buckets.len(), 2 * OCTAVE);
        h.record(Duration::from_nanos(5_000_000));
        assert_eq!(h.buckets.len(), 4 * OCTAVE);
        let middles: Vec<u64> = h.buckets().map(|(m, _)| m.as_nanos() / 1_000_000).collect();
        assert_eq!(middles, [5, 20, 35]);
    }

    #[test]
    fn ends_and_sum_are_exact() {
        let h = of(&[1_234_567, 7_654_321, 3]);
        assert_eq!(h.min(), Some(Duration::from_nanos(3)));
        assert_eq!(h.max(), Duration::from_nanos(7_654_321));
        assert_eq!(h.sum(), Duration::from_nanos(8_888_891));
        let empty = Histogram::default();
        assert_eq!((empty.min(), empty.quantile(500)), (None, None));
    }
}
