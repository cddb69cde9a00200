//! Applications as generators without I/O.
//!
//! A [`Generator`] says how much its application wants to send now and when
//! it next wants more; the simulator and the live flow program drive the same
//! one, over a connection or as datagrams. [`probe`] holds the payload of
//! latency probes.

#![forbid(unsafe_code)]

mod generator;
pub mod probe;
mod spec;

pub use generator::{Generator, Want};
pub use spec::{CbrSpec, Spec, WritesSpec};
