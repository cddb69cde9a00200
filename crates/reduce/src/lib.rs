//! From an engine's events to the figures of a run, in one pass and bounded memory.
//!
//! A [`Reducer`] takes the [events](narrows_core::Event) of a run and gives its [`RunSummary`] and,
//! interval by interval, the [`Columns`] that series are made of. [`Observers`] measure at taps of the
//! same run, and their samples are compared with what happened to the packets. [`metric`] has the name of each
//! figure. Nothing here runs an engine or reads a results folder.
//!
//! ```
//! use narrows_reduce::fairness::jain;
//!
//! assert_eq!(jain(&[24.0, 24.0]), Some(1.0));
//! assert_eq!(jain(&[48.0, 0.0]), Some(0.5));
//! ```

#![forbid(unsafe_code)]

mod decimal;
mod distribution;
pub mod facts;
pub mod fairness;
pub mod metric;
pub mod observers;
mod reducer;
pub mod series;
mod signals;
pub mod summary;

pub use distribution::Distribution;
pub use observers::Observers;
pub use reducer::{Column, Columns, Cut, EntityValues, Reduced, Reducer, Setup};
pub use series::{Series, Track};
pub use signals::{SignalSummary, Unmarked};
pub use summary::RunSummary;
