//! The packet, and the contracts by which paths, queues, hosts and engines
//! exchange it.
//!
//! A [`Packet`] is its real IP and transport header bytes, a real payload
//! prefix and a counted tail of zeros. Algorithms are state machines that take
//! the time as an argument; [`Element`] is one box on a path, [`Queue`] the
//! discipline inside a rate-limited box, [`HostHook`] the place where a host's
//! packets are marked or read, and [`EventSink`] the one to whom all of them
//! report.

#![forbid(unsafe_code)]

mod element;
mod event;
mod hook;
mod packet;
mod queue;

pub use element::{Change, Counters, Element, Outlet, Port};
pub use event::{
    DropCause, EntityId, Event, EventSink, FlowId, FlowSample, MarkCause, NullSink, RecoveryEvent,
};
pub use hook::{HookVerdict, HostHook, Role, SocketFacts};
pub use packet::{Packet, PacketId, PacketPool};
pub use queue::{Backlog, Queue};
