//! Between a run's time and the one type of time that quinn-proto takes.

use std::time;

use narrows_units::{Duration, Instant};

/// The base instant to which a run's time is added. What an endpoint does
/// depends on differences alone, so the base never shows in a result.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(time::Instant);

impl Epoch {
    /// A run whose time starts at `base`; an engine takes whatever time it is.
    pub fn at(base: time::Instant) -> Self {
        Self(base)
    }

    /// `at` of the run for quinn-proto.
    pub(crate) fn std(self, at: Instant) -> time::Instant {
        self.0 + time::Duration::from_nanos(at.as_nanos())
    }

    /// What quinn-proto calls `at`, in the run's time.
    pub(crate) fn run(self, at: time::Instant) -> Instant {
        Instant::ZERO + span(at.saturating_duration_since(self.0))
    }
}

/// A span of time as the rest of Narrows counts it.
pub(crate) fn span(span: time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_there_and_back_to_the_nanosecond() {
        let epoch = Epoch::at(time::Instant::now());
        for ns in [0, 1, 999_999_999, 86_400_000_000_001] {
            let at = Instant::from_nanos(ns);
            assert_eq!(epoch.run(epoch.std(at)), at);
        }
    }
}
