//! Recordings of a link's rate: times and rates as CSV, or mahimahi's opportunities.
//!
//! A CSV file begins with the line `time_s,rate_mbit`. Each further line holds a time in
//! seconds and the rate in Mbit/s from then on, which may be 0. The first time is 0, times
//! rise, and the last rate holds to the end of the run.

use std::sync::Arc;

use narrows_units::{Instant, Rate};

use crate::percent::Percent;
use crate::trace::{Trace, TraceError};

/// The first line of a recording as CSV.
const HEADER: &str = "time_s,rate_mbit";

/// How the name of a recording as CSV ends.
const SUFFIX: &str = ".csv";

/// The latest time in seconds: 24 days, as of a trace.
const LATEST_S: f64 = (1u64 << 31) as f64 / 1e3;

/// The highest rate in Mbit/s.
const HIGHEST_MBIT: f64 = 1e6;

/// Rates from times on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The first is at zero; times rise.
    steps: Vec<(Instant, Rate)>,
}

impl Rates {
    /// These rates, each from its time on; times rise.
    pub fn new(steps: Vec<(Instant, Rate)>) -> Self {
        Self { steps }
    }

    /// Reads a file's contents.
    ///
    /// # Errors
    /// The first line that is not what it has to be.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        let wanted = format!("Mbit/s up to {HIGHEST_MBIT}, such as `1.5,20`,");
        let rate = |text: &str| {
            let mbit = number(text, HIGHEST_MBIT)?;
            Some(Rate::from_bits(libm::round(mbit * 1e6) as u64))
        };
        steps(bytes, HEADER, &wanted, rate).map(Self::new)
    }

    /// The rates at so much of what they are.
    #[must_use]
    pub fn scaled(&self, scale: Percent) -> Self {
        let by = |rate: Rate| {
            Rate::from_bits(libm::round(rate.as_bits() as f64 * scale.fraction()) as u64)
        };
        let steps = self.steps.iter().map(|(at, rate)| (*at, by(*rate)));
        Self::new(steps.collect())
    }

    /// From each instant on, a rate.
    pub fn steps(&self) -> &[(Instant, Rate)] {
        &self.steps
    }

    /// Bits that fit between `from` and `to`.
    pub fn bits_between(&self, from: Instant, to: Instant) -> f64 {
        let ends = self.steps.iter().skip(1).map(|s| s.0).chain([Instant::MAX]);
        let bits = self.steps.iter().zip(ends).map(|(&(start, rate), end)| {
            let span = end.min(to).since(start.max(from));
            rate.as_bits() as f64 * span.as_secs_f64()
        });
        bits.sum()
    }

    /// The mean until the last step; of a single one its rate.
    fn mean(&self) -> Rate {
        let Some((end, last)) = self.steps.last() else {
            return Rate::default();
        };
        match end.as_nanos() {
            0 => *last,
            _ => {
                let seconds = end.since(Instant::ZERO).as_secs_f64();
                Rate::from_bits((self.bits_between(Instant::ZERO, *end) / seconds) as u64)
            }
        }
    }
}

/// Reads a recording as CSV: the line `header`, then in each line a time and what `value` reads,
/// which holds from then on. `wanted` is what that may be, for errors.
///
/// # Errors
/// The first line that is not what it has to be.
pub(crate) fn steps<T>(
    bytes: &[u8],
    header: &str,
    wanted: &str,
    value: impl Fn(&str) -> Option<T>,
) -> Result<Vec<(Instant, T)>, TraceError> {
    let wrong = |line: usize, what: String| Err(TraceError { line, what });
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().enumerate();
    let first = lines.next().map_or("", |(_, first)| first.trim());
    if first != header {
        let found = shown(first);
        return wrong(1, format!("found `{found}`, but `{header}` is wanted"));
    }
    let step = |line: &str| {
        let (time, rest) = line.split_once(',')?;
        let nanos = libm::round(number(time, LATEST_S)? * 1e9);
        Some((Instant::from_nanos(nanos as u64), value(rest)?))
    };
    let mut steps: Vec<(Instant, T)> = Vec::new();
    for (index, text) in lines {
        let line = index + 1;
        let Some((at, value)) = step(text) else {
            let allowed = format!("seconds up to {LATEST_S} and {wanted} are wanted");
            return wrong(line, format!("found `{}`, but {allowed}", shown(text)));
        };
        match steps.last() {
            None if at != Instant::ZERO => {
                return wrong(line, format!("found {at}, but the first time is 0"));
            }
            Some((last, _)) if at <= *last => {
                return wrong(line, format!("found {at} after {last}, but times rise"));
            }
            _ => steps.push((at, value)),
        }
    }
    match steps.is_empty() {
        true => wrong(2, "found no line behind the first".to_owned()),
        false => Ok(steps),
    }
}

/// A number from zero to `most`.
pub(crate) fn number(text: &str, most: f64) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (0.0..=most).contains(&number).then_some(number)
}

