//! Campaigns: many cells, published beside measured.

mod batch;
mod cost;
mod division;
mod doubts;
mod gather;
mod judge;
mod run;
mod shard;
mod stored;
mod turn;

pub use batch::FailedRun;
pub use division::{Costs, Division, Part, Shard};
pub(crate) use judge::{check_of, judged};
pub use run::{CampaignOptions, Merged, THIN_INTERVALS, merge_campaign, run_campaign};
pub use shard::{ShardDone, run_shard};
pub use stored::{Cells, Use};
