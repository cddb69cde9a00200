//! Files and words of scenarios, checked.

mod apps;
mod catalog;
mod declarations;
mod flent;
mod fuzz;
mod json_schema;
mod mix;
mod properties;
mod quic;
mod refusals;
mod schema;
