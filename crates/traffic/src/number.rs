//! Numbers of mix and flow files, exactly: decimal digits with a unit, never in floating point.

use std::fmt;

use narrows_units::Duration;

/// Digits of the longest number (our choice), so that products of two fit 128 bits.
const MAX_DIGITS: usize = 15;

/// A decimal number: `digits` / 10^`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) digits: u128,
    pub(crate) scale: u32,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(self.scale);
        write!(f, "{}", self.digits / one)?;
        let part = format!("{:0width$}", self.digits % one, width = self.scale as usize);
        match part.trim_end_matches('0') {
            "" => Ok(()),
            part => write!(f, ".{part}"),
        }
    }
}

impl Decimal {
    pub(crate) const ZERO: Self = Self {
        digits: 0,
        scale: 0,
    };

    /// The sum of the two, whose scales are those of numbers that were read.
    pub(crate) fn plus(self, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        let digits = |of: Self| of.digits * 10_u128.pow(scale - of.scale);
        Self {
            digits: digits(self) + digits(other),
            scale,
        }
    }

    /// Reads digits with at most one point, and what follows them.
    pub(crate) fn leading(text: &str) -> Option<(Self, &str)> {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = part.trim_end_matches('0');
        let all = format!("{whole}{part}");
        let digits = all.trim_start_matches('0');
        if all.is_empty() && !number.contains('0')
            || digits.len() > MAX_DIGITS
            || part.len() > MAX_DIGITS
        {
            return None;
        }
        let digits = match digits {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        let scale = part.len() as u32;
        Some((Self { digits, scale }, rest))
    }

    /// Times `unit`, rounded down; `None` beyond 64 bits.
    pub(crate) fn times(self, unit: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(unit))?;
        u64::try_from(product / 10_u128.pow(self.scale)).ok()
    }
}

/// A number with a suffix of `units`; `None` if it is none.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, suffix) = Decimal::leading(text.trim())?;
    let (_, unit) = units.iter().find(|(word, _)| *word == suffix.trim())?;
    number.times(*unit)
}

/// The forms of [`bandwidth`].
pub(crate) const BANDWIDTH: &str = "bytes a second such as 12.5MB (B, KB, MB, GB or TB), up to 1TB";

/// Bytes a second: `12.5MB`.
pub(crate) fn bandwidth(text: &str) -> Option<u64> {
    const TERA: u64 = 1_000_000_000_000;
    const UNITS: [(&str, u64); 6] = [
        ("B", 1),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", TERA),
    ];
    with_unit(text, &UNITS).filter(|n| (1..=TERA).contains(n))
}

/// The forms of [`percent`].
pub(crate) const PERCENT: &str = "a percentage above 0% and up to 100%, such as 12.5%";

/// A share: `12.5%`.
pub(crate) fn percent(text: &str) -> Option<Decimal> {
    let (share, rest) = Decimal::leading(text.trim())?;
    let most = 100 * 10_u128.pow(share.scale);
    (rest.trim() == "%" && share.digits > 0 && share.digits <= most).then_some(share)
}

/// The forms of [`scaled`].
pub(crate) const SCALED: &str =
    "a whole number with K, M or G for powers of ten, such as 1246K or 1.8M";

/// iperf's numbers: `1246K`. K, M and G are powers of ten.
pub(crate) fn scaled(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 7] = [
        ("", 1),
        ("K", 1_000),
        ("k", 1_000),
        ("M", 1_000_000),
        ("m", 1_000_000),
        ("G", 1_000_000_000),
        ("g", 1_000_000_000),
    ];
    with_unit(text, &UNITS)
}

/// The longest time that is read (our choice).
pub(crate) const MAX_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// The forms of [`duration`].
pub(crate) const DURATION: &str = "a time such as 60s, 200ms, 1h30m, up to a week";

/// A time in Go's words: `1m30s`, `0.2s`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = 0_u64;
    // Each of the units once at most, so that no text takes long.
    for _ in 0..UNITS.len() {
        let (number, after) = Decimal::leading(rest)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (word, next) = after.split_at(end.unwrap_or(after.len()));
        let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == word)?;
        total = total.checked_add(number.times(*unit)?)?;
        rest = next;
        if rest.is_empty() {
            let time = Duration::from_nanos(total);
            return (time <= MAX_TIME).then_some(time);
        }
    }
    None
}

/// A number in C's spelling: decimal, `0x14`, `024`.
pub(crate) fn of_c(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with('+'));
    }
    let all_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.strip_prefix('0') {
        _ if !all_digits => None,
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(bandwidth("12.5MB"), Some(12_500_000));
        assert_eq!(bandwidth("1TB"), Some(1_000_000_000_000));
        assert_eq!(bandwidth("0.0000012 MB"), Some(1));
        assert_eq!(scaled("1246K"), Some(1_246_000));
        assert_eq!(scaled("1.8M"), Some(1_800_000));
        assert_eq!(scaled("63901"), Some(63_901));
        assert_eq!(duration("1h0.5m"), Some(Duration::from_secs(3_630)));
        assert_eq!(duration("0.2s"), Some(Duration::from_millis(200)));
        assert_eq!(duration("60.000000s"), Some(Duration::from_secs(60)));
        assert_eq!(
            (of_c("0x14"), of_c("024"), of_c("20")),
            (Some(20), Some(20), Some(20))
        );
        let share = percent("33.30%").unwrap();
        assert_eq!((share.digits, share.scale), (333, 1));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "",
            ".",
            "MB",
            "-1MB",
            "1e9MB",
            "12.5",
            "1.2.3MB",
            "2TB",
            "0MB",
            "9999999999999999MB",
        ] {
            assert_eq!(bandwidth(text), None, "{text}");
        }
        for text in ["0%", "100.1%", "5", "%", "nan%", "1%%"] {
            assert_eq!(percent(text), None, "{text}");
        }
        for text in [
            "1",
            "s",
            "1s2",
            "-1s",
            "9999h",
            "1x",
            "1s1s1s1s1s1s1s1s",
            "∞s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["", "0x", "0x-1", "09", "+1", "1 2", "99999999999999999999"] {
            assert_eq!(of_c(text), None, "{text}");
        }
        assert_eq!(scaled("18446744073709551616G"), None);
    }
}
