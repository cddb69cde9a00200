//! The interface of an engine, which runs plans and reports their events.

use narrows_core::EventSink;
use narrows_scenario::Plan;

use crate::{Ended, RunHandle, VirtualKernel};

/// Why an engine does not run a plan, or did not run it to its end; a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It cannot run this plan: what in it, and what to do.
    #[error("{0}")]
    Refused(String),
    /// This user may not run it: who may, and how.
    #[error("{0}")]
    NoPermission(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
}

/// Runs plans and reports their events.
pub trait Engine: Sync {
    /// `sim`, `live` or `kernel`.
    fn name(&self) -> &'static str;

    /// The kernel in virtual time that it boots, if it does.
    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        None
    }

    /// The name of each [`EntityId`](narrows_core::EntityId) that a run of
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
    /// [`EngineError::Refused`] or [`EngineError::NoPermission`].
    fn accepts(&self, _plan: &Plan) -> Result<(), EngineError> {
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
    /// [`EngineError::Failed`] when the run could not be brought to its end. Being
    /// cancelled is no error.
    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError>;
}
