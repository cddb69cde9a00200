//! How the caller of a run cancels and follows it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_units::Instant;

/// The caller's two ends of a run, by whichever engine.
#[derive(Clone, Copy, Default)]
pub struct RunHandle<'a> {
    /// Set it from another thread to end the run early.
    pub cancel: Option<&'a AtomicBool>,
    /// Called now and then with the time of the run that was reached.
    pub progress: Option<&'a (dyn Fn(Instant) + Sync)>,
    /// The folder in which files of the run are kept, if any are: what a
    /// program writes goes to `commands/<name>.out` and `.err` in it.
    pub keep: Option<&'a Path>,
}

impl RunHandle<'_> {
    /// Reports progress; whether to go on.
    pub fn tick(&self, now: Instant) -> bool {
        if let Some(progress) = self.progress {
            progress(now);
        }
        !self.cancelled()
    }

    /// Whether the caller wants the run to end.
    pub fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|c| c.load(Ordering::Relaxed))
    }
}
