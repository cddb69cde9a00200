//! Queue disciplines and active queue management, in tc's own words.
//!
//! A [`QueueSpec`] is what follows `queue` in an element's line:
//!
//! ```
//! use narrows_aqm::QueueSpec;
//!
//! let spec = QueueSpec::parse("fq_codel flows 1 target 1ms interval 20ms").unwrap();
//! assert_eq!(spec.to_string(), "fq_codel flows 1 target 1ms interval 20ms");
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
//! | `codel` | [`codel`] | RFC 8289; Linux v6.17 |
//! | `fq_codel` | [`fq_codel`] | RFC 8290; Linux v6.17 |
//! | `pie` | [`pie`] | RFC 8033; Linux v6.17 |
//! | `red` | [`red`] | Floyd and Jacobson 1993; Linux v6.17; iproute2 |
//! | `dualpi2` | [`dualpi2`] | RFC 9332; Linux v6.17; the out-of-tree module of 2020 |
//! | `cnq_codel_af` | [`cnq`] | draft-morton-tsvwg-codel-approx-fair-01 and -cheap-nasty-queueing; chromi/sce |

#![forbid(unsafe_code)]

pub mod cnq;
pub mod codel;
pub mod dualpi2;
pub mod fifo;
mod flows;
pub mod fq_codel;
mod inverse_root;
mod jiffies;
mod meter;
pub mod pie;
mod reading;
pub mod red;
mod spec;
mod waiting;

pub use spec::{LinkFacts, QUEUES, QueueSpec};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod words;
