//! The private module `narrows._narrows` of the Python package in `python/`, which has the types,
//! the defaults and the words of the interface; here is what it calls.

#![deny(unsafe_code)]

mod arrow;
mod campaign;
mod capture;
mod column;
mod command;
mod engine;
mod error;
mod run;
mod scenario;
mod sweep;
mod table;
mod watched;

/// Narrows for its Python package.
#[pyo3::pymodule]
mod _narrows {
    #[pymodule_export]
    use super::campaign::{CampaignData, ComparisonData, campaign, compare, diff, open_results};
    #[pymodule_export]
    use super::capture::{observe, packets_of};
    #[pymodule_export]
    use super::command::command;
    #[pymodule_export]
    use super::engine::{loaded_from, version_line};
    #[pymodule_export]
    use super::run::{RunData, palette, run};
    #[pymodule_export]
    use super::scenario::{Scenario, json_of_toml, toml_of_json};
    #[pymodule_export]
    use super::sweep::{SweepData, store_of_user};
    #[pymodule_export]
    use super::table::{ColumnOfTable, Table};
}
