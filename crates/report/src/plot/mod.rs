//! Figures: what they show ([`chart`]), which a run or a campaign has
//! ([`figures`], [`sweep`], [`comparison`]), and how they are drawn for paper ([`svg`],
//! [`export`]). `report` draws the same charts for a browser.

mod below;
mod beside;
pub mod chart;
pub(crate) mod choice;
pub mod comparison;
mod dashes;
pub mod export;
pub mod figures;
mod flent;
mod heat;
pub mod palette;
pub mod svg;
pub mod sweep;
mod telemetry;
pub mod thin;
pub mod ticks;
mod write;

pub use svg::Frame;
pub use write::{Choice, Format, PNG_DPI, figures as all, render, write};
