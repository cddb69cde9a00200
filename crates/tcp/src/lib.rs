//! A TCP endpoint without I/O that behaves as Linux does.
//!
//! A [`Connection`] takes packets and the time, and hands out packets, events
//! and the time at which it wants to be called again. Payload is counted, not
//! stored, except for bytes that an application really writes. Around the
//! congestion control (`narrows-cc`) runs Linux's congestion-avoidance state
//! machine with Linux's order of hook calls. Where RFCs leave a choice it does
//! what Linux v6.17 does; deviations are stated where they are.

#![forbid(unsafe_code)]

mod accecn;
mod ack;
mod build;
mod config;
mod congestion;
mod connection;
mod delayed_ack;
mod ecn;
mod event;
mod handshake;
mod input;
mod limits;
mod loss;
mod output;
mod pacing;
mod rack;
mod rate_sample;
mod reassembly;
mod recovery;
mod rtt;
mod sack;
mod scoreboard;
mod sequence;
mod stream;
mod timers;
mod window;

pub use build::reset_for;
pub use config::{
    AccEcnOptionUse, Config, EcnMode, Gro, HostModel, PacingUse, ReceiveBuffer, Segmentation,
};
pub use connection::Connection;
pub use event::{State, TcpEvent};
