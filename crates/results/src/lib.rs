//! From an engine's events to what is kept of a run: reduction to metrics, the
//! verdict on the rig, and the results folder, written and read.
//!
//! A run goes plan → engine → events → reduction → [`RunSummary`] and
//! [`Series`] → results folder. A folder can be read again with
//! [`open`], which is what reports, figures and comparisons start from.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use narrows_results::{RunOptions, SimEngine, Watch, run_scenario};
//! use narrows_scenario::Draft;
//!
//! let link = ["netem delay 5ms".to_owned(), "rate 10Mbit queue fq_codel".to_owned()];
//! let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).unwrap();
//! draft.set("duration=3s").unwrap();
//! let (cancel, options) = (AtomicBool::new(false), RunOptions::default());
//! let watch = Watch { cancel: &cancel, progress: &|_| {} };
//! let result = run_scenario(&SimEngine, &draft.check().unwrap(), &options, &watch).unwrap();
//! let goodput = result.summary.flows[0].goodput_mbit.unwrap();
//! assert!(goodput > 9.0 && goodput < 10.0);
//! ```

#![forbid(unsafe_code)]

pub mod campaign;
mod capture;
pub mod comparison;
mod decimal;
mod distribution;
mod engine;
mod error;
pub mod facts;
pub mod fairness;
pub mod flent;
pub mod folder;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod live;
pub mod metric;
mod observers;
pub mod reduce;
mod run;
pub mod series;
mod signals;
mod sim;
pub mod summary;
pub mod text;
pub mod verdict;

pub use engine::{Engine, Progress, Watch};
pub use error::Error;
pub use folder::{Output, Results, RunRecord, RunResult, open, open_run, rfc3339};
#[cfg(target_os = "linux")]
pub use kernel::{KernelEngine, run_in_guest};
#[cfg(target_os = "linux")]
pub use live::LiveEngine;
pub use narrows_run::{Ended, Rig, RunHandle, VirtualKernel};
pub use run::{Reduction, RunOptions, reduce_run, run_scenario};
pub use series::{Series, Track};
pub use signals::{SignalSummary, Unmarked};
pub use sim::SimEngine;
pub use summary::RunSummary;
pub use verdict::Verdict;
