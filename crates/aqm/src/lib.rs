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
//! | `fq_pie` | [`fq_pie`] | Linux v6.17 |
//! | `pi2` | [`pi2`] | De Schepper and others 2016; RFC 9332 |
//! | `red` | [`red`] | Floyd and Jacobson 1993; Linux v6.17; iproute2 |
//! | `dualpi2` | [`dualpi2`] | RFC 9332; Linux v6.17; the out-of-tree module of 2020 |
//! | `cake` | [`cake`] | tc-cake(8); Linux net/sched/sch_cake.c v6.17 |
//! | `cobalt` | [`cobalt`] | the AQM of Linux net/sched/sch_cake.c v6.17 |
//! | `prio` | [`prio`] | Linux v6.17 |
//! | `drr` | [`drr`] | Shreedhar and Varghese 1995; Linux v6.17 |
//! | `sfq` | [`sfq`] | McKenney 1990; Linux v6.17 |
//! | `fq` | [`fq`] | Linux v6.17 |
//! | `htb` | [`htb`] | Linux v6.17 |
//! | `tbf` | [`tbf`] | Linux v6.17 |
//! | `dualq` | [`dualq`] | MAMI D2.2 (2018); mami-project/ns3-aqm-l4s |
//! | `bearers` | [`bearers`] | 3GPP TS 23.203, TS 23.401, TS 36.321 |
//! | `cnq_codel_af` | [`cnq`] | draft-morton-tsvwg-codel-approx-fair-01 and -cheap-nasty-queueing; chromi/sce |

#![forbid(unsafe_code)]

pub mod bearers;
pub mod cake;
pub mod classes;
pub mod cnq;
pub mod cobalt;
pub mod codel;
pub mod drr;
pub mod dualpi2;
pub mod dualq;
pub mod fifo;
mod flows;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod htb;
mod inverse_root;
mod jiffies;
mod leaf;
mod link_facts;
mod meter;
pub mod pi2;
pub mod pie;
pub mod prio;
mod priority;
mod reading;
pub mod red;
pub mod replay;
mod rounds;
pub mod sfq;
#[macro_use]
mod spec;
pub mod tbf;
pub mod tc_line;
mod waiting;

pub use flows::FlowHash;
pub use link_facts::LinkFacts;

use bearers::{Bearers, BearersConfig};
use cake::{Cake, CakeConfig};
use cnq::{Cnq, CnqConfig};
use cobalt::{CobaltConfig, CobaltQueue};
use codel::{CodelConfig, CodelQueue};
use drr::{Drr, DrrConfig};
use dualpi2::{DualPi2, DualPi2Config};
use dualq::{DualQ, DualQConfig};
use fifo::{Fifo, FifoConfig};
use fq::{Fq, FqConfig};
use fq_codel::{FqCodel, FqCodelConfig};
use fq_pie::{FqPie, FqPieConfig};
use htb::{Htb, HtbConfig};
use pi2::{Pi2, Pi2Config};
use pie::{PieConfig, PieQueue};
use prio::{Prio, PrioConfig};
use red::{RedConfig, RedQueue};
use sfq::{Sfq, SfqConfig};
use tbf::{Tbf, TbfConfig};

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
    /// Fair queueing with PIE.
    "fq_pie" => FqPie(FqPieConfig), FqPie::new;
    /// One queue under PI2: PI with a squared output (De Schepper and others 2016).
    "pi2" => Pi2(Pi2Config), Pi2::new;
    /// Random early detection.
    "red" => Red(RedConfig), RedQueue::new;
    /// Coupled dual queue (RFC 9332).
    "dualpi2" => DualPi2(DualPi2Config), DualPi2::new;
    /// Shaper, tins, flows and hosts apart, each flow under COBALT (CAKE).
    "cake" => Cake(CakeConfig), Cake::new;
    /// One queue under COBALT, the AQM of CAKE.
    "cobalt" => Cobalt(CobaltConfig), CobaltQueue::new;
    /// Stochastic fairness queueing.
    "sfq" => Sfq(SfqConfig), Sfq::new;
    /// Bands in the order of their priority.
    "prio" => Prio(PrioConfig), Prio::new;
    /// Classes that take turns, by weight (deficit round robin).
    "drr" => Drr(DrrConfig), Drr::new;
    /// Fair queueing with a pace for each flow.
    "fq" => Fq(FqConfig), Fq::new;
    /// Hierarchical token bucket, a shaper with classes that borrow.
    "htb" => Htb(HtbConfig), Htb::new;
    /// Token bucket filter, a shaper.
    "tbf" => Tbf(TbfConfig), Tbf::new;
    /// Dual queue of the MAMI project's fixed-link study: coupled PI2, PIE and CRED, LoLa.
    "dualq" => DualQ(DualQConfig), DualQ::new;
    /// Bearers of a mobile terminal, by the priority of their QCI.
    "bearers" => Bearers(BearersConfig), Bearers::new;
    /// Cheap nasty queue under CoDel with approximate fairness.
    "cnq_codel_af" => CnqCodelAf(CnqConfig), Cnq::new;
}

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod words;
