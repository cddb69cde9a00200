//! Standard output: results, and nothing else.
//!
//! Everything that a command writes there passes through this module, by [`print`] or by
//! [`Stdout`]. The first failure to write is kept here and decides at the end how the program
//! ends ([`status`]), so that no command has to check each line, and what else is to be
//! done is still done: a results folder is completed although the table is not read.
//! A closed pipe is covered, too: nothing is said, and the status is the one that a shell
//! shows for a program that ended by SIGPIPE. No caller has to do more.

use std::io::{self, ErrorKind, StdoutLock, Write};
use std::sync::OnceLock;

use narrows::scenario::is_obeyed;

use crate::status::Status;

/// The first failure to write.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Keeps a failure to write to standard output, if it is the first.
pub fn note<T>(written: io::Result<T>) {
    if let Err(error) = written {
        let _ = FAILED.set(error);
    }
}

/// How the program ends because of its output: [`Status::Done`] if all of it was written,
/// [`Status::ReaderGone`] if the reader closed its end, and [`Status::Failed`], with the cause on
/// standard error, for every other failure.
pub fn status() -> Status {
    match FAILED.get() {
        None => Status::Done,
        Some(error) if error.kind() == ErrorKind::BrokenPipe => Status::ReaderGone,
        Some(error) => {
            message!("narrows: standard output cannot be written, and is not complete: {error}");
            Status::Failed
        }
    }
}

/// Standard output for what is written piece by piece.
pub struct Stdout(StdoutLock<'static>);

impl Stdout {
    /// Takes it until this is dropped.
    pub fn lock() -> Self {
        Self(io::stdout().lock())
    }

    fn noted<T>(&self, written: io::Result<T>) -> io::Result<T> {
        written.map_err(|error| {
            let same = io::Error::from(error.kind());
            note::<()>(Err(error));
            same
        })
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            // Whoever writes all of something tries again.
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            written => self.noted(written),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.flush();
        self.noted(flushed)
    }
}

/// Writes a line to standard error, formatted as by `format!`.
macro_rules! message {
    ($($part:tt)*) => {
        $crate::output::notice(&format!("{}\n", format_args!($($part)*)))
    };
}
pub(crate) use message;

/// Writes `text` to standard error. Names and words in it may come from a file.
pub fn notice(text: &str) {
    styled(&shown(text));
}

/// Writes `text` with colours and the like to standard error. Where nobody reads it, nothing is
/// lost that the status does not show.
pub fn styled(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// `text` in which what a terminal would obey is escaped: all but ends of lines and tabs.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_obeyed(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// `text` on one line, so that nothing in it looks like a message of its own.
pub fn on_a_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

/// Prints `text`, ended by a newline.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    note(write!(out, "{text}{newline}").and_then(|()| out.flush()));
}

/// Prints one JSON document.
pub fn print_json(value: &serde_json::Value) {
    print(&format!("{value:#}"));
}

/// Columns of the terminal, or plenty where there is none.
pub fn width() -> usize {
    const PLENTY: usize = 200;
    terminal_size::terminal_size_of(io::stdout())
        .map_or(PLENTY, |(columns, _)| usize::from(columns.0))
}
