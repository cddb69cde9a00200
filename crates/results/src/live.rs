//! The live engine.

use narrows_packet::EventSink;
use narrows_run::{Ended, RunHandle};
use narrows_scenario::Plan;

use crate::engine::Engine;

/// The machine's own stacks, in network namespaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveEngine;

impl Engine for LiveEngine {
    fn name(&self) -> &'static str {
        "live"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        narrows_live::NameTable::of(plan).as_slice().to_vec()
    }

    fn alone(&self) -> bool {
        true
    }

    fn accepts(&self, plan: &Plan) -> Result<(), String> {
        narrows_live::check(plan).map_err(|error| plan.placed(&error.about(), error))
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, String> {
        narrows_live::run(plan, seed, sink, handle).map_err(|error| error.to_string())
    }
}
