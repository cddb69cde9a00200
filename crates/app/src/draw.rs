//! Random times and sizes of applications.

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

/// A draw of the standard normal distribution (Box and Muller, 1958).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log1p(-rng.unit()));
    radius * libm::cos(std::f64::consts::TAU * rng.unit())
}
