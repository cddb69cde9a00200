//! How the caller of a run cancels and follows it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use narrows_scenario::Plan;
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
    /// Where the run may be given further changes while it goes on. Engines that do not take
    /// any ignore it.
    pub amended: Option<&'a Amended>,
}

/// The plan of a run that goes on, with changes (`[[change]]`) that were added to it since the
/// run began.
#[derive(Debug, Default)]
pub struct Amended {
    /// How often it was put.
    version: AtomicU64,
    plan: Mutex<Option<Arc<Plan>>>,
}

impl Amended {
    /// Gives the run `plan`, which differs from that before it by changes that are still to
    /// come, and by nothing else.
    pub fn put(&self, plan: Arc<Plan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The plan, if it was put since `seen`, which is 0 at first and is brought up to date.
    #[inline]
    pub fn newer(&self, seen: &mut u64) -> Option<Arc<Plan>> {
        let version = self.version.load(Ordering::Acquire);
        if version == *seen {
            return None;
        }
        *seen = version;
        self.plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
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