/// The beginning of a line, for errors, without what a terminal would obey.
pub(crate) fn shown(line: &str) -> String {
    let letters = line.chars().take(30);
    letters
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// What a recording holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Instants at which a packet may leave.
    Opportunities(Arc<Trace>),
    /// Rates over time.
    Rates(Arc<Rates>),
}

impl Recording {
    /// Nothing yet of the file of this name: then nothing is sent.
    pub(crate) fn unread(file: &str) -> Self {
        match is_csv(file) {
            true => Self::Rates(Arc::default()),
            false => Self::Opportunities(Arc::default()),
        }
    }

    /// Reads the contents of the file of this name, rates at `scale` of what they are.
    ///
    /// # Errors
    /// See [`Rates::parse`] and [`Trace::parse`].
    pub fn parse(file: &str, scale: Percent, bytes: &[u8]) -> Result<Self, TraceError> {
        Ok(match is_csv(file) {
            true => Self::Rates(Arc::new(Rates::parse(bytes)?.scaled(scale))),
            false => Self::Opportunities(Arc::new(Trace::parse(bytes)?)),
        })
    }

    /// Its mean rate.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Self::Opportunities(trace) => trace.mean_rate(),
            Self::Rates(rates) => rates.mean(),
        }
    }

    /// Bits, as the link counts, that can be sent after `from` and not after `to`.
    pub fn bits_between(&self, from: Instant, to: Instant) -> f64 {
        match self {
            Self::Opportunities(trace) => trace.bytes_between(from, to) as f64 * 8.0,
            Self::Rates(rates) => rates.bits_between(from, to),
        }
    }
}

/// Whether a file of this name holds times and rates.
pub(crate) fn is_csv(file: &str) -> bool {
    file.ends_with(SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;
    use narrows_units::Value;

    const FILE: &[u8] = b"time_s,rate_mbit\n0,8\n0.5,0\r\n1.25,16.5\n";

    #[test]
    fn a_rate_holds_from_its_time_to_the_next_and_the_last_one_on() {
        let rates = Rates::parse(FILE).unwrap();
        let steps = [(0, 8_000_000), (500, 0), (1250, 16_500_000)];
        let steps = steps.map(|(at, rate)| (ms(at), Rate::from_bits(rate)));
        assert_eq!(rates.steps(), steps);
        assert_eq!(rates.bits_between(ms(250), ms(1250)), 2e6);
        assert_eq!(rates.bits_between(ms(1250), ms(11_250)), 165e6);
        // 4 Mbit in 1.25 s.
        assert_eq!(rates.mean(), Rate::from_bits(3_200_000));
        assert_eq!(Rates::default().mean(), Rate::default());
        let single = Rates::parse(b"time_s,rate_mbit\n0,8\n").unwrap();
        assert_eq!(single.mean(), Rate::from_mbit(8));
        // Two opportunities of 1504 bytes.
        let trace = Recording::parse("a.up", Percent::HUNDRED, b"1\n2\n").unwrap();
        assert_eq!(trace.bits_between(ms(0), ms(2)), 2.0 * 12_032.0);
    }

    #[test]
    fn what_is_wrong_is_shown_without_control_characters() {
        for text in [
            &b"time_s,rate_mbit\n0,\x1b[31mred\n"[..],
            b"\x1b]0;title\x07\n",
        ] {
            let error = Rates::parse(text).unwrap_err().to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
            assert!(
                error.contains("red") || error.contains("?]0;title?"),
                "{error}"
            );
        }
    }

    #[test]
    fn rates_are_scaled() {
        let tenth = Percent::parse("10%").unwrap();
        let recording = Recording::parse("a.csv", tenth, FILE).unwrap();
        assert_eq!(recording.mean_rate(), Rate::from_bits(320_000));
        assert_eq!(recording.bits_between(ms(0), ms(500)), 4e5);
    }

    #[test]
    fn what_is_none_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("time_s,rate\n0,1\n", 1),
            ("0,1\n", 1),
            ("time_s,rate_mbit\n", 2),
            ("time_s,rate_mbit\n0.1,1\n", 2),
            ("time_s,rate_mbit\n0,1\n2,3\n2,4\n", 4),
            ("time_s,rate_mbit\n0,1\n1,-4\n", 3),
            ("time_s,rate_mbit\n0,1\n-1,4\n", 3),
            ("time_s,rate_mbit\r\n0,1\r\n2,3\r\n1,4\r\n", 4),
            ("time_s,rate_mbit\n0,1\n1,nan\n", 3),
            ("time_s,rate_mbit\n0,1\n1,1e9\n", 3),
            ("time_s,rate_mbit\n0,1\n1e12,1\n", 3),
            ("time_s,rate_mbit\n0,1\n\n", 3),
            ("time_s,rate_mbit\n0;1\n", 2),
        ] {
            let error = Rates::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }
}
