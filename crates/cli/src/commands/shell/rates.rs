//! The running figures of a path.

use std::time::Instant;

use narrows::shell::Reading;
use narrows::units::Duration;

/// Makes figures of one reading after the other.
#[derive(Default)]
pub struct Rates {
    last: Option<(Instant, Reading)>,
}

impl Rates {
    /// What passed since the reading before, in words; `None` of the first.
    pub fn since_last(&mut self, reading: &Reading) -> Option<String> {
        let now = Instant::now();
        let (before, last) = self.last.replace((now, *reading))?;
        Some(words(&last, reading, (now - before).as_secs_f64()))
    }
}

fn words(last: &Reading, now: &Reading, seconds: f64) -> String {
    let rate = |then: u64, now: u64| (now - then) as f64 * 8.0 / 1e6 / seconds.max(1e-3);
    let ms = |d: Duration| d.as_nanos() as f64 / 1e6;
    format!(
        "up {:.1} Mbit/s, queue {:.1} ms | down {:.1} Mbit/s, queue {:.1} ms | {} marks, {} drops",
        rate(last.up_bytes, now.up_bytes),
        ms(now.up_sojourn),
        rate(last.down_bytes, now.down_bytes),
        ms(now.down_sojourn),
        now.marks,
        now.drops,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_since_the_last_reading() {
        let last = Reading {
            up_bytes: 1_000_000,
            marks: 3,
            ..Reading::default()
        };
        let now = Reading {
            up_bytes: 1_500_000,
            down_bytes: 25_000,
            marks: 5,
            up_sojourn: Duration::from_micros(1_500),
            ..last
        };
        assert_eq!(
            words(&last, &now, 0.25),
            "up 16.0 Mbit/s, queue 1.5 ms | down 0.8 Mbit/s, queue 0.0 ms | 5 marks, 0 drops"
        );
    }
}
