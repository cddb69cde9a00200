//! The observer over captures: formats, tables, coverage, and damaged input.

mod coverage;
mod flows;
mod formats;
mod robustness;
mod short_flows;
mod tables;
mod targets;
