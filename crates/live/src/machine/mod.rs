//! This machine: what it can run, and what runs have left on it.

pub(crate) mod processes;
mod program;
mod qdiscs;
mod state;
mod survey;
mod sweep;
mod undo;

pub use program::find_program;
pub use state::State;
pub use survey::{Finding, Machine, Need, survey};
pub(crate) use survey::{check_kernel, loads_bpf};
pub(crate) use sweep::sweep_groups;
pub use sweep::{Sweep, sweep};
pub(crate) use undo::GROUP_PROCESSES;
pub use undo::Undo;
