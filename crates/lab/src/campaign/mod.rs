//! Campaigns: many cells, published beside measured.

mod band;
mod judge;
mod model;
mod plan;
mod run;
mod table;

pub use band::Band;
pub use model::{AxisResult, CampaignResult, CellResult, CheckResult, MetricResult};
pub use plan::{CampaignPlan, CellPlan, Rule};
pub use run::{CampaignOptions, THIN_INTERVALS, run_campaign};
pub use table::{cells_csv, table};
