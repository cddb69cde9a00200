//! The machine's stacks as an [`Engine`].

use narrows_core::EventSink;
use narrows_engine::{Ended, Engine, EngineError, RunHandle};
use narrows_scenario::Plan;

use crate::{LiveError, NameTable};

/// The machine's own stacks, in network namespaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveEngine;

impl Engine for LiveEngine {
    fn name(&self) -> &'static str {
        "live"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        NameTable::of(plan).as_slice().to_vec()
    }

    fn alone(&self) -> bool {
        true
    }

    fn accepts(&self, plan: &Plan) -> Result<(), EngineError> {
        crate::check(plan).map_err(|error| refused(plan, error))
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        crate::run(plan, seed, sink, handle).map_err(|error| EngineError::Failed(error.to_string()))
    }
}

/// What the machine has against `plan`, with the place in the file.
pub fn refused(plan: &Plan, error: LiveError) -> EngineError {
    let why = plan.placed(&error.about(), &error);
    match error.is_of_rights() {
        true => EngineError::NoPermission(why),
        false => EngineError::Refused(why),
    }
}
