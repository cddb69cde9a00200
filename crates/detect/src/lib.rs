//! Which boxes of mmb's catalogue stand on a path, and where.
//!
//! A [`Prober`] and a [`Responder`] send each other probes of which both know every byte,
//! and compare what came with what was sent. Neither has sockets or a clock: they take and give
//! packets of IP, and are told the time. So the same code runs on simulated paths and over raw
//! sockets.

#![forbid(unsafe_code)]

mod evidence;
mod finding;
#[cfg(test)]
mod fuzz;
mod judge;
mod ledger;
mod locate;
mod message;
mod probe;
mod prober;
mod responder;
mod trial;

pub use finding::{Detection, Finding, Hop, OtherChange, Place, Verdict};
pub use probe::Way;
pub use prober::{Prober, ProberSettings, Stage};
pub use responder::{Responder, ResponderCounters, ResponderSettings};
