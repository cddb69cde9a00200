//! Explicit flow measurement (RFC 9506): what senders put into packets so that
//! an observer on the path can measure round trips and loss.
//!
//! Each signal is one freestanding C header in `kernel/`, compiled natively
//! into this crate and, unchanged, by `clang -target bpf` for a program at a
//! device. A [`SignalSpec`] names signals and their rules in words; a [`SignalHook`] is
//! the hook that sets them in a simulated host's packets; a [`SignalFlow`] is one
//! connection at one host, for callers that bring their own packets.
//!
//! ```
//! let spec = narrows_efm::SignalSpec::parse("s+d+q").unwrap();
//! assert_eq!(spec.to_string(), "s+d+q");
//! // Three bits have no room for four signals.
//! assert!(narrows_efm::SignalSpec::parse("s+d+q+l").is_err());
//! ```

#![deny(unsafe_code)]

mod counters;
#[allow(unsafe_code)]
mod ffi;
mod hook;
mod params;
mod spec;
mod table;

pub use counters::{HostSignals, SignalCounters};
pub use ffi::{SignalFlow, Write};
pub use hook::SignalHook;
pub use params::{PacketFacts, SignalParams};
pub use spec::{Announce, DelayRule, SignalSpec, SpinRule};
