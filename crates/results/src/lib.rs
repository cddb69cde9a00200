//! From an engine's events to what is kept of a run: reduction to metrics, the
//! verdict on the rig, and the results folder, written and read.
//!
//! A run goes plan → engine → events → reduction → [`RunSummary`] and
//! [`Series`] → results folder. A folder can be read again with
//! [`open`], which is what reports, figures and comparisons start from.
//!
//! ```
//! use narrows_results::fairness::jain;
//!
//! assert_eq!(jain(&[24.0, 24.0]), Some(1.0));
//! assert_eq!(jain(&[48.0, 0.0]), Some(0.5));
//! ```

#![forbid(unsafe_code)]

pub mod campaign;
mod capture;
pub mod collection;
pub mod comparison;
mod decimal;
mod distribution;
mod error;
pub mod facts;
pub mod fairness;
pub mod flent;
pub mod folder;
mod follow;
pub mod metric;
mod observers;
pub mod reduce;
mod replay;
mod run;
#[cfg(test)]
mod scripted;
pub mod series;
mod signals;
pub mod store;
pub mod summary;
pub mod text;
pub mod verdict;
mod watch;

pub use error::Error;
pub use folder::{Output, Results, RunRecord, RunResult, open, open_run, rfc3339};
pub use follow::{Followed, Held, Pace, Sample};
pub use narrows_engine::{Ended, Engine, EngineError, Rig, RunHandle, VirtualKernel};
pub use replay::{PacketEvent, PacketQuery, packets};
pub use run::{Reduction, RunOptions, reduce_run, run_scenario};
pub use series::{Series, Track};
pub use signals::{SignalSummary, Unmarked};
pub use summary::RunSummary;
pub use verdict::Verdict;
pub use watch::{Progress, Watch};
