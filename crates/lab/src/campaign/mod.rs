//! Campaigns: many cells, published beside measured.

mod model;

pub use model::{AxisResult, CampaignResult, CellResult, CheckResult, MetricResult};
