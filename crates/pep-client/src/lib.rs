//! A client's connection by the split proxy: the first data with the request in the SYN
//! where that is allowed, and directly where the proxy is missing or refuses.
//!
//! The crate is also built as `libnarrows_pep_client.so`, for programs in C and whatever calls
//! C: `include/narrows_pep_client.h`. Elsewhere than on Linux it is empty.
//!
//! ```no_run
//! # #[cfg(target_os = "linux")]
//! # fn main() -> std::io::Result<()> {
//! use std::io::Read;
//! use narrows_pep_client::{Call, connect};
//! use narrows_pep::Parent;
//! use narrows_units::Duration;
//!
//! let mut call = Call::by(Parent {
//!     proxy: ([10, 0, 1, 1], 8803).into(),
//!     patience: Duration::from_secs(3),
//!     or_directly: true,
//! });
//! // A question that may be asked twice.
//! call.early = b"GET / HTTP/1.0\r\n\r\n";
//! let mut connected = connect(([10, 0, 2, 2], 80).into(), &call)?;
//! if let Some(why) = &connected.directly {
//!     eprintln!("without the proxy: {why}");
//! }
//! let mut page = Vec::new();
//! connected.stream.read_to_end(&mut page)?;
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod c;
#[cfg(target_os = "linux")]
mod connect;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod socket_address;

#[cfg(target_os = "linux")]
pub use connect::{Call, Connected, WithoutProxy, connect};
