//! The plan's flows, probes and commands, with real sockets and processes in
//! the hosts' namespaces.
//!
//! [`Flows`] drives the generators that the simulator drives too, over TCP
//! ([one thread for each host](streams)) or as datagrams; [`Commands`] runs
//! programs. Addresses and ports are the simulator's, so that the path knows
//! a packet's flow.
//!
//! Buffers are the kernel's to size: nobody sets `SO_SNDBUF` or `SO_RCVBUF`
//! of a stream.

mod command;
mod datagrams;
mod ecn_switch;
mod error;
mod facts;
mod host_model;
#[allow(unsafe_code)]
mod socket_option;
mod sockets;
mod start;
mod stop;
mod stream_end;
mod streams;

pub use command::Commands;
pub use error::FlowError;
pub use start::Flows;
pub use stop::{Stop, Wait};

use narrows_scenario::HostIndex;

use crate::Namespace;

/// The namespace of each host of a plan.
pub type HostOf<'a> = dyn Fn(HostIndex) -> Namespace + 'a;
