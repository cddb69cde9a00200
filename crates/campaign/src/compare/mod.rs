//! Both engines on the same scenario: where they agree, and where they differ.
//!
//! Each cell runs with N seeds in the simulator and N times live. A figure is
//! the median of its runs, and its spread is their range: how far the engine
//! differs from itself. Two engines that differ by less than that have not been
//! distinguished. A campaign with a `[pair]` is compared on the live engine alone:
//! two cells that differ in one thing.

mod hosts;
mod judge;
mod pair;
mod run;

pub use run::{CompareOptions, compare};
