//! The simulator as the laboratory's engine.

use narrows_packet::EventSink;
use narrows_run::{Ended, RunHandle};
use narrows_scenario::Plan;

use crate::Error;
use crate::engine::Engine;

/// The deterministic simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimEngine;

impl Engine for SimEngine {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        narrows_sim::names(plan).as_slice().to_vec()
    }

    fn accepts(&self, plan: &Plan) -> Result<(), Error> {
        let refused = |error: narrows_sim::SimError| plan.placed(&error.about(), error);
        narrows_sim::accepts(plan).map_err(|error| Error::Refused(refused(error)))
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, String> {
        let outcome =
            narrows_sim::run(plan, seed, sink, handle).map_err(|error| error.to_string())?;
        Ok(Ended {
            events: outcome.events,
            packets: outcome.packets,
            virtual_time: outcome.virtual_time,
            interrupted: outcome.interrupted,
            rig: None,
            signals: outcome.signals,
        })
    }
}
