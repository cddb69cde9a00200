//! How long results are written after an interrupt.

use std::cell::Cell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A flag that a signal sets, and how long after it there is still something to wait for.
pub(super) struct Patience<'a> {
    cancel: &'a AtomicBool,
    lasts: Duration,
    /// When the flag was first found set.
    since: Cell<Option<Instant>>,
}

impl<'a> Patience<'a> {
    /// With `cancel`, for so long.
    pub(super) fn new(cancel: &'a AtomicBool, lasts: Duration) -> Self {
        Self {
            cancel,
            lasts,
            since: Cell::new(None),
        }
    }

    /// Whether the flag has been set for so long.
    pub(super) fn is_over(&self) -> bool {
        if !self.cancel.load(Ordering::Relaxed) {
            return false;
        }
        let now = Instant::now();
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        now.duration_since(since) >= self.lasts
    }

    /// `out`, as long as the patience lasts.
    pub(super) fn guard<W>(&'a self, out: W) -> Until<'a, W> {
        Until {
            out,
            patience: self,
        }
    }
}

/// A writer that fails once the patience is over.
pub(super) struct Until<'a, W> {
    out: W,
    patience: &'a Patience<'a>,
}

impl<W: Write> Write for Until<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.patience.is_over() {
            return Err(io::Error::other("interrupted"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;

    use super::*;

    #[test]
    fn what_is_guarded_is_written_and_flushed_until_the_patience_is_over() {
        let cancel = AtomicBool::new(false);
        let patience = Patience::new(&cancel, Duration::ZERO);
        let mut out = patience.guard(BufWriter::new(Vec::new()));
        out.write_all(b"ab").unwrap();
        assert_eq!(out.out.get_ref(), b"");
        out.flush().unwrap();
        assert_eq!(out.out.get_ref(), b"ab");
        cancel.store(true, Ordering::Relaxed);
        assert!(out.write_all(b"c").is_err());
    }
}
