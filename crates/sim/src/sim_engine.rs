//! The simulator as an [`Engine`].

use narrows_core::EventSink;
use narrows_engine::{Ended, Engine, EngineError, RunHandle};
use narrows_scenario::Plan;

use crate::SimError;

/// The deterministic simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimEngine;

impl Engine for SimEngine {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        crate::names(plan).as_slice().to_vec()
    }

    fn accepts(&self, plan: &Plan) -> Result<(), EngineError> {
        let refused = |error: SimError| plan.placed(&error.about(), error);
        crate::accepts(plan).map_err(|error| EngineError::Refused(refused(error)))
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let outcome = crate::run(plan, seed, sink, handle)
            .map_err(|error| EngineError::Failed(error.to_string()))?;
        Ok(Ended {
            events: outcome.events,
            packets: outcome.packets,
            virtual_time: outcome.virtual_time,
            interrupted: outcome.interrupted,
            rig: None,
            signals: outcome.signals,
            amended: outcome.amended,
        })
    }
}
