//! Sizes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::Value;

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(u64);

impl Bytes {
    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1 << 20 && n % (1 << 20) == 0 => (1 << 20, "Mb"),
            n if n >= 1 << 10 && n % (1 << 10) == 0 => (1 << 10, "Kb"),
            _ => (1, "b"),
        };
        crate::words::write_scaled(f, self.0, unit, name)
    }
}

impl Value for Bytes {
    const ALLOWED: &'static str = "a size such as 1514, 1514b, 32Mb, 64kb";
    const PATTERN: Option<&'static str> =
        Some(r"([0-9]+\.?[0-9]*|\.[0-9]+)([kKmMgG]?[bB]?|[kKmMgG][bB][iI][tT])");

    /// tc's sizes: `b` is bytes, `k`/`kb` 1024 bytes, `m`/`mb` 1024², and so on.
    fn parse(word: &str) -> Option<Self> {
        crate::words::parse_scaled(
            &word.to_ascii_lowercase(),
            &[
                ("", 1),
                ("b", 1),
                ("k", 1 << 10),
                ("kb", 1 << 10),
                ("m", 1 << 20),
                ("mb", 1 << 20),
                ("g", 1 << 30),
                ("gb", 1 << 30),
                ("kbit", 125),
                ("mbit", 125_000),
                ("gbit", 125_000_000),
            ],
        )
        .map(Self)
    }
}
