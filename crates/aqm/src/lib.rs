//! Queue disciplines and active queue management, in tc's own words.
//!
//! A [`QueueSpec`] is what follows `queue` in an element's line:
//!
//! ```
//! use narrows_aqm::QueueSpec;
//!
//! let spec = QueueSpec::parse("pfifo limit 1000").unwrap();
//! assert_eq!(spec.to_string(), "pfifo limit 1000");
//! assert!(QueueSpec::parse("pfifo limit 0").is_err());
//! ```
//!
//! [`QueueSpec::build`] turns it into a `Queue`: a state machine of (state,
//! packet, time, random draw) that reads no clock and allocates nothing per
//! packet once its buffers have grown.
//!
//! | Queue | Module | Behaviour from |
//! |---|---|---|
//! | `pfifo`, `bfifo` | [`fifo`] | Linux net/sched/sch_fifo.c v6.17 |
//! | `dualpi2` | [`dualpi2`] | RFC 9332; Linux v6.17; the out-of-tree module of 2020 |

#![forbid(unsafe_code)]
#![allow(dead_code)]

pub mod dualpi2;
pub mod fifo;
mod meter;
mod mutation;
mod reading;
mod spec;

#[doc(hidden)]
pub use mutation::Mutation;
pub use spec::{LinkFacts, QueueSpec};

#[cfg(test)]
mod testing;
