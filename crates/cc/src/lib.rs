//! Congestion controls in portable C, and the safe driver around them.
//!
//! Each algorithm is one freestanding C header in `kernel/`, compiled natively
//! into this crate and, unchanged, by `clang -target bpf` for the kernel. A
//! [`ControlSpec`] names an algorithm and its parameters in words; a [`Controller`]
//! is one connection's instance of it. The caller runs Linux's
//! congestion-avoidance state machine around it and calls the hooks where
//! Linux calls them: [`Facts`] go in, a [`Decision`] comes out.
//!
//! ```
//! use narrows_cc::{Controller, ControlMode, ControlSpec};
//!
//! let spec = ControlSpec::parse("cubic").unwrap();
//! assert_eq!(Controller::new(&spec).mode(), ControlMode::Window);
//! assert!(ControlSpec::parse("cubik").is_err());
//! ```

#![deny(unsafe_code)]

mod controller;
mod dalbe;
mod facts;
#[allow(unsafe_code)]
mod ffi;
mod options;
mod reference;
mod spec;

#[cfg(feature = "testkit")]
pub use controller::Observer;
pub use controller::{Answer, Call, ControlMode, Controller};
pub use dalbe::{DalbeInterval, DalbeLaw};
pub use facts::{CaState, CwndEvent, Decision, Facts, Flags, Pacing};
pub use options::{ControlParameter, OptionError};
pub use reference::Reference;
pub use spec::{ControlSpec, Needs, names, telemetry};
