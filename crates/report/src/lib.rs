//! Results for people: pages for a browser, figures for a paper, tables for a
//! terminal. All of them are made from what a results folder holds.
//!
//! ```
//! use narrows_report::table::run_table;
//! use narrows_results::RunResult;
//!
//! let mut run = RunResult::default();
//! run.summary.name = "nothing yet".to_owned();
//! assert!(run_table(&run).starts_with("nothing yet: 0 s of network time"));
//! ```

#![forbid(unsafe_code)]

mod crowd;
pub mod pages;
pub mod plot;
pub mod table;
