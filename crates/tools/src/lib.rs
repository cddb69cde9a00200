//! What runs on real networks: a command behind a path of its own, topologies that stay, testbeds of virtual
//! machines, transfers by a deadline, boxes and measurement signals at devices, the search for boxes on a
//! path, and observers of captures and devices.
//!
//! ```
//! use std::path::Path;
//!
//! // What `narrows by` is to transfer: the bytes of a file, or of all files below a folder.
//! let bytes = narrows_tools::by::size_of(Path::new("Cargo.toml")).unwrap();
//! assert!(bytes > 0);
//! assert!(narrows_tools::by::size_of(Path::new("no such file")).is_err());
//! ```

#![forbid(unsafe_code)]

pub mod by;
#[cfg(target_os = "linux")]
mod detect;
#[cfg(target_os = "linux")]
mod device_box;
#[cfg(target_os = "linux")]
mod device_signals;
pub mod mmb;
pub mod observe;
mod secret;
#[cfg(target_os = "linux")]
pub mod shell;
pub mod signals;
#[cfg(target_os = "linux")]
pub mod testbed;
#[cfg(target_os = "linux")]
pub mod up;

pub use secret::Secret;
