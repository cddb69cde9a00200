//! Randomness that depends on the run's seed and on a name, and on nothing
//! else: a new element in a path reseeds no other.

use rand_core::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::Duration;

/// The 128-bit seed of `name` in a run with seed `seed`.
///
/// XXH3 is fixed by its specification, so the seed is the same on every
/// machine and in every version.
pub fn seed_of(seed: u64, name: &str) -> u128 {
    xxh3_128_with_seed(name.as_bytes(), seed)
}

/// A 64-bit hash of `bytes` under `key` that is the same on every machine and
/// in every version: XXH3 is fixed by its specification.
pub fn stable_hash(key: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, key)
}

/// A source of random words for algorithms that take them as an argument.
pub trait Draw {
    /// 32 uniformly distributed bits.
    fn draw_u32(&mut self) -> u32;
}

/// The generator of one element, host or flow (PCG-XSL-RR 128/64 MCG).
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The generator of `name` in a run with seed `seed`.
    pub fn for_name(seed: u64, name: &str) -> Self {
        Self(Pcg64Mcg::from_seed(seed_of(seed, name).to_le_bytes()))
    }

    /// The state from which it goes on.
    pub fn state(&self) -> u128 {
        self.0.state()
    }

    /// 64 uniformly distributed bits.
    pub fn draw_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in [0, 1) with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.draw_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform whole number in [0, `below`); 0 when `below` is 0.
    ///
    /// Multiply-shift: the bias is below 2⁻³² for the small ranges used here.
    pub fn below(&mut self, below: u32) -> u32 {
        ((u64::from(self.draw_u32()) * u64::from(below)) >> 32) as u32
    }

    /// A uniform time in [0, `below`); nothing when `below` is.
    ///
    /// Multiply-shift as [`below`](Self::below), in whole nanoseconds.
    pub fn within(&mut self, below: Duration) -> Duration {
        let product = u128::from(self.draw_u64()) * u128::from(below.as_nanos());
        Duration::from_nanos((product >> 64) as u64)
    }
}

impl Draw for Rng {
    fn draw_u32(&mut self) -> u32 {
        (self.draw_u64() >> 32) as u32
    }
}
