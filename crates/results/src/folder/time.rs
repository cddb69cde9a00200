//! The wall clock in UTC, spelled.

use std::time::{SystemTime, UNIX_EPOCH};

/// Year, month, day, hour, minute, second.
fn civil(at: SystemTime) -> (u64, u64, u64, u64, u64, u64) {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        let length = length + u64::from(month == 2 && leap(year));
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (
        year,
        month,
        days + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60,
    )
}

/// `2026-03-01T12:30:05Z`.
pub fn rfc3339(at: SystemTime) -> String {
    let (y, mo, d, h, mi, s) = civil(at);
    format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}Z")
}

/// `20260301T123005Z`, for names of folders.
pub(super) fn compact(at: SystemTime) -> String {
    rfc3339(at).replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_seconds_have_known_dates() {
        let at = |s| rfc3339(UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(2_678_399), "1970-01-31T23:59:59Z");
        assert_eq!(at(2_678_400), "1970-02-01T00:00:00Z");
        assert_eq!(at(31_535_999), "1970-12-31T23:59:59Z");
        assert_eq!(at(31_536_000), "1971-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_596_542_462), "2020-08-04T12:01:02Z");
        assert_eq!(at(4_102_444_799), "2099-12-31T23:59:59Z");
        // A century that is no leap year.
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(
            compact(UNIX_EPOCH + Duration::from_secs(1_596_542_462)),
            "20200804T120102Z"
        );
    }
}
