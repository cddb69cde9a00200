//! Quantiles of round trips in bounded memory, by counting them in buckets that are as
//! wide as their place allows: the layout of HDR Histogram, a power of two cut into equal
//! parts (<https://hdrhistogram.org>), but only as long as the values need.

/// Round trips that wait to be counted, so that counts are touched once for each three;
/// and few ones need no more memory, and are exact.
const RECENT: usize = 3;
/// The most buckets, of 4 bytes each.
const MOST: u32 = 512;
/// Bits of a value's fraction that choose its bucket at first: 64 buckets for a power of
/// two, each 1.6 % wide at most. With 512 of them, values may be 256-fold apart; beyond
/// that, two buckets become one as often as it takes.
const FRACTION: u32 = 6;
/// Bits of the fraction of an `f32`.
const MANTISSA: u32 = f32::MANTISSA_DIGITS - 1;
/// Values below a microsecond count as one.
const LEAST_MS: f32 = 0.001;

/// What is known of how values above zero are spread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantiles {
    recent: [f32; RECENT],
    waiting: u8,
    buckets: Option<Box<Buckets>>,
}

#[derive(Clone, Debug)]
struct Buckets {
    /// Bits of a value that do not choose its bucket.
    shift: u32,
    /// The number of the first bucket.
    first: u32,
    counts: Vec<u32>,
    /// The least and the greatest value: quantiles are between them.
    least: f32,
    greatest: f32,
}

impl Quantiles {
    /// Counts a value in milliseconds.
    #[inline]
    pub fn add(&mut self, ms: f32) {
        self.recent[usize::from(self.waiting)] = ms;
        self.waiting += 1;
        if usize::from(self.waiting) == RECENT {
            self.waiting = 0;
            let buckets = self.buckets.get_or_insert_with(Box::default);
            self.recent.iter().for_each(|ms| buckets.add(*ms));
        }
    }

    /// The least values that the shares `of` all values do not exceed; `None` before the
    /// first value.
    pub fn at<const N: usize>(&self, of: [f64; N]) -> Option<[f64; N]> {
        let recent = &self.recent[..usize::from(self.waiting)];
        let Some(buckets) = &self.buckets else {
            let mut sorted = [f32::INFINITY; RECENT];
            sorted[..recent.len()].copy_from_slice(recent);
            sorted.sort_unstable_by(f32::total_cmp);
            let at = |share: f64| f64::from(sorted[rank(share, recent.len() as u64) as usize - 1]);
            return (!recent.is_empty()).then(|| of.map(at));
        };
        let mut all = Buckets::clone(buckets);
        recent.iter().for_each(|ms| all.add(*ms));
        Some(of.map(|share| all.at(share)))
    }
}

/// Which of `n` values in order has this share of them up to itself, from 1.
fn rank(share: f64, n: u64) -> u64 {
    ((share * n as f64).ceil() as u64).clamp(1, n.max(1))
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            shift: MANTISSA - FRACTION,
            first: 0,
            counts: Vec::new(),
            least: f32::INFINITY,
            greatest: 0.0,
        }
    }
}

