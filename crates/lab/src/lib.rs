//! The laboratory: runs plans and campaigns, reduces their events to metrics,
//! keeps results folders, judges the rig, and compares.
//!
//! A run goes plan → engine → events → reduction → [`RunSummary`] and
//! [`Series`] → results folder. A results folder can be read again with
//! [`results`], which is what reports, figures and comparisons start from.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use narrows_lab::{RunOptions, SimEngine, Watch, run_scenario};
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
pub mod compare;
pub mod diff;
mod engine;
mod error;
mod facts;
pub mod fairness;
pub mod flent;
pub mod histogram;
#[cfg(target_os = "linux")]
mod live;
mod marks;
pub mod metric;
mod observers;
pub mod plot;
pub mod print;
pub mod reduce;
pub mod report;
pub mod results;
pub mod rig;
mod run;
pub mod series;
mod sim;
pub mod summary;
mod text;
pub mod verdict;

pub use campaign::{CampaignOptions, CampaignResult, run_campaign};
pub use compare::{CompareOptions, Comparison, compare};
pub use diff::{Diff, diff};
pub use engine::{Ended, Engine, Progress, RunControl, Watch};
pub use error::LabError;
#[cfg(target_os = "linux")]
pub use live::LiveEngine;
pub use marks::{MarkSummary, Unmarked};
pub use results::{Results, RunRecord, RunResult};
pub use rig::Rig;
pub use run::{Output, RunOptions, run_scenario};
pub use series::{Series, Track};
pub use sim::SimEngine;
pub use summary::RunSummary;
pub use verdict::Verdict;
