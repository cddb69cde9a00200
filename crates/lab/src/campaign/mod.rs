//! Campaigns: many cells, published beside measured.

mod doubts;
mod figures;
mod judge;
mod model;
mod run;
mod table;
mod title;

pub(crate) use figures::{asked, figures, numbers, shown_metrics, values_of};
pub(crate) use judge::{check_of, judged, median};
pub use model::{
    AxisResult, CampaignResult, CellResult, CheckResult, FigureResult, MetricResult, MetricTitle,
};
pub use run::{CampaignOptions, THIN_INTERVALS, run_campaign};
pub use table::{cells_csv, table};
