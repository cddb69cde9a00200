//! Bit rates.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Duration;
use crate::words::Value;

/// A rate in bits per second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Rate(u64);

impl Rate {
    /// `bits` per second.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// `mbit` times 10⁶ bits per second.
    pub const fn from_mbit(mbit: u64) -> Self {
        Self(mbit * 1_000_000)
    }

    /// Bits per second.
    pub const fn as_bits(self) -> u64 {
        self.0
    }

    /// Bytes per second, rounded down; Linux's unit for pacing rates.
    pub const fn as_bytes(self) -> u64 {
        self.0 / 8
    }

    /// Mbit/s, for output only.
    pub fn as_mbit_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// How long `bytes` take at this rate, rounded up to a nanosecond.
    ///
    /// # Panics
    /// At a rate of zero; scenario checking refuses such a rate.
    pub fn time_for(self, bytes: u64) -> Duration {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        Duration::from_nanos(u64::try_from(bits.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// How many whole bytes fit into `span`.
    pub fn bytes_in(self, span: Duration) -> u64 {
        let bits = u128::from(self.0) * u128::from(span.as_nanos());
        u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1_000_000_000 => (1_000_000_000, "Gbit"),
            n if n >= 1_000_000 => (1_000_000, "Mbit"),
            n if n >= 1_000 => (1_000, "Kbit"),
            _ => (1, "bit"),
        };
        crate::words::write_scaled(f, self.0, unit, name)
    }
}

impl Value for Rate {
    const ALLOWED: &'static str = "a rate such as 50Mbit, 1.5Gbit, 64Kbit, 1MBps";
    const PATTERN: Option<&'static str> = Some(
        r"([0-9]+\.?[0-9]*|\.[0-9]+)([kKmMgG][iI]?|[tT])?[bB][iI][tT]|([0-9]+\.?[0-9]*|\.[0-9]+)[kKmMgG]?[bB][pP][sS]",
    );

    /// tc reads `bps` as *bytes* per second; case does not matter but for
    /// `bit` against `bps`.
    fn parse(word: &str) -> Option<Self> {
        crate::words::parse_scaled(
            &word.to_ascii_lowercase(),
            &[
                ("bit", 1),
                ("kbit", 1_000),
                ("mbit", 1_000_000),
                ("gbit", 1_000_000_000),
                ("tbit", 1_000_000_000_000),
                ("kibit", 1 << 10),
                ("mibit", 1 << 20),
                ("gibit", 1 << 30),
                ("bps", 8),
                ("kbps", 8_000),
                ("mbps", 8_000_000),
                ("gbps", 8_000_000_000),
            ],
        )
        .map(Self)
    }
}
