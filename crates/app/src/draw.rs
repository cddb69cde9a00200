//! Random times of applications.

use narrows_units::{Duration, Rng};

/// An exponentially distributed time with this mean: the gaps of a Poisson process.
pub(crate) fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    exponential_ns(rng, mean.as_nanos() as f64)
}

/// The same with a mean in nanoseconds.
pub(crate) fn exponential_ns(rng: &mut Rng, mean_ns: f64) -> Duration {
    let drawn = -libm::log1p(-rng.unit()) * mean_ns;
    Duration::from_nanos(drawn as u64)
}
