//! How late packets are written.

use hdrhistogram::Histogram;
use narrows_units::Duration;

use crate::outcome::Lateness;

/// Significant figures that are kept.
const FIGURES: u8 = 3;

/// The longest lateness that is told apart, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Counts lateness in nanoseconds.
pub(super) struct Lates(Histogram<u64>);

impl Lates {
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_NS, FIGURES);
        Self(histogram.expect("the bounds are within those of a histogram"))
    }

    /// Notes one packet.
    #[inline]
    pub(super) fn add(&mut self, late: Duration) {
        self.0.saturating_record(late.as_nanos());
    }

    /// What was noted.
    pub(super) fn summary(&self) -> Lateness {
        let us = |ns: u64| ns as f64 / 1e3;
        Lateness {
            count: self.0.len(),
            p50_us: us(self.0.value_at_quantile(0.5)),
            p99_us: us(self.0.value_at_quantile(0.99)),
            p999_us: us(self.0.value_at_quantile(0.999)),
            max_us: us(self.0.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_noted() {
        let mut lates = Lates::new();
        for us in 1..=1000 {
            lates.add(Duration::from_micros(us));
        }
        let summary = lates.summary();
        assert_eq!(summary.count, 1000);
        for (found, exact) in [
            (summary.p50_us, 500.0),
            (summary.p99_us, 990.0),
            (summary.p999_us, 999.0),
            (summary.max_us, 1000.0),
        ] {
            assert!((found / exact - 1.0).abs() < 2e-3, "{found} {exact}");
        }
        assert_eq!(Lates::new().summary(), Lateness::default());
    }
}
