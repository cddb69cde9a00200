//! Numbers of the series in decimals: what Rust's own printing and reading give, in a tenth of
//! the time, as there are millions of them.

/// Powers of ten for decimals that are found by division: a number of single precision times
/// any of them is a double without rounding (24 bits and 27).
const POWERS: [f64; 8] = [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// The double whose decimal spelling is that of `value`: columns are single
/// precision, and 0.1 shall not be written as 0.10000000149.
pub(crate) fn shortest(value: f32) -> f64 {
    // Integers up to 2²⁴ are the same in both, and counters are integers.
    if value.fract() == 0.0 && value.abs() <= 16_777_216.0 {
        return value.into();
    }
    decimal(value).unwrap_or_else(|| value.to_string().parse().unwrap_or_else(|_| value.into()))
}

/// The same of most numbers, without spelling them: of the decimals next to `value`, that with
/// the fewest places which is `value` in single precision. `None` where two are equally near,
/// and where more places may be needed or a place is less than the precision.
fn decimal(value: f32) -> Option<f64> {
    let exact = f64::from(value);
    if !(1e-3..65_536.0).contains(&exact) {
        return None;
    }
    for power in POWERS {
        let scaled = exact * power;
        if scaled - (scaled as u64) as f64 == 0.5 {
            return None;
        }
        // The quotient of two numbers that are doubles is rounded as a decimal that is read.
        let near = ((scaled + 0.5) as u64) as f64 / power;
        if near as f32 == value {
            return Some(near);
        }
    }
    None
}

/// Appends `value` in decimals as Rust prints it: the fewest digits that are read as `value`.
pub(crate) fn spell(value: f64, to: &mut String) {
    use std::fmt::Write as _;
    match digits(value) {
        Some((digits, places)) => spell_digits(digits, places, to),
        // Writing to a string does not fail.
        None => write!(to, "{value}").unwrap_or_default(),
    }
}

/// The digits of `value` as a whole number, and how many of them are decimal places. `None` where
/// it has too many.
fn digits(value: f64) -> Option<(u64, usize)> {
    // Up to 15 digits no two decimals are the same double.
    if !(0.0..1e6).contains(&value) || value.is_sign_negative() {
        return None;
    }
    for (places, power) in std::iter::once(1.0).chain(POWERS).enumerate() {
        let digits = (value * power + 0.5) as u64;
        if digits as f64 / power == value {
            return Some((digits, places));
        }
    }
    None
}

/// Appends a number of so many decimal `places`, which as a whole number has these `digits`.
fn spell_digits(mut digits: u64, places: usize, to: &mut String) {
    let mut text = [b'0'; 24];
    let mut at = text.len();
    let mut written = 0;
    while digits > 0 || written <= places {
        if written == places && places > 0 {
            at -= 1;
            text[at] = b'.';
        }
        at -= 1;
        text[at] = b'0' + (digits % 10) as u8;
        digits /= 10;
        written += 1;
    }
    to.push_str(std::str::from_utf8(&text[at..]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled_as_rust_prints_them() {
        let spelled = |value: f64| {
            let mut text = String::new();
            spell(value, &mut text);
            text
        };
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (-1.5, "-1.5"),
            (0.05, "0.05"),
            (10.0, "10"),
            (100.25, "100.25"),
            (999_999.99, "999999.99"),
            (1e-7, "0.0000001"),
            (1e-9, "0.000000001"),
            (1e9, "1000000000"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(
                (spelled(value).as_str(), value.to_string().as_str()),
                (text, text)
            );
        }
        // Any bits, and any count of halves, which lie between two decimals.
        let mut rng = narrows_units::Rng::for_name(1, "spelling");
        for n in 0..100_000_u32 {
            let bits = rng.draw_u64();
            let single = match n % 4 {
                0 => f32::from_bits(bits as u32),
                1 => (bits as u32 >> 8) as f32 / 1024.0,
                2 => (bits % 65_536) as f32 + (bits >> 50) as f32 / 16_384.0,
                _ => (bits % 10_000_000) as f32 / 1e4,
            };
            let double: f64 = single.to_string().parse().unwrap();
            assert_eq!(shortest(single).to_bits(), double.to_bits(), "{single}");
            assert_eq!(spelled(double), double.to_string());
            let other = f64::from_bits(bits);
            assert_eq!(spelled(other), other.to_string());
            let near = (bits >> 11) as f64 / 9e9;
            assert_eq!(spelled(near), near.to_string());
        }
    }

    /// Without the slower way that gives the same.
    #[test]
    fn most_numbers_are_found_by_a_division() {
        for (single, double) in [
            (0.1, 0.1),
            (0.07, 0.07),
            (0.3, 0.3),
            (47.8123, 47.8123),
            (999.9, 999.9),
            (65_535.8, 65_535.8),
        ] {
            assert_eq!(decimal(single), Some(double));
        }
        // One that is halfway between two decimals of fewer places, and those that are too small or
        // too large.
        for other in [0.25, 1e-4, 65_536.5] {
            assert_eq!(decimal(other), None);
        }
        for (value, found) in [
            (0.0, Some((0, 0))),
            (7.0, Some((7, 0))),
            (0.3, Some((3, 1))),
            (0.07, Some((7, 2))),
            (100.25, Some((10_025, 2))),
            (12.345_678_9, Some((123_456_789, 7))),
            (0.1 + 0.2, None),
            (-0.0, None),
            (1e6, None),
        ] {
            assert_eq!(digits(value), found, "{value}");
        }
    }

    #[test]
    fn single_precision_is_spelled_shortly() {
        assert_eq!(shortest(0.1), 0.1);
        assert_eq!(shortest(47.8123), 47.8123);
        for value in [0.0f32, -0.0, 1.0, -3.0, 16_777_215.0, 16_777_216.0, 3e9] {
            let spelled: f64 = value.to_string().parse().unwrap();
            assert_eq!(shortest(value).to_bits(), spelled.to_bits());
        }
    }
}
