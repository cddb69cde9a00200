//! How times are spread.

use narrows_units::{Duration, Histogram};
use serde::{Deserialize, Serialize};

use crate::summary::millionths;

/// A distribution; `_ms` fields that hold one are in milliseconds.
///
/// Percentiles come from a log-linear histogram and are exact to 0.2 %; min,
/// mean and max are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many samples.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// Their mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 of 100 are at most this.
    pub p95: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Distribution {
    /// Its figures by name.
    pub(crate) fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("min", self.min),
            ("mean", self.mean),
            ("p50", self.p50),
            ("p95", self.p95),
            ("p99", self.p99),
            ("max", self.max),
        ]
    }

    /// Of times, in milliseconds; `None` if there are none.
    pub(crate) fn of_ms(times: &Histogram) -> Option<Self> {
        Self::of(times, 1e6)
    }

    /// Of values of which `scale` parts are a unit; `None` if there are none.
    pub(crate) fn of(values: &Histogram, scale: f64) -> Option<Self> {
        let in_units = |parts: Duration| parts.as_nanos() as f64 / scale;
        let at = |permille| values.quantile(permille).map(in_units);
        Some(Self {
            count: values.count(),
            min: in_units(values.min()?),
            mean: millionths(values.sum().as_nanos() as f64 / values.count() as f64 / scale),
            p50: at(500)?,
            p95: at(950)?,
            p99: at(990)?,
            max: in_units(values.max()),
        })
    }
}

/// The distribution function of times as pairs (ms, share of values at most that),
/// both rising, the last share 1; at most 200 of them, finer in the upper
/// hundredth, where the eye looks for tails.
pub(crate) fn cdf_ms(times: &Histogram) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let (mut seen, mut next) = (0, 0.0f64);
    for (middle, n) in times.buckets() {
        seen += n;
        let share = millionths(seen as f64 / times.count() as f64);
        if seen == times.count() {
            points.push((times.max().as_millis_f64(), 1.0));
        } else if share >= next {
            points.push((middle.as_millis_f64(), share));
            let finer = if share < 0.99 { 150.0 } else { 4500.0 };
            next = share + 1.0 / finer;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::default();
        for ns in values {
            h.record(Duration::from_nanos(*ns));
        }
        h
    }

    proptest! {
        #[test]
        fn a_distribution_function_rises_to_one_in_few_points(
            values in proptest::collection::vec(0u64..3_000_000_000, 1..3000),
        ) {
            let cdf = cdf_ms(&of(&values));
            prop_assert!(cdf.len() <= 200);
            prop_assert_eq!(cdf.last().unwrap().1, 1.0);
            for pair in cdf.windows(2) {
                prop_assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
            }
        }
    }

    /// Values each a hundredth longer than the one before, so that no two are counted together.
    fn rising(first: f64, n: i32) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(first), |ns| Some(ns * 1.01))
            .take(n as usize)
            .map(|ns| ns as u64)
    }

    #[test]
    fn points_are_a_150th_of_the_values_apart_and_a_4500th_in_the_upper_hundredth() {
        let all: Vec<u64> = rising(1_000.0, 1_000).collect();
        let shares: Vec<f64> = cdf_ms(&of(&all)).iter().map(|point| point.1).collect();
        // The first that is at least 6.67 thousandths above the last.
        let below = (0..=141).map(|n| f64::from(1 + 7 * n));
        let above = (995..=1_000).map(f64::from);
        let expected: Vec<f64> = below.chain(above).map(|n| n / 1_000.0).collect();
        assert_eq!(shares, expected);
        // The upper hundredth begins with the share of 99 in 100 itself.
        let mut tail = vec![10_000; 9_900];
        tail.extend(rising(20_000.0, 100));
        let shares: Vec<f64> = cdf_ms(&of(&tail)).iter().map(|point| point.1).collect();
        let apart = (0..=33).map(|n| f64::from(9_900 + 3 * n));
        let expected: Vec<f64> = apart.chain([10_000.0]).map(|n| n / 10_000.0).collect();
        assert_eq!(shares, expected);
    }

    #[test]
    fn ends_and_mean_are_exact() {
        let d = Distribution::of_ms(&of(&[1_234_567, 7_654_321, 3])).unwrap();
        assert_eq!((d.count, d.min, d.max), (3, 0.000_003, 7.654_321));
        assert!((d.mean - 2.962_963_666).abs() < 1e-6);
    }

    #[test]
    fn nothing_has_no_distribution() {
        assert_eq!(Distribution::of_ms(&Histogram::default()), None);
        assert!(cdf_ms(&Histogram::default()).is_empty());
    }
}