impl Buckets {
    fn add(&mut self, ms: f32) {
        // In the order of the values, as these are above zero.
        let ms = ms.max(LEAST_MS);
        let bits = ms.to_bits();
        self.least = self.least.min(ms);
        self.greatest = self.greatest.max(ms);
        let at = (bits >> self.shift).wrapping_sub(self.first) as usize;
        match self.counts.get_mut(at) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                self.reach(bits);
                let at = (bits >> self.shift) - self.first;
                self.counts[at as usize] += 1;
            }
        }
    }

    /// Makes room for a value.
    #[cold]
    fn reach(&mut self, bits: u32) {
        loop {
            let number = bits >> self.shift;
            let (mut low, mut high) = (number, number + 1);
            if !self.counts.is_empty() {
                low = low.min(self.first);
                high = high.max(self.first + self.counts.len() as u32);
            }
            if high - low <= MOST {
                let mut counts = vec![0; (high - low) as usize];
                let begin = self.first.saturating_sub(low) as usize;
                counts[begin..begin + self.counts.len()].copy_from_slice(&self.counts);
                (self.first, self.counts) = (low, counts);
                return;
            }
            self.halve();
        }
    }

    /// Makes one bucket of two.
    fn halve(&mut self) {
        let first = self.first >> 1;
        let last = (self.first + self.counts.len() as u32 - 1) >> 1;
        let mut counts = vec![0u32; (last - first + 1) as usize];
        for (number, count) in (self.first..).zip(&self.counts) {
            let joined = &mut counts[((number >> 1) - first) as usize];
            *joined = joined.saturating_add(*count);
        }
        self.shift += 1;
        (self.first, self.counts) = (first, counts);
    }

    /// The value in a bucket that has this share of all up to itself, as if those in a
    /// bucket were evenly apart.
    fn at(&self, share: f64) -> f64 {
        let n = self.counts.iter().map(|c| u64::from(*c)).sum();
        let rank = rank(share, n);
        let mut before = 0;
        for (number, count) in (self.first..).zip(&self.counts) {
            let count = u64::from(*count);
            if before + count >= rank {
                let edge = |number: u32| f64::from(f32::from_bits(number << self.shift));
                let (low, high) = (edge(number), edge(number + 1));
                let part = ((rank - before) as f64 - 0.5) / count as f64;
                let value = low + part * (high - low);
                return value.clamp(f64::from(self.least), f64::from(self.greatest));
            }
            before += count;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rng;

    fn of(values: impl IntoIterator<Item = f32>) -> Quantiles {
        let mut quantiles = Quantiles::default();
        values.into_iter().for_each(|ms| quantiles.add(ms));
        quantiles
    }

    #[test]
    fn a_few_values_are_exact() {
        assert_eq!(of([]).at([0.5]), None);
        assert_eq!(of([7.25]).at([0.5, 0.95]), Some([7.25, 7.25]));
        assert_eq!(of([9.5, 7.25]).at([0.5, 0.95]), Some([7.25, 9.5]));
        assert_eq!(of([10.0; 100]).at([0.5, 0.95]), Some([10.0, 10.0]));
    }

    /// The largest error of median and 95th percentile against those of all values.
    fn worst(values: &[f32]) -> f64 {
        let found = of(values.iter().copied()).at([0.5, 0.95]).unwrap();
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let error = |(share, found): (f64, f64)| {
            let wanted = f64::from(sorted[rank(share, sorted.len() as u64) as usize - 1]);
            (found / wanted - 1.0).abs()
        };
        [(0.5, found[0]), (0.95, found[1])]
            .map(error)
            .into_iter()
            .fold(0.0, f64::max)
    }

    #[test]
    fn quantiles_are_those_of_all_values_within_the_width_of_a_bucket() {
        let mut rng = Rng::for_name(1, "quantiles");
        // Evenly spread over powers of two.
        let mut between = |n: u32, low: f32, high: f32| -> Vec<f32> {
            let (low, high) = (low.to_bits(), high.to_bits());
            let one = |_| f32::from_bits(low + rng.below(high - low));
            (0..n).map(one).collect()
        };
        for n in [4, 5, 31, 1_000, 30_001] {
            for (low, high, width) in [
                (20.0, 23.0, 1.0 / 64.0),
                // Up to 256-fold apart, or 8 powers of two.
                (2.0, 500.0, 1.0 / 64.0),
                // Up to a million-fold, or 20 powers of two: 16 buckets for each.
                (0.01, 9_000.0, 1.0 / 16.0),
            ] {
                let error = worst(&between(n, low, high));
                assert!(error < width, "{n} from {low} to {high}: {error}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_whatever_the_values() {
        let mut rng = Rng::for_name(1, "any value");
        let values = (0..100_000).map(|_| f32::from_bits(rng.draw_u64() as u32 & 0x7f7f_ffff));
        let quantiles = of(values.chain([0.0, f32::MAX, f32::MIN_POSITIVE, 0.0]));
        let buckets = quantiles.buckets.as_ref().unwrap();
        assert!(buckets.counts.len() <= MOST as usize && buckets.counts.capacity() <= 512);
        assert!(quantiles.at([0.5]).unwrap()[0].is_finite());
    }
}
