//! Tables for a terminal, and the same as JSON documents.

mod campaign;
mod comparison;
mod run;

pub use campaign::table as campaign_table;
pub use comparison::table as comparison_table;
pub(crate) use comparison::{made_of, side_lines};
pub use run::{campaign_json, run_json, run_table};
