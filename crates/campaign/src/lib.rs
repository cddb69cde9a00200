//! Many runs: the matrix of a campaign with its judging, on one machine or in shards on several,
//! both engines held
//! against each other, and two results side by side.
//!
//! ```
//! use narrows_campaign::diff;
//! use narrows_results::Results;
//!
//! let nothing = Results::Run(Box::default());
//! assert!(diff(&nothing, &nothing).unwrap().rows.is_empty());
//! ```

#![forbid(unsafe_code)]

mod compare;
pub mod diff;
mod matrix;
mod pool;

pub use compare::{CompareOptions, compare};
pub use diff::{Diff, diff};
pub use matrix::{
    CampaignOptions, Cells, Costs, Division, FailedRun, Merged, Part, Shard, ShardDone,
    THIN_INTERVALS, Use, merge_campaign, run_campaign, run_shard,
};
