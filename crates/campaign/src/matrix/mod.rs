//! Campaigns: many cells, published beside measured.

mod cost;
mod doubts;
mod gather;
mod judge;
mod run;
mod stored;

pub(crate) use judge::{check_of, judged};
pub use run::{CampaignOptions, THIN_INTERVALS, run_campaign};
pub use stored::{Cells, Use};
