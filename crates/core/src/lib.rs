//! The packet, and the contracts by which paths, queues, hosts and engines
//! exchange it.
//!
//! A [`Packet`] is its real IP and transport header bytes, a real payload
//! prefix and a counted tail of zeros. Algorithms are state machines that take
//! the time as an argument; [`Element`] is one box on a path, [`Queue`] the
//! discipline inside a rate-limited box, [`HostHook`] the place where a host's
//! packets are marked or read, [`App`] what runs on a host, [`Endpoint`] the
//! transport behind a socket of its, and [`EventSink`] the one to whom all of
//! them report.
//!
//! ```
//! use narrows_core::PacketPool;
//! use narrows_units::Instant;
//!
//! let mut pool = PacketPool::new();
//! let mut packet = pool.take(Instant::ZERO, None);
//! packet.bytes.extend_from_slice(&[0; 40]);
//! packet.zero_tail = 1460;
//! assert_eq!(packet.len(), 1500);
//! pool.give(packet);
//! assert_eq!(pool.outstanding(), 0);
//! ```

#![forbid(unsafe_code)]

mod app;
mod counted;
mod element;
mod endpoint;
mod event;
mod hook;
mod packet;
mod queue;
mod tcp_info;

pub use app::{
    App, ConnectionError, Data, Datagram, DatagramError, Profile, Relayed, SocketError,
    SocketEvent, SocketId, Sockets, Undelivered, WRITE_AHEAD,
};
pub use counted::CountedBytes;
pub use element::{Change, DOWN, Element, ElementCounters, Outlet, Port, UP};
pub use endpoint::{Endpoint, EndpointEvent, Limited};
pub use event::{
    Decoder, DropCause, EVENTS, Encoder, EntityId, Event, EventField, EventKind, EventSink, FlowId,
    FlowSample, Malformed, MarkCause, NullSink, RecoveryEvent, Reduce, Sinks, Source,
    TelemetryField, Value,
};
pub use hook::{HookVerdict, HostHook, Role, SocketFacts};
pub use packet::{Packet, PacketId, PacketPool};
pub use queue::{Backlog, Band, Queue, QueueCounts};
pub use tcp_info::{
    INFINITE_SSTHRESH, TCPI_OPT_ECN, TCPI_OPT_ECN_SEEN, TCPI_OPT_SACK, TCPI_OPT_SYN_DATA,
    TCPI_OPT_TIMESTAMPS, TCPI_OPT_WSCALE, TcpInfo,
};
