//! How many lines a log gets of what clients can cause as often as they like.

use narrows_units::{Duration, Instant};

/// Lines in a second (our choice: more than a person reads).
const LINES: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);

/// Lines of one second.
#[derive(Debug, Default)]
pub(crate) struct LogRate {
    since: Instant,
    lines: u32,
    held_back: u64,
}

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is; before it so many were not.
    Written(u64),
    /// It is not.
    HeldBack,
}

impl LogRate {
    /// Counts a line.
    pub fn line(&mut self, now: Instant) -> Line {
        if now.since(self.since) >= SECOND {
            self.since = now;
            self.lines = 0;
        }
        if self.lines == LINES {
            self.held_back += 1;
            return Line::HeldBack;
        }
        self.lines += 1;
        Line::Written(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_ten_lines_in_a_second_they_are_counted_and_said_later() {
        let mut rate = LogRate::default();
        let second = |n: u64| Instant::ZERO + Duration::from_secs(n);
        for _ in 0..LINES {
            assert_eq!(rate.line(second(5)), Line::Written(0));
        }
        for _ in 0..30_000 {
            assert_eq!(rate.line(second(5)), Line::HeldBack);
        }
        assert_eq!(rate.line(second(6)), Line::Written(30_000));
        assert_eq!(rate.line(second(6)), Line::Written(0));
    }
}
