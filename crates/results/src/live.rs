//! The live engine.

use narrows_packet::EventSink;
use narrows_run::{Ended, RunHandle};
use narrows_scenario::Plan;

use crate::Error;
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

    fn accepts(&self, plan: &Plan) -> Result<(), Error> {
        narrows_live::check(plan).map_err(|error| refused(plan, error))
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

/// What the machine has against `plan`, with the place in the file.
pub(crate) fn refused(plan: &Plan, error: narrows_live::LiveError) -> Error {
    let why = plan.placed(&error.about(), &error);
    match error.is_of_rights() {
        true => Error::NoPermission(why),
        false => Error::Refused(why),
    }
}
