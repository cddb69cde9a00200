//! How far a transfer is, in a line.

use std::time::Duration;

use narrows::by::{Ended, Reading};

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn mbit(rate: f64) -> String {
    format!("{:.1}", rate * 8.0 / 1e6)
}

/// Seconds, as people say them.
fn time(seconds: f64) -> String {
    let whole = seconds.abs().round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) => format!("{:.1} s", seconds.abs()),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

/// Before or after the deadline.
fn beside_deadline(left_s: f64) -> String {
    let word = if left_s >= 0.0 { "before" } else { "after" };
    format!("{} {word} the deadline", time(left_s))
}

/// The line while it runs: what was delivered, rate, target, weight, and the end.
pub fn line(r: &Reading) -> String {
    let of = r
        .size
        .map_or(String::new(), |size| format!(" of {}", megabytes(size)));
    let target = r
        .target
        .map_or(String::new(), |t| format!(" (needs {})", mbit(t)));
    let end = match r.finish_s {
        Some(finish) => format!(
            "done in {}, {}",
            time(finish),
            beside_deadline(r.left_s - finish)
        ),
        None => beside_deadline(r.left_s),
    };
    format!(
        "{}{of} MB | {} Mbit/s{target} | weight {:.2} | {end}",
        megabytes(r.acked),
        mbit(r.rate),
        r.weight,
    )
}

/// What is said in the end.
pub fn summary(ended: &Ended, took: Duration) -> String {
    let r = &ended.reading;
    let connections = match ended.connections {
        0 => return "no TCP connection was opened".to_owned(),
        1 => "1 connection".to_owned(),
        n => format!("{n} connections"),
    };
    let short = r.size.and_then(|size| size.checked_sub(r.acked));
    let short = match short {
        Some(rest) if rest > 0 => format!(", {} MB less than was said", megabytes(rest)),
        _ => String::new(),
    };
    format!(
        "{} MB delivered in {} over {connections}, {}{short}",
        megabytes(r.acked),
        time(took.as_secs_f64()),
        beside_deadline(r.left_s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_when_it_is_done() {
        let reading = Reading {
            acked: 41_200_000,
            size: Some(150_000_000),
            rate: 2.475e6,
            target: Some(2.5e6),
            weight: 0.618,
            left_s: 43.5,
            finish_s: Some(43.9),
            ..Reading::default()
        };
        assert_eq!(
            line(&reading),
            "41.2 of 150.0 MB | 19.8 Mbit/s (needs 20.0) | weight 0.62 | done in 43.9 s, 0.4 s \
             after the deadline"
        );
        let unknown = Reading {
            left_s: 7384.0,
            weight: 0.05,
            ..Reading::default()
        };
        assert_eq!(
            line(&unknown),
            "0.0 MB | 0.0 Mbit/s | weight 0.05 | 2 h 03 min before the deadline"
        );
    }

    #[test]
    fn the_end_is_summed_up() {
        let mut ended = Ended {
            code: 0,
            reading: Reading {
                acked: 100_000_000,
                size: Some(150_000_000),
                left_s: -70.0,
                ..Reading::default()
            },
            connections: 2,
            failed: None,
        };
        assert_eq!(
            summary(&ended, Duration::from_secs(130)),
            "100.0 MB delivered in 2 min 10 s over 2 connections, 1 min 10 s after the deadline, \
             50.0 MB less than was said"
        );
        ended.connections = 0;
        assert_eq!(
            summary(&ended, Duration::from_secs(1)),
            "no TCP connection was opened"
        );
    }
}
