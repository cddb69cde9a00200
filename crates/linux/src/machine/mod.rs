//! This machine: what it can run, and what runs have left on it.

mod directory;
mod group;
mod named;
pub mod processes;
mod program;
mod qdiscs;
mod state;
mod survey;
mod sweep;
mod undo;

pub use group::{Group, GroupError};
pub use named::{NamedFolder, named_folders, present_folders};
pub use program::find_program;
pub use qdiscs::missing_disciplines;
pub use state::{State, TakeNameError};
pub use survey::{Finding, Machine, Need, USER_NAT_PROGRAMS, check_kernel, loads_bpf, survey};
pub use sweep::{Sweep, sweep, sweep_folder, sweep_groups, sweep_run};
pub use undo::{NAMED_NAMESPACES, Undo};
