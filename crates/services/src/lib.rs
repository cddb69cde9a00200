//! Services between real hosts, each with its client: the daemon of the split proxy and a command whose
//! connections go by one, traffic that a server and its clients generate and measure, and the search for
//! the size that a path carries. The servers give up their rights once their sockets are open.
//!
//! ```
//! use narrows_services::Exposed;
//!
//! // Metrics of a service, as Prometheus reads them.
//! let exposed = Exposed::listen("127.0.0.1:0".parse().unwrap()).unwrap();
//! assert_ne!(exposed.address().port(), 0);
//! ```

#![forbid(unsafe_code)]

mod expose;
#[cfg(target_os = "linux")]
pub mod pep;
#[cfg(target_os = "linux")]
pub mod pmtud;
#[cfg(target_os = "linux")]
mod rights;
pub mod traffic;

pub use expose::Exposed;
