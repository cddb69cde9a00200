//! What a test's own thread logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::level_filters::LevelFilter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that `work` logs for an operator who asked for no details, and what comes of it.
pub(super) fn said<T>(work: impl FnOnce() -> T) -> (Vec<String>, T) {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .with_max_level(LevelFilter::INFO)
        .without_time()
        .finish();
    let done = tracing::subscriber::with_default(log, work);
    let text = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(|line| line.trim().to_owned()).collect();
    (lines, done)
}
