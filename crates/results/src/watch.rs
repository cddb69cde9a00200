//! How the caller of a run, campaign or comparison follows and stops it.

use std::sync::atomic::{AtomicBool, Ordering};

use narrows_units::Duration;

/// How far a run or campaign is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// One run reached this network time, of so much.
    Run {
        /// Reached.
        reached: Duration,
        /// Planned.
        of: Duration,
    },
    /// A run begins on an engine that changes the machine, or has processes of its own: until
    /// [`MachineLeft`](Self::MachineLeft) the program has something to put back.
    MachineTaken,
    /// Such a run has ended, and all is as it was.
    MachineLeft,
    /// A run of a comparison begins.
    Comparing {
        /// Its cell.
        cell: &'a str,
        /// What runs it.
        engine: &'a str,
        /// The seed, which is also the number of the repetition.
        seed: u64,
    },
    /// A comparison finished a live repetition.
    Compared {
        /// Repetitions done, over all cells.
        runs: usize,
        /// Repetitions planned.
        of: usize,
    },
    /// A line for people.
    Note(&'a str),
    /// A shard of a campaign finished a run.
    Runs {
        /// Runs done.
        done: usize,
        /// Runs of the shard.
        of: usize,
        /// Estimated time left.
        left: std::time::Duration,
    },
    /// A campaign finished a cell.
    Cells {
        /// The cell, with its figures.
        cell: &'a crate::campaign::CellResult,
        /// Cells done.
        done: usize,
        /// Cells planned.
        of: usize,
        /// Time since the start.
        elapsed: std::time::Duration,
        /// Estimated time left.
        left: std::time::Duration,
    },
}

/// The caller's two ends of a run: a flag to stop it, and a callback for how
/// far it is. The callback may be called from several threads.
pub struct Watch<'a> {
    /// Set it to end the run early; its results are kept and marked incomplete.
    pub cancel: &'a AtomicBool,
    /// Called as the run advances.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// Never cancelled; progress is not reported.
impl Default for Watch<'_> {
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self {
            cancel: &NEVER,
            progress: &|_| {},
        }
    }
}

impl Watch<'_> {
    /// Whether the caller wants to stop.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_cancelled_once_its_flag_is_set() {
        let cancel = AtomicBool::new(false);
        let watch = Watch {
            cancel: &cancel,
            ..Watch::default()
        };
        assert!(!watch.cancelled() && !Watch::default().cancelled());
        cancel.store(true, Ordering::Relaxed);
        assert!(watch.cancelled());
    }
}
