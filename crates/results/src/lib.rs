//! What is kept of a run: its figures, the verdict on the rig, and the results folder,
//! written and read.
//!
//! A run goes plan → engine → events → [reduction](narrows_reduce) → [`RunSummary`] and
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
mod error;
pub mod flent;
pub mod folder;
mod follow;
mod replay;
mod run;
#[cfg(test)]
mod scripted;
pub mod store;
pub mod text;
pub mod verdict;
mod watch;

pub use error::Error;
pub use folder::{Output, Results, RunRecord, RunResult, open, open_run, rfc3339};
pub use follow::{Followed, Held, Pace, Sample};
pub use narrows_engine::{Ended, Engine, EngineError, Rig, RunHandle, VirtualKernel};
pub use narrows_reduce::{
    RunSummary, Series, SignalSummary, Track, Unmarked, facts, fairness, metric, series, summary,
};
pub use replay::{PacketEvent, PacketQuery, packets};
pub use run::{Reduction, RunOptions, reduce_run, run_scenario};
pub use verdict::Verdict;
pub use watch::{Progress, Watch};
