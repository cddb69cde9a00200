//! Packets of a device as they pass, on Linux: a packet socket whose ring the
//! kernel fills and this program reads where it is (`TPACKET_V3`), so that a
//! packet costs neither a call nor a copy.
//!
//! Whatever passes is either read or counted: what [`Capture::statistics`] says
//! was read and was dropped is together what the device showed. Elsewhere than
//! on Linux the crate is empty.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod ring;

#[cfg(target_os = "linux")]
pub use capture::{Capture, Options, SNAPLEN, Statistics, wait};
#[cfg(target_os = "linux")]
pub use error::CaptureError;
#[cfg(target_os = "linux")]
pub use frame::{Block, Frame};
