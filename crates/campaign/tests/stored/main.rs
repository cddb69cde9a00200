//! Campaigns over stores of cells: what is there is not run again, shards divide the runs, stores
//! are merged, and nothing else changes.

#[path = "../../../narrows/tests/integration/support/mod.rs"]
mod support;

mod merge;
mod rig;
mod shards;
mod store;
