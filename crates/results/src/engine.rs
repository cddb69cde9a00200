//! What the laboratory asks of an engine.

use std::sync::atomic::{AtomicBool, Ordering};

use narrows_packet::EventSink;
use narrows_run::{Ended, RunHandle, VirtualKernel};
use narrows_scenario::Plan;
use narrows_units::Duration;

use crate::Error;

/// Runs plans and reports their events.
pub trait Engine: Sync {
    /// `sim`, `live` or `kernel`.
    fn name(&self) -> &'static str;

    /// The kernel in virtual time that it boots, if it does.
    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        None
    }

    /// The name of each [`EntityId`](narrows_packet::EntityId) that a run of
    /// `plan` will report.
    fn names(&self, plan: &Plan) -> Vec<String>;

    /// Whether it measures the machine that it runs on, so that only one run
    /// may go on at a time.
    fn alone(&self) -> bool {
        false
    }

    /// Whether the engine can run `plan` at all; asked before anything is made.
    ///
    /// # Errors
    /// [`Error::Refused`] with what it cannot run, and what to do; [`Error::NoPermission`] where
    /// this user may not.
    fn accepts(&self, _plan: &Plan) -> Result<(), Error> {
        Ok(())
    }

    /// `plan` with the host model that this engine's hosts have, where that does not go by the
    /// plan: what a simulator has to be given to be held against it.
    fn hosts_as_here(&self, plan: &Plan) -> Plan {
        plan.clone()
    }

    /// Runs `plan` with `seed` and hands its events to `sink`.
    ///
    /// # Errors
    /// A sentence, when the run could not be brought to its end. Being
    /// cancelled is no error.
    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, String>;
}

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
    /// A comparison finished a live repetition.
    Compared {
        /// Repetitions done, over all cells.
        runs: usize,
        /// Repetitions planned.
        of: usize,
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
