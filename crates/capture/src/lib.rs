//! Packets of a device as they pass, on Linux: a packet socket whose ring the
//! kernel fills and this program reads where it is (`TPACKET_V3`), so that a
//! packet costs neither a call nor a copy.
//!
//! Whatever passes is either read or counted: what [`Capture::statistics`] says
//! was read and was dropped is together what the device showed. Elsewhere than
//! on Linux the crate is empty.
//!
//! ```no_run
//! # #[cfg(target_os = "linux")]
//! # fn main() -> Result<(), narrows_capture::CaptureError> {
//! use narrows_capture::{Capture, Options};
//!
//! let mut capture = Capture::open("eth0", &Options { promiscuous: false })?;
//! while let Some(block) = capture.block() {
//!     println!("{} frames", block.frames().count());
//! }
//! println!("{} had no room", capture.statistics()?.dropped);
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```

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
pub use capture::{ANY, Capture, Options, SNAPLEN, Statistics, device_name, wait};
#[cfg(target_os = "linux")]
pub use error::CaptureError;
#[cfg(target_os = "linux")]
pub use frame::{Block, Frame};
