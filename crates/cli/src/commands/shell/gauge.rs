//! Running figures while a command runs.
//!
//! They must not get between the command's own letters. Where the command
//! prints to the terminal the figures are in the terminal's title; where its
//! output goes elsewhere they are one line on standard error. An interactive
//! shell has the terminal, title included, for itself.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use narrows::shell::Reading;
use narrows::units::Duration;

/// Columns of a terminal that does not report its width.
const COLUMNS: usize = 80;

/// Where the figures are.
enum Place {
    Nowhere,
    /// Xterm's operating system command 2, between a push and a pop of the
    /// title (XTWINOPS 22 and 23).
    Title,
    Line,
}

/// Shows readings.
pub struct Gauge {
    place: Place,
    last: Option<(Instant, Reading)>,
    shown: bool,
}

impl Gauge {
    pub fn new(off: bool) -> Self {
        let place = if off || !std::io::stderr().is_terminal() {
            Place::Nowhere
        } else if !std::io::stdout().is_terminal() {
            Place::Line
        } else if has_title() {
            Place::Title
        } else {
            Place::Nowhere
        };
        Self {
            place,
            last: None,
            shown: false,
        }
    }

    /// Takes a reading.
    pub fn show(&mut self, reading: &Reading) {
        let now = Instant::now();
        if let Some((before, last)) = &self.last {
            let text = words(last, reading, (now - *before).as_secs_f64());
            match self.place {
                Place::Nowhere => {}
                Place::Title => {
                    let push = if self.shown { "" } else { "\x1b[22;2t" };
                    put(&format!("{push}\x1b]2;{text}\x07"));
                }
                Place::Line => {
                    let columns = terminal_size::terminal_size_of(std::io::stderr())
                        .map_or(COLUMNS, |(w, _)| usize::from(w.0));
                    // The last column stays free, or the line would wrap.
                    let text: String = text.chars().take(columns.saturating_sub(1)).collect();
                    put(&format!("\r{text}\x1b[K"));
                }
            }
            self.shown = true;
        }
        self.last = Some((now, *reading));
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        match self.place {
            Place::Title if self.shown => put("\x1b[23;2t"),
            Place::Line if self.shown => put("\r\x1b[K"),
            _ => {}
        }
    }
}

/// One write, so that no other output comes in between.
fn put(text: &str) {
    // A terminal that has gone shows nothing.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Whether the terminal is one of those that have a title and keep what is
/// sent to it off the screen.
fn has_title() -> bool {
    std::env::var("TERM").is_ok_and(|term| !matches!(&*term, "" | "dumb" | "linux"))
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
