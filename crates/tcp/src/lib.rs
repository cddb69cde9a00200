//! A TCP endpoint without I/O that behaves as Linux does.
//!
//! A [`Connection`] takes packets and the time, and hands out packets, events
//! and the time at which it wants to be called again. Payload is counted, not
//! stored, except for bytes that an application really writes. Around the
//! congestion control (`narrows-cc`) runs Linux's congestion-avoidance state
//! machine with Linux's order of hook calls. Where RFCs leave a choice it does
//! what Linux v6.17 does; deviations are stated where they are.

#![forbid(unsafe_code)]

mod config;
mod connection;
mod event;

pub use config::{
    AccEcnOptionUse, Config, EcnMode, Gro, HostModel, PacingUse, ReceiveBuffer, Segmentation,
};
pub use connection::{Connection, reset_for};
pub use event::{State, TcpEvent};
