//! When something is to be done: in words.

use std::time::SystemTime;

use jiff::civil::{DateTime, Time};
use jiff::{Span, Timestamp, ToSpan, Zoned};
use narrows_scenario::Refusal;

const ALLOWED: &str = "a time to come: of a clock such as 06:00 (the next one), from now such as \
                       +2h, +90s or +1h30m, or ISO 8601 such as 2027-01-31T06:00 (this machine's \
                       time) or 2027-01-31T06:00:00Z";

/// The instant that `text` names: `06:00` is the next time that a clock of this machine shows
/// that, `+2h` is from now, `2027-01-31T06:00` is this machine's time unless it names an
/// offset.
///
/// # Errors
/// When it is no time, or has passed.
pub fn deadline(text: &str) -> Result<SystemTime, Refusal> {
    at(text, &Zoned::now()).map(Into::into)
}

fn at(text: &str, now: &Zoned) -> Result<Timestamp, Refusal> {
    let refused = |found: String| Refusal::new("TIME", found, ALLOWED);
    let named = read(text, now).ok_or_else(|| refused(format!("`{text}`")))?;
    if named <= now.timestamp() {
        return Err(refused(format!(
            "`{text}`, which has passed (it is {now:.0})"
        )));
    }
    Ok(named)
}

fn read(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Some(later) = text.strip_prefix('+') {
        let span: Span = later.parse().ok()?;
        return Some(now.checked_add(span).ok()?.timestamp());
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    let here = |local: DateTime| Some(local.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    // A date with a time: a date alone does not say when.
    if text.contains(['T', 't', ' ']) {
        return here(text.parse().ok()?);
    }
    let time: Time = text.parse().ok()?;
    let today = here(now.date().to_datetime(time))?;
    if today > now.timestamp() {
        return Some(today);
    }
    here(now.date().checked_add(1.day()).ok()?.to_datetime(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In Oslo, on the evening before clocks go back.
    fn now() -> Zoned {
        let zone = jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a rule");
        let local: DateTime = "2026-10-24T22:30:00".parse().unwrap();
        local.to_zoned(zone).unwrap()
    }

    #[test]
    fn a_time_is_of_a_clock_from_now_or_of_a_calendar() {
        for (text, instant) in [
            // The next one, across the change of the clocks.
            ("06:00", "2026-10-25T05:00:00Z"),
            ("23:15", "2026-10-24T21:15:00Z"),
            ("22:30", "2026-10-25T21:30:00Z"),
            ("23:15:30", "2026-10-24T21:15:30Z"),
            ("+2h", "2026-10-24T22:30:00Z"),
            ("+60s", "2026-10-24T20:31:00Z"),
            ("+1h30m", "2026-10-24T22:00:00Z"),
            ("2027-01-31T06:00", "2027-01-31T05:00:00Z"),
            ("2027-01-31 06:00", "2027-01-31T05:00:00Z"),
            ("2027-01-31T06:00:00Z", "2027-01-31T06:00:00Z"),
            ("2027-01-31T06:00:00+05:30", "2027-01-31T00:30:00Z"),
        ] {
            let named = at(text, &now()).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(named, instant.parse().unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_or_has_passed_is_refused() {
        for text in [
            "",
            "6",
            "25:00",
            "+",
            "+2",
            "soon",
            "2027-01-31",
            "2h",
            "60s",
        ] {
            let said = at(text, &now()).unwrap_err().to_string();
            assert!(said.contains("06:00"), "{text}: {said}");
        }
        for text in ["2026-10-24T22:30", "1999-12-31T00:00:00Z", "+0s", "+-5s"] {
            let said = at(text, &now()).unwrap_err().to_string();
            assert!(said.contains("passed"), "{text}: {said}");
        }
    }
}
