//! Modelled flows: a sender and a receiver that show a path what QUIC or PLUS
//! would show it, and transfer data with as little else as that needs.
//!
//! The model has a handshake of one round trip, packets that are numbered and
//! never sent again, data that is, acknowledgements of every second packet, loss
//! detection and a probe timeout as RFC 9002, and either a fixed window or a
//! constant rate in place of a congestion control. It has no encryption, no flow
//! control, no streams beside one, and no migration. What makes it worth having
//! is what the real protocols do not show: packet numbers, a valid edge counter
//! beside the spin bit, square and loss event bits ([`narrows_wire::QuicModel`]),
//! or serial numbers with an echo ([`narrows_wire::Plus`]).
//!
//! The signals themselves come from the same C as those in TCP
//! ([`narrows_efm::SignalFlow`]).

mod endpoint;
mod frame;
mod inbound;
mod outbound;
mod path_mtu;
mod received;
mod rtt;
mod signals;
mod socket;
mod spec;

pub use endpoint::{Endpoint, ModelEvent};
pub use socket::Socket;
pub use spec::{ModelSpec, Pace, Shape, SpinUse};
