//! How late packets are written.

use narrows_units::{Duration, Histogram};

use narrows_engine::Lateness;

/// Counts lateness in nanoseconds.
#[derive(Default)]
pub(super) struct Lates(Histogram);

impl Lates {
    /// Notes one packet.
    #[inline]
    pub(super) fn add(&mut self, late: Duration) {
        self.0.record(late);
    }

    /// What was noted.
    pub(super) fn summary(&self) -> Lateness {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let at = |permille| us(self.0.quantile(permille).unwrap_or(Duration::ZERO));
        Lateness {
            count: self.0.count(),
            p50_us: at(500),
            p99_us: at(990),
            p999_us: at(999),
            max_us: us(self.0.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_noted() {
        let mut lates = Lates::default();
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
        assert_eq!(Lates::default().summary(), Lateness::default());
    }
}
