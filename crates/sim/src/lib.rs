//! The deterministic discrete-event engine: runs a checked
//! [`Plan`](narrows_scenario::Plan) in virtual time.
//!
//! Everything that wants to be called at some time (element, connection,
//! application, probe, sampler, timed change) owns one slot in an indexed
//! heap; equal times are served in the order in which they were asked for. A
//! packet passes elements that hold nothing back within the same call. In
//! steady state a packet costs no allocation: packets come from a pool, and
//! every queue keeps its memory.
//!
//! ```
//! use narrows_core::NullSink;
//! use narrows_scenario::Draft;
//! use narrows_sim::{RunHandle, Simulation};
//!
//! let link = ["netem delay 5ms".to_owned(), "rate 10Mbit queue fq_codel".to_owned()];
//! let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).unwrap();
//! draft.set("duration=2s").unwrap();
//! let simulation = Simulation::new(&draft.check().unwrap(), 1).unwrap();
//! let outcome = simulation.run(&mut NullSink, &RunHandle::default()).unwrap();
//! assert!(outcome.flows[0].established && outcome.flows[0].delivered > 1_000_000);
//! ```

#![forbid(unsafe_code)]

mod build;
mod engine;
mod outcome;
mod sim_engine;

pub use build::accepts;
pub use engine::Simulation;
pub use narrows_engine::RunHandle;
pub use narrows_scenario::NameTable;
pub use outcome::{ElementReport, FlowReport, Outcome, SimError};
pub use sim_engine::SimEngine;

use narrows_core::EventSink;
use narrows_scenario::Plan;

/// Runs `plan` with `seed`, hands every event to `sink`, and returns what was
/// counted. The same plan, seed and version give the same events in the same
/// order on every machine.
///
/// # Errors
/// When the plan cannot be run: see [`SimError`].
pub fn run(
    plan: &Plan,
    seed: u64,
    sink: &mut dyn EventSink,
    handle: &RunHandle<'_>,
) -> Result<Outcome, SimError> {
    Simulation::new(plan, seed)?.run(sink, handle)
}

/// The names behind the [`EntityId`](narrows_core::EntityId)s of a run of
/// `plan`.
pub fn names(plan: &Plan) -> NameTable {
    NameTable::of(plan)
}
