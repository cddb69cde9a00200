//! `narrows traffic`: what a mix is, and mixes between real hosts.

#[cfg(target_os = "linux")]
mod clocks;
#[cfg(target_os = "linux")]
mod control;
mod kpi;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod marks;
#[cfg(target_os = "linux")]
mod quic;
mod read;
#[cfg(target_os = "linux")]
mod receiver;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod sender;
#[cfg(target_os = "linux")]
mod serve;
mod show;
#[cfg(target_os = "linux")]
mod timer;
#[cfg(target_os = "linux")]
mod token;
#[cfg(target_os = "linux")]
mod wire;

pub use kpi::{DatagramRow, Measured, SetFigures, StreamRow, TrafficResult};
pub use marks::{ArrivedMarks, Capable, CodePoint, ControlName, Mark};
pub use narrows_traffic::{KINDS, Mix, Offsets};
pub use read::read;
#[cfg(target_os = "linux")]
pub use run::{RunRequest, run};
#[cfg(target_os = "linux")]
pub use serve::{ServeLimits, TrafficCounts, TrafficServer};
pub use show::Shown;
#[cfg(target_os = "linux")]
pub use token::Token;

/// The port of a server, unless another is named (our choice).
pub const PORT: u16 = 8_898;

/// How long a listener is left alone after no connection could be taken, for want of descriptors,
/// say: a connection stays where it is, and asks for no processor meanwhile (our choice).
#[cfg(target_os = "linux")]
const OUT_OF_DESCRIPTORS: std::time::Duration = std::time::Duration::from_millis(10);

#[cfg(target_os = "linux")]
fn system(what: &str, error: impl std::fmt::Display) -> narrows_results::Error {
    narrows_results::Error::Engine(format!("{what}: {error}"))
}
