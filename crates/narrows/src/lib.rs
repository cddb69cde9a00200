//! Narrows: a laboratory for what happens to transport protocols between two
//! hosts. This crate is what every face of it stands on: scenarios and campaigns
//! are loaded, run, compared and drawn by functions here.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use narrows::{RunOptions, SimEngine, Watch, run_scenario};
//! use narrows::scenario::Draft;
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

mod engines;
pub mod load;
pub mod marks;
pub mod observe;
#[cfg(target_os = "linux")]
pub mod shell;

pub use engines::{EngineName, gain_rights};
pub use narrows_campaign as campaign;
#[cfg(target_os = "linux")]
pub use narrows_live::machine;
pub use narrows_report as report;
pub use narrows_results as results;
pub use narrows_scenario as scenario;
pub use narrows_units as units;

pub use narrows_campaign::{CampaignOptions, CompareOptions, compare, diff, run_campaign};
#[cfg(target_os = "linux")]
pub use narrows_results::LiveEngine;
pub use narrows_results::{
    Engine, Error, Output, Progress, Results, RunOptions, RunResult, SimEngine, Watch, run_scenario,
};
