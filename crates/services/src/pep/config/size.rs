//! Sizes of memory, as a configuration writes them.

use std::fmt;

use narrows_units::{Bytes, Value};

/// Bytes. Written by the units of IEC 80000-13 or as in tc, but never in bits: `70Mbit` is a size
/// to tc, and a rate to whoever reads it beside `64Mb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(pub u64);

const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl Value for Size {
    const ALLOWED: &'static str = "a size in bytes such as 64MiB, 4GiB, 512KiB or 1500";

    fn parse(word: &str) -> Option<Self> {
        for (unit, bytes) in UNITS {
            let number = word
                .strip_suffix(unit)
                .or_else(|| word.strip_suffix(&unit.to_ascii_lowercase()));
            if let Some(number) = number {
                let number: f64 = number.trim_end().parse().ok()?;
                let size = number * bytes as f64;
                return (size >= 0.0 && size < u64::MAX as f64).then_some(Self(size as u64));
            }
        }
        let in_bits = word.to_ascii_lowercase().ends_with("bit");
        Bytes::parse(word)
            .filter(|_| !in_bits)
            .map(|b| Self(b.get()))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS
            .iter()
            .find(|(_, bytes)| self.0 >= *bytes && self.0 % bytes == 0);
        match whole {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_of_bytes_and_read_again_as_they_are_printed() {
        for (word, bytes, said) in [
            ("64MiB", 64 << 20, "64MiB"),
            ("4gib", 4 << 30, "4GiB"),
            ("1.5KiB", 1_536, "1536"),
            ("64mb", 64 << 20, "64MiB"),
            ("4096Mb", 4 << 30, "4GiB"),
            ("1500", 1_500, "1500"),
        ] {
            let size = Size::parse(word).unwrap_or_else(|| panic!("{word}"));
            assert_eq!((size.0, size.to_string().as_str()), (bytes, said), "{word}");
            assert_eq!(Size::parse(said), Some(size));
        }
        for rate in [
            "70Mbit", "4096mbit", "1gbit", "8kbit", "-1MiB", "MiB", "1 MB/s",
        ] {
            assert_eq!(Size::parse(rate), None, "{rate}");
        }
    }
}
