//! Campaigns: many cells, published beside measured.

mod doubts;
mod judge;
mod model;
mod run;
mod table;

pub(crate) use judge::{check_of, judged, median};
pub use model::{AxisResult, CampaignResult, CellResult, CheckResult, MetricResult};
pub use run::{CampaignOptions, THIN_INTERVALS, run_campaign};
pub use table::{cells_csv, table};
