//! The elements of a link as the kernel's own queueing disciplines.
//!
//! A link with `datapath = "kernel"` is a second opinion on the elements: the
//! same words, but what queues, delays and drops is Linux's net/sched. Which
//! disciplines there are is the machine's matter; an element that has none is
//! refused by name.

mod cake;
mod counters;
mod netem;
mod options;
mod schedulers;
mod translate;
mod tree;

pub use counters::Counted;
pub(crate) use counters::{KernelQueue, Watching};
pub(crate) use translate::{Discipline, Timers, translate};
