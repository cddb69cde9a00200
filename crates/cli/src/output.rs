//! Standard output: results, and nothing else.

use std::io::Write;

/// Prints `text`, ended by a newline. A reader that has gone (`| head`) is no
/// error of ours.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{text}{newline}").and_then(|()| out.flush());
}

/// Prints one JSON document.
pub fn print_json(value: &serde_json::Value) {
    print(&format!("{value:#}"));
}

/// Columns of the terminal, or plenty where there is none.
pub fn width() -> usize {
    const PLENTY: usize = 200;
    terminal_size::terminal_size_of(std::io::stdout())
        .map_or(PLENTY, |(columns, _)| usize::from(columns.0))
}
