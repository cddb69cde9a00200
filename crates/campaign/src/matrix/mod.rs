//! Campaigns: many cells, published beside measured.

mod doubts;
mod judge;
mod run;

pub(crate) use judge::{check_of, judged};
pub use run::{CampaignOptions, THIN_INTERVALS, run_campaign};
