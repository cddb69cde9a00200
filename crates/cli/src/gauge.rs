//! Running figures while a command runs.
//!
//! They must not get between the command's own letters. Where the command
//! prints to the terminal the figures are in the terminal's title; where its
//! output goes elsewhere they are one line on standard error. An interactive
//! shell has the terminal, title included, for itself.

use std::io::{IsTerminal, Write};

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

/// Shows figures.
pub struct Gauge {
    place: Place,
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
            shown: false,
        }
    }

    /// Shows `text` in the place of what was shown before.
    pub fn show(&mut self, text: &str) {
        match self.place {
            Place::Nowhere => return,
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

    /// Makes room for a message: the line is shown again with the next figures.
    pub fn clear(&mut self) {
        if matches!(self.place, Place::Line) && self.shown {
            put("\r\x1b[K");
        }
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
