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
//! | `cake` | [`cake`] | tc-cake(8); Linux net/sched/sch_cake.c v6.17 |
//! | `cobalt` | [`cobalt`] | the AQM of Linux net/sched/sch_cake.c v6.17 |
//! | `cnq_codel_af` | [`cnq`] | draft-morton-tsvwg-codel-approx-fair-01 and -cheap-nasty-queueing; chromi/sce |

#![forbid(unsafe_code)]

pub mod cake;
pub mod cnq;
pub mod cobalt;
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
#[macro_use]
mod spec;
pub mod tc_line;
mod waiting;

pub use spec::LinkFacts;

use cake::{Cake, CakeConfig};
use cnq::{Cnq, CnqConfig};
use cobalt::{CobaltConfig, CobaltQueue};
use codel::{CodelConfig, CodelQueue};
use dualpi2::{DualPi2, DualPi2Config};
use fifo::{Fifo, FifoConfig};
use fq_codel::{FqCodel, FqCodelConfig};
use pie::{PieConfig, PieQueue};
use red::{RedConfig, RedQueue};

queues! {
    /// Tail drop at a number of packets.
    "pfifo" => Pfifo(FifoConfig), Fifo::of_packets;
    /// Tail drop at a number of bytes.
    "bfifo" => Bfifo(FifoConfig), Fifo::of_bytes;
    /// One queue under CoDel (RFC 8289).
    "codel" => Codel(CodelConfig), CodelQueue::new;
    /// Fair queueing with CoDel (RFC 8290).
    "fq_codel" => FqCodel(FqCodelConfig), FqCodel::new;
    /// One queue under PIE (RFC 8033).
    "pie" => Pie(PieConfig), PieQueue::new;
    /// Random early detection.
    "red" => Red(RedConfig), RedQueue::new;
    /// Coupled dual queue (RFC 9332).
    "dualpi2" => DualPi2(DualPi2Config), DualPi2::new;
    /// Shaper, tins, flows and hosts apart, each flow under COBALT (CAKE).
    "cake" => Cake(CakeConfig), Cake::new;
    /// One queue under COBALT, the AQM of CAKE.
    "cobalt" => Cobalt(CobaltConfig), CobaltQueue::new;
    /// Cheap nasty queue under CoDel with approximate fairness.
    "cnq_codel_af" => CnqCodelAf(CnqConfig), Cnq::new;
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod words;
