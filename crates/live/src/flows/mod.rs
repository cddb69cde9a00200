//! The plan's flows, probes and commands, with real sockets and processes in
//! the hosts' namespaces.

mod command;
mod error;
mod facts;
#[allow(unsafe_code)]
mod socket_option;
mod stop;

pub use command::Commands;
pub use error::FlowError;
pub use stop::{Stop, Wait};

use narrows_scenario::HostIndex;

use crate::Namespace;

/// The namespace of each host of a plan.
pub type HostOf<'a> = dyn Fn(HostIndex) -> Namespace + 'a;
