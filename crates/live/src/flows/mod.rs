//! The plan's flows, probes and commands, with real sockets and processes in
//! the hosts' namespaces.
//!
//! [`Flows`] runs the applications that the simulator runs, each host's by [one
//! thread](host) in its namespace, over the kernel's [TCP](tcp) and [UDP](udp) and, over
//! the latter, over transports of ours; [`Commands`] runs programs. Addresses and ports
//! are the simulator's, so that the path knows a packet's flow.
//!
//! The kernel sizes buffers: neither `SO_SNDBUF` nor `SO_RCVBUF` is set
//! of a stream.

mod command;
mod ecn_switch;
mod error;
mod facts;
mod host;
mod host_model;
mod kernel;
mod options;
mod start;
mod tcp;
mod udp;

pub use command::Commands;
pub use error::FlowError;
pub(crate) use host_model::note_of_bursts;
pub use host_model::with_hosts_in_virtual_time;
pub use start::Flows;

use narrows_core::FlowId;
use narrows_engine::SocketPlan;
use narrows_linux::Namespace;
use narrows_scenario::{Control, HostIndex, Plan};

/// The namespace of each host of a plan.
pub type HostOf<'a> = dyn Fn(HostIndex) -> Namespace + 'a;

/// What the kernel calls the congestion control of a TCP socket.
pub type ControlOf<'a> = dyn Fn(&SocketPlan, &Control) -> String + 'a;

/// The local port of a flow's sender, which no other end of a run has.
///
/// # Panics
/// If the flow is of another plan.
pub(crate) fn sender_port(plan: &Plan, flow: FlowId) -> u16 {
    let index = flow.0 as usize;
    let (ends, flow) = (plan.flow_ends(index), &plan.flows[index]);
    let sender = if flow.opens == flow.from {
        ends.opener
    } else {
        ends.answerer
    };
    sender.1.port()
}
