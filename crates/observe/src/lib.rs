//! Passive observers: round-trip times and loss as a point on the path can
//! know them, each estimate with its uncertainty.
//!
//! Bytes of packets and their times go in, samples and estimates come out;
//! nothing here opens a file, a socket or a clock. [`Observer::observe`] takes
//! one packet at a time and runs every estimator on it. Each [`Sample`] names
//! the two packets that bound it, so that a reader who knows more than an
//! observer can (a laboratory) can say how wrong it is. [`Observer::estimates`]
//! says what the samples of a flow amount to.
//!
//! Memory is bounded: flows live in a table of [`ObserverConfig::max_flows`], of which
//! the one that was silent longest makes room for a new one, and is counted.
//! What an estimator needs of a flow is made when the flow first needs it.
//!
//! ```
//! use narrows_observe::{ObserverConfig, Nothing, Observer};
//! use narrows_units::Instant;
//!
//! let mut observer = Observer::new(ObserverConfig::default());
//! // No header is that short.
//! observer.observe(&[0x45, 0], Instant::ZERO, 1, &mut Nothing);
//! observer.finish(&mut Nothing);
//! assert_eq!((observer.counters().packets, observer.counters().flows), (1, 0));
//! ```

#![forbid(unsafe_code)]

mod batches;
mod classify;
mod config;
mod delay;
mod estimate;
mod filter;
mod flow;
pub mod format;
mod heuristic;
mod interval;
mod mean;
mod observer;
mod probes;
mod quantiles;
mod quic;
mod reflection;
mod sample;
mod serials;
mod signals;
mod spin;
mod square;
mod table;
mod trains;
mod visible;

pub use classify::{Classified, Packet, Unread, classify, classify_into};
pub use config::{ObserverConfig, ObserverMode, Pinned};
pub use estimate::{Basis, Estimate, Unit};
pub use filter::Filter;
pub use flow::{End, Flow, FlowState, ObservedFlowId};
pub use interval::{Interval, student_95};
pub use observer::{Nothing, Observer, ObserverCounters, SampleSink};
pub use sample::{Measured, ObservedPacketId, Quantity, Sample, Side, Technique};
pub use spin::SpinClass;
